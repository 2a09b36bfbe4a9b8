//! An engine of this process as a member of a world's group.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use keyway::{Builder, ClientConfig, Engine, Keyway, Report, StartAt, Status, StopReason};

use super::log::{Log, Scribe};
use super::{Handling, PATIENCE, World};
use crate::wait;

/// How a group shares out its partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Everything is revoked at each rebalance.
    Range,
    /// Only what moves is revoked.
    Cooperative,
    /// The broker shares out: `group.protocol=consumer`.
    Consumer,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 3] = [Protocol::Range, Protocol::Cooperative, Protocol::Consumer];

    fn name(self) -> &'static str {
        match self {
            Protocol::Range => "range",
            Protocol::Cooperative => "cooperative",
            Protocol::Consumer => "consumer",
        }
    }

    /// Sets what a client needs for it.
    pub fn set(self, client: &mut ClientConfig) {
        match self {
            Protocol::Range => client.set("partition.assignment.strategy", "range"),
            Protocol::Cooperative => {
                client.set("partition.assignment.strategy", "cooperative-sticky")
            }
            Protocol::Consumer => {
                // These two are the broker's under this protocol.
                client.remove("session.timeout.ms");
                client.remove("heartbeat.interval.ms");
                client.set("group.protocol", "consumer")
            }
        };
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |protocol: &Protocol| protocol.name() == text;
        let found = Protocol::ALL.into_iter().find(named);
        found.ok_or_else(|| format!("{text:?} is no protocol"))
    }
}

/// Long enough that a busy machine does not lose a member, short enough to wait for after a kill.
const SESSION_MILLIS: &str = "6000";

/// The bound of an orderly end.
const STOP_WITHIN: Duration = Duration::from_secs(30);

type Change = Box<dyn FnOnce(Builder) -> Builder>;

/// A member before it starts: 16 records at once on threads, a commit each 50 ms, from the earliest record on, a failed
/// attempt again after 100 ms.
#[must_use]
pub struct MemberBuilder {
    name: String,
    client: ClientConfig,
    group: String,
    topics: Vec<String>,
    log: Arc<Log>,
    handling: Arc<Handling>,
    changes: Vec<Change>,
}

impl MemberBuilder {
    pub(super) fn new(world: &World<'_>, name: &str) -> Self {
        let mut client = world.client();
        client
            .set("session.timeout.ms", SESSION_MILLIS)
            .set("heartbeat.interval.ms", "300")
            .set("topic.metadata.refresh.interval.ms", "1000");
        MemberBuilder {
            name: name.to_owned(),
            client,
            group: world.group.clone(),
            topics: vec![world.topic.clone()],
            log: Arc::clone(&world.log),
            handling: Arc::clone(&world.handling),
            changes: Vec::new(),
        }
    }

    /// Sets a property of librdkafka.
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.client.set(name, value);
        self
    }

    /// How its group shares out partitions.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        protocol.set(&mut self.client);
        self
    }

    /// It consumes these topics in place of the world's.
    pub fn topics(mut self, topics: &[&str]) -> Self {
        self.topics = topics.iter().map(|&topic| topic.to_owned()).collect();
        self
    }

    /// Changes what the engine's builder says.
    pub fn with(mut self, change: impl FnOnce(Builder) -> Builder + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// The world's handler as an async one, with so many records inside at once.
    pub fn asynchronous(self, records: u32) -> Self {
        let handling = Arc::clone(&self.handling);
        self.with(move |builder| {
            builder
                .async_handler(move |record| Arc::clone(&handling).handle_async(record))
                .concurrency(records)
        })
    }

    /// The engine before it starts.
    pub fn build(self) -> Keyway {
        let handling = Arc::clone(&self.handling);
        let scribe = Scribe {
            log: Arc::clone(&self.log),
            member: self.name.clone(),
        };
        let builder = Keyway::builder(self.client)
            .group(&self.group)
            .topics(self.topics)
            .start_at(StartAt::Earliest)
            .commit_interval(Duration::from_millis(50))
            .retry_delay(Duration::from_millis(100))
            .observer(scribe)
            .handler(move |record| handling.handle(record));
        let builder = self
            .changes
            .into_iter()
            .fold(builder, |builder, change| change(builder));
        builder
            .build()
            .unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Starts it and returns at once.
    pub fn start(self) -> Member {
        let (name, log) = (self.name.clone(), Arc::clone(&self.log));
        let engine = self
            .build()
            .start()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        Member { name, log, engine }
    }
}

/// A running member; stopped when dropped, as every engine.
pub struct Member {
    name: String,
    log: Arc<Log>,
    engine: Engine,
}

impl Deref for Member {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Member {
    /// Its name in the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until its status is as `condition` says.
    #[track_caller]
    pub fn until(&self, what: &str, condition: impl Fn(&Status) -> bool) {
        let met = wait::try_until(PATIENCE, || condition(&self.engine.status()).then_some(()));
        if met.is_none() {
            let (status, ended) = (self.engine.status(), self.engine.ended());
            panic!(
                "{}: waited {PATIENCE:?} in vain for: {what}\n{status:#?}\n{ended:?}",
                self.name
            );
        }
    }

    /// Waits until it knows that so many records are complete. A record's `done` is in the log a moment earlier.
    #[track_caller]
    pub fn until_completed(&self, records: usize) {
        self.until(&format!("{records} records completed"), |status| {
            status.completed >= records as u64
        });
    }

    /// Waits until it has partitions, all restored.
    #[track_caller]
    pub fn until_assigned(&self, partitions: usize) {
        self.until(&format!("{partitions} partitions"), |status| {
            status.partitions.len() == partitions && status.restoring.is_empty()
        });
    }

    /// An orderly end: what runs is finished, everything is committed, the group is left.
    ///
    /// # Panics
    /// When it does not come, or leaves something running.
    #[track_caller]
    pub fn end(self) -> Report {
        self.engine.stop(STOP_WITHIN);
        let report = self.join();
        assert_eq!(
            (report.left_running, report.all_committed),
            (0, true),
            "{report:?}"
        );
        report
    }

    /// Waits for its end, which is to be an orderly one.
    #[track_caller]
    pub fn join(self) -> Report {
        let name = self.name.clone();
        self.wait_for_end()
            .unwrap_or_else(|reason| panic!("{name} ended: {reason}"))
    }

    /// Waits for its end because of something.
    #[track_caller]
    pub fn join_failed(self) -> StopReason {
        let name = self.name.clone();
        match self.wait_for_end() {
            Ok(report) => panic!("{name} ended in good order: {report:?}"),
            Err(reason) => reason,
        }
    }

    /// Waits for its end, whatever that is.
    #[track_caller]
    pub fn wait_for_end(&self) -> Result<Report, StopReason> {
        wait::until("the end of a member", PATIENCE, || self.engine.ended())
    }

    /// Breaks it off as a crash would. The group notices after its session.
    #[track_caller]
    pub fn kill(self) {
        self.log.kill(&self.name);
        self.engine.abandon();
        let end = self.wait_for_end();
        self.log.bury(&self.name);
        assert_eq!(end, Err(StopReason::Abandoned));
    }
}
