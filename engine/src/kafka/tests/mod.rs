//! The source against the broker inside the process.

mod assignment;
mod closing;
mod commits;
mod configuration;
mod outsider;
mod producing;
mod questions;
mod reading;
mod synthetic;
#[cfg(any(feature = "ssl", feature = "ssl-vendored"))]
mod tokens;

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;

use super::source::Waker;
use super::{
    GroupClient, MockBroker, NativeRecord, Prefetch, Source, SourceConfig, SourceEvent, Start,
    TopicPartition, prepare,
};

/// Generous: a condition that takes so long will not come.
const PATIENCE: Duration = Duration::from_secs(30);
const TOPIC: &str = "orders";

fn broker(partitions: i32) -> MockBroker {
    let broker = MockBroker::start(1).expect("a mock broker");
    broker.create_topic(TOPIC, partitions).expect("a topic");
    broker
}

fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, partition)
}

fn properties(broker: &MockBroker) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", broker.bootstrap())
        .set("group.id", "g")
        .set("session.timeout.ms", "6000")
        .set("heartbeat.interval.ms", "200");
    config
}

/// A header's name and value.
type NamedValue<'r> = (&'r [u8], Option<&'r [u8]>);

fn headers(record: &NativeRecord) -> Vec<NamedValue<'_>> {
    let source = record.header_source().expect("readable");
    (0..source.count())
        .filter_map(|index| source.header(index))
        .collect()
}

/// One member with what it has received.
struct Member {
    source: Source,
    group: GroupClient,
    waker: Waker,
    records: Vec<NativeRecord>,
    events: Vec<SourceEvent>,
    held: std::collections::BTreeSet<TopicPartition>,
}

impl Member {
    fn open(config: &ClientConfig) -> Self {
        Self::open_with(config, |_| {})
    }

    fn open_with(config: &ClientConfig, change: impl FnOnce(&mut SourceConfig)) -> Self {
        let prepared = prepare(config, Prefetch::default()).expect("good properties");
        let mut config = SourceConfig::new(prepared.client, vec![TOPIC.to_owned()]);
        change(&mut config);
        let (source, group, waker) = Source::open(&config).expect("a source");
        Self {
            source,
            group,
            waker,
            records: Vec::new(),
            events: Vec::new(),
            held: Default::default(),
        }
    }

    /// A member of its own broker that reads every partition from offset 0.
    fn reading(broker: &MockBroker) -> Self {
        let mut member = Self::open(&properties(broker));
        member.take_assignment(|_| 0);
        member
    }

    fn poll(&mut self) {
        self.source
            .poll(1_000, Duration::from_millis(50), &mut self.records);
        self.events
            .extend(std::iter::from_fn(|| self.source.next_event()));
    }

    /// Polls until the condition holds.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(
                Instant::now() < deadline,
                "never: {what}; events {:?}",
                self.events
            );
            self.poll();
        }
    }

    fn assigned(&self) -> usize {
        self.held.len()
    }

    fn assignment(&mut self) -> Vec<TopicPartition> {
        let mut found = None;
        self.until("an assignment", |member| {
            found = member.events.iter().find_map(|event| match event {
                SourceEvent::Assign(partitions) => Some(partitions.clone()),
                _ => None,
            });
            found.is_some()
        });
        found.expect("until it was found")
    }

    fn take_assignment(&mut self, offset: impl Fn(i32) -> i64) {
        let starts: Vec<Start> = self
            .assignment()
            .into_iter()
            .map(|tp| Start {
                offset: offset(tp.partition),
                leader_epoch: None,
                tp,
            })
            .collect();
        self.source.assign(&starts).expect("assign");
        self.held = starts.into_iter().map(|start| start.tp).collect();
        self.events.clear();
    }

    fn until_records(&mut self, count: usize) {
        self.until("records", |member| member.records.len() >= count);
    }

    fn offsets(&self, partition: i32) -> Vec<i64> {
        let of_partition = self
            .records
            .iter()
            .filter(|record| record.partition() == partition);
        of_partition.map(NativeRecord::offset).collect()
    }
}
