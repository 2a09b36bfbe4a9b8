//! The reference for one assignment of one partition: what the core ought to know, kept the slow and obvious
//! way, as sets of offsets.

use std::collections::{BTreeMap, BTreeSet};

use keyway_core::{Epoch, Timestamp};
use keyway_offsets::{HoleMap, Offset, OffsetRange};

use crate::record::Lane;
use crate::rider::Tally;

/// A record that is done and not complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) bytes: u32,
    /// It brings something to the state.
    pub(crate) updates: bool,
    /// What its outputs count.
    pub(crate) output_bytes: u32,
}

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
    /// The lanes of all that was received.
    pub(crate) lanes: BTreeMap<i64, Lane>,
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
    /// Done, and complete once their transaction is committed.
    pub(crate) staged: BTreeMap<i64, Done>,
    /// What was at workers when it came out that a record has to run again: it may start before that one runs again.
    pub(crate) ahead: BTreeMap<i64, BTreeSet<i64>>,
    /// Their dead letters are staged, or wait for a further try: the core does not say which.
    pub(crate) letters_of_stage: BTreeSet<i64>,
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
            lanes: BTreeMap::new(),
            unfinished: BTreeMap::new(),
            finished: BTreeSet::new(),
            out: BTreeSet::new(),
            buried: BTreeSet::new(),
            sending: BTreeSet::new(),
            last_sent: BTreeMap::new(),
            letters: BTreeSet::new(),
            staged: BTreeMap::new(),
            ahead: BTreeMap::new(),
            letters_of_stage: BTreeSet::new(),
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
        self.lanes.insert(offset, lane);
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

    /// The lane of a record that was received.
    pub(crate) fn lane_of(&self, offset: i64) -> Lane {
        self.lanes[&offset]
    }

    /// A record is done: it is complete with its transaction.
    pub(crate) fn stage(&mut self, offset: i64, updates: bool, output_bytes: u32) {
        let bytes = self.bytes.get(&offset).copied().unwrap_or_default();
        self.finish(offset);
        self.complete(offset);
        let done = Done {
            bytes,
            updates,
            output_bytes,
        };
        self.staged.insert(offset, done);
    }

    /// What was done did not come about.
    pub(crate) fn reopen(&mut self, offset: i64) {
        let Some(done) = self.staged.remove(&offset) else {
            return;
        };
        self.highest = self.highest_without(&BTreeSet::from([offset]));
        self.incomplete.insert(offset);
        self.bytes.insert(offset, done.bytes);
        self.unfinish(offset);
    }

    /// Its handler was over, and runs again.
    pub(crate) fn unfinish(&mut self, offset: i64) {
        self.finished.remove(&offset);
        let lane = self.lane_of(offset);
        self.unfinished.entry(lane).or_default().insert(offset);
        self.ahead.insert(offset, self.out.clone());
    }

    /// Whether `offset` was on its way when the outputs of `earlier` were refused.
    pub(crate) fn was_ahead(&self, offset: i64, earlier: i64) -> bool {
        let ahead = self.ahead.get(&earlier);
        ahead.is_some_and(|ahead| ahead.contains(&offset))
    }

    /// The highest offset up to the one so far that is complete, if these were not.
    fn highest_without(&self, open: &BTreeSet<i64>) -> i64 {
        let is_hole = |at: i64| {
            let holes = self.restored.holes().iter();
            let mut holes = holes.filter(|hole| hole.first.get() <= at && at <= hole.last.get());
            at >= self.next && holes.next().is_some()
        };
        let is_open = |at: i64| self.incomplete.contains(&at) || open.contains(&at) || is_hole(at);
        let mut highest = self.map().highest();
        while highest >= self.start && is_open(highest) {
            highest -= 1;
        }
        highest
    }

    /// Records that count in the buffers.
    pub(crate) fn buffered(&self) -> usize {
        let done = self.staged.len();
        if self.revoking {
            self.out.len() + self.sending.len() + self.letters.len() + done
        } else {
            self.incomplete.len() + done
        }
    }

    /// The map that a commit made now has to carry.
    pub(crate) fn map(&self) -> HoleMap {
        self.map_of(&BTreeSet::new(), self.highest)
    }

    /// The state with what a transaction brings.
    pub(crate) fn tally_with(&self, covered: &BTreeSet<i64>) -> Tally {
        let mut tally = self.tally.clone();
        let brings = |at: &&i64| self.staged.get(at).is_some_and(|done| done.updates);
        covered.iter().filter(brings).for_each(|at| tally.add(*at));
        tally
    }

    /// The map of a transaction that covers so much of what is staged.
    pub(crate) fn map_covering(&self, covered: &BTreeSet<i64>) -> HoleMap {
        let staged = self.staged.keys().copied();
        let open: BTreeSet<i64> = staged.filter(|at| !covered.contains(at)).collect();
        match open.is_empty() {
            true => self.map(),
            false => self.map_of(&open, self.highest_without(&open)),
        }
    }

    fn map_of(&self, open: &BTreeSet<i64>, highest: i64) -> HoleMap {
        let mut holes: Vec<i64> = self.incomplete.union(open).copied().collect();
        for range in self.restored.holes() {
            holes.extend(range.first.get().max(self.next)..=range.last.get());
        }
        let end = self.next.max(self.restored.highest() + 1);
        let base = holes.first().copied().unwrap_or(end);
        let highest = highest.max(base - 1);
        let offset = |value: i64| Offset::new(value).expect("offsets of a log are not negative");
        let holes = holes
            .into_iter()
            .filter(|hole| *hole <= highest)
            .map(|hole| OffsetRange::single(offset(hole)));
        HoleMap::new(offset(base), highest, holes).expect("holes are sorted and begin at the base")
    }
}
