//! From tracker to commit: one plan at a time, made from one snapshot.
//!
//! A plan carries, for each partition, the base and the map of one moment. Whatever completes later belongs to
//! the next plan, so a success that races a commit is never missed. The answer is judged partition by
//! partition, because the broker may store a part of a request.

use std::time::Duration;

use keyway_offsets::Limits;
use keyway_rider::most_bytes;

use crate::command::{
    Command, CommitAnswer, CommitFinished, CommitPlan, CommitReason, PartitionAnswer,
    PartitionPlan, StopCause,
};
use crate::core::Core;
use crate::gate::Gate;
use crate::ids::{Epoch, PartitionSlot, PlanId, Timestamp};
use crate::mutant::{Mutant, mutated};
use crate::partition::{AMBIGUOUS_COMMITS, Partition, Phase};
use crate::rider::PlannedRider;
use crate::stage::{Cover, StageOrder, Transaction, beside_rider};

/// What was complete and not committed at one moment.
#[derive(Clone, Debug)]
pub struct CommitMark(Vec<(PartitionSlot, Epoch, u64)>);

/// What is known of commits over all partitions.
#[derive(Debug)]
pub(crate) struct Commits {
    /// Limits as learned from the broker.
    pub(crate) limits: Limits,
    in_flight: Option<PlanId>,
    last_id: u64,
    /// When the next periodic commit is due.
    next_at: Timestamp,
    /// Something may have changed since the last plan.
    changed: bool,
}

impl Commits {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            in_flight: None,
            last_id: 0,
            next_at: Timestamp::ZERO,
            changed: false,
        }
    }

    pub(crate) fn note_change(&mut self) {
        self.changed = true;
    }

    pub(crate) fn make_due(&mut self, now: Timestamp) {
        self.changed = true;
        self.next_at = self.next_at.min(now);
    }
}

/// What waits for a person, or for the group, is tried again at the commit interval; with a longer one after this,
/// since a coordinator may only not have heard of a new topic.
const DENIED_WAIT: Duration = Duration::from_secs(10);

/// A text that the broker refused was this much too long at least: the cap learned is seven eighths of it, so
/// that a handful of refusals finds any cap and the next text is not refused for a single character.
const LEARNED_CAP: (usize, usize) = (7, 8);

impl<P, G: Gate<P>> Core<P, G> {
    /// When the next periodic commit has to be planned.
    pub(crate) fn commit_deadline(&self) -> Timestamp {
        let free = self.commits.in_flight.is_none() || mutated(Mutant::TwoPlans);
        if self.commits.changed && free {
            self.commits.next_at
        } else {
            Timestamp::NEVER
        }
    }

    /// Whether a plan is waiting for its answer.
    pub fn commit_in_flight(&self) -> Option<PlanId> {
        self.commits.in_flight
    }

    /// What is complete now and not committed yet, so that it can be asked later whether it is.
    pub fn mark(&self) -> CommitMark {
        let dirty = self
            .partitions
            .iter()
            .enumerate()
            .filter(|(_, partition)| partition.is_dirty());
        CommitMark(
            dirty
                .map(|(index, part)| {
                    (
                        PartitionSlot(index as u32),
                        part.epoch,
                        part.tracker.version(),
                    )
                })
                .collect(),
        )
    }

    /// Whether all of `mark` is committed, or has left this member.
    pub fn is_stored(&self, mark: &CommitMark) -> bool {
        mark.0.iter().all(|(slot, epoch, version)| {
            let partition = &self.partitions[slot.index()];
            !partition.counts(*epoch)
                || partition
                    .committed
                    .stored
                    .is_some_and(|stored| stored >= *version)
        })
    }

    /// Whether the broker has all that is complete in the partition.
    pub fn is_committed(&self, slot: PartitionSlot) -> bool {
        !self.partitions[slot.index()].is_dirty()
    }

    /// Whether the broker has all that is complete.
    pub fn is_all_committed(&self) -> bool {
        self.partitions
            .iter()
            .all(|partition| !partition.is_dirty())
    }

    /// A partition is committed once more although the broker has all of it: the answer tells whether it would take
    /// more. Nothing when some partition has something to commit anyway.
    pub fn commit_again(&mut self, now: Timestamp) {
        if self.partitions.iter().any(Partition::is_dirty) {
            return;
        }
        let mut assigned = self.partitions.iter_mut();
        if let Some(partition) = assigned.find(|partition| partition.phase == Phase::Assigned) {
            partition.committed.stored = None;
            self.commits.make_due(now);
        }
    }

    /// Whether nothing is left to commit of the partition, and no request of it is under way: it may be let go.
    pub fn is_clean(&self, slot: PartitionSlot) -> bool {
        let is_whole = !self.gate.owes_rider(slot) && !self.has_come_back(slot);
        self.partitions[slot.index()].is_clean() && is_whole
    }

    /// Whether no commit of the partition is worth waiting for at its end: nothing is left to commit, or the broker has
    /// denied it since the end began ([`Core::revoking`], [`Core::begin_stop`], [`Core::begin_drain`]), as for a topic
    /// that was deleted, or there is no transaction that could tell it.
    pub fn is_settled(&self, slot: PartitionSlot) -> bool {
        self.is_clean(slot) || self.partitions[slot.index()].is_hopeless()
    }

    /// Whether no commit at all is worth waiting for at the end.
    pub fn is_all_settled(&self) -> bool {
        self.slots().all(|slot| self.is_settled(slot))
    }

    /// Whether all partitions may be let go.
    pub fn is_all_clean(&self) -> bool {
        self.slots().all(|slot| self.is_clean(slot))
    }

    fn slots(&self) -> impl Iterator<Item = PartitionSlot> + use<P, G> {
        (0..self.partitions.len() as u32).map(PartitionSlot)
    }

    /// Whether the partition is to be committed for the sake of what rides beside its map, though nothing else has
    /// changed.
    fn owes_rider(&self, slot: PartitionSlot) -> bool {
        self.partitions[slot.index()].owes_rider() || self.gate.owes_rider(slot)
    }

    /// Whether the partition has something to commit.
    fn has_to_commit(&self, slot: PartitionSlot) -> bool {
        self.partitions[slot.index()].is_dirty() || self.owes_rider(slot)
    }

    /// Until when a commit of everything has to wait for the sake of one that was refused.
    fn cut_waits_until(&self, now: Timestamp) -> Option<Timestamp> {
        let waits = self.slots().filter(|slot| self.has_to_commit(*slot));
        let waits = waits.map(|slot| self.partitions[slot.index()].committed.not_before);
        waits.filter(|until| *until > now).max()
    }

    pub(crate) fn plan_if_due(&mut self, now: Timestamp) {
        if now >= self.commit_deadline() {
            self.commits.next_at = match self.plan(CommitReason::Periodic, None, now) {
                Some(_) => now.after(self.config.commit.interval),
                // What is dirty has to wait, and there is nothing to look at before the first has waited.
                None => self
                    .first_retry(now)
                    .unwrap_or(now.after(self.config.commit.interval)),
            };
        }
    }

    fn first_retry(&self, now: Timestamp) -> Option<Timestamp> {
        if self.gate.keeps_cut() {
            return self.cut_waits_until(now);
        }
        let dirty = self.slots().filter(|slot| self.has_to_commit(*slot));
        dirty
            .map(|slot| self.partitions[slot.index()].committed.not_before)
            .min()
    }

    /// Plans a commit now, of all partitions or of `slots`, whether or not the interval has passed. Gives the
    /// plan's number, or `None` when nothing is to be committed or a plan is under way still.
    pub fn commit_now(
        &mut self,
        reason: CommitReason,
        slots: Option<&[PartitionSlot]>,
        now: Timestamp,
    ) -> Option<PlanId> {
        if self.commits.in_flight.is_some() {
            return None;
        }
        self.plan(reason, slots, now)
    }

    fn plan(
        &mut self,
        reason: CommitReason,
        slots: Option<&[PartitionSlot]>,
        now: Timestamp,
    ) -> Option<PlanId> {
        let riders = self.config.riders;
        let refreshes = slots.is_none() && self.take_refresh(now);
        let keeps_cut = self.gate.keeps_cut() && !mutated(Mutant::SplitCut);
        if keeps_cut && self.cut_waits_until(now).is_some() {
            self.commits.changed = true;
            return None;
        }
        if !self.gate.riders_fit(most_bytes(&self.commits.limits)) {
            return None;
        }
        // What completed before must not be left out, wherever it is.
        let slots = slots.filter(|_| !keeps_cut);
        let bound = match self.config.commit.transactional && keeps_cut {
            true => self.closed_bound(),
            false => StageOrder::END,
        };
        let (mut partitions, mut staged) = (Vec::new(), Vec::new());
        let (mut left_dirty, mut stays_staged) = (false, false);
        for (index, partition) in self.partitions.iter_mut().enumerate() {
            let slot = PartitionSlot(index as u32);
            let rider_only = !partition.is_dirty();
            let owes_rider = partition.owes_rider() || self.gate.owes_rider(slot);
            if rider_only && !owes_rider && !(refreshes && partition.wants_refresh()) {
                continue;
            }
            if !rider_only && reason == CommitReason::Refresh {
                // Its commit comes at its own time.
                left_dirty = true;
                continue;
            }
            if slots.is_some_and(|slots| !slots.contains(&slot))
                || partition.committed.not_before > now
            {
                left_dirty |= !rider_only || owes_rider;
                continue;
            }
            let cover = match self.config.commit.transactional {
                true => {
                    let limits = beside_rider(self.commits.limits, self.gate.rider_chars(slot));
                    partition.cover(&limits, bound)
                }
                false => Some(Cover {
                    map: partition.tracker.snapshot(),
                    staged: Vec::new(),
                    is_all: true,
                }),
            };
            partition.committed.without_room = cover.is_none();
            partition.committed.covers_all = cover.as_ref().is_some_and(|cover| cover.is_all);
            stays_staged |= !partition.committed.covers_all;
            let Some(Cover {
                mut map,
                staged: covered,
                ..
            }) = cover
            else {
                partition.committed.not_before = now.after(self.config.commit.backoff);
                left_dirty = true;
                continue;
            };
            if let Err((offset, fault)) = partition.rider.begin_transaction(&covered) {
                self.commands.push_back(Command::StateLost {
                    slot,
                    offset,
                    fault,
                });
            }
            // The version is read with the snapshot: offset, map and version are one moment.
            if let (true, Some(hole)) = (mutated(Mutant::BaseFromLater), map.holes().first()) {
                map = map.clip_below(hole.last.next());
            }
            partition.committed.in_flight = Some(partition.tracker.version());
            partition.committed.planned_at = now;
            partition.committed.planned_base = map.base();
            let rider = self.gate.rider(slot);
            let rider = rider.map_or_else(|| partition.rider.planned(riders), PlannedRider::Gate);
            partitions.push(PartitionPlan {
                rider,
                rider_only,
                slot,
                epoch: partition.epoch,
                leader_epoch: partition.leader_epochs.below(map.base()),
                map,
            });
            staged.push(covered);
        }
        self.commits.changed = left_dirty;
        if stays_staged {
            self.make_room_on_stage(now);
        }
        if partitions.is_empty() {
            return None;
        }
        self.commits.last_id += 1;
        let id = PlanId(self.commits.last_id);
        self.commits.in_flight = Some(id);
        self.counters.plans += 1;
        let plan = CommitPlan {
            id,
            reason,
            limits: self.commits.limits,
            partitions,
        };
        self.commands
            .push_back(match self.config.commit.transactional {
                true => Command::Transact(Transaction { plan, staged }),
                false => Command::Commit(plan),
            });
        Some(id)
    }

    /// Event: the answer to the plan that was under way.
    pub fn commit_finished(&mut self, finished: &CommitFinished, now: Timestamp) {
        if self.commits.in_flight != Some(finished.plan) {
            return;
        }
        self.commits.in_flight = None;
        let mut stored = false;
        for answer in &finished.partitions {
            stored |= answer.answer == CommitAnswer::Stored;
            self.take_answer(answer, now);
        }
        if stored {
            self.counters.commits += 1;
            if self.gate.keeps_cut() && !mutated(Mutant::TornCutStays) {
                self.mend_cut(finished, now);
            }
        }
        self.fill_all(now);
        self.plan_if_due(now);
    }

    /// The broker may have stored a part of the plan: an effect, and not its cause. The rest is sent again at once, and
    /// where that has no use the member stops.
    fn mend_cut(&mut self, finished: &CommitFinished, now: Timestamp) {
        for answer in &finished.partitions {
            let partition = &mut self.partitions[answer.slot.index()];
            if !partition.counts(answer.epoch) {
                continue;
            }
            match answer.answer {
                CommitAnswer::Stored | CommitAnswer::Unchanged => {}
                CommitAnswer::Repeat | CommitAnswer::TooLarge | CommitAnswer::Unknown => {
                    partition.committed.not_before = now;
                    self.commits.make_due(now);
                }
                CommitAnswer::Superseded | CommitAnswer::MemberLost | CommitAnswer::Denied => {
                    let slot = answer.slot;
                    self.commands
                        .push_back(Command::Stop(StopCause::CutTorn { slot }));
                }
            }
        }
    }

    fn take_answer(&mut self, answer: &PartitionAnswer, now: Timestamp) {
        let commit = self.config.commit;
        let mut cap_learned = false;
        let partition = &mut self.partitions[answer.slot.index()];
        if partition.phase == Phase::Vacant || partition.epoch != answer.epoch {
            return;
        }
        let state = &mut partition.committed;
        let version = state.in_flight.take();
        partition.rider.note_answer(answer.answer);
        let is_stored = answer.answer == CommitAnswer::Stored;
        let has_rider = is_stored || answer.answer == CommitAnswer::Unchanged;
        self.gate.rider_answered(answer.slot, has_rider);
        if is_stored {
            self.gate.committed(answer.slot, state.planned_base);
        }
        state.denied = answer.answer == CommitAnswer::Denied;
        match answer.answer {
            CommitAnswer::Stored => {
                if state.covers_all {
                    state.stored = version;
                }
                if mutated(Mutant::VersionAtAnswer) {
                    state.stored = Some(partition.tracker.version());
                }
                state.ambiguous = state.ambiguous.saturating_sub(1);
                partition.leader_epochs.forget_below(state.planned_base);
                // What came after the snapshot came at the plan's time or later.
                state.since = match version == Some(partition.tracker.version()) {
                    _ if !state.covers_all => state.since,
                    true => Timestamp::NEVER,
                    false => state.since.max(state.planned_at),
                };
                if answer.stripped {
                    self.counters.maps_stripped += 1;
                }
            }
            CommitAnswer::Unchanged => {}
            CommitAnswer::Repeat => state.not_before = now.after(commit.backoff),
            CommitAnswer::TooLarge => {
                let guessed = answer.chars * LEARNED_CAP.0 / LEARNED_CAP.1;
                let cap = answer.takes.unwrap_or(guessed);
                let limits = self.commits.limits;
                if cap < limits.cap_chars && !mutated(Mutant::LearnedCapIgnored) {
                    // What a rider has made too long says nothing about the maps.
                    self.commits.limits = match answer.chars > answer.inner_chars {
                        true => limits.capped_at(cap),
                        false => limits.lowered_to(cap),
                    };
                    self.counters.caps_learned += 1;
                    cap_learned = true;
                }
            }
            CommitAnswer::Unknown => {
                // Whatever the broker stores of it may land later than what is sent next.
                state.ambiguous = AMBIGUOUS_COMMITS;
                state.stored = None;
                if mutated(Mutant::AmbiguousIsStored) {
                    (state.ambiguous, state.stored) = (0, version);
                }
                if mutated(Mutant::AmbiguousNeedsOne) {
                    state.ambiguous = 1;
                }
                state.not_before = now.after(commit.backoff);
            }
            CommitAnswer::Denied | CommitAnswer::Superseded | CommitAnswer::MemberLost => {
                let wait = commit.interval.max(commit.backoff).min(DENIED_WAIT);
                state.not_before = now.after(wait);
            }
        }
        if answer.answer != CommitAnswer::Stored && mutated(Mutant::RefusalForgotten) {
            partition.committed.stored = version;
        }
        if partition.is_dirty() || partition.owes_rider() || self.gate.owes_rider(answer.slot) {
            self.commits.changed = true;
            let retry_at = partition.committed.not_before.max(now);
            let settled = matches!(
                answer.answer,
                CommitAnswer::Stored | CommitAnswer::Unchanged
            );
            if !settled || partition.committed.ambiguous > 0 {
                self.commits.next_at = self.commits.next_at.min(retry_at);
            }
        }
        if cap_learned {
            for index in 0..self.partitions.len() {
                self.judge_map(PartitionSlot(index as u32), now);
            }
        } else {
            self.judge_map(answer.slot, now);
        }
    }
}
