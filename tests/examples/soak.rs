//! One member for as long as you like: a million distinct keys, topics that come and go, commits every 100 ms; its
//! resident memory over time.
//!
//! `cargo run --release -p keyway-tests --example soak [-- --minutes 10 --rate 3000 --turnover 20]`
//!
//! The member is a process of its own (`examples/member.rs`) that subscribes to a pattern. One topic stays all the time;
//! beside it a topic is made every `--turnover` seconds, filled, and deleted when the next but one is there. Prints a
//! line a minute, and at the end what memory has grown by since the first quarter, which lets caches and the allocator
//! settle. Exit code 1 when that is more than 2 MiB a minute, or 32 MiB where the run is short.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use keyway::rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use keyway_tests::cluster::{Cluster, Config};
use keyway_tests::figures::numbers;
use keyway_tests::member_process::MemberProcess;

const MIB: f64 = 1_048_576.0;
const KEYS: u64 = 1_000_000;
const PARTITIONS: i32 = 8;

/// Records of a topic that comes and goes.
const PASSING_RECORDS: u64 = 1_000;

/// What memory may grow by without being a leak: so much a minute, and so much however short the run.
const GROWTH_A_MINUTE: f64 = 2.0;
const GROWTH_AT_LEAST: f64 = 32.0;

/// The bound for what takes seconds when all is well.
const PATIENCE: Duration = Duration::from_secs(120);

struct Wanted {
    minutes: u64,
    /// Records a second into the topic that stays.
    rate: u64,
    /// Seconds between two topics.
    turnover: u64,
}

impl Wanted {
    fn from_arguments() -> Self {
        let numbers = numbers([("minutes", 10), ("rate", 3_000), ("turnover", 20)]);
        Self {
            minutes: numbers["minutes"],
            rate: numbers["rate"],
            turnover: numbers["turnover"],
        }
    }
}

/// The topics of the run, and who fills them.
struct Topics {
    cluster: &'static Cluster,
    producer: BaseProducer,
    prefix: String,
    passing: Vec<String>,
    made: u64,
    deleted: u64,
    written: u64,
}

impl Topics {
    fn new(cluster: &'static Cluster) -> Self {
        let prefix = cluster.unique("soak");
        cluster.create_topic(&format!("{prefix}-stays"), PARTITIONS, &[]);
        Self {
            cluster,
            producer: cluster
                .client()
                .set("linger.ms", "20")
                .create()
                .expect("a producer"),
            prefix,
            passing: Vec::new(),
            made: 0,
            deleted: 0,
            written: 0,
        }
    }

    fn pattern(&self) -> String {
        format!("^{}-.*", self.prefix)
    }

    fn append(&mut self, topic: &str, key: u64) {
        let key = format!("key-{key}");
        let mut record = BaseRecord::to(topic)
            .key(&key)
            .payload("a hundred bytes or so");
        while let Err((_, back)) = self.producer.send(record) {
            self.producer.poll(Duration::from_millis(10));
            record = back;
        }
        self.producer.poll(Duration::ZERO);
        self.written += 1;
    }

    /// Makes a topic and fills it; deletes the last but one.
    fn turn_over(&mut self) {
        let topic = format!("{}-{}", self.prefix, self.made);
        self.cluster.create_topic(&topic, 2, &[]);
        self.made += 1;
        for n in 0..PASSING_RECORDS {
            self.append(&topic, n);
        }
        self.producer.flush(PATIENCE).expect("delivered");
        self.passing.push(topic);
        if self.passing.len() > 2 {
            let old = self.passing.remove(0);
            self.cluster.delete_topic(&old);
            self.deleted += 1;
        }
    }
}

fn main() -> ExitCode {
    let wanted = Wanted::from_arguments();
    let mut topics = Topics::new(Box::leak(Box::new(Cluster::with(Config::default()))));
    let mut member = MemberProcess::start(&[
        format!("brokers={}", topics.cluster.bootstrap()),
        format!("group={}", topics.cluster.unique("group")),
        format!("topic={}", topics.pattern()),
        "interval=100".to_owned(),
        // New topics are found by asking.
        "property.topic.metadata.refresh.interval.ms=2000".to_owned(),
    ]);
    member.until("its partitions", PATIENCE, |status| {
        status["partitions"].as_u64() >= Some(PARTITIONS as u64)
    });

    let began = Instant::now();
    let time = Duration::from_secs(wanted.minutes * 60);
    let (mut sent, mut looks) = (0_u64, Vec::new());
    let mut next_look = Duration::ZERO;
    while began.elapsed() < time {
        let now = began.elapsed();
        if now.as_secs() / wanted.turnover >= topics.made {
            topics.turn_over();
        }
        let due = (now.as_secs_f64() * wanted.rate as f64) as u64;
        let stays = format!("{}-stays", topics.prefix);
        while sent < due {
            // Each key once before any comes again.
            topics.append(&stays, sent * 7_919 % KEYS);
            sent += 1;
        }
        if now >= next_look {
            next_look = now + Duration::from_secs(10);
            looks.push((now, look(&mut member, &topics, now, looks.len() % 6 == 0)));
        }
        topics.producer.poll(Duration::from_millis(5));
    }
    conclude(member, &topics, &looks, time)
}

/// Resident MiB now, told once a minute.
fn look(member: &mut MemberProcess, topics: &Topics, now: Duration, aloud: bool) -> f64 {
    let resident = member.resident() as f64 / MIB;
    if aloud {
        let status = member.status();
        println!(
            "{:>5.0} s   {resident:>6.1} MiB resident   {} of {} records, {} partitions, {} commits, {} topics made, {} deleted",
            now.as_secs_f64(),
            status["completed"],
            topics.written,
            status["partitions"],
            status["commits"],
            topics.made,
            topics.deleted,
        );
    }
    resident
}

fn conclude(
    mut member: MemberProcess,
    topics: &Topics,
    looks: &[(Duration, f64)],
    time: Duration,
) -> ExitCode {
    topics.producer.flush(PATIENCE).expect("delivered");
    let status = member.until("all commits", PATIENCE, |status| status["uncommitted"] == 0);
    println!("at the end: {status}");
    let mean = |from: Duration, to: Duration| {
        let within = looks.iter().filter(|(at, _)| (from..=to).contains(at));
        let figures: Vec<f64> = within.map(|(_, figure)| *figure).collect();
        figures.iter().sum::<f64>() / figures.len().max(1) as f64
    };
    let (early, late) = (mean(time / 4, time / 2), mean(time * 3 / 4, time));
    let growth = late - early;
    // From the middle of the second quarter to the middle of the last.
    let minutes = time.as_secs_f64() / 60.0 / 2.0;
    println!(
        "resident: {early:.1} MiB in the second quarter, {late:.1} MiB in the last one: {:+.2} MiB a minute",
        growth / minutes
    );
    member.stop();
    if growth > (GROWTH_A_MINUTE * minutes).max(GROWTH_AT_LEAST) {
        println!("memory grows");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
