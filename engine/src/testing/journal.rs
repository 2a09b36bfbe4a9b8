//! What happened, attempt by attempt.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::life::Surroundings;
use crate::context::RecordId;
use crate::kafka::TopicPartition;
use crate::observer::Observer;
use crate::record::Record;

/// One attempt at a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Which record.
    pub id: RecordId,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Which attempt: 1 for the first since the start, or since the partition was assigned.
    pub number: u32,
    /// When it began, on the test's clock.
    pub began: Duration,
    /// How it ended; `None` while it runs, and for one that a crash cut off.
    pub outcome: Option<AttemptOutcome>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// The record is done.
    Done,
    /// The handler passed over it.
    Skipped,
    /// Its dead letter was written: [`TestEngine::dead_letters`](super::TestEngine::dead_letters).
    DeadLetter,
    /// It failed, is to be tried again, or stopped the engine: the text that an [`Observer`] is given.
    Failed(String),
}

#[derive(Debug, Default)]
struct Entries {
    attempts: Vec<Attempt>,
    /// In the order in which they ended.
    ended: Vec<(RecordId, AttemptOutcome)>,
    /// The latest attempt at each record.
    latest: HashMap<RecordId, usize>,
}

/// The attempts of all members that a test had, one after another.
#[derive(Debug, Default)]
pub(super) struct Journal {
    entries: Mutex<Entries>,
}

impl Journal {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Nothing of a user runs under the lock.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn attempts(&self) -> Vec<Attempt> {
        self.lock().attempts.clone()
    }

    pub(super) fn ended(&self) -> Vec<(RecordId, AttemptOutcome)> {
        self.lock().ended.clone()
    }

    /// The offsets of the attempts at records of a key.
    pub(super) fn order_of(&self, key: &[u8]) -> Vec<i64> {
        let entries = self.lock();
        let of_key = |attempt: &&Attempt| attempt.key.as_deref() == Some(key);
        let attempts = entries.attempts.iter().filter(of_key);
        attempts.map(|attempt| attempt.id.offset).collect()
    }

    fn began(&self, record: &Record, at: Duration) {
        let id = record.id();
        let mut entries = self.lock();
        let index = entries.attempts.len();
        entries.latest.insert(id.clone(), index);
        entries.attempts.push(Attempt {
            id,
            key: record.key().map(<[u8]>::to_vec),
            number: record.attempt(),
            began: at,
            outcome: None,
        });
    }

    fn end(&self, record: &Record, outcome: AttemptOutcome) {
        let id = record.id();
        let mut entries = self.lock();
        let latest = entries.latest.get(&id).copied();
        if let Some(attempt) = latest.and_then(|index| entries.attempts.get_mut(index)) {
            attempt.outcome = Some(outcome.clone());
        }
        entries.ended.push((id, outcome));
    }
}

/// Writes the journal for one member, and tells the user's own observer.
pub(super) struct Scribe {
    pub(super) around: Surroundings,
    pub(super) user: Option<Arc<dyn Observer>>,
    /// Set by a crash: whatever ends afterwards is not seen by anybody.
    pub(super) dead: AtomicBool,
}

impl Scribe {
    fn user(&self) -> Option<&dyn Observer> {
        self.user.as_deref()
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    fn end(&self, record: &Record, outcome: AttemptOutcome, tell: impl FnOnce(&dyn Observer)) {
        if self.is_dead() {
            return;
        }
        self.around.journal.end(record, outcome);
        if let Some(user) = self.user() {
            tell(user);
        }
    }

    fn tell(&self, tell: impl FnOnce(&dyn Observer)) {
        if let Some(user) = self.user() {
            tell(user);
        }
    }
}

impl Observer for Scribe {
    fn started(&self, record: &Record) {
        self.around.journal.began(record, self.around.since_start());
        self.tell(|user| user.started(record));
    }

    fn done(&self, record: &Record) {
        self.end(record, AttemptOutcome::Done, |user| user.done(record));
    }

    fn skipped(&self, record: &Record) {
        self.end(record, AttemptOutcome::Skipped, |user| user.skipped(record));
    }

    fn dead(&self, record: &Record) {
        self.end(record, AttemptOutcome::DeadLetter, |user| user.dead(record));
    }

    fn failed(&self, record: &Record, error: &str) {
        let outcome = AttemptOutcome::Failed(error.to_owned());
        self.end(record, outcome, |user| user.failed(record, error));
    }

    fn assigned(&self, partition: &TopicPartition) {
        self.tell(|user| user.assigned(partition));
    }

    fn revoked(&self, partition: &TopicPartition) {
        self.tell(|user| user.revoked(partition));
    }

    fn lost(&self, partition: &TopicPartition) {
        self.tell(|user| user.lost(partition));
    }

    fn committed(&self, partition: &TopicPartition, offset: i64, metadata: &str) {
        self.tell(|user| user.committed(partition, offset, metadata));
    }
}
