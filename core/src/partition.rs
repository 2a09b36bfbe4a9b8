//! One partition: what is complete, what is buffered, what the last commit carried.

use std::collections::{BTreeMap, VecDeque};

use keyway_offsets::{HoleMap, Offset, Tracker};

use crate::command::Restored;
use crate::config::BufferConfig;
use crate::ids::{Epoch, LaneIndex, RouteId, Timestamp};
use crate::map_pressure::MapPressure;
use crate::mutant::{Mutant, mutated};
use crate::rider::PartitionRider;
use crate::stage::Staged;
use crate::writes::Written;

/// Where a slot stands in the life of an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not assigned.
    Vacant,
    /// Assigned: records run.
    Assigned,
    /// About to leave: nothing more starts, what runs still counts.
    Revoking,
}

#[derive(Debug)]
pub(crate) struct Partition<P> {
    pub(crate) route: RouteId,
    pub(crate) phase: Phase,
    pub(crate) epoch: Epoch,
    pub(crate) tracker: Tracker,
    pub(crate) leader_epochs: LeaderEpochs,
    pub(crate) committed: CommitState,
    pub(crate) map: MapPressure,
    pub(crate) rider: PartitionRider,
    /// Done, and neither complete nor in a transaction that is under way.
    pub(crate) staged: Vec<Staged<P>>,
    /// Lanes whose first record may run.
    pub(crate) ready: VecDeque<LaneIndex>,
    /// Whether the partition stands in its route's queue.
    pub(crate) in_route_queue: bool,
    /// Lanes that wait for the map, by the offset of their first record.
    pub(crate) behind_map: BTreeMap<Offset, LaneIndex>,
    /// Lanes that wait for a start that the limit leaves.
    pub(crate) behind_limit: Vec<LaneIndex>,
    /// Records received and not complete.
    pub(crate) buffered: usize,
    /// Their bytes.
    pub(crate) buffered_bytes: usize,
    /// Records at workers.
    pub(crate) out: usize,
    /// Records whose last attempt has failed, and that stay as they are.
    pub(crate) on_hold: usize,
    /// Records whose outputs are being sent.
    pub(crate) sends_out: usize,
    /// Dead letters that are being written.
    pub(crate) letters_out: usize,
    /// Dead letters that could not be written and wait for another try.
    pub(crate) letters_waiting: usize,
    /// By back-pressure: nothing is fetched.
    pub(crate) paused: bool,
    /// By the user: nothing is fetched, and nothing starts.
    pub(crate) paused_by_user: bool,
    /// Nothing of it starts before, for the sake of the pace.
    pub(crate) paced_until: Option<Timestamp>,
}

impl<P> Partition<P> {
    pub(crate) fn vacant(route: RouteId) -> Self {
        Self {
            route,
            phase: Phase::Vacant,
            epoch: Epoch::NONE,
            tracker: Tracker::new(Offset::ZERO),
            leader_epochs: LeaderEpochs::default(),
            committed: CommitState::default(),
            map: MapPressure::default(),
            rider: PartitionRider::default(),
            staged: Vec::new(),
            ready: VecDeque::new(),
            in_route_queue: false,
            behind_map: BTreeMap::new(),
            behind_limit: Vec::new(),
            buffered: 0,
            buffered_bytes: 0,
            out: 0,
            on_hold: 0,
            sends_out: 0,
            letters_out: 0,
            letters_waiting: 0,
            paused: false,
            paused_by_user: false,
            paced_until: None,
        }
    }

    /// Begins an assignment.
    pub(crate) fn restore(&mut self, epoch: Epoch, restored: &Restored) {
        let map = match &restored.map {
            Some(map) => map.clip_below(restored.start),
            None => HoleMap::caught_up(restored.start),
        };
        let in_route_queue = self.in_route_queue;
        *self = Self::vacant(self.route);
        self.in_route_queue = in_route_queue;
        self.phase = Phase::Assigned;
        self.epoch = epoch;
        self.tracker = Tracker::restore(&map);
        self.leader_epochs = LeaderEpochs::starting(restored.leader_epoch);
        self.rider = PartitionRider::restored(&restored.rider);
        // What the broker has is what a commit would carry now, unless this is a first position or the log
        // start has moved over it.
        if restored.committed == Some(map.base()) {
            self.committed.stored = Some(self.tracker.version());
        }
    }

    /// Ends the assignment; nothing of it stays.
    pub(crate) fn vacate(&mut self) {
        let in_route_queue = self.in_route_queue;
        *self = Self::vacant(self.route);
        self.in_route_queue = in_route_queue;
    }

    /// How many records wait for an answer to what is written on their account.
    pub(crate) fn writes_out(&mut self, what: Written) -> &mut usize {
        match what {
            Written::Outputs => &mut self.sends_out,
            Written::Letter => &mut self.letters_out,
        }
    }

    /// Whether results of `epoch` still count.
    pub(crate) fn counts(&self, epoch: Epoch) -> bool {
        let own = self.epoch == epoch || mutated(Mutant::LateResultCounts);
        self.phase != Phase::Vacant && own
    }

    /// Whether a commit is due for the sake of this partition.
    pub(crate) fn is_dirty(&self) -> bool {
        self.phase != Phase::Vacant
            && (self.committed.ambiguous > 0
                || self.committed.stored != Some(self.tracker.version()))
    }

    /// Whether it may be let go: nothing is to be committed, and no request of it is under way, which might land on
    /// what its next owner has committed.
    pub(crate) fn is_clean(&self) -> bool {
        self.phase == Phase::Vacant
            || (!self.is_dirty() && self.committed.in_flight.is_none() && !self.owes_rider())
    }

    /// Whether no commit is worth waiting for: commits are denied, or its map has no room.
    pub(crate) fn is_hopeless(&self) -> bool {
        let is_refused = self.committed.denied || self.committed.without_room;
        is_refused && self.committed.in_flight.is_none()
    }

    /// Over a bound of its own.
    pub(crate) fn is_over(&self, bounds: &BufferConfig) -> bool {
        self.buffered >= bounds.partition_records || self.buffered_bytes >= bounds.partition_bytes
    }

    /// Well below its bounds: a quarter of them, so that what a pause threw away is fetched again once for many.
    pub(crate) fn is_well_below(&self, bounds: &BufferConfig) -> bool {
        self.buffered <= bounds.partition_records / 4
            && self.buffered_bytes <= bounds.partition_bytes / 4
    }
}

/// What of a partition's state the broker has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitState {
    /// Version of the tracker that the broker acknowledged.
    pub(crate) stored: Option<u64>,
    /// Version in the plan that is under way.
    pub(crate) in_flight: Option<u64>,
    /// The latest plan covers all of that version: not where a transaction's map had room for a part only.
    pub(crate) covers_all: bool,
    /// When it was last to be planned, no transaction could have told what it makes complete.
    pub(crate) without_room: bool,
    /// The offset in that plan.
    pub(crate) planned_base: Offset,
    /// When that plan was made.
    pub(crate) planned_at: Timestamp,
    /// When the oldest completion came that no acknowledged commit has; [`Timestamp::NEVER`] without one.
    pub(crate) since: Timestamp,
    /// Acknowledged commits still needed, since a request without an answer may land late.
    pub(crate) ambiguous: u8,
    /// Not before this time.
    pub(crate) not_before: Timestamp,
    /// Whether the broker denies commits.
    pub(crate) denied: bool,
}

impl Default for CommitState {
    fn default() -> Self {
        Self {
            stored: None,
            in_flight: None,
            covers_all: true,
            without_room: false,
            planned_base: Offset::ZERO,
            planned_at: Timestamp::ZERO,
            since: Timestamp::NEVER,
            ambiguous: 0,
            not_before: Timestamp::ZERO,
            denied: false,
        }
    }
}

impl CommitState {
    /// The end of the assignment begins: what was denied before is tried once more, at once.
    pub(crate) fn begin_end(&mut self) {
        if self.denied {
            self.denied = false;
            self.not_before = Timestamp::ZERO;
        }
    }

    /// Something was completed.
    pub(crate) fn note_completion(&mut self, now: Timestamp) {
        if self.since == Timestamp::NEVER {
            self.since = now;
        }
    }
}

/// After a commit without an answer: an old request can land behind one newer commit, not behind two that were
/// acknowledged one after the other.
pub(crate) const AMBIGUOUS_COMMITS: u8 = 2;

/// From which offset on which leader epoch applies, for the epochs that a commit may still need.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaderEpochs {
    /// Epoch of the last record below the first entry's offset.
    before: Option<i32>,
    changes: VecDeque<(Offset, i32)>,
}

/// More changes than this inside one window are merged: an older epoch is always a valid, weaker claim.
const KEPT_CHANGES: usize = 64;

impl LeaderEpochs {
    fn starting(epoch: Option<i32>) -> Self {
        Self {
            before: epoch,
            changes: VecDeque::new(),
        }
    }

    /// Notes the epoch of a received record.
    pub(crate) fn note(&mut self, offset: Offset, epoch: Option<i32>) {
        let Some(epoch) = epoch else { return };
        let last = self.changes.back().map(|change| change.1).or(self.before);
        if last.is_some_and(|last| last >= epoch) || self.changes.len() >= KEPT_CHANGES {
            return;
        }
        self.changes.push_back((offset, epoch));
    }

    /// Epoch of the last record below `base`.
    pub(crate) fn below(&self, base: Offset) -> Option<i32> {
        let below = self.changes.iter().take_while(|(offset, _)| *offset < base);
        below.last().map(|change| change.1).or(self.before)
    }

    /// No commit comes any more whose base is lower.
    pub(crate) fn forget_below(&mut self, base: Offset) {
        self.before = self.below(base);
        while self
            .changes
            .front()
            .is_some_and(|(offset, _)| *offset < base)
        {
            self.changes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Offset {
        Offset::new(offset).expect("not negative")
    }

    #[test]
    fn a_commit_carries_the_leader_epoch_of_the_last_record_below_its_base() {
        let mut epochs = LeaderEpochs::starting(Some(3));
        epochs.note(at(10), Some(3));
        epochs.note(at(20), Some(5));
        assert_eq!(epochs.below(at(21)), Some(5));
        // A transaction that covers less comes back to a lower base.
        assert_eq!(epochs.below(at(15)), Some(3));
        assert_eq!(epochs.below(at(20)), Some(3));
        epochs.forget_below(at(21));
        assert_eq!(epochs.below(at(21)), Some(5));
        assert!(epochs.changes.is_empty());
    }

    #[test]
    fn below_the_first_record_that_was_read_no_epoch_is_known() {
        let mut epochs = LeaderEpochs::starting(None);
        epochs.note(at(0), Some(2));
        assert_eq!(epochs.below(at(0)), None);
    }

    #[test]
    fn a_broker_without_leader_epochs_gives_none() {
        let mut epochs = LeaderEpochs::starting(None);
        epochs.note(at(10), None);
        assert_eq!(epochs.below(at(15)), None);
    }
}
