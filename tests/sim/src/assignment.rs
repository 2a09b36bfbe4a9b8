//! The reference for one assignment of one partition: what the core ought to know, kept the slow and obvious
//! way, as sets of offsets.

use std::collections::{BTreeMap, BTreeSet};

use keyway_core::{Epoch, Timestamp};
use keyway_offsets::{HoleMap, Offset, OffsetRange};

use crate::record::Lane;
use crate::rider::Tally;

/// Sets of offsets of one assignment.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// Unique over all members of a run.
    pub(crate) id: u64,
    pub(crate) epoch: Epoch,
    pub(crate) restored: HoleMap,
    pub(crate) start: i64,
    /// One past the highest offset received or known to hold no record.
    pub(crate) next: i64,
    /// The highest offset that finished, or had in the restored commit.
    pub(crate) highest: i64,
    /// What the state that rides beside the map has to be.
    pub(crate) tally: Tally,
    /// Received and not reported as finished.
    pub(crate) incomplete: BTreeSet<i64>,
    /// Their bytes.
    pub(crate) bytes: BTreeMap<i64, u32>,
    /// Received and not finished by a handler of this assignment, by lane.
    pub(crate) unfinished: BTreeMap<Lane, BTreeSet<i64>>,
    /// Finished by a handler of this assignment.
    pub(crate) finished: BTreeSet<i64>,
    /// At a worker, not reported.
    pub(crate) out: BTreeSet<i64>,
    /// No further attempt at them is made: they go to the dead-letter topic.
    pub(crate) buried: BTreeSet<i64>,
    /// Their outputs are being sent.
    pub(crate) sending: BTreeSet<i64>,
    /// The last record of each lane whose outputs were written.
    pub(crate) last_sent: BTreeMap<Lane, i64>,
    /// Their dead letters are being written.
    pub(crate) letters: BTreeSet<i64>,
    /// Held by the gate.
    pub(crate) held: BTreeSet<i64>,
    /// Failed attempts so far that were not forgiven, and the time before which there is no further one.
    pub(crate) retries: BTreeMap<i64, (u32, Timestamp)>,
    /// Base of the latest plan.
    pub(crate) planned_base: Option<Offset>,
    /// About to leave: nothing new starts.
    pub(crate) revoking: bool,
}

impl Assignment {
    pub(crate) fn new(id: u64, epoch: Epoch, restored: HoleMap, start: i64, tally: Tally) -> Self {
        Self {
            id,
            epoch,
            highest: restored.highest_complete(),
            tally,
            restored,
            start,
            next: start,
            incomplete: BTreeSet::new(),
            bytes: BTreeMap::new(),
            unfinished: BTreeMap::new(),
            finished: BTreeSet::new(),
            out: BTreeSet::new(),
            buried: BTreeSet::new(),
            sending: BTreeSet::new(),
            last_sent: BTreeMap::new(),
            letters: BTreeSet::new(),
            held: BTreeSet::new(),
            retries: BTreeMap::new(),
            planned_base: None,
            revoking: false,
        }
    }

    /// Whether the restored commit says that `offset` is complete.
    pub(crate) fn restored_complete(&self, offset: i64) -> bool {
        offset < self.start || Offset::new(offset).is_none_or(|at| self.restored.is_complete(at))
    }

    /// A record arrives; whether it is to be handled.
    pub(crate) fn receive(&mut self, offset: i64, lane: Lane, bytes: u32) -> bool {
        if offset < self.next {
            return false;
        }
        self.next = offset + 1;
        if self.restored_complete(offset) {
            return false;
        }
        self.incomplete.insert(offset);
        self.bytes.insert(offset, bytes);
        self.unfinished.entry(lane).or_default().insert(offset);
        true
    }

    pub(crate) fn position_reached(&mut self, position: i64) {
        self.next = self.next.max(position);
    }

    /// A handler finished the record, or nobody tries it again.
    pub(crate) fn finish(&mut self, offset: i64) {
        self.finished.insert(offset);
        for lane in self.unfinished.values_mut() {
            lane.remove(&offset);
        }
    }

    /// A worker's result arrived: the record is complete.
    pub(crate) fn complete(&mut self, offset: i64) {
        self.incomplete.remove(&offset);
        self.bytes.remove(&offset);
        self.highest = self.highest.max(offset);
    }

    /// Records that count in the buffers.
    pub(crate) fn buffered(&self) -> usize {
        if self.revoking {
            self.out.len() + self.sending.len() + self.letters.len()
        } else {
            self.incomplete.len()
        }
    }

    /// The map that a commit made now has to carry.
    pub(crate) fn map(&self) -> HoleMap {
        let mut holes: Vec<i64> = self.incomplete.iter().copied().collect();
        for range in self.restored.holes() {
            holes.extend(range.first.get().max(self.next)..=range.last.get());
        }
        let end = self.next.max(self.restored.highest() + 1);
        let base = holes.first().copied().unwrap_or(end);
        let highest = self.highest.max(base - 1);
        let offset = |value: i64| Offset::new(value).expect("offsets of a log are not negative");
        let holes = holes
            .into_iter()
            .filter(|hole| *hole <= highest)
            .map(|hole| OffsetRange::single(offset(hole)));
        HoleMap::new(offset(base), highest, holes).expect("holes are sorted and begin at the base")
    }
}
