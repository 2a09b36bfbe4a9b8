//! Assignments come and go: events that are worked through one after the other, while everything else goes on.
//!
//! ```text
//!   Assign --> ask the restorer --> core.assigned, fence, lease --> source.assign
//!   Revoke --> core.revoking --> wait for what runs --> commit --> core.revoked --> source.unassign
//!   Lost   --> core.lost -------------------------------------------------------> source.unassign
//! ```
//!
//! librdkafka delivers nothing of these partitions, and no other rebalance, until its event is answered.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keyway_core::{CommitReason, PartitionSlot, PlanId, Timestamp};

use super::restore::{Found, RestoreAnswer, RestoreJob};
use super::{PollLoop, log_refusal};
use crate::context::Fence;
use crate::kafka::{ClientError, SourceEvent, Start, TopicPartition};
use crate::riders::Assigned;
use crate::workers::guarded;

/// A partition that is assigned and waits for its restore.
type Named = (PartitionSlot, TopicPartition);

/// The rebalance under way, and those behind it.
#[derive(Default)]
pub(super) struct Rebalancing {
    waiting: VecDeque<SourceEvent>,
    stage: Stage,
    /// Partitions assigned and paused, since their restore has no answer yet or has to be made anew.
    late: Vec<Restore>,
    last_job: u64,
    /// The group has given this member what it is to have, be it nothing.
    settled: bool,
}

#[derive(Default)]
enum Stage {
    #[default]
    None,
    Restoring(Restore),
    Revoking {
        partitions: Vec<Named>,
        deadline: Timestamp,
    },
}

/// Partitions whose start the restorer is asked for.
struct Restore {
    /// Under which the answers come; `None` until it is asked.
    job: Option<u64>,
    /// The commit that is to be answered before it is asked.
    behind: Option<PlanId>,
    /// Their topic was made anew while they were assigned.
    new_life: bool,
    cancelled: Arc<AtomicBool>,
    partitions: Vec<Named>,
    since: Timestamp,
    /// Why the latest question had no answer.
    failure: Option<ClientError>,
}

impl Restore {
    fn of(partitions: Vec<Named>, new_life: bool, now: Timestamp) -> Self {
        Self {
            job: None,
            behind: None,
            new_life,
            cancelled: Arc::default(),
            partitions,
            since: now,
            failure: None,
        }
    }
}

impl Rebalancing {
    pub(super) fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::None) || !self.waiting.is_empty() || !self.late.is_empty()
    }

    /// Whether the group has given this member what it is to have; that may be nothing.
    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    fn restores(&self) -> impl Iterator<Item = &Restore> {
        let stage = match &self.stage {
            Stage::Restoring(restore) => Some(restore),
            Stage::None | Stage::Revoking { .. } => None,
        };
        stage.into_iter().chain(&self.late)
    }

    /// Partitions that wait for what the group had committed.
    pub(super) fn restoring(&self) -> Vec<TopicPartition> {
        self.restores()
            .flat_map(|restore| &restore.partitions)
            .map(|(_, name)| name.clone())
            .collect()
    }

    /// For how long the first of them has been waited for.
    pub(super) fn restoring_for(&self, now: Timestamp) -> Option<Duration> {
        let since = self.restores().map(|restore| restore.since).min();
        since.map(|since| now.since(since))
    }

    /// Why the latest question about one of them had no answer.
    pub(super) fn restore_failure(&self) -> Option<&ClientError> {
        self.restores().find_map(|restore| restore.failure.as_ref())
    }

    fn note_failure(&mut self, job: u64, failure: Option<ClientError>) {
        let stage = match &mut self.stage {
            Stage::Restoring(restore) => Some(restore),
            Stage::None | Stage::Revoking { .. } => None,
        };
        let mut restores = stage.into_iter().chain(&mut self.late);
        if let Some(restore) = restores.find(|restore| restore.job == Some(job)) {
            restore.failure = failure;
        }
    }

    fn forget_late(&mut self, slot: PartitionSlot) {
        for late in &mut self.late {
            late.partitions.retain(|(waiting, _)| *waiting != slot);
            if late.partitions.is_empty() {
                late.cancelled.store(true, Ordering::Relaxed);
            }
        }
        self.late.retain(|late| !late.partitions.is_empty());
    }
}

impl PollLoop {
    pub(super) fn take_rebalance(&mut self, event: SourceEvent, now: Timestamp) {
        if matches!(event, SourceEvent::Lost(_)) {
            // Whatever was under way is about a membership that is over.
            self.break_off_stage();
        }
        self.state.rebalancing.waiting.push_back(event);
        self.progress_rebalance(now);
    }

    fn break_off_stage(&mut self) {
        match std::mem::take(&mut self.state.rebalancing.stage) {
            Stage::None => {}
            Stage::Restoring(restore) => restore.cancelled.store(true, Ordering::Relaxed),
            Stage::Revoking { partitions, .. } => self.let_go(&partitions),
        }
    }

    /// Does what can be done now of the rebalance under way.
    pub(super) fn progress_rebalance(&mut self, now: Timestamp) {
        loop {
            match &self.state.rebalancing.stage {
                Stage::None => {
                    let Some(event) = self.state.rebalancing.waiting.pop_front() else {
                        return;
                    };
                    self.begin(event, now);
                }
                Stage::Restoring(_) => return,
                Stage::Revoking { .. } => {
                    if !self.revoke_is_over(now) {
                        return;
                    }
                    if let Stage::Revoking { partitions, .. } =
                        std::mem::take(&mut self.state.rebalancing.stage)
                    {
                        let slots: Vec<_> = partitions.iter().map(|(slot, _)| *slot).collect();
                        let is_clean = self.all_clean(&slots);
                        self.let_go(&partitions);
                        self.unassign(&partitions);
                        if !is_clean && !self.source.is_eager() {
                            self.demote_rest(now);
                        }
                        // What remains is what it is to have, unless an assignment is about to follow.
                        self.state.rebalancing.settled &= !self.source.is_eager();
                    }
                }
            }
        }
    }

    fn begin(&mut self, event: SourceEvent, now: Timestamp) {
        match event {
            SourceEvent::Assign(partitions) if self.state.shutdown.is_some() => {
                tracing::debug!(?partitions, "assigned while stopping: not taken");
                log_refusal(self.source.assign(&[]));
            }
            SourceEvent::Assign(partitions) => self.begin_restore(&partitions, now),
            SourceEvent::Revoke(partitions) => {
                tracing::info!(?partitions, "revoked");
                let partitions = self.known(&partitions);
                for (slot, name) in &partitions {
                    self.state.rebalancing.forget_late(*slot);
                    self.core.revoking(*slot);
                    if let Some(observer) = &self.observer {
                        guarded(|| observer.revoked(name));
                    }
                }
                self.take_all_back(now);
                let deadline = now.after(self.revoke_wait);
                self.state.rebalancing.stage = Stage::Revoking {
                    partitions,
                    deadline,
                };
            }
            SourceEvent::Lost(partitions) => {
                tracing::warn!(
                    ?partitions,
                    "lost: what is not committed runs again elsewhere"
                );
                let partitions = self.known(&partitions);
                for (_, name) in &partitions {
                    if let Some(observer) = &self.observer {
                        guarded(|| observer.lost(name));
                    }
                }
                self.let_go(&partitions);
                self.take_all_back(now);
                self.unassign(&partitions);
                self.state.rebalancing.settled = false;
            }
            _ => {}
        }
    }

    fn known(&self, partitions: &[TopicPartition]) -> Vec<Named> {
        partitions
            .iter()
            .filter_map(|name| Some((self.slots.find(name)?, name.clone())))
            .collect()
    }

    fn begin_restore(&mut self, partitions: &[TopicPartition], now: Timestamp) {
        tracing::info!(?partitions, "assigned");
        let mut named = Vec::with_capacity(partitions.len());
        for name in partitions {
            match self.slots.slot_of(&mut self.core, name) {
                Ok(slot) => named.push((slot, name.clone())),
                Err(reason) => {
                    self.stop_because(reason, now);
                    log_refusal(self.source.assign(&[]));
                    return;
                }
            }
        }
        self.state.denials.assigned(partitions);
        if named.is_empty() {
            log_refusal(self.source.assign(&[]));
            self.state.rebalancing.settled = true;
            self.state.first_assigned.get_or_insert(now);
            return;
        }
        // What the former membership has sent, and is not stored by now, the coordinator refuses.
        let mut restore = Restore::of(named, false, now);
        self.ask_restorer(&mut restore);
        self.state.rebalancing.stage = Stage::Restoring(restore);
    }

    fn ask_restorer(&mut self, restore: &mut Restore) {
        self.state.rebalancing.last_job += 1;
        let id = self.state.rebalancing.last_job;
        restore.job = Some(id);
        let job = RestoreJob {
            id,
            partitions: restore.partitions.clone(),
            new_life: restore.new_life,
            cancelled: Arc::clone(&restore.cancelled),
        };
        // The restorer ends only after this thread.
        let _ = self.restores.send(job);
        self.want_group(id);
    }

    /// Asks for partitions that stay assigned, once the commit is answered that was under way when their assignment
    /// ended.
    pub(super) fn ask_for_late(&mut self) {
        let under_way = self.core.commit_in_flight();
        let is_due = |late: &&mut Restore| {
            late.job.is_none() && (late.behind.is_none() || late.behind != under_way)
        };
        let mut late = std::mem::take(&mut self.state.rebalancing.late);
        for restore in late.iter_mut().filter(is_due) {
            self.ask_restorer(restore);
        }
        self.state.rebalancing.late = late;
    }

    /// Takes what the restorer found, for the assignment under way or for partitions that were late.
    pub(super) fn take_restored(&mut self, answer: RestoreAnswer, now: Timestamp) {
        let failure = answer.failure.clone();
        self.state.rebalancing.note_failure(answer.id, failure);
        if answer.restored.is_empty() {
            return;
        }
        let Some(answer) = self.withhold(answer) else {
            return;
        };
        let mut found = Vec::with_capacity(answer.restored.len());
        for (slot, restored) in answer.restored {
            match restored {
                Ok(restored) => found.push((slot, restored)),
                Err(reason) => self.stop_because(reason, now),
            }
        }
        let is_its = |restore: &Restore| restore.job == Some(answer.id);
        if matches!(&self.state.rebalancing.stage, Stage::Restoring(restore) if is_its(restore)) {
            self.finish_restore(found, now);
        } else {
            self.finish_late(answer.id, found, now);
        }
    }

    fn finish_restore(&mut self, found: Vec<(PartitionSlot, Found)>, now: Timestamp) {
        let Stage::Restoring(Restore {
            job,
            behind,
            new_life,
            cancelled,
            partitions,
            since,
            failure,
        }) = std::mem::take(&mut self.state.rebalancing.stage)
        else {
            return;
        };
        let mut starts = Vec::with_capacity(partitions.len());
        let mut late = Vec::new();
        for (slot, name) in partitions {
            match found.iter().find(|(restored, _)| *restored == slot) {
                Some((_, found)) => starts.push(self.take_over(slot, &name, found, now)),
                None => late.push((slot, name)),
            }
        }
        if self.state.shutdown.is_some() {
            // Stopped meanwhile: nothing of these partitions was started, so they can be given back as they are.
            cancelled.store(true, Ordering::Relaxed);
        }
        // What has no answer yet is assigned as well, since an eager protocol takes one list, and paused before
        // anything of it could be delivered. Its records would be dropped: it has no epoch.
        starts.extend(late.iter().map(|(_, name)| Start {
            tp: name.clone(),
            offset: 0,
            leader_epoch: None,
        }));
        log_refusal(self.source.assign(&starts));
        self.state.rebalancing.settled = true;
        self.state.first_assigned.get_or_insert(now);
        if !late.is_empty() {
            let names: Vec<_> = late.iter().map(|(_, name)| name.clone()).collect();
            tracing::warn!(partitions = ?names, "assigned without these: what the group had committed is not known yet");
            log_refusal(self.source.pause(&names));
            self.state.rebalancing.late.push(Restore {
                job,
                behind,
                new_life,
                cancelled,
                partitions: late,
                since,
                failure,
            });
        }
        if self.state.shutdown.is_some() {
            let names: Vec<_> = starts.iter().map(|start| start.tp.clone()).collect();
            log_refusal(self.source.pause(&names));
        }
    }

    fn finish_late(&mut self, job: u64, found: Vec<(PartitionSlot, Found)>, now: Timestamp) {
        for (slot, restored) in found {
            let waiting = self
                .state
                .rebalancing
                .late
                .iter()
                .find(|late| late.job == Some(job))
                .and_then(|late| late.partitions.iter().find(|(waiting, _)| *waiting == slot));
            let Some((_, name)) = waiting.cloned() else {
                continue;
            };
            self.state.rebalancing.forget_late(slot);
            let start = self.take_over(slot, &name, &restored, now);
            log_refusal(self.source.seek(std::slice::from_ref(&start)));
            if self.state.shutdown.is_none() {
                log_refusal(self.source.resume(&[name]));
            }
        }
    }

    /// Makes a partition this member's: from now on its records run and commits of it are made.
    fn take_over(
        &mut self,
        slot: PartitionSlot,
        name: &TopicPartition,
        found: &Found,
        now: Timestamp,
    ) -> Start {
        let restored = &self.core.gate().behind_effects(slot, name, &found.restored);
        let fence = self.fences.then(|| self.group.member()).flatten();
        let fence = fence
            .and_then(|member| u64::try_from(member.generation).ok())
            .and_then(Fence::new);
        self.member.set_fence(slot, fence);
        self.refuse_discarded(name, restored, now);
        let epoch = self.core.assigned(slot, restored, now);
        self.state
            .identities
            .restored(name, restored.committed, now);
        self.slots.set_epoch(slot, Some(epoch));
        self.owned.add(slot, epoch, restored.rider.clone());
        let state = self.riders.hand_over(&Assigned {
            partition: name.clone(),
            offset: restored.committed.unwrap_or(restored.start).get(),
            rider: restored.rider.clone(),
            map_discarded: found.map_discarded,
        });
        if let Some(state) = state {
            self.core.attach_state(slot, state);
        }
        if self.state.pauses.holds(name) {
            self.core.pause_by_user(slot);
        }
        if let Some(observer) = &self.observer {
            guarded(|| observer.assigned(name));
        }
        let base = self.core.base(slot);
        tracing::debug!(partition = %name, committed = ?restored.committed, from = %base, "restored");
        let leader_epoch = restored
            .leader_epoch
            .filter(|_| restored.committed == Some(base));
        Start {
            tp: name.clone(),
            offset: base.get(),
            leader_epoch,
        }
    }

    /// A partition's position is not in the log any more, or its topic has a new life, or it must not go on from what was
    /// done here: its assignment ends, and it is restored while it stays assigned. What was complete and not committed
    /// runs again.
    pub(super) fn restore_anew(
        &mut self,
        names: &[TopicPartition],
        new_life: bool,
        now: Timestamp,
    ) {
        if self.state.shutdown.is_some() {
            return;
        }
        let restoring = self.state.rebalancing.restoring();
        let mut partitions = self.known(names);
        partitions
            .retain(|(slot, name)| !restoring.contains(name) && self.slots.epoch(*slot).is_some());
        if partitions.is_empty() {
            return;
        }
        self.let_go(&partitions);
        let names: Vec<_> = partitions.iter().map(|(_, name)| name.clone()).collect();
        log_refusal(self.source.pause(&names));
        let mut restore = Restore::of(partitions, new_life, now);
        // It may hold these partitions and be stored only after the question: they would begin from what was committed
        // before it, and their next commit would go back behind it.
        restore.behind = self.core.commit_in_flight();
        self.state.rebalancing.late.push(restore);
        self.ask_for_late();
    }

    /// Whether a revoke has waited enough: for what runs, and for the commit behind it.
    fn revoke_is_over(&mut self, now: Timestamp) -> bool {
        let Stage::Revoking {
            partitions,
            deadline,
        } = &self.state.rebalancing.stage
        else {
            return true;
        };
        let slots: Vec<_> = partitions.iter().map(|(slot, _)| *slot).collect();
        let quiet = slots.iter().all(|slot| self.core.is_quiet(*slot));
        if now < *deadline && !quiet {
            return false;
        }
        // A partition whose commits are denied, as those of a topic that was deleted, holds up no other.
        if slots.iter().all(|slot| self.core.is_settled(*slot)) {
            return true;
        }
        // The commit has as long again: the broker usually answers in milliseconds.
        if now >= deadline.after(self.revoke_wait) {
            tracing::warn!(
                "the last commit before a revoke has no answer in time: what it held may run again"
            );
            return true;
        }
        self.core
            .commit_now(CommitReason::Revoke, Some(&slots), now);
        false
    }

    /// Ends the assignments in the core and among the commits.
    pub(super) fn let_go(&mut self, partitions: &[Named]) {
        for (slot, name) in partitions {
            self.state.identities.left(name, self.core.base(*slot));
            self.state.denials.left(name);
            // The core knows nothing of a partition once it has left, so this is the last moment to see that
            // the end will not have committed it. Before the end is begun nobody asks: whoever has the
            // partition next runs it again.
            self.state.left_uncommitted |=
                self.state.shutdown.is_some() && !self.core.is_committed(*slot);
            self.state.rebalancing.forget_late(*slot);
            self.owned.remove(*slot);
            self.slots.set_epoch(*slot, None);
            self.core.revoked(*slot);
        }
    }

    fn unassign(&mut self, partitions: &[Named]) {
        let names: Vec<_> = partitions.iter().map(|(_, name)| name.clone()).collect();
        log_refusal(self.source.unassign(&names));
    }

    /// Stops at once whatever waits here, for the end.
    pub(super) fn end_rebalancing(&mut self) {
        self.break_off_stage();
        for late in std::mem::take(&mut self.state.rebalancing.late) {
            late.cancelled.store(true, Ordering::Relaxed);
        }
        self.state.rebalancing.waiting.clear();
    }
}
