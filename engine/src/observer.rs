//! A look at what happens, as it happens.

use crate::kafka::TopicPartition;
use crate::record::Record;

/// Is told what happens to records and partitions, at the moment it happens.
///
/// The methods are called on the workers' threads, the poll thread and those of the committer and the writer,
/// several at the same time, and whoever calls waits for the return: they must be fast and must not wait for the engine. A
/// panic in one is logged and changes nothing, except that one in [`started`](Self::started) fails the
/// attempt.
pub trait Observer: Send + Sync + 'static {
    /// An attempt is about to begin; the handler runs after this returns.
    fn started(&self, record: &Record) {
        let _ = record;
    }

    /// The handler finished the record, and where it has outputs the broker has acknowledged them. Comes before anything can follow from it: the next start of its lane,
    /// or a commit that covers it.
    fn done(&self, record: &Record) {
        let _ = record;
    }

    /// The record is passed over, by its handler or after its last attempt, and counts as complete; a kind of
    /// [`done`](Self::done) unless overridden.
    fn skipped(&self, record: &Record) {
        self.done(record);
    }

    /// The broker has acknowledged the record's dead letter, and it counts as complete; a kind of [`done`](Self::done)
    /// unless overridden. Comes before anything can follow from it.
    fn dead(&self, record: &Record) {
        self.done(record);
    }

    /// The attempt failed: the handler's error, a panic's text, or why it asked for another attempt or for
    /// the engine to stop.
    fn failed(&self, record: &Record, error: &str) {
        let _ = (record, error);
    }

    /// With causal delivery: the record waits for its causes, and its key with it.
    fn held(&self, partition: &TopicPartition, offset: i64, key: Option<&[u8]>) {
        let _ = (partition, offset, key);
    }

    /// With causal delivery: a record that was held may start. Comes before its start.
    fn released(&self, partition: &TopicPartition, offset: i64, key: Option<&[u8]>) {
        let _ = (partition, offset, key);
    }

    /// A partition was assigned to this member and its records may start.
    fn assigned(&self, partition: &TopicPartition) {
        let _ = partition;
    }

    /// A partition was revoked in an orderly way: nothing of it starts any more.
    fn revoked(&self, partition: &TopicPartition) {
        let _ = partition;
    }

    /// A partition was lost: another member may have it already.
    fn lost(&self, partition: &TopicPartition) {
        let _ = partition;
    }

    /// The broker stored a commit: `offset` is the next offset to read, `metadata` the text beside it.
    fn committed(&self, partition: &TopicPartition, offset: i64, metadata: &str) {
        let _ = (partition, offset, metadata);
    }
}
