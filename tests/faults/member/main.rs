//! A member of the fault suite as a process: the engine with an event log, and a point at which it kills itself.
//!
//! `fault-member brokers=.. group=.. topic=.. events=FILE protocol=range|cooperative|consumer work=MILLIS [doom=POINT:N]`
//!
//! The observer is called before what it is told of can be seen outside, so a kill inside it is exact. SIGTERM drains.

// The command's own writer: one format, one writer.
#[allow(dead_code, reason = "the command looks at more of it")]
#[path = "../../../cli/src/run/events.rs"]
mod events;

use std::collections::HashMap;
use std::env;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use keyway::{Keyway, Observer, Record, StartAt, TopicPartition};
use keyway_tests::cluster;
use keyway_tests::doom::{Doom, Point};
use keyway_tests::wait;
use keyway_tests::world::Protocol;
use signal_hook::consts::{SIGKILL, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::raise;
use tracing_subscriber::EnvFilter;

use events::EventLog;

/// Bound of the drain that SIGTERM asks for.
const DRAIN_WITHIN: Duration = Duration::from_secs(20);

/// No test lets a member live so long.
const LIFE: Duration = Duration::from_secs(3_600);

/// Counts how often the process comes to its point.
struct Fate {
    doom: Option<Doom>,
    times: AtomicU64,
}

impl Fate {
    fn come_to(&self, point: Point) {
        let Some(doom) = self.doom.filter(|doom| doom.at == point) else {
            return;
        };
        if self.times.fetch_add(1, Ordering::SeqCst) + 1 == doom.time {
            raise(SIGKILL).expect("a process may kill itself");
        }
    }
}

struct Doomed {
    log: EventLog,
    fate: Arc<Fate>,
}

impl Observer for Doomed {
    fn started(&self, record: &Record) {
        self.log.started(record);
        self.fate.come_to(Point::BeforeHandler);
    }

    fn done(&self, record: &Record) {
        self.log.done(record);
        self.fate.come_to(Point::AfterHandler);
    }

    fn failed(&self, record: &Record, error: &str) {
        self.log.failed(record, error);
    }

    fn assigned(&self, partition: &TopicPartition) {
        self.log.assigned(partition);
        self.fate.come_to(Point::Assigned);
    }

    fn revoked(&self, partition: &TopicPartition) {
        self.log.revoked(partition);
        self.fate.come_to(Point::Revoked);
    }

    fn lost(&self, partition: &TopicPartition) {
        self.log.lost(partition);
    }

    fn committed(&self, partition: &TopicPartition, offset: i64, metadata: &str) {
        self.log.committed(partition, offset, metadata);
        self.fate.come_to(Point::AfterCommit);
    }
}

fn main() -> ExitCode {
    let words: HashMap<String, String> = env::args()
        .skip(1)
        .filter_map(|word| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        })
        .collect();
    let word = |name: &str| -> &str { words.get(name).unwrap_or_else(|| panic!("{name}=")) };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .init();
    let mut signals = Signals::new([SIGTERM]).expect("SIGTERM can be received");

    let mut client = cluster::client(word("brokers"));
    // So that a member that is killed or stands still is missed soon.
    client
        .set("session.timeout.ms", "4000")
        .set("heartbeat.interval.ms", "300");
    let protocol: Protocol = word("protocol").parse().expect("a protocol");
    protocol.set(&mut client);
    let doom = words.get("doom").map(|text| text.parse().expect("a doom"));
    let fate = Arc::new(Fate {
        doom,
        times: AtomicU64::new(0),
    });
    let work = Duration::from_millis(word("work").parse().expect("a number"));
    let mut builder = Keyway::builder(client)
        .group(word("group"))
        .topics([word("topic")])
        .start_at(StartAt::Earliest)
        .commit_interval(Duration::from_millis(100))
        .concurrency(4)
        .observer(Doomed {
            log: EventLog::open(Path::new(word("events"))).expect("the event log can be written"),
            fate: Arc::clone(&fate),
        })
        .handler(move |_: &Record| thread::sleep(work));
    if doom.is_some_and(|doom| doom.at == Point::BeforeCommit) {
        // Asked for each partition when a commit is made, and leaves nothing in it.
        builder = builder.rider(move |_| {
            fate.come_to(Point::BeforeCommit);
            None
        });
    }
    let engine = builder.build().expect("a configuration").start();
    let engine = engine.expect("a member");
    let end = wait::until("the end of a member", LIFE, || {
        if signals.pending().next().is_some() {
            engine.drain(DRAIN_WITHIN);
        }
        engine.ended()
    });
    match end {
        Ok(report) if report.all_committed && report.left_running == 0 => ExitCode::SUCCESS,
        other => {
            eprintln!("a member ended: {other:?}");
            ExitCode::FAILURE
        }
    }
}
