//! The broker's part: what was written, and what a group committed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use keyway_core::Restored;
use keyway_offsets::{DEFAULT_MAX_WINDOW, HoleMap, Offset};
use keyway_rider::Rider;

use super::letters::TestLetter;
use super::outputs::TestOutput;
use crate::kafka::{NativeRecord, RecordParts, Timestamp, TopicPartition};

/// The leader epoch of everything: there is one leader, and it never fails.
pub(super) const LEADER_EPOCH: i32 = 0;

/// A record for [`TestEngine::feed_record`](super::TestEngine::feed_record): one with more than a key and a
/// value, or with less.
///
/// ```
/// use keyway::testing::TestRecord;
///
/// let tombstone = TestRecord::new("users", 3).key("ann");
/// let traced = TestRecord::new("users", 3).value("hello").header("trace", "7f").timestamp(1_700_000_000_000);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct TestRecord {
    parts: RecordParts,
}

impl TestRecord {
    /// A record without key, value, headers or timestamp.
    pub fn new(topic: &str, partition: i32) -> Self {
        Self {
            parts: RecordParts::new(topic, partition, 0),
        }
    }

    /// Sets the key; without one it is null.
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        self.parts.key = Some(key.as_ref().to_vec());
        self
    }

    /// Sets the value; without one it is null.
    pub fn value(mut self, value: impl AsRef<[u8]>) -> Self {
        self.parts.value = Some(value.as_ref().to_vec());
        self
    }

    /// Adds a header. Names may be bytes that are no text, as producers may send them.
    pub fn header(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        let value = Some(value.as_ref().to_vec());
        self.parts.headers.push((name.as_ref().to_vec(), value));
        self
    }

    /// Adds a header whose value is null.
    pub fn null_header(mut self, name: impl AsRef<[u8]>) -> Self {
        self.parts.headers.push((name.as_ref().to_vec(), None));
        self
    }

    /// Sets when the producer made it, in milliseconds since 1970; without one it has no timestamp.
    pub fn timestamp(mut self, millis: i64) -> Self {
        self.parts.timestamp = Some(Timestamp::Created(millis));
        self
    }

    pub(super) fn partition(&self) -> TopicPartition {
        TopicPartition::new(Arc::clone(&self.parts.topic), self.parts.partition)
    }
}

/// What the group has committed for a partition: read back from the text, as the next owner would read it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commit {
    /// The committed offset: the next one to read.
    pub offset: i64,
    /// Which offsets above it are complete.
    pub map: HoleMap,
    /// The rider beside it.
    pub rider: Rider,
    /// The commit's metadata as it went to the broker; empty when there was nothing to say.
    pub metadata: String,
}

#[derive(Debug)]
struct Stored {
    offset: Offset,
    leader_epoch: Option<i32>,
    metadata: String,
}

/// Everything that outlives a member.
#[derive(Debug, Default)]
pub(super) struct Log {
    partitions: BTreeMap<TopicPartition, Vec<RecordParts>>,
    commits: HashMap<TopicPartition, Stored>,
    /// Outputs of all topics, in the order in which they were sent.
    pub(super) outputs: Vec<TestOutput>,
    /// No outputs can be sent.
    pub(super) refuses_outputs: bool,
    /// Dead letters of all topics.
    pub(super) letters: Vec<TestLetter>,
    /// No dead letter can be written.
    pub(super) refuses_letters: bool,
}

impl Log {
    /// Whether the partition has been heard of.
    pub(super) fn knows(&self, partition: &TopicPartition) -> bool {
        self.partitions.contains_key(partition)
    }

    pub(super) fn create(&mut self, partition: &TopicPartition) {
        self.partitions.entry(partition.clone()).or_default();
    }

    pub(super) fn append(&mut self, record: TestRecord) {
        let log = self.partitions.entry(record.partition()).or_default();
        log.push(RecordParts {
            offset: log.len() as i64,
            leader_epoch: Some(LEADER_EPOCH),
            ..record.parts
        });
    }

    pub(super) fn end(&self, partition: &TopicPartition) -> Offset {
        let end = self.partitions.get(partition).map_or(0, Vec::len);
        Offset::new(end as i64).unwrap_or(Offset::ZERO)
    }

    /// The record at an offset, as a fetch would give it.
    pub(super) fn read(&self, partition: &TopicPartition, offset: Offset) -> Option<NativeRecord> {
        let index = usize::try_from(offset.get()).ok()?;
        let parts = self.partitions.get(partition)?.get(index)?;
        Some(NativeRecord::made(parts.clone()))
    }

    /// The first record that is as late as this, or the end.
    pub(super) fn at_time(&self, partition: &TopicPartition, millis: i64) -> Offset {
        let late = |parts: &&RecordParts| parts.timestamp.is_some_and(|at| at.millis() >= millis);
        let log = self.partitions.get(partition);
        let first = log.and_then(|log| log.iter().find(late));
        first
            .and_then(|parts| Offset::new(parts.offset))
            .unwrap_or_else(|| self.end(partition))
    }

    pub(super) fn commit(
        &mut self,
        partition: &TopicPartition,
        offset: Offset,
        leader_epoch: Option<i32>,
        metadata: String,
    ) {
        let stored = Stored {
            offset,
            leader_epoch,
            metadata,
        };
        self.commits.insert(partition.clone(), stored);
    }

    pub(super) fn committed(&self, partition: &TopicPartition, max_window: u64) -> Option<Commit> {
        let stored = self.commits.get(partition)?;
        let metadata = keyway_rider::read(stored.offset, stored.metadata.as_bytes(), max_window);
        let map = metadata
            .map
            .expect("what the engine's own encoder made")
            .map;
        Some(Commit {
            offset: stored.offset.get(),
            map,
            rider: metadata.rider,
            metadata: stored.metadata.clone(),
        })
    }

    /// How many partitions of a topic there are.
    pub(super) fn partitions(&self, topic: &str) -> u32 {
        let its = self.partitions.keys().filter(|name| &*name.topic == topic);
        its.count() as u32
    }

    /// What is committed of all partitions, and what rides beside it.
    pub(super) fn commits(&self) -> impl Iterator<Item = (&TopicPartition, Offset, Rider)> {
        self.commits.iter().map(|(partition, stored)| {
            let text = stored.metadata.as_bytes();
            let read = keyway_rider::read(stored.offset, text, DEFAULT_MAX_WINDOW);
            (partition, stored.offset, read.rider)
        })
    }

    /// Where a member that is assigned the partition starts.
    pub(super) fn restored(
        &self,
        partition: &TopicPartition,
        first_start: Offset,
        max_window: u64,
    ) -> Restored {
        match (
            self.commits.get(partition),
            self.committed(partition, max_window),
        ) {
            (Some(stored), Some(commit)) => Restored {
                committed: Some(stored.offset),
                start: stored.offset,
                map: Some(commit.map).filter(|map| map.span() > 0),
                leader_epoch: stored.leader_epoch,
                rider: commit.rider,
            },
            _ => Restored {
                committed: None,
                start: first_start,
                map: None,
                leader_epoch: None,
                rider: Rider::None,
            },
        }
    }
}
