//! `--events FILE`: what happens, as JSON lines, each on disk before its effect can be seen.
//!
//! The one idea: a line is one write(2) to a file opened for appending, made on the thread to which it happens, before
//! the engine goes on. So the order of the file is the order of happening for everything that waits for something
//! else: the records of a lane, a record and the commit that covers it. A process that is killed leaves the lines of
//! all that was visible outside.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use keyway::{Observer, Record, TopicPartition};
use serde::Serialize;

/// Set when a file of what happens could not be written: what happens from then on is not in it.
pub(super) type Fault = Arc<OnceLock<String>>;

/// Writes events of one member.
pub(super) struct EventLog {
    file: File,
    member: String,
    fault: Fault,
}

#[derive(Serialize)]
struct RecordLine<'a> {
    ns: u64,
    event: &'static str,
    member: &'a str,
    topic: &'a str,
    partition: i32,
    offset: i64,
    key: Option<String>,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

#[derive(Serialize)]
struct CommitLine<'a> {
    ns: u64,
    event: &'static str,
    member: &'a str,
    topic: &'a str,
    partition: i32,
    offset: i64,
    metadata: &'a str,
}

#[derive(Serialize)]
struct PartitionLine<'a> {
    ns: u64,
    event: &'static str,
    member: &'a str,
    topic: &'a str,
    partition: i32,
}

thread_local! {
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl EventLog {
    /// Opens the file for appending; it is made when it is not there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: OpenOptions::new().create(true).append(true).open(path)?,
            member: member(),
            fault: Fault::default(),
        })
    }

    /// Where a failure of the file shows.
    pub(super) fn fault(&self) -> Fault {
        Arc::clone(&self.fault)
    }

    fn write(&self, line: &impl Serialize) {
        let result = LINE.with_borrow_mut(|text| {
            text.clear();
            serde_json::to_writer(&mut *text, line)?;
            text.push(b'\n');
            // One write(2) unless the disk is full.
            (&self.file).write_all(text)
        });
        if let Err(error) = result {
            let _ = self
                .fault
                .set(format!("the event log is incomplete: {error}"));
        }
    }

    fn record(&self, event: &'static str, record: &Record, reason: Option<&str>) {
        self.write(&RecordLine {
            ns: now(),
            event,
            member: &self.member,
            topic: record.topic(),
            partition: record.partition(),
            offset: record.offset(),
            key: record.key().map(hex::encode),
            attempt: record.attempt(),
            reason,
        });
    }

    fn hold(
        &self,
        event: &'static str,
        partition: &TopicPartition,
        offset: i64,
        key: Option<&[u8]>,
    ) {
        self.write(&RecordLine {
            ns: now(),
            event,
            member: &self.member,
            topic: &partition.topic,
            partition: partition.partition,
            offset,
            key: key.map(hex::encode),
            attempt: 1,
            reason: None,
        });
    }

    fn partition(&self, event: &'static str, partition: &TopicPartition) {
        self.write(&PartitionLine {
            ns: now(),
            event,
            member: &self.member,
            topic: &partition.topic,
            partition: partition.partition,
        });
    }
}

impl Observer for EventLog {
    fn started(&self, record: &Record) {
        self.record("start", record, None);
    }

    fn done(&self, record: &Record) {
        self.record("done", record, None);
    }

    fn dead(&self, record: &Record) {
        self.record("dead", record, None);
    }

    fn failed(&self, record: &Record, error: &str) {
        self.record("failed", record, Some(error));
    }

    fn held(&self, partition: &TopicPartition, offset: i64, key: Option<&[u8]>) {
        self.hold("held", partition, offset, key);
    }

    fn released(&self, partition: &TopicPartition, offset: i64, key: Option<&[u8]>) {
        self.hold("released", partition, offset, key);
    }

    fn assigned(&self, partition: &TopicPartition) {
        self.partition("assigned", partition);
    }

    fn revoked(&self, partition: &TopicPartition) {
        self.partition("revoked", partition);
    }

    fn lost(&self, partition: &TopicPartition) {
        self.partition("lost", partition);
    }

    fn committed(&self, partition: &TopicPartition, offset: i64, metadata: &str) {
        self.write(&CommitLine {
            ns: now(),
            event: "committed",
            member: &self.member,
            topic: &partition.topic,
            partition: partition.partition,
            offset,
            metadata,
        });
    }
}

/// Wall clock, nanoseconds since 1970.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

/// A name that no other process has, also not one that gets the same process id later or elsewhere.
fn member() -> String {
    let random = RandomState::new().hash_one(now());
    format!("{}-{random:016x}", std::process::id())
}
