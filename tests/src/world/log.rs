//! What all members of a world did, in the order of happening.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use keyway::{Observer, Record, TopicPartition};
use keyway_offsets::Offset;

use crate::event_log::{Event, EventLog, Kind};

/// One log for all members.
#[derive(Default)]
pub(super) struct Log {
    seen: Mutex<Seen>,
    buried: Condvar,
}

/// What happened so far.
#[derive(Default)]
pub struct Seen {
    events: Vec<Event>,
    finished: BTreeSet<(i32, i64, String)>,
    finished_by: BTreeMap<String, usize>,
    starts: BTreeMap<(i32, i64), usize>,
    killed: BTreeSet<String>,
    /// Killed, and their engines may not have noticed yet.
    dying: BTreeSet<String>,
}

impl Seen {
    /// All of it, first to last.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// How many different records are finished.
    pub fn finished(&self) -> usize {
        self.finished.len()
    }

    /// How often this member has finished a record.
    pub fn finished_by(&self, member: &str) -> usize {
        self.finished_by.get(member).copied().unwrap_or_default()
    }

    /// Whether the record is finished, in whichever topic.
    pub fn has_finished(&self, partition: i32, offset: i64) -> bool {
        let first = (partition, offset, String::new());
        self.finished
            .range(first..)
            .next()
            .is_some_and(|found| (found.0, found.1) == (partition, offset))
    }

    /// How often the record's handler was started.
    pub fn starts(&self, partition: i32, offset: i64) -> usize {
        self.starts
            .get(&(partition, offset))
            .copied()
            .unwrap_or_default()
    }

    /// Every record of which an attempt was started, in order.
    pub fn started(&self) -> Vec<(i32, i64)> {
        self.starts.keys().copied().collect()
    }

    /// The highest offset of the partition that was started.
    pub fn highest_started(&self, partition: i32) -> Option<i64> {
        let of = self
            .starts
            .range((partition, i64::MIN)..=(partition, i64::MAX));
        of.last().map(|(&(_, offset), _)| offset)
    }

    /// What this member started, in the order of starting.
    pub fn started_by(&self, member: &str) -> Vec<(i32, i64)> {
        let of = |event: &&Event| event.kind == Kind::Start && event.member == member;
        let place = |event: &Event| Some((event.partition, event.offset?.get()));
        self.events.iter().filter(of).filter_map(place).collect()
    }

    /// How many events of this kind this member had.
    pub fn count(&self, kind: Kind, member: &str) -> usize {
        let of = |event: &&Event| event.kind == kind && event.member == member;
        self.events.iter().filter(of).count()
    }

    /// The partitions that this member has now.
    pub fn held_by(&self, member: &str) -> BTreeSet<i32> {
        let mut held = BTreeSet::new();
        for event in self.events.iter().filter(|event| event.member == member) {
            match event.kind {
                Kind::Assigned => drop(held.insert(event.partition)),
                Kind::Revoked | Kind::Lost => drop(held.remove(&event.partition)),
                _ => {}
            }
        }
        held
    }

    /// Every text that was committed, in order.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let commits = self
            .events
            .iter()
            .filter(|event| event.kind == Kind::Committed);
        commits.map(|event| event.metadata.as_str())
    }

    /// As the judge reads it.
    pub fn as_log(&self) -> EventLog {
        EventLog {
            events: self.events.clone(),
        }
    }

    fn note(&mut self, event: Event) {
        if self.killed.contains(&event.member) {
            return;
        }
        if let Some(offset) = event.offset.map(Offset::get) {
            let (topic, partition) = (&event.topic, event.partition);
            match event.kind {
                Kind::Start => *self.starts.entry((partition, offset)).or_default() += 1,
                Kind::Done | Kind::Dead => {
                    self.finished.insert((partition, offset, topic.clone()));
                    *self.finished_by.entry(event.member.clone()).or_default() += 1;
                }
                _ => {}
            }
        }
        self.events.push(event);
    }
}

impl fmt::Display for Seen {
    /// The end of it, for a person who looks for the reason of a failure.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 30;
        writeln!(
            f,
            "{} finished, by member {:?}; the last events:",
            self.finished(),
            self.finished_by
        )?;
        let from = self.events.len().saturating_sub(SHOWN);
        self.events[from..]
            .iter()
            .try_for_each(|event| writeln!(f, "  {event:?}"))
    }
}

impl Log {
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The member is gone as after a crash: nothing of it is written any more.
    pub(super) fn kill(&self, member: &str) {
        let mut seen = self.seen();
        seen.note(event(Kind::Killed, member));
        seen.killed.insert(member.to_owned());
        seen.dying.insert(member.to_owned());
    }

    /// The killed member's engine is gone, so that its threads may end.
    pub(super) fn bury(&self, member: &str) {
        self.seen().dying.remove(member);
        self.buried.notify_all();
    }

    /// A thread of a killed process goes nowhere: as long as the member's engine lives, what its handlers finish must
    /// not reach it, or it would be committed without a line here.
    fn seen_by_handler(&self, member: &str) -> MutexGuard<'_, Seen> {
        let seen = self.seen();
        self.buried
            .wait_while(seen, |seen| seen.dying.contains(member))
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn event(kind: Kind, member: &str) -> Event {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Event {
        ns: u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX),
        kind,
        member: member.to_owned(),
        topic: String::new(),
        partition: 0,
        offset: None,
        key: None,
        attempt: 1,
        metadata: String::new(),
    }
}

/// Writes for one member.
pub(super) struct Scribe {
    pub(super) log: Arc<Log>,
    pub(super) member: String,
}

impl Scribe {
    fn record(&self, kind: Kind, record: &Record) {
        let mut event = event(kind, &self.member);
        event.topic = record.topic().to_owned();
        event.partition = record.partition();
        event.offset = Offset::new(record.offset());
        event.key = record.key().map(<[u8]>::to_vec);
        event.attempt = record.attempt();
        self.log.seen_by_handler(&self.member).note(event);
    }

    fn partition(&self, kind: Kind, partition: &TopicPartition) -> Event {
        let mut event = event(kind, &self.member);
        event.topic = partition.topic.to_string();
        event.partition = partition.partition;
        event
    }
}

impl Observer for Scribe {
    fn started(&self, record: &Record) {
        self.record(Kind::Start, record);
    }

    fn done(&self, record: &Record) {
        self.record(Kind::Done, record);
    }

    fn dead(&self, record: &Record) {
        self.record(Kind::Dead, record);
    }

    fn failed(&self, record: &Record, _error: &str) {
        self.record(Kind::Failed, record);
    }

    fn assigned(&self, partition: &TopicPartition) {
        self.log
            .seen()
            .note(self.partition(Kind::Assigned, partition));
    }

    fn revoked(&self, partition: &TopicPartition) {
        self.log
            .seen()
            .note(self.partition(Kind::Revoked, partition));
    }

    fn lost(&self, partition: &TopicPartition) {
        self.log.seen().note(self.partition(Kind::Lost, partition));
    }

    fn committed(&self, partition: &TopicPartition, offset: i64, metadata: &str) {
        let mut event = self.partition(Kind::Committed, partition);
        event.offset = Offset::new(offset);
        event.metadata = metadata.to_owned();
        self.log.seen().note(event);
    }
}
