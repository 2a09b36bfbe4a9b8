//! The members: `keyway run --causal` as processes, each life with an event log of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use keyway_tests::checker::held;
use keyway_tests::command::Running;
use keyway_tests::event_log::{EventLog, Kind, note_killed};
use keyway_tests::random::Random;
use keyway_tests::wait;
use keyway_tests::world::Protocol;

use super::chains::{CONSUMED, Forum, PARTITIONS};
use crate::crew::{PATIENCE, pass};

/// Partitions of all topics that the group consumes.
const ALL: usize = PARTITIONS as usize * CONSUMED;

/// Milliseconds until the logs are read again, all of them: more often would take a core from those who write them.
const BETWEEN_READS: u64 = 200;

/// A group over the topics of a forum.
pub(crate) struct Members<'f> {
    forum: &'f Forum<'f>,
    pub(crate) group: String,
    protocol: Protocol,
    work: u64,
    directory: Option<tempfile::TempDir>,
    seats: Vec<Seat>,
}

#[derive(Default)]
struct Seat {
    lives: Vec<Life>,
    running: Option<Running>,
}

/// One process.
pub(crate) struct Life {
    pub(crate) events: PathBuf,
    /// Before its process was made: wall clock, nanoseconds since 1970.
    pub(crate) since: u64,
}

impl<'f> Members<'f> {
    pub(crate) fn new(forum: &'f Forum<'f>, protocol: Protocol, random: &mut Random) -> Self {
        Members {
            forum,
            group: forum.cluster.unique("group"),
            protocol,
            work: random.below(2..20),
            directory: Some(tempfile::tempdir().expect("a place for temporary files")),
            seats: Vec::new(),
        }
    }

    /// A place for one process after another.
    pub(crate) fn seat(&mut self) -> usize {
        self.seats.push(Seat::default());
        self.seats.len() - 1
    }

    pub(crate) fn start(&mut self, seat: usize) {
        let directory = self.directory.as_ref().expect("it is not kept yet");
        let name = format!("events-{seat}-{}", self.seats[seat].lives.len());
        let events = directory.path().join(name);
        let mut words: Vec<String> = [
            "run",
            "--causal",
            "--brokers",
            self.forum.cluster.bootstrap(),
            "--group",
            &self.group,
            "--handler",
            &format!("sleep:{}ms", self.work),
            "--commit-interval",
            "100ms",
            "--output",
            self.forum.topics.out(),
            "--events",
            events.to_str().expect("a path of text"),
        ]
        .map(str::to_owned)
        .into();
        for topic in self.forum.topics.consumed() {
            words.extend(["--topic".to_owned(), topic.clone()]);
        }
        let properties: &[&str] = match self.protocol {
            Protocol::Range => &["partition.assignment.strategy=range"],
            Protocol::Cooperative => &["partition.assignment.strategy=cooperative-sticky"],
            Protocol::Consumer => &["group.protocol=consumer"],
        };
        let times: &[&str] = match self.protocol {
            // These are the broker's.
            Protocol::Consumer => &[],
            _ => &["session.timeout.ms=6000", "heartbeat.interval.ms=300"],
        };
        for property in properties.iter().chain(times) {
            words.extend(["-X".to_owned(), (*property).to_owned()]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default().as_nanos() as u64;
        let place = &mut self.seats[seat];
        place.lives.push(Life { events, since });
        place.running = Some(Running::start(&words));
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self, seat: usize) {
        let seat = &mut self.seats[seat];
        let mut running = seat.running.take().expect("a running member");
        assert_eq!(running.ended(), None, "it ended by itself");
        running.kill();
        note_killed(&seat.lives.last().expect("it was started").events);
    }

    /// Sends SIGTERM and waits for its end in good order.
    pub(crate) fn leave(&mut self, seat: usize) {
        let running = self.seats[seat].running.take().expect("a running member");
        running.signal("TERM");
        let end = running.join(PATIENCE);
        let life = self.seats[seat].lives.last().expect("it was started");
        let lost = EventLog::read(&life.events).count(Kind::Lost);
        assert!(
            end.success() || lost > 0,
            "not an orderly end, and it had lost nothing: {end}"
        );
    }

    /// Whoever still runs leaves.
    pub(crate) fn end(&mut self) {
        for seat in 0..self.seats.len() {
            if self.seats[seat].running.is_some() {
                self.leave(seat);
            }
        }
    }

    pub(crate) fn lives(&self) -> impl Iterator<Item = &Life> {
        self.seats.iter().flat_map(|seat| &seat.lives)
    }

    /// Waits until every partition is with a running member, and each of those has some.
    pub(crate) fn until_shared_out(&mut self) {
        let all = wait::try_until(PATIENCE, || {
            pass(BETWEEN_READS);
            let held = self.held();
            let is_shared = held.iter().all(|held| *held > 0) && held.iter().sum::<usize>() == ALL;
            is_shared.then_some(())
        });
        assert!(all.is_some(), "they hold {:?} of {ALL}", self.held());
    }

    fn held(&mut self) -> Vec<usize> {
        let running = self.seats.iter_mut().enumerate().filter_map(|(at, seat)| {
            let running = seat.running.as_mut()?;
            if let Some(end) = running.ended() {
                panic!("the member of seat {at} ended by itself: {end}");
            }
            let log = EventLog::read(&seat.lives.last()?.events);
            let last = log.events.last();
            Some(last.map_or(0, |last| held(&log.events, &last.member).len()))
        });
        running.collect()
    }

    /// Waits until all that was written is done.
    pub(crate) fn until_all_done(&mut self, records: usize) {
        let all = wait::try_until(PATIENCE, || {
            pass(BETWEEN_READS);
            (self.done() >= records).then_some(())
        });
        self.held();
        assert!(
            all.is_some(),
            "{} of {records} done: held for ever?",
            self.done()
        );
    }

    fn done(&self) -> usize {
        let mut done = BTreeMap::<String, BTreeSet<(i32, i64)>>::new();
        for life in self.lives() {
            for event in EventLog::read(&life.events).events {
                if let (Kind::Done, Some(offset)) = (event.kind, event.offset) {
                    let of = done.entry(event.topic).or_default();
                    of.insert((event.partition, offset.get()));
                }
            }
        }
        done.values().map(BTreeSet::len).sum()
    }

    /// The logs outlive a test that fails; where they are.
    pub(crate) fn keep_logs(&mut self) -> PathBuf {
        let directory = self.directory.take().expect("kept once");
        let kept = directory.keep();
        fs::canonicalize(&kept).unwrap_or(kept)
    }
}

impl Drop for Members<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && self.directory.is_some() {
            println!("the logs are in {}", self.keep_logs().display());
        }
    }
}
