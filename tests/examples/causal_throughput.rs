//! What causal delivery costs of the throughput, on a real cluster, in one run.
//!
//! `cargo run --release -p keyway-tests --example causal_throughput [-- --records 500000 --rounds 5]`
//!
//! Each round reads the same records once plainly and once causally, one after the other; the machine is whatever it is, so
//! the medians of the rounds are compared. The handler does nothing: what is measured is the engine.
//!
//! ```text
//!   nothing        no header: what causal delivery costs those who have no causes
//!   the past       8 entries, of the first records of the other topic's partitions: reading and deciding
//!   a conversation 8 entries, the ends of the other topic's partitions as they were some records before, as of senders who
//!                  read and write. A backlog comes a partition's batch after the other, so nearly all of it is held
//! ```

use std::time::Duration;

use keyway::causality::{Causes, Channel, HEADER, Position, TopicId};
use keyway::rdkafka::message::{Header, OwnedHeaders};
use keyway::rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use keyway::{Causal, Keyway, Record, StartAt};
use keyway_tests::cluster::Cluster;
use keyway_tests::figures::{median, numbers};

/// Of each of the two topics, and entries of a header.
const PARTITIONS: u64 = 8;

const KEYS: u64 = 10_000;

/// A sender has read all but so many of the latest records.
const BEHIND: u64 = 2_000;

/// The topics of one group: questions and answers.
struct Topics {
    names: [String; 2],
    ids: [TopicId; 2],
}

impl Topics {
    fn new(cluster: &Cluster, name: &str) -> Self {
        let made = |part: &str| {
            let topic = format!("{}.{part}", cluster.unique(name));
            cluster.create_topic(&topic, PARTITIONS as i32, &[]);
            let id = cluster.topic_id(&topic);
            (topic, id)
        };
        let [(questions, first), (answers, second)] = ["questions", "answers"].map(made);
        Self {
            names: [questions, answers],
            ids: [first, second],
        }
    }
}

/// What record `n` names.
type Headers = fn(&Topics, u64) -> Option<Causes>;

fn nothing(_: &Topics, _: u64) -> Option<Causes> {
    None
}

fn the_past(topics: &Topics, n: u64) -> Option<Causes> {
    let other = topics.ids[((n + 1) % 2) as usize];
    let first = |n| n < 2 * PARTITIONS;
    let all = (0..PARTITIONS).map(|partition| entry(other, partition, 0));
    // They are no causes of each other.
    Some(all.filter(|_| !first(n)).collect())
}

fn a_conversation(topics: &Topics, n: u64) -> Option<Causes> {
    let other = (n + 1) % 2;
    let ends = (n.saturating_sub(BEHIND + 2 * PARTITIONS)..n.saturating_sub(BEHIND))
        .map(Place::of)
        .filter(|place| place.topic == other)
        .map(|place| entry(topics.ids[other as usize], place.partition, place.offset));
    Some(ends.collect())
}

fn entry(topic: TopicId, partition: u64, offset: u64) -> (Channel, Position) {
    let channel = Channel::new(topic, partition as u32).expect("a partition");
    let position = Position::new(offset as i64).expect("an offset");
    (channel, position)
}

/// Where record `n` lies: the topics take turns, and their partitions.
struct Place {
    topic: u64,
    partition: u64,
    offset: u64,
}

impl Place {
    fn of(n: u64) -> Self {
        Self {
            topic: n % 2,
            partition: n / 2 % PARTITIONS,
            offset: n / 2 / PARTITIONS,
        }
    }
}

fn main() {
    let wanted = numbers([("records", 500_000), ("rounds", 5)]);
    let (records, rounds) = (wanted["records"], wanted["rounds"]);
    let cluster = Cluster::start();
    println!(
        "{records} records of 100 bytes in 2 topics of {PARTITIONS} partitions, no-op handler"
    );
    let kinds: [(&str, Headers); 3] = [
        ("nothing", nothing),
        ("the past", the_past),
        ("a conversation", a_conversation),
    ];
    for (name, headers) in kinds {
        let topics = Topics::new(cluster, "causal");
        fill(cluster, &topics, records, headers);
        let (mut plain, mut causal, mut ratios, mut held) = (vec![], vec![], vec![], 0);
        for round in 0..rounds {
            // They take turns in being first, which finds the broker's caches as they are.
            let is_plain_first = round % 2 == 0;
            let [first, second] = [!is_plain_first, is_plain_first]
                .map(|is_causal| run(cluster, &topics, records, is_causal));
            let (without, with) = match is_plain_first {
                true => (first, second),
                false => (second, first),
            };
            plain.push(without.rate);
            causal.push(with.rate);
            ratios.push(with.rate / without.rate);
            held = with.held;
        }
        println!(
            "  {name:<16} plain {:>9.0} records/s   causal {:>9.0} records/s   {:.2} of it (median; {ratios:.2?}), \
             {held} held",
            median(&mut plain),
            median(&mut causal),
            median(&mut ratios.clone()),
        );
    }
}

fn fill(cluster: &Cluster, topics: &Topics, records: u64, headers: Headers) {
    let producer: BaseProducer = cluster
        .client()
        .set("linger.ms", "20")
        .set("batch.num.messages", "10000")
        .set("queue.buffering.max.messages", "1000000")
        .create()
        .expect("a producer");
    let value = [b'v'; 100];
    for n in 0..records {
        let place = Place::of(n);
        let key = format!("key-{:05}", n * 7_919 % KEYS);
        let mut record = BaseRecord::to(&topics.names[place.topic as usize])
            .partition(place.partition as i32)
            .key(&key)
            .payload(&value[..]);
        if let Some(causes) = headers(topics, n) {
            let stamp = causes.encode();
            let header = Header {
                key: HEADER,
                value: Some(&stamp),
            };
            record = record.headers(OwnedHeaders::new().insert(header));
        }
        while let Err((_, back)) = producer.send(record) {
            producer.poll(Duration::from_millis(10));
            record = back;
        }
    }
    producer.flush(Duration::from_secs(120)).expect("delivered");
}

/// One reading of all.
struct Reading {
    rate: f64,
    held: u64,
}

fn run(cluster: &Cluster, topics: &Topics, records: u64, causal: bool) -> Reading {
    let [questions, answers] = &topics.names;
    let builder = Keyway::builder(cluster.client())
        .group(&cluster.unique("keyway"))
        .topics([questions, answers])
        .start_at(StartAt::Earliest)
        .record_limit(records)
        .handler(|_: &Record| {});
    let builder = match causal {
        true => builder.causal(Causal::default()),
        false => builder,
    };
    let engine = builder
        .build()
        .expect("a configuration")
        .start()
        .expect("started");
    let report = engine.wait().expect("an orderly end");
    assert_eq!(report.records, records);
    let status = engine.status();
    Reading {
        rate: records as f64 / report.running.as_secs_f64(),
        held: status.causal.as_ref().map_or(0, |causal| causal.held_total),
    }
}
