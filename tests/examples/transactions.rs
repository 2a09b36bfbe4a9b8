//! Exactly once beside Java's Parallel Consumer, on a real cluster, in one run.
//!
//! `cargo run --release -p keyway-tests --example transactions [-- --records 200000 --rounds 3]`
//!
//! Both read the same topic, keep the order of each key, answer each record with an output of the same key and value,
//! and commit a transaction every 100 ms: Keyway with `CommitMode::Transactional`, Java's engine with
//! `PERIODIC_TRANSACTIONAL_PRODUCER` and `pollAndProduce`. A round runs one after the other; time counts from the first
//! record that a handler gets until a reader of committed data has the last output. The whole topic is counted when its
//! writer has ended.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keyway::rdkafka::consumer::{BaseConsumer, Consumer as _};
use keyway::rdkafka::{Offset, TopicPartitionList};
use keyway::{CommitMode, Keyway, Output, Record, StartAt};
use keyway_tests::cluster::Cluster;
use keyway_tests::figures::{median, numbers};
use keyway_tests::java;

const PARTITIONS: i32 = 8;
const KEYS: u64 = 10_000;

/// Between two transactions.
const INTERVAL: Duration = Duration::from_millis(100);

/// The bound of anything that takes seconds.
const PATIENCE: Duration = Duration::from_secs(600);

struct Wanted {
    records: u64,
    rounds: u64,
    /// Records inside handlers at once, of both.
    concurrency: u64,
    /// How long Java's producer waits for more records, in milliseconds.
    linger: u64,
    /// Whether Java's handlers go on while a transaction is committed.
    eager: bool,
}

fn main() {
    let numbers = numbers([
        ("records", 200_000),
        ("rounds", 3),
        // What Java's engine is fastest with.
        ("concurrency", 256),
        ("java-linger", 0),
        ("java-eager", 1),
    ]);
    let wanted = Wanted {
        records: numbers["records"],
        rounds: numbers["rounds"],
        concurrency: numbers["concurrency"],
        linger: numbers["java-linger"],
        eager: numbers["java-eager"] > 0,
    };
    let cluster = Cluster::start();
    let input = cluster.unique("input");
    cluster.create_topic(&input, PARTITIONS, &[]);
    let record = |n: u64| {
        (
            None,
            Some(format!("key-{:05}", n * 7_919 % KEYS)),
            [b'v'; 100],
        )
    };
    cluster.produce(&input, (0..wanted.records).map(record));

    let (mut keyway, mut java) = (Vec::new(), Vec::new());
    for round in 0..wanted.rounds {
        // Whoever comes second finds everything warm.
        let rates = if round % 2 == 0 {
            let first = run_keyway(cluster, &input, &wanted);
            (first, run_java(cluster, &input, &wanted))
        } else {
            let first = run_java(cluster, &input, &wanted);
            (run_keyway(cluster, &input, &wanted), first)
        };
        eprintln!("round {round}: {rates:.0?} records/s");
        keyway.push(rates.0);
        java.push(rates.1);
    }
    let (keyway, java) = (median(&mut keyway), median(&mut java));
    println!(
        "{} records of 100 bytes, {KEYS} keys, {PARTITIONS} partitions, an output each, a transaction each {INTERVAL:?}, \
         {} at once; Java: linger {} ms, eager {}",
        wanted.records, wanted.concurrency, wanted.linger, wanted.eager
    );
    println!("  keyway                {keyway:>10.0} records/s");
    println!("  Java's engine         {java:>10.0} records/s");
    println!("  ratio                 {:>10.1}", keyway / java);
}

/// Records a second.
fn run_keyway(cluster: &Cluster, input: &str, wanted: &Wanted) -> f64 {
    let topic = cluster.unique("keyway");
    let output: Arc<str> = topic.as_str().into();
    let reader = Reader::start(cluster, &topic, wanted.records);
    let first = Arc::new(OnceLock::new());
    let began = Arc::clone(&first);
    let engine = Keyway::builder(cluster.client())
        .group(&topic)
        .topics([input])
        .start_at(StartAt::Earliest)
        .concurrency(wanted.concurrency as u32)
        .commit_mode(CommitMode::Transactional(INTERVAL))
        .handler(move |record: &Record| {
            began.get_or_init(SystemTime::now);
            Output::to(Arc::clone(&output))
                .key(record.key().unwrap_or_default())
                .value(record.value().unwrap_or_default())
        })
        .build()
        .expect("a configuration")
        .start()
        .expect("started");
    let last = reader.last();
    engine.stop(PATIENCE);
    let report = engine.wait().expect("an orderly end");
    assert!(report.all_committed, "{report:?}");
    counted(cluster, &topic, wanted);
    rate(wanted, *first.get().expect("a record"), last)
}

/// Records a second.
fn run_java(cluster: &Cluster, input: &str, wanted: &Wanted) -> f64 {
    let output = cluster.unique("java");
    let reader = Reader::start(cluster, &output, wanted.records);
    let quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn";
    let mut child = java::interop("PeerProducer", &["-Xmx1g", quiet])
        .args(["--bootstrap", cluster.bootstrap(), "--group", &output])
        .args(["--topic", input, "--output", &output])
        .args(["--concurrency", &wanted.concurrency.to_string()])
        .args(["--commit-interval-ms", &INTERVAL.as_millis().to_string()])
        .args(["--linger-ms", &wanted.linger.to_string()])
        .args(["--eager", &wanted.eager.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("java runs");
    let said = BufReader::new(child.stdout.take().expect("it is piped"));
    let first = said
        .lines()
        .find_map(|line| line.ok()?.strip_prefix("first ")?.parse().ok());
    let first = UNIX_EPOCH + Duration::from_micros(first.expect("it handles records"));
    let last = reader.last();
    drop(child.stdin.take());
    let end = child.wait().expect("it is our child");
    assert!(end.success(), "Java's engine: {end}");
    counted(cluster, &output, wanted);
    rate(wanted, first, last)
}

fn rate(wanted: &Wanted, first: SystemTime, last: SystemTime) -> f64 {
    let took = last
        .duration_since(first)
        .expect("the last output is later");
    wanted.records as f64 / took.as_secs_f64()
}

/// Reads committed outputs while they come.
struct Reader {
    last: JoinHandle<SystemTime>,
}

impl Reader {
    /// Makes the topic and reads it until it has so many records.
    fn start(cluster: &Cluster, topic: &str, records: u64) -> Self {
        cluster.create_topic(topic, PARTITIONS, &[]);
        let consumer: BaseConsumer = cluster
            .client()
            .set("group.id", topic)
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .create()
            .expect("a consumer");
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(topic, partition, Offset::Beginning)
                .expect("an offset");
        }
        consumer.assign(&list).expect("assigned");
        let last = thread::spawn(move || {
            let mut seen = 0;
            while seen < records {
                let record = consumer.poll(PATIENCE).expect("outputs come");
                record.expect("outputs can be read");
                seen += 1;
            }
            SystemTime::now()
        });
        Self { last }
    }

    /// When the last output was there.
    fn last(self) -> SystemTime {
        self.last.join().expect("all outputs come")
    }
}

/// The whole topic, when whoever wrote it has ended: each record has one output.
fn counted(cluster: &Cluster, topic: &str, wanted: &Wanted) {
    assert_eq!(cluster.read(topic).len() as u64, wanted.records, "{topic}");
}
