//! The judge of runs: reads what happened and says which promise was broken, where, and at which line.
//!
//! ```text
//!   produced records ---.
//!   event logs, merged --+--> judge --> Tally, or the Violations
//!   commits before/after '      |
//!                               '-- loss | order | overlap | replay | repeats | base | committed     one file each
//! ```
//!
//! Each invariant sees every event once, in the order of happening, and keeps only the state that it needs. What counts
//! as finished is `done` or `dead`; what a commit covers is everything below its offset and everything complete in its
//! map. The promises are those of the commit protocol: finished work in an acknowledged commit never runs again, nothing
//! is committed that was not finished, records of one key run in order and one at a time.
//!
//! Exactly once is judged from the topics, not from the logs: [`outputs`].

mod absence;
mod base;
mod committed;
mod coverage;
mod lane;
mod loss;
mod order;
pub mod outputs;
mod overlap;
mod repeats;
mod replay;
#[cfg(test)]
mod world;

use std::collections::BTreeSet;
use std::fmt;

use keyway_offsets::{HoleMap, Offset};

use crate::cluster;
use crate::event_log::{Event, EventLog, Kind};

pub use absence::{held, set_apart};
pub use lane::Ordering;

/// A partition of a topic.
pub type Place = (String, i32);

/// What there is to judge.
#[derive(Debug, Default)]
pub struct Evidence {
    /// All logs of all members, merged.
    pub log: EventLog,
    /// Every record that has to be handled.
    pub produced: BTreeSet<(Place, Offset)>,
    /// What the group had committed before the first event.
    pub before: Vec<Commit>,
    /// What the broker holds after the last one.
    pub after: Vec<Commit>,
}

/// A committed offset and its metadata, from the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The partition.
    pub place: Place,
    /// The committed offset.
    pub offset: Offset,
    /// The text, as bytes.
    pub metadata: Vec<u8>,
}

impl Evidence {
    /// Evidence from these logs, for a topic in which these records were produced.
    pub fn of(
        logs: impl IntoIterator<Item = EventLog>,
        topic: &str,
        produced: &[cluster::Produced],
    ) -> Evidence {
        let at = |record: &cluster::Produced| {
            Some((
                (topic.to_owned(), record.partition),
                Offset::new(record.offset)?,
            ))
        };
        let produced = produced.iter().filter_map(at).collect();
        Evidence {
            log: EventLog::merge(logs),
            produced,
            ..Evidence::default()
        }
    }

    /// With what the group had committed before the first event.
    pub fn before(mut self, topic: &str, committed: &[cluster::Committed]) -> Evidence {
        self.before.extend(
            committed
                .iter()
                .filter_map(|committed| Commit::of(topic, committed)),
        );
        self
    }

    /// With what the broker holds after the last event.
    pub fn after(mut self, topic: &str, committed: &[cluster::Committed]) -> Evidence {
        self.after.extend(
            committed
                .iter()
                .filter_map(|committed| Commit::of(topic, committed)),
        );
        self
    }
}

impl Commit {
    /// The commit's map, or why its text is none.
    fn map(&self) -> Result<HoleMap, String> {
        coverage::of(self.offset, &self.metadata)
    }

    fn of(topic: &str, committed: &cluster::Committed) -> Option<Commit> {
        let offset = Offset::new(committed.offset)?;
        Some(Commit {
            place: (topic.to_owned(), committed.partition),
            offset,
            metadata: committed.metadata.clone(),
        })
    }
}

/// What was promised for the run.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// What runs one after the other.
    pub ordering: Ordering,
    /// Records of one lane may start together in a batch.
    pub batches: bool,
    /// The run was to handle everything: each produced record is finished at the end. Otherwise only what is
    /// committed has to be.
    pub finished: bool,
    /// The run ended in good order: what it finished is committed, too. Not when its end was a crash.
    pub committed: bool,
    /// Lanes are judged across members. Not where a handler may outlive the revocation of its partition, as with a
    /// paused process.
    pub across_members: bool,
    /// Maps may have been stripped or discarded: then the *last* commit alone says what must not run again.
    pub maps_may_be_lost: bool,
    /// Whoever lets a partition go in good order has committed all that it finished. Not where the broker may be away
    /// for longer than a revoke or an end waits for it.
    pub only_crashes_repeat: bool,
}

impl Rules {
    /// By key, without batches, everything finished, the strict reading of all else; commits at the end are not asked for.
    pub const STRICT: Rules = Rules {
        ordering: Ordering::Key,
        batches: false,
        finished: true,
        committed: false,
        across_members: true,
        maps_may_be_lost: false,
        only_crashes_repeat: false,
    };
}

impl Default for Rules {
    /// [`Rules::STRICT`].
    fn default() -> Self {
        Rules::STRICT
    }
}

/// The promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Invariant {
    /// Everything is finished, and nothing is committed as complete that was not.
    NoLoss,
    /// In a lane, a record starts only when all earlier ones are finished, and first starts follow the offsets.
    Order,
    /// In a lane, one record runs at a time.
    NoOverlap,
    /// What was finished and committed as complete does not start again.
    NoReplay,
    /// Finished work runs again only after a crash or a loss.
    OnlyCrashesRepeat,
    /// A committed base never goes down within an assignment.
    BaseRises,
    /// After an end in good order everything finished is committed.
    AllCommitted,
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// Where.
    pub place: Place,
    /// The record, or the committed offset.
    pub offset: Offset,
    /// The event that broke it, by its index in the merged log; `None` at the end of all.
    pub event: Option<usize>,
    /// How.
    pub detail: String,
}

impl Violation {
    /// What a person looks at first: all that happened to the record, the comings and goings of its partition, and the
    /// last commits of it before.
    pub fn history(&self, log: &EventLog) -> String {
        const COMMITS: usize = 3;
        let until = self.event.map_or(log.events.len(), |event| event + 1);
        let mut lines = Vec::new();
        let mut commits = 0;
        for event in log.events[..until].iter().rev() {
            let here = (event.topic.as_str(), event.partition) == (&self.place.0, self.place.1);
            let shown = match event.kind {
                Kind::Killed => true,
                Kind::Assigned | Kind::Revoked | Kind::Lost => here,
                Kind::Committed => {
                    commits += usize::from(here);
                    here && commits <= COMMITS
                }
                _ => here && event.offset == Some(self.offset),
            };
            if shown {
                let Event {
                    ns,
                    kind,
                    member,
                    metadata,
                    ..
                } = event;
                let offset = event.offset.map_or(-1, Offset::get);
                lines.push(format!(
                    "    {:.3} s {kind:?} {member} {offset} {metadata}\n",
                    *ns as f64 / 1e9
                ));
            }
        }
        lines.into_iter().rev().collect()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (topic, partition) = &self.place;
        write!(
            f,
            "{:?} {topic}[{partition}]@{}: {}",
            self.invariant, self.offset, self.detail
        )?;
        match self.event {
            Some(event) => write!(f, " (event {event})"),
            None => Ok(()),
        }
    }
}

/// What occurred, for scenarios that assert that what they are about did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Attempts.
    pub starts: usize,
    /// Distinct records that were finished.
    pub finished: usize,
    /// First attempts of records that had been finished before: repeated after a crash.
    pub repeated: usize,
    /// Acknowledged commits of partitions.
    pub commits: usize,
    /// Of these, commits with a map.
    pub maps: usize,
    /// Members that were killed.
    pub kills: usize,
    /// Partitions assigned.
    pub assignments: usize,
}

/// All broken promises of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// In the order of happening, at least one.
    pub violations: Vec<Violation>,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 20;
        writeln!(f, "{} violations", self.violations.len())?;
        self.violations
            .iter()
            .take(SHOWN)
            .try_for_each(|violation| writeln!(f, "  {violation}"))
    }
}

impl std::error::Error for Verdict {}

/// One promise: it sees each event in turn, and then the end.
trait Check {
    fn event(&mut self, index: usize, event: &Event, found: &mut Vec<Violation>);
    fn end(&mut self, _after: &[Commit], _found: &mut Vec<Violation>) {}
}

/// Judges a run.
///
/// # Errors
/// With every violation, in the order of happening.
pub fn judge(evidence: &Evidence, rules: &Rules) -> Result<Tally, Verdict> {
    let mut checks: [Box<dyn Check>; 7] = [
        Box::new(loss::NoLoss::new(evidence, rules)),
        Box::new(order::Order::new(rules)),
        Box::new(overlap::NoOverlap::new(rules)),
        Box::new(replay::NoReplay::new(evidence, rules)),
        Box::new(repeats::OnlyCrashesRepeat::new(rules)),
        Box::new(base::BaseRises::default()),
        Box::new(committed::AllCommitted::new(evidence, rules)),
    ];
    let mut violations = Vec::new();
    for (index, event) in evidence.log.events.iter().enumerate() {
        checks
            .iter_mut()
            .for_each(|check| check.event(index, event, &mut violations));
    }
    checks
        .iter_mut()
        .for_each(|check| check.end(&evidence.after, &mut violations));
    match violations.is_empty() {
        true => Ok(tally(&evidence.log)),
        false => Err(Verdict { violations }),
    }
}

fn tally(log: &EventLog) -> Tally {
    let mut finished = BTreeSet::new();
    let mut tally = Tally::default();
    for event in &log.events {
        let record = || (event.topic.as_str(), event.partition, event.offset);
        match event.kind {
            Kind::Start => {
                tally.starts += 1;
                tally.repeated += usize::from(event.attempt <= 1 && finished.contains(&record()));
            }
            Kind::Done | Kind::Dead => drop(finished.insert(record())),
            Kind::Committed => {
                tally.commits += 1;
                tally.maps += usize::from(!event.metadata.is_empty());
            }
            Kind::Killed => tally.kills += 1,
            Kind::Assigned => tally.assignments += 1,
            Kind::Failed
            | Kind::Retry
            | Kind::Revoked
            | Kind::Lost
            | Kind::Held
            | Kind::Released => {}
        }
    }
    tally.finished = finished.len();
    tally
}
