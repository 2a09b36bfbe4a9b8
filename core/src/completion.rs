//! From worker back to tracker: what a report changes.
//!
//! A result counts only under the assignment that its record was received in. Completion has two steps, the
//! handler's end and the acknowledgement of its outputs; a handler without outputs takes both at once. In transactions
//! the second step is the transaction's, for every record: see `stage`.

use std::time::Duration;

use keyway_rider::Update;

use crate::command::{Command, StopCause};
use crate::config::Shape;
use crate::core::Core;
use crate::dead_letter::DeadLetter;
use crate::gate::Gate;
use crate::ids::{LaneIndex, RouteId, Timestamp, WorkerIndex};
use crate::lanes::{LaneState, Waiting};
use crate::mutant::{Mutant, mutated};
use crate::output::Sending;
use crate::pace::LET_THROUGH;
use crate::partition::Phase;
use crate::retry::Exhausted;
use crate::stage::Carried;
use crate::work::{Finished, Report, Task, TaskRef, Verdict};

impl<P, G: Gate<P>> Core<P, G> {
    /// Event: a worker reports. The emptied vector comes back for reuse.
    pub fn completed(&mut self, report: Report<P>, now: Timestamp) -> Vec<Finished<P>> {
        let Report {
            route,
            worker,
            mut finished,
            busy,
            slow,
            batch_failed,
        } = report;
        let forgiven = self.note_in_circuit(route, &finished, batch_failed, now);
        let state = &mut self.routes[route.index()];
        let is_batch = state.config.batch.is_some();
        let attempts = finished
            .iter()
            .filter(|finished| !matches!(finished.verdict, Verdict::Returned { .. }))
            .count();
        state.service.observe(attempts as u32, busy, slow);
        self.note_output_bytes(&finished, attempts);
        let state = &mut self.routes[route.index()];
        match worker {
            Some(worker) => {
                state.give_back(worker, finished.len() as u32);
                self.retire_if_empty(route, worker);
            }
            None if is_batch => state.runs = state.runs.saturating_sub(1),
            None => {}
        }
        let together = match batch_failed {
            true => attempts as u32,
            false => 0,
        };
        for result in finished.drain(..) {
            self.take_result(route, result, together, forgiven, now);
        }
        self.after_results(route, now);
        finished
    }

    /// Event: these tasks were taken back from a worker whose running attempt takes long. Nothing is queued
    /// there until it reports.
    pub fn taken_back(
        &mut self,
        route: RouteId,
        worker: WorkerIndex,
        tasks: &mut Vec<Task<P>>,
        now: Timestamp,
    ) {
        self.counters.taken_back += tasks.len() as u64;
        self.routes[route.index()].give_back(worker, tasks.len() as u32);
        // Cleared by the report of what still runs there; with nothing left none would come.
        let state = &mut self.routes[route.index()].workers[worker.index()];
        state.stuck = state.held > 0;
        self.retire_if_empty(route, worker);
        for Task { at, payload } in tasks.drain(..) {
            let result = Finished {
                at,
                verdict: Verdict::Returned { payload },
            };
            self.take_result(route, result, 0, false, now);
        }
        self.after_results(route, now);
    }

    fn retire_if_empty(&mut self, route: RouteId, worker: WorkerIndex) {
        let state = &self.routes[route.index()].workers[worker.index()];
        if state.retired && state.held == 0 {
            self.commands.push_back(Command::Retire { route, worker });
        }
    }

    pub(crate) fn after_results(&mut self, route: RouteId, now: Timestamp) {
        self.pass_gate(now);
        if std::mem::take(&mut self.waits_for_outputs) {
            // In turn, so that one route does not take all the room there is.
            self.pacing.serve_after(route, self.routes.len());
            self.fill_all(now);
        } else {
            self.fill(route, now);
            self.flush(route);
        }
        self.plan_if_due(now);
    }

    fn take_result(
        &mut self,
        route: RouteId,
        result: Finished<P>,
        together: u32,
        forgiven: bool,
        now: Timestamp,
    ) {
        let Finished { at, verdict } = result;
        self.totals.out -= 1;
        self.lanes.get_mut(at.lane).out -= 1;
        if at.attempt == 1 && matches!(verdict, Verdict::Returned { .. }) {
            // It was never started, whatever has become of its assignment.
            if let Some(left) = &mut self.starts_left {
                *left += 1;
                self.queue_behind_limit(now);
            }
        }
        let dropped = mutated(Mutant::RevokeDropsCompletions)
            && self.partitions[at.slot.index()].phase == Phase::Revoking;
        if self.partitions[at.slot.index()].counts(at.epoch) && !dropped {
            self.partitions[at.slot.index()].out -= 1;
            self.take_verdict(route, at, verdict, together, forgiven, now);
        } else {
            self.counters.late_results += 1;
            // Its worker has closed the lane all the same.
            let started = !matches!(verdict, Verdict::Returned { .. });
            self.lanes.get_mut(at.lane).failed |= started && verdict.closes_lane();
            self.forget_total(at.bytes);
        }
        self.after_result(route, at.lane, now);
    }

    /// What a result of the running assignment means for its record. `together` is how many records failed as one
    /// batch, 0 for a result of its own; `forgiven`, whether
    /// a failure spends no attempt.
    pub(crate) fn take_verdict(
        &mut self,
        route: RouteId,
        at: TaskRef,
        verdict: Verdict<P>,
        together: u32,
        forgiven: bool,
        now: Timestamp,
    ) {
        match verdict {
            Verdict::Done => self.done(at, None, now),
            Verdict::DoneWith(update) => self.done(at, Some(update), now),
            Verdict::Outputs {
                payload,
                update,
                bytes,
            } => {
                let sending = Sending {
                    at,
                    payload,
                    update,
                    bytes,
                    held_back: false,
                };
                self.send(sending, now);
            }
            Verdict::Staged {
                payload,
                update,
                bytes,
            } => {
                let sending = Sending {
                    at,
                    payload,
                    update,
                    bytes,
                    held_back: self.is_behind_a_failure(&at),
                };
                match sending.held_back {
                    true => self.await_outputs(sending),
                    false => self.stage_outputs(sending, now),
                }
            }
            Verdict::Skipped => {
                self.counters.skipped += 1;
                self.done(at, None, now);
            }
            Verdict::Failed { payload, after } => {
                self.counters.failed += 1;
                let policy = self.routes[route.index()].config.retry;
                if forgiven {
                    let delay = after.unwrap_or_else(|| policy.delay(&at));
                    self.give_starts_back(u64::from(at.attempt == 1), now);
                    // The attempt that comes next has the number of this one.
                    let at = TaskRef {
                        attempt: at.attempt.saturating_sub(1),
                        ..at
                    };
                    self.fail(at, payload, delay, together, now);
                    return;
                }
                // Of a batch that failed as a whole nobody knows which record was to blame: it is made smaller
                // first, until one stands alone.
                if policy.is_last(at.attempt) && together <= 1 {
                    self.give_up(policy.exhausted, at, payload, now);
                } else {
                    let delay = after.unwrap_or_else(|| policy.delay(&at));
                    self.fail(at, payload, delay, together, now);
                }
            }
            Verdict::GiveUp { payload } => {
                self.counters.failed += 1;
                let policy = self.routes[route.index()].config.retry;
                self.give_up(policy.exhausted, at, payload, now);
            }
            Verdict::DeadLetter { payload } => {
                self.counters.failed += 1;
                self.give_up(Exhausted::DeadLetter, at, payload, now);
            }
            Verdict::Stop { payload, reason } => {
                self.commands.push_back(Command::Stop(StopCause::Handler {
                    slot: at.slot,
                    offset: at.offset,
                    reason,
                }));
                self.fail(at, payload, Duration::MAX, together, now);
            }
            Verdict::Returned { payload } => {
                self.keep(Waiting {
                    passed: LET_THROUGH,
                    ..Waiting::new(Task { at, payload })
                });
            }
        }
    }

    /// The last attempt has failed.
    fn give_up(&mut self, exhausted: Exhausted, at: TaskRef, payload: P, now: Timestamp) {
        self.counters.exhausted += 1;
        let route = self.partitions[at.slot.index()].route;
        match exhausted {
            Exhausted::DeadLetter if self.routes[route.index()].config.dead_letters => {
                // Its worker has closed the lane.
                self.lanes.get_mut(at.lane).failed = true;
                let letter = DeadLetter {
                    at,
                    payload,
                    tries: 1,
                };
                self.write_dead_letter(letter, now);
            }
            Exhausted::Skip => {
                self.counters.skipped += 1;
                // Its worker has closed the lane all the same.
                self.lanes.get_mut(at.lane).failed = true;
                self.commands.push_back(Command::PassedOver { at, payload });
                self.done(at, None, now);
            }
            Exhausted::Hold | Exhausted::DeadLetter => {
                self.partitions[at.slot.index()].on_hold += 1;
                self.commands.push_back(Command::OnHold {
                    at,
                    without_topic: exhausted == Exhausted::DeadLetter,
                });
                self.fail(at, payload, Duration::MAX, 0, now);
            }
            Exhausted::Stop => {
                self.commands.push_back(Command::Stop(StopCause::Exhausted {
                    slot: at.slot,
                    offset: at.offset,
                    attempts: at.attempt,
                }));
                self.fail(at, payload, Duration::MAX, 0, now);
            }
        }
    }

    /// The state of the record's partition follows it, with its completion.
    pub(crate) fn apply(&mut self, at: TaskRef, update: &Update) {
        let applied = self.partitions[at.slot.index()].rider.apply(update);
        if let Err(fault) = applied {
            self.commands.push_back(Command::StateLost {
                slot: at.slot,
                offset: at.offset,
                fault,
            });
        }
    }

    /// The handler is done with the record, which has no outputs.
    fn done(&mut self, at: TaskRef, update: Option<Update>, now: Timestamp) {
        if self.is_transactional() {
            return self.stage(at, Carried::Nothing, update, 0, now);
        }
        if let Some(update) = &update {
            self.apply(at, update);
        }
        self.complete(at, now);
    }

    /// The record is complete: both steps, since it has no outputs, or they are acknowledged.
    pub(crate) fn complete(&mut self, at: TaskRef, now: Timestamp) {
        self.settle(&at, now);
        self.count_complete(&at);
    }

    /// Nothing is left to be done for the record in this member but a commit.
    pub(crate) fn settle(&mut self, at: &TaskRef, now: Timestamp) {
        let partition = &mut self.partitions[at.slot.index()];
        partition.tracker.complete(at.offset);
        partition.committed.note_completion(now);
        self.gate.completed(at.slot, at.offset);
        self.settle_gate(at.slot);
        self.map_changed(at.slot, now);
        self.commits.note_change();
    }

    /// It leaves the buffers.
    pub(crate) fn count_complete(&mut self, at: &TaskRef) {
        self.counters.completed += 1;
        self.forget(at.slot, at.bytes);
        self.resume(at.slot);
    }

    pub(crate) fn fail(
        &mut self,
        at: TaskRef,
        payload: P,
        delay: Duration,
        together: u32,
        now: Timestamp,
    ) {
        // Half of the batch that failed: in the end the bad record stands alone.
        let batch_limit = match together {
            0 => u32::MAX,
            _ if mutated(Mutant::BatchNotSplit) => u32::MAX,
            together => (together / 2).max(1),
        };
        let lane = self.lanes.get_mut(at.lane);
        lane.note_failed(at.offset);
        lane.due = lane.due.max(now.after(delay));
        let at = TaskRef {
            attempt: at.attempt.saturating_add(1),
            ..at
        };
        self.keep(Waiting {
            batch_limit,
            ..Waiting::new(Task { at, payload })
        });
    }

    /// Puts an unfinished record back, unless its partition is leaving.
    pub(crate) fn keep(&mut self, waiting: Waiting<P>) {
        let at = waiting.task.at;
        if self.partitions[at.slot.index()].phase == Phase::Assigned {
            self.lanes.get_mut(at.lane).returned.push(waiting);
        } else {
            self.forget(at.slot, at.bytes);
        }
    }

    /// What a worker's result means for its lane and, where that was the last of a pool's run, for the run.
    fn after_result(&mut self, route: RouteId, index: LaneIndex, now: Timestamp) {
        let state = &mut self.routes[route.index()];
        let is_run =
            matches!(state.config.shape, Shape::Pool { .. }) && state.config.batch.is_none();
        let lane = self.lanes.get(index);
        // What is being written holds no worker.
        if is_run && lane.out == lane.writes {
            state.runs = state.runs.saturating_sub(1);
        }
        self.settle_lane(route, index, now);
    }

    /// Once all that was out of a lane has come back it is queued anew; until then waiting records may follow those
    /// that are out.
    pub(crate) fn settle_lane(&mut self, route: RouteId, index: LaneIndex, now: Timestamp) {
        let state = &self.routes[route.index()].config;
        let is_pinned = matches!(state.shape, Shape::Pinned { .. });
        let follows = is_pinned && state.batch.is_none();
        let lane = self.lanes.get_mut(index);
        if lane.out > 0 && lane.failed && is_pinned && mutated(Mutant::ReopenedTooEarly) {
            self.commands.push_back(Command::Reopen {
                route,
                worker: lane.worker,
                lane: index,
            });
        }
        if lane.out > 0 {
            let epoch = self.partitions[lane.slot.index()].epoch;
            if follows
                && !lane.failed
                && lane.returned.is_empty()
                && !lane.waiting.is_empty()
                && lane.out_epoch == epoch
                && !self.leases.is_stopping()
            {
                let worker = lane.worker;
                self.follow(route, index, worker, now);
            }
            return;
        }
        // Whatever a worker closed it is told to open again, the lanes of a batch too.
        if lane.failed && is_pinned {
            self.commands.push_back(Command::Reopen {
                route,
                worker: lane.worker,
                lane: index,
            });
        }
        let lane = self.lanes.get_mut(index);
        if !lane.failed {
            lane.due = Timestamp::ZERO;
        }
        lane.failed = false;
        lane.failed_at = None;
        lane.state = LaneState::Following;
        lane.merge_returned();
        self.queue_lane(index, now);
    }
}
