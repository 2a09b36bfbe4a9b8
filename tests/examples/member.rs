//! An engine in a process of its own, for tests that weigh it or let it die. It does as its arguments say and as it is
//! told on stdin; `keyway_tests::member_process` is the other end.
//!
//! ```text
//!     arguments   brokers=.. group=.. topic=.. events=FILE concurrency=N budget=MIB interval=MS work=MICROS
//!                 protocol=range|cooperative|consumer property.NAME=VALUE
//!                 poison=KEY    attempts at records of this key fail, until `heal`
//!                 abort=KEY     the process aborts at the first record of this key
//!                 output=TOPIC  each record has an output there: its key, and a value that names the record
//!                 transactional=true  outputs and commits in transactions, one each `interval`
//!                 log=FILE      what the engine and librdkafka tell, at `info` unless `RUST_LOG` says otherwise; without
//!                               it warnings and errors go to stderr
//!     stdin       status        answers with one JSON line on stdout
//!                 heal, work MICROS
//!                 end of file   stops, commits and leaves; the report is the last line on stdout
//! ```

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keyway::{
    ClientConfig, CommitMode, Engine, Keyway, Observer, Outcome, Output, Record, Retry, StartAt,
    TopicPartition,
};
use keyway_tests::checker::outputs::Source;
use keyway_tests::world::Protocol;
use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The bound of the end.
const STOP_WITHIN: Duration = Duration::from_secs(30);

/// A poisoned record is tried again so often.
const RETRY: Duration = Duration::from_millis(200);

struct Arguments(BTreeMap<String, String>);

impl Arguments {
    fn read() -> Self {
        let pair = |argument: String| {
            let (name, value) = argument.split_once('=').expect("name=value");
            (name.to_owned(), value.to_owned())
        };
        Self(std::env::args().skip(1).map(pair).collect())
    }

    fn text(&self, name: &str) -> &str {
        self.0
            .get(name)
            .unwrap_or_else(|| panic!("{name}=.. is missing"))
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        let number = |text: &String| text.parse().expect("a number");
        self.0.get(name).map_or(default, number)
    }
}

/// What handlers do, and what they have done.
#[derive(Default)]
struct Handling {
    poison: Option<String>,
    abort: Option<String>,
    output: Option<Arc<str>>,
    healed: AtomicBool,
    work_micros: AtomicU64,
    done_bytes: AtomicU64,
}

impl Handling {
    async fn handle(self: Arc<Self>, record: Record) -> Outcome {
        let is = |key: &Option<String>| {
            let key = key.as_ref().map(String::as_bytes);
            key.is_some() && record.key() == key
        };
        if is(&self.abort) {
            process::abort();
        }
        let work = Duration::from_micros(self.work_micros.load(Ordering::Relaxed));
        if !work.is_zero() {
            tokio::time::sleep(work).await;
        }
        if is(&self.poison) && !self.healed.load(Ordering::Relaxed) {
            return Outcome::Failed("poisoned".into());
        }
        self.done_bytes
            .fetch_add(record.size() as u64, Ordering::Relaxed);
        match &self.output {
            Some(topic) => Outcome::Send(vec![output_of(&record, topic)]),
            None => Outcome::Done,
        }
    }
}

fn output_of(record: &Record, topic: &Arc<str>) -> Output {
    let source = Source {
        input: (record.partition(), record.offset()),
        member: process::id().to_string(),
    };
    Output::to(Arc::clone(topic))
        .key(record.key().expect("outputs are of records with a key"))
        .value(source.to_string())
}

/// The lines of `keyway run --events` that are about records and commits.
struct Scribe {
    file: File,
    member: String,
}

impl Scribe {
    fn record(&self, event: &str, record: &Record) {
        let key = record.key().map(|key| {
            let digits = key.iter().map(|byte| format!("{byte:02x}"));
            digits.collect::<String>()
        });
        self.write(&json!({
            "ns": now(), "event": event, "member": self.member, "topic": record.topic(),
            "partition": record.partition(), "offset": record.offset(), "key": key, "attempt": record.attempt(),
        }));
    }

    /// One write for each line.
    fn write(&self, line: &Value) {
        let written = (&self.file).write_all(format!("{line}\n").as_bytes());
        written.expect("the event log can be written");
    }
}

impl Observer for Scribe {
    fn started(&self, record: &Record) {
        self.record("start", record);
    }

    fn done(&self, record: &Record) {
        self.record("done", record);
    }

    fn committed(&self, partition: &TopicPartition, offset: i64, metadata: &str) {
        self.write(&json!({
            "ns": now(), "event": "committed", "member": self.member, "topic": &*partition.topic,
            "partition": partition.partition, "offset": offset, "metadata": metadata,
        }));
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_nanos() as u64
}

fn main() {
    let arguments = Arguments::read();
    tell(arguments.0.get("log"));
    let handling = Arc::new(Handling {
        poison: arguments.0.get("poison").cloned(),
        abort: arguments.0.get("abort").cloned(),
        output: arguments.0.get("output").map(|topic| topic.as_str().into()),
        work_micros: arguments.number("work", 0).into(),
        ..Handling::default()
    });
    let engine = start(&arguments, &handling);
    for line in io::stdin().lock().lines() {
        let line = line.expect("text on stdin");
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("status", _) => answer(&status(&engine)),
            ("heal", _) => handling.healed.store(true, Ordering::Relaxed),
            ("work", micros) => {
                let micros = micros.parse().expect("microseconds");
                handling.work_micros.store(micros, Ordering::Relaxed);
            }
            _ => panic!("no such order: {line}"),
        }
    }
    engine.stop(STOP_WITHIN);
    let report = engine.wait().expect("an orderly end");
    answer(&json!({
        "records": report.records, "all_committed": report.all_committed, "left_running": report.left_running,
        "fetched_bytes": report.fetched_bytes, "processed_bytes": handling.done_bytes.load(Ordering::Relaxed),
    }));
}

/// Whoever runs it sees what went wrong, and more in a file.
fn tell(log: Option<&String>) {
    let level = match log {
        Some(_) => LevelFilter::INFO,
        None => LevelFilter::WARN,
    };
    let filter = EnvFilter::builder()
        .with_default_directive(level.into())
        .from_env_lossy();
    let told = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false);
    match log {
        Some(path) => told.with_writer(appended(path)).init(),
        None => told.with_writer(io::stderr).init(),
    }
}

fn appended(path: &str) -> File {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn start(arguments: &Arguments, handling: &Arc<Handling>) -> Engine {
    let mut client = ClientConfig::new();
    client
        .set("bootstrap.servers", arguments.text("brokers"))
        .set("session.timeout.ms", "6000")
        .set("heartbeat.interval.ms", "500");
    for (name, value) in &arguments.0 {
        if let Some(property) = name.strip_prefix("property.") {
            client.set(property, value);
        }
    }
    if let Some(protocol) = arguments.0.get("protocol") {
        protocol
            .parse::<Protocol>()
            .expect("a protocol")
            .set(&mut client);
    }
    let handling = Arc::clone(handling);
    let interval = Duration::from_millis(arguments.number("interval", 1_000));
    let mode = match arguments.0.contains_key("transactional") {
        true => CommitMode::Transactional(interval),
        false => CommitMode::Periodic(interval),
    };
    let mut builder = Keyway::builder(client)
        .group(arguments.text("group"))
        .topics(arguments.text("topic").split(','))
        .start_at(StartAt::Earliest)
        .concurrency(arguments.number("concurrency", 16) as u32)
        .commit_mode(mode)
        .retry(Retry::exponential(RETRY).up_to(RETRY))
        .async_handler(move |record| Arc::clone(&handling).handle(record));
    if arguments.0.contains_key("budget") {
        builder = builder.memory_budget(arguments.number("budget", 0) as usize * 1024 * 1024);
    }
    if let Some(path) = arguments.0.get("events") {
        builder = builder.observer(Scribe {
            file: appended(path),
            member: process::id().to_string(),
        });
    }
    builder
        .build()
        .expect("a configuration")
        .start()
        .expect("started")
}

fn status(engine: &Engine) -> Value {
    let status = engine.status();
    let partitions = &status.partitions;
    json!({
        "partitions": partitions.len(), "completed": status.completed, "failed": status.failed,
        "running": status.running, "staged": status.staged, "buffered": status.buffered, "buffered_bytes": status.buffered_bytes,
        "full": status.full, "retries": status.retries, "commits": status.commits,
        "paused": partitions.iter().filter(|partition| partition.paused).count(),
        "uncommitted": partitions.iter().filter(|partition| partition.uncommitted).count(),
        "map_chars": partitions.iter().map(|partition| partition.map_chars).max(),
        "map_limit": status.metadata_limit,
        "idle_millis": status.idle_for.map(|time| time.as_millis() as u64),
        // Where each stands, for whoever has to find out why one does.
        "logs": partitions.iter().map(|partition| json!({
            "partition": partition.partition.to_string(), "base": partition.base, "log_end": partition.log_end,
            "buffered": partition.buffered, "paused": partition.paused,
        })).collect::<Vec<_>>(),
        "ended": engine.ended().map(|end| format!("{end:?}")),
    })
}

fn answer(line: &Value) {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{line}").and_then(|()| out.flush());
    written.expect("somebody listens");
}
