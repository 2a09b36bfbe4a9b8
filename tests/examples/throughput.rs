//! Keyway beside the bare client, on a real cluster, in one run.
//!
//! `cargo run --release -p keyway-tests --example throughput [-- --records 1000000 --rounds 3]`
//!
//! The machine is whatever it is, so only ratios within a run mean anything: each round runs the peers one
//! after the other over the same topic, and the medians of the rounds are compared.

use std::sync::atomic::{AtomicU64, Ordering as Atomic};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use keyway::rdkafka::consumer::{BaseConsumer, Consumer};
use keyway::rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use keyway::rdkafka::{Message, Offset, TopicPartitionList};
use keyway::testing::MockBroker;
use keyway::{ClientConfig, Keyway, Ordering, Record, StartAt};
use keyway_tests::cluster::Cluster;
use keyway_tests::figures::{median, numbers};

const PARTITIONS: i32 = 8;
const KEYS: u64 = 10_000;

struct Wanted {
    records: u64,
    rounds: usize,
    /// Records a second of the latency part.
    rate: u64,
}

impl Wanted {
    fn from_arguments() -> Self {
        let numbers = numbers([("records", 1_000_000), ("rounds", 3), ("rate", 2_000)]);
        Self {
            records: numbers["records"],
            rounds: numbers["rounds"] as usize,
            rate: numbers["rate"],
        }
    }
}

fn main() {
    let wanted = Wanted::from_arguments();
    let cluster = Cluster::start();
    throughput(cluster, &wanted);
    mixed_load(&wanted);
}

fn throughput(cluster: &Cluster, wanted: &Wanted) {
    let topic = cluster.unique("throughput");
    cluster.create_topic(&topic, PARTITIONS, &[]);
    fill(cluster, &topic, wanted.records);
    let mut figures: Vec<(&str, Vec<f64>)> = vec![
        ("BaseConsumer::poll", vec![]),
        ("keyway, key order", vec![]),
        ("keyway, partition order", vec![]),
    ];
    for round in 0..wanted.rounds {
        let seconds = [
            poll_bare(cluster, &topic, wanted.records),
            run_keyway(cluster, &topic, wanted.records, Ordering::Key),
            run_keyway(cluster, &topic, wanted.records, Ordering::Partition),
        ];
        for ((_, rates), seconds) in figures.iter_mut().zip(seconds) {
            rates.push(wanted.records as f64 / seconds.as_secs_f64());
        }
        eprintln!("round {round}: {seconds:?}");
    }
    println!(
        "{} records of 100 bytes, {KEYS} keys, {PARTITIONS} partitions, no-op handler",
        wanted.records
    );
    let bare = median(&mut figures[0].1);
    for (name, rates) in &mut figures {
        let rate = median(rates);
        println!(
            "  {name:<26} {:>10.0} records/s   {:>5.2} of the bare loop",
            rate,
            rate / bare
        );
    }
}

fn fill(cluster: &Cluster, topic: &str, records: u64) {
    let producer: BaseProducer = cluster
        .client()
        .set("linger.ms", "20")
        .set("batch.num.messages", "10000")
        .set("queue.buffering.max.messages", "1000000")
        .create()
        .expect("a producer");
    let value = [b'v'; 100];
    for n in 0..records {
        let key = format!("key-{:05}", n * 7_919 % KEYS);
        let mut record = BaseRecord::to(topic).key(&key).payload(&value[..]);
        while let Err((_, back)) = producer.send(record) {
            producer.poll(Duration::from_millis(10));
            record = back;
        }
    }
    producer.flush(Duration::from_secs(120)).expect("delivered");
}

/// The peer: one thread that polls and drops. Timed from the first record to the last.
fn poll_bare(cluster: &Cluster, topic: &str, records: u64) -> Duration {
    let consumer: BaseConsumer = cluster
        .client()
        .set("group.id", cluster.unique("bare"))
        .set("enable.auto.commit", "false")
        .set("queued.min.messages", "100000")
        .create()
        .expect("a consumer");
    let mut assignment = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        assignment
            .add_partition_offset(topic, partition, Offset::Beginning)
            .expect("an offset");
    }
    consumer.assign(&assignment).expect("assigned");
    let (mut seen, mut bytes, mut first) = (0, 0, None);
    while seen < records {
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            first.get_or_insert_with(Instant::now);
            bytes += message.payload().map_or(0, <[u8]>::len);
            seen += 1;
        }
    }
    assert!(bytes > 0);
    first.expect("a record").elapsed()
}

fn run_keyway(cluster: &Cluster, topic: &str, records: u64, ordering: Ordering) -> Duration {
    let engine = Keyway::builder(cluster.client())
        .group(&cluster.unique("keyway"))
        .topics([topic])
        .start_at(StartAt::Earliest)
        .ordering(ordering)
        .record_limit(records)
        .handler(|_: &Record| {})
        .build()
        .expect("a configuration")
        .start()
        .expect("started");
    let report = engine.wait().expect("an orderly end");
    assert_eq!(report.records, records);
    report.running
}

/// Keys that take no time beside keys that take 20 ms: how long the fast ones wait for their start, with and
/// without the slow ones, in turn.
fn mixed_load(wanted: &Wanted) {
    let mut rounds = Vec::new();
    for _ in 0..wanted.rounds {
        rounds.push([
            waits(wanted, Duration::ZERO),
            waits(wanted, Duration::from_millis(20)),
        ]);
    }
    println!(
        "{} records/s for {MIXED_SECONDS} s, one key in ten takes 20 ms or nothing: wait of the fast keys' records",
        wanted.rate
    );
    for (since, wait_of) in [
        (
            "received",
            (|waits| &waits.since_received) as fn(&Waits) -> &Vec<f64>,
        ),
        ("produced", |waits| &waits.since_produced),
    ] {
        for (name, of) in [("nothing", 0), ("20 ms", 1)] {
            let mut shares = [0.5, 0.99, 0.999].map(|share| {
                let mut values: Vec<f64> = rounds
                    .iter()
                    .map(|round| percentile(wait_of(&round[of]), share))
                    .collect();
                median(&mut values)
            });
            let [p50, p99, p999] = &mut shares;
            println!(
                "  since {since}, slow keys take {name:<8} p50 {p50:>6.0} us   p99 {p99:>6.0} us   p99.9 {p999:>6.0} us"
            );
        }
        let mut differences: Vec<f64> = rounds
            .iter()
            .map(|[alone, mixed]| {
                percentile(wait_of(mixed), 0.99) - percentile(wait_of(alone), 0.99)
            })
            .collect();
        let middle = median(&mut differences);
        println!(
            "  since {since}, difference at p99: {middle:.0} us (median of {differences:.0?})"
        );
    }
}

const MIXED_SECONDS: u64 = 10;

/// Microseconds until a handler started, for records of fast keys.
#[derive(Default)]
struct Waits {
    /// Since the engine had the record: what it is answerable for.
    since_received: Vec<f64>,
    /// Since it was produced, with the way through the broker.
    since_produced: Vec<f64>,
}

/// Over the in-process broker: a JVM beside it on the same cores would be what is measured.
fn waits(wanted: &Wanted, slow: Duration) -> Waits {
    const FAST_AND_SLOW: u64 = 1_000;
    let broker = MockBroker::start(1).expect("a broker");
    broker.set_first_rebalance_delay(Duration::ZERO);
    broker.create_topic("mixed", PARTITIONS).expect("a topic");
    let client = || {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", broker.bootstrap());
        client
    };
    let total = wanted.rate * MIXED_SECONDS;
    let seen: Arc<Mutex<Waits>> = Arc::default();
    let handled = Arc::new(AtomicU64::new(0));
    let received: Arc<[AtomicU64]> = (0..total).map(|_| AtomicU64::new(0)).collect();
    let number_at = |value: &[u8], at: usize| {
        u64::from_be_bytes(value[at..at + 8].try_into().expect("8 bytes"))
    };
    let handler = {
        let (seen, handled, received) = (
            Arc::clone(&seen),
            Arc::clone(&handled),
            Arc::clone(&received),
        );
        move |record: &Record| {
            let now = wall_nanos();
            let value = record.value().expect("a value");
            if number_at(record.key().expect("a key"), 0) % 10 == 0 {
                std::thread::sleep(slow);
            } else {
                let micros = |then: u64| now.saturating_sub(then) as f64 / 1_000.0;
                let reception = &received[number_at(value, 8) as usize];
                let mut seen = seen.lock().expect("lock");
                seen.since_produced.push(micros(number_at(value, 0)));
                seen.since_received
                    .push(micros(reception.load(Atomic::Relaxed)));
            }
            handled.fetch_add(1, Atomic::Relaxed);
        }
    };
    let engine = Keyway::builder(client())
        .group("mixed")
        .topics(["mixed"])
        .start_at(StartAt::Earliest)
        // This broker answers a fetch at once or after the whole wait, so the wait is kept short.
        .property("fetch.wait.max.ms", "2")
        .concurrency(256)
        // The lane is asked for when the engine receives a record.
        .lane_by(move |record| {
            let number = number_at(record.value().expect("a value"), 8);
            received[number as usize].store(wall_nanos(), Atomic::Relaxed);
            record.key().map(<[u8]>::to_vec)
        })
        .handler(handler)
        .build()
        .expect("a configuration")
        .start()
        .expect("started");
    let producer: BaseProducer = client().set("linger.ms", "1").create().expect("a producer");
    let start = Instant::now();
    for n in 0..total {
        let due = start + Duration::from_nanos(n * 1_000_000_000 / wanted.rate);
        // Whole milliseconds, so that the producer leaves the processor to the others.
        while Instant::now() < due {
            producer.poll(Duration::from_millis(1));
        }
        let key = (n * 7_919 % FAST_AND_SLOW).to_be_bytes();
        let mut value = [0; 100];
        value[..8].copy_from_slice(&wall_nanos().to_be_bytes());
        value[8..16].copy_from_slice(&n.to_be_bytes());
        producer
            .send(
                BaseRecord::to("mixed")
                    .partition((key[7] % 8) as i32)
                    .key(&key[..])
                    .payload(&value[..]),
            )
            .expect("room in the queue");
    }
    producer.flush(Duration::from_secs(30)).expect("delivered");
    while handled.load(Atomic::Relaxed) < total {
        std::thread::sleep(Duration::from_millis(1));
    }
    engine.stop(Duration::from_secs(10));
    engine.wait().expect("an orderly end");
    let mut waits = std::mem::take(&mut *seen.lock().expect("lock"));
    // The first tenth holds what starts but once: connections, threads, the measure of the service time.
    for waits in [&mut waits.since_received, &mut waits.since_produced] {
        let warm = waits.len() / 10;
        waits.drain(..warm);
    }
    waits
}

fn wall_nanos() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_nanos() as u64
}

fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}
