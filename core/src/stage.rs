//! Exactly once: what is done waits on the stage of its partition until a transaction makes it complete, together with
//! what it has to write.
//!
//! ```text
//!   handler over --> stage --Transact--> committed: complete
//!                      ^        |
//!                      +-- aborted: back on the stage, as it was
//!                      |
//!   lane <-------------'-- refused by the broker: an attempt that failed
//! ```
//!
//! A record on the stage holds no lane and no worker: the next of its lane may run. For the tracker it is complete
//! already, so that the hole map of the next transaction is the tracker's; where that map would not fit, the transaction
//! covers less, the lowest offsets first.

use std::collections::{BTreeMap, BTreeSet};

use keyway_offsets::{HoleMap, Limits, Offset, plain_text_len};
use keyway_rider::{CommitMap, Update};

use crate::command::{CommitAnswer, CommitFinished, CommitPlan, PartitionAnswer};
use crate::core::Core;
use crate::dead_letter::DeadLetter;
use crate::gate::Gate;
use crate::ids::{LaneId, PartitionSlot, Timestamp};
use crate::mutant::{Mutant, mutated};
use crate::output::Sending;
use crate::partition::Partition;
use crate::work::{TaskRef, Verdict};

/// What a record that is done writes with its transaction.
#[derive(Debug, PartialEq, Eq)]
pub enum Carried<P> {
    /// Nothing.
    Nothing,
    /// The outputs that its payload carries. It goes back to its lane when they are refused.
    Outputs(P),
    /// Its dead letter.
    Letter {
        /// What goes into the letter.
        payload: P,
        /// Which try at writing it: 1 for the first under this assignment.
        tries: u32,
    },
}

/// A record that is done, and complete once its transaction is committed.
#[derive(Debug, PartialEq, Eq)]
pub struct Staged<P> {
    /// Which record.
    pub at: TaskRef,
    /// What it writes.
    pub carried: Carried<P>,
    /// What its outputs count against [`BufferConfig::output_bytes`](crate::BufferConfig::output_bytes).
    pub bytes: u32,
    /// Set by whoever carries the transaction out: the broker refuses what this record writes, and would again.
    pub refused: bool,
    /// What it brings to the state of its partition.
    update: Option<Update>,
    /// Its lane, which may have another place in the table when it comes back to it.
    lane: LaneId,
    /// When it was first staged, beside the others of all partitions.
    order: StageOrder,
}

/// The order in which records are first staged, over all partitions. What a record caused, by way of this member, is staged
/// behind it: so everything before one point of the order is closed under causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StageOrder(u64);

impl StageOrder {
    /// Behind all that is ever staged.
    pub(crate) const END: Self = Self(u64::MAX);
}

/// What is known of the order.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    last: u64,
    /// Records that were staged, and run again since the broker has refused what they write: what was staged behind them
    /// may be their effect.
    came_back: BTreeMap<(PartitionSlot, Offset), StageOrder>,
}

/// A commit whose offsets and outputs are stored together or not at all.
#[derive(Debug)]
pub struct Transaction<P> {
    /// The offsets with their maps.
    pub plan: CommitPlan,
    /// What each partition of the plan covers, in the order in which it is to be written.
    pub staged: Vec<Vec<Staged<P>>>,
}

/// What a record without outputs counts in the buffers while it is staged: its place on the stage.
const WITHOUT_OUTPUTS: u32 = 64;

/// From this part of a bound on, what is staged is committed at once and not at the interval: the other parts are for
/// what is staged meanwhile.
const COMMITTED_EARLY: usize = 4;

/// What one partition gives to a transaction.
pub(crate) struct Cover<P> {
    pub(crate) map: HoleMap,
    pub(crate) staged: Vec<Staged<P>>,
    /// Nothing stays on the stage.
    pub(crate) is_all: bool,
}

impl<P> Partition<P> {
    /// Takes off the stage what a transaction of this moment covers, of what was staged before `bound`: all of it, or as
    /// many of the lowest records as the map can tell from the rest. `None` when it can tell not even one, or there is a
    /// map without room although nothing is staged: that is never stripped here, since it keeps outputs from being written
    /// again.
    pub(crate) fn cover(&mut self, limits: &Limits, bound: StageOrder) -> Option<Cover<P>> {
        let map = self.tracker.snapshot();
        if (bound == StageOrder::END && fits(&map, limits)) || mutated(Mutant::CoverWithoutRoom) {
            let staged = std::mem::take(&mut self.staged);
            return Some(Cover {
                map,
                staged,
                is_all: true,
            });
        }
        let most = self.coverable(limits, bound)?;
        let map = self.map_with(most);
        let staged: Vec<_> = self.staged.drain(..most).collect();
        Some(Cover {
            map,
            staged,
            is_all: self.staged.is_empty(),
        })
    }

    /// How many can be covered of what was staged before `bound`, with these in front of the stage afterwards. `None` when
    /// the map has no room for any, or there is none and what is committed says the same.
    fn coverable(&mut self, limits: &Limits, bound: StageOrder) -> Option<usize> {
        self.staged
            .sort_by_key(|staged| (staged.order >= bound, staged.at.offset));
        let all = self.staged.partition_point(|staged| staged.order < bound);
        if fits(&self.map_with(all), limits) {
            return Some(all);
        }
        let (mut most, mut too_many) = (0, all);
        while too_many - most > 1 {
            let middle = most + (too_many - most) / 2;
            match fits(&self.map_with(middle), limits) {
                true => most = middle,
                false => too_many = middle,
            }
        }
        (most > 0).then_some(most)
    }

    /// The earliest of what was staged before `bound` and can't be covered.
    fn first_left(&mut self, limits: &Limits, bound: StageOrder) -> Option<StageOrder> {
        let most = self.coverable(limits, bound).unwrap_or(0);
        let left = self.staged[most..].iter().map(|staged| staged.order);
        left.filter(|order| *order < bound).min()
    }

    /// The map with so many of what is staged, and no more.
    fn map_with(&self, covered: usize) -> HoleMap {
        if covered == self.staged.len() {
            return self.tracker.snapshot();
        }
        let mut tracker = self.tracker.clone();
        let rest = self.staged[covered..].iter();
        tracker.reopen(rest.map(|staged| staged.at.offset));
        tracker.snapshot()
    }
}

/// What a map may have where a rider of the gate takes so many characters beside it.
pub(crate) fn beside_rider(limits: Limits, chars: usize) -> Limits {
    match chars {
        0 => limits,
        chars => limits.capped_at(limits.cap_chars.saturating_sub(chars)),
    }
}

fn fits(map: &HoleMap, limits: &Limits) -> bool {
    let is_plain = map.span() <= limits.max_window && plain_text_len(map) <= limits.cap_chars;
    is_plain || !CommitMap::new(map, limits).is_stripped()
}

impl<P, G: Gate<P>> Core<P, G> {
    /// Whether outputs and offsets are committed together.
    pub(crate) fn is_transactional(&self) -> bool {
        self.config.commit.transactional
    }

    /// The handler has outputs, and they go with a transaction.
    pub(crate) fn stage_outputs(&mut self, outputs: Sending<P>, now: Timestamp) {
        let Sending {
            at,
            payload,
            update,
            bytes,
            ..
        } = outputs;
        self.totals.output_bytes += bytes as usize;
        self.stage(at, Carried::Outputs(payload), update, bytes, now);
    }

    /// The record is done: it is complete with its transaction, and its lane is free.
    pub(crate) fn stage(
        &mut self,
        mut at: TaskRef,
        carried: Carried<P>,
        update: Option<Update>,
        bytes: u32,
        now: Timestamp,
    ) {
        if matches!(carried, Carried::Nothing) {
            let freed = at.bytes.saturating_sub(WITHOUT_OUTPUTS);
            at.bytes -= freed;
            self.partitions[at.slot.index()].buffered_bytes -= freed as usize;
            self.totals.bytes -= freed as usize;
        }
        let lane = self.lanes.get(at.lane).id;
        let order = self.staging.order_of((at.slot, at.offset));
        self.totals.staged += 1;
        self.totals.staged_bytes += at.bytes as usize;
        self.partitions[at.slot.index()].staged.push(Staged {
            at,
            carried,
            bytes,
            refused: false,
            update,
            lane,
            order,
        });
        self.settle(&at, now);
        if self.stage_is_filling(at.slot) {
            self.commits.make_due(now);
        }
    }

    fn stage_is_filling(&self, slot: PartitionSlot) -> bool {
        let bounds = &self.config.buffers;
        let staged = self.partitions[slot.index()].staged.len();
        let is_much = |what: usize, bound: usize| what >= (bound / COMMITTED_EARLY).max(1);
        is_much(staged, bounds.partition_records)
            || is_much(self.totals.staged, bounds.total_records)
            || is_much(self.totals.staged_bytes, bounds.total_bytes)
            || is_much(self.totals.output_bytes, bounds.output_bytes)
    }

    /// Up to where of the stage a transaction may go, so that no effect is in it without its cause: nothing that was staged
    /// behind a record which can't be covered, or has come back.
    pub(crate) fn closed_bound(&mut self) -> StageOrder {
        let came_back = self.staging.came_back.values().min();
        let mut bound = came_back.copied().unwrap_or(StageOrder::END);
        loop {
            let mut first_left = bound;
            for index in 0..self.partitions.len() {
                if self.partitions[index].staged.is_empty() {
                    continue;
                }
                let chars = self.gate.rider_chars(PartitionSlot(index as u32));
                let limits = beside_rider(self.commits.limits, chars);
                let left = self.partitions[index].first_left(&limits, bound);
                first_left = first_left.min(left.unwrap_or(bound));
            }
            if first_left == bound {
                return bound;
            }
            bound = first_left;
        }
    }

    /// Whether records of the partition have come back from the stage and are not staged again: what was staged behind
    /// them must not be committed without them.
    pub(crate) fn has_come_back(&self, slot: PartitionSlot) -> bool {
        let of_slot = (slot, Offset::ZERO)..=(slot, Offset::MAX);
        self.staging.came_back.range(of_slot).next().is_some()
    }

    /// Nothing of the partition's stage is written any more: whoever has it next runs these records again.
    pub(crate) fn drop_stage(&mut self, slot: PartitionSlot) {
        self.staging.came_back.retain(|(its, _), _| *its != slot);
        for staged in std::mem::take(&mut self.partitions[slot.index()].staged) {
            self.take_off(&staged);
            self.forget_total(staged.at.bytes);
        }
    }

    /// Event: the answer to the transaction that was under way, which brings back what it carried. Either all of it is
    /// stored or nothing is. An answer about a partition is never [`CommitAnswer::Unknown`]: whoever carries the
    /// transaction out has found out.
    pub fn transaction_finished(
        &mut self,
        finished: &CommitFinished,
        staged: Vec<Vec<Staged<P>>>,
        now: Timestamp,
    ) {
        if self.commit_in_flight() != Some(finished.plan) {
            return;
        }
        for (answer, staged) in finished.partitions.iter().zip(staged) {
            self.take_back_staged(answer, staged, now);
        }
        self.commit_finished(finished, now);
    }

    fn take_back_staged(
        &mut self,
        answer: &PartitionAnswer,
        staged: Vec<Staged<P>>,
        now: Timestamp,
    ) {
        let partition = &mut self.partitions[answer.slot.index()];
        if !partition.counts(answer.epoch) {
            // Whoever has the partition now has restored it, and knows better whether they are complete.
            for staged in &staged {
                self.take_off(staged);
                self.counters.late_results += 1;
                self.forget_total(staged.at.bytes);
            }
            return;
        }
        let is_stored = answer.answer == CommitAnswer::Stored || mutated(Mutant::AbortIsStored);
        partition.rider.end_transaction(is_stored);
        if is_stored {
            for staged in &staged {
                self.take_off(staged);
                match staged.carried {
                    Carried::Nothing => {}
                    Carried::Outputs(_) => self.counters.sent += 1,
                    Carried::Letter { .. } => self.counters.dead_letters += 1,
                }
                self.count_complete(&staged.at);
            }
            return;
        }
        // In front of what has been staged since, so that records of one lane stay in their order.
        let (refused, mut aborted): (Vec<_>, Vec<_>) =
            staged.into_iter().partition(|staged| staged.refused);
        aborted.append(&mut partition.staged);
        partition.staged = aborted;
        if !refused.is_empty() {
            self.send_back(answer.slot, refused, now);
        }
    }

    /// It is not on a stage any more, nor in a transaction.
    fn take_off(&mut self, staged: &Staged<P>) {
        self.totals.staged -= 1;
        self.totals.staged_bytes -= staged.at.bytes as usize;
        self.totals.output_bytes -= staged.bytes as usize;
    }

    /// What can't be expressed and takes all the room for outputs runs again later, so that the lowest record, which would
    /// shorten the map, finds room.
    pub(crate) fn make_room_on_stage(&mut self, now: Timestamp) {
        if self.totals.output_bytes < self.config.buffers.output_bytes {
            return;
        }
        for index in 0..self.partitions.len() {
            let slot = PartitionSlot(index as u32);
            if self.partitions[index].committed.covers_all {
                continue;
            }
            let stage = std::mem::take(&mut self.partitions[index].staged);
            let (back, stays) = stage
                .into_iter()
                .partition(|staged| matches!(staged.carried, Carried::Outputs(_)));
            self.partitions[index].staged = stays;
            self.send_back(slot, back, now);
        }
    }

    /// Sends records back to their lanes: those whose outputs were refused as failed attempts, those whose dead letters
    /// were to be tried again. Outputs of what comes after them in their lane are made anew, behind theirs.
    fn send_back(&mut self, slot: PartitionSlot, mut back: Vec<Staged<P>>, now: Timestamp) {
        let mut first_of: BTreeMap<LaneId, Offset> = BTreeMap::new();
        for staged in &back {
            let first = first_of.entry(staged.lane).or_insert(staged.at.offset);
            *first = (*first).min(staged.at.offset);
        }
        let partition = &mut self.partitions[slot.index()];
        let (behind, stays): (Vec<_>, Vec<_>) = std::mem::take(&mut partition.staged)
            .into_iter()
            .partition(|staged| {
                let first = first_of.get(&staged.lane);
                matches!(staged.carried, Carried::Outputs(_))
                    && first.is_some_and(|first| staged.at.offset > *first)
                    && !mutated(Mutant::LaterOutputsStay)
            });
        partition.staged = stays;
        back.extend(behind);
        back.sort_by_key(|staged| staged.at.offset);
        partition
            .tracker
            .reopen(back.iter().map(|staged| staged.at.offset));
        self.settle_gate(slot);
        self.judge_map(slot, now);
        let mut lanes = BTreeSet::new();
        for staged in back {
            lanes.insert(staged.lane);
            self.send_one_back(staged, now);
        }
        let route = self.partitions[slot.index()].route;
        for lane in lanes {
            let index = self.lanes.find_or_make(lane, slot);
            self.settle_lane(route, index, now);
        }
        self.commits.note_change();
    }

    fn send_one_back(&mut self, staged: Staged<P>, now: Timestamp) {
        self.take_off(&staged);
        if self.gate.keeps_cut() {
            let record = (staged.at.slot, staged.at.offset);
            self.staging.came_back.insert(record, staged.order);
        }
        let slot = staged.at.slot;
        let index = self.lanes.find_or_make(staged.lane, slot);
        self.put_aside(index);
        // Nothing of the lane follows until all that is out of it has come back, and no outputs of that are taken.
        self.lanes.get_mut(index).note_failed(staged.at.offset);
        let at = TaskRef {
            lane: index,
            ..staged.at
        };
        let route = self.partitions[slot.index()].route;
        match staged.carried {
            // There is nothing in it to refuse: it never comes here.
            Carried::Nothing => self.stage(at, Carried::Nothing, staged.update, 0, now),
            Carried::Outputs(payload) if staged.refused => {
                self.counters.sends_failed += 1;
                let after = None;
                let verdict = Verdict::Failed { payload, after };
                self.take_verdict(route, at, verdict, 0, false, now);
            }
            Carried::Outputs(payload) => self.await_outputs(Sending {
                at,
                payload,
                update: staged.update,
                bytes: staged.bytes,
                held_back: true,
            }),
            Carried::Letter { payload, tries } => {
                self.counters.dead_letters_failed += 1;
                self.put_letter_back(at, payload, tries, now);
            }
        }
    }

    /// The letter goes with a transaction.
    pub(crate) fn stage_letter(&mut self, letter: DeadLetter<P>, now: Timestamp) {
        let DeadLetter { at, payload, tries } = letter;
        self.stage(at, Carried::Letter { payload, tries }, None, 0, now);
    }
}

impl Staging {
    /// The place of a record that is staged now: the one that it had, where it has come back from there.
    fn order_of(&mut self, record: (PartitionSlot, Offset)) -> StageOrder {
        self.came_back.remove(&record).unwrap_or_else(|| {
            self.last += 1;
            StageOrder(self.last)
        })
    }
}

impl<P> Staged<P> {
    pub(crate) fn update(&self) -> Option<&Update> {
        self.update.as_ref()
    }
}
