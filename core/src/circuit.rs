//! A circuit holds a route while what its handler depends on is down, so that no attempts are spent on it.
//!
//! ```text
//!            a share of the last            its time is over              the probes succeed
//!            attempts has failed
//!   Closed ----------------------> Open ----------------------> HalfOpen --------------------> Closed
//!                                    ^                              |
//!                                    '------------------------------'  the probes fail: for longer
//! ```
//!
//! What is held stays where it is, ready and without a worker. While the circuit is half open a few calls go through
//! as probes; what else of before comes back meanwhile says nothing.
//!
//! **Which failures are forgiven**, so that the record's next attempt has the number of the failed one:
//! 1. those that are reported while the circuit is not closed: the probes', and those of calls that ran when it opened;
//! 2. those in the report with which it opens;
//! 3. the latest failure of each record of the route that waits for its next attempt when it opens.
//!
//! A record whose last attempt failed before that is given up, as its policy says.

use std::collections::VecDeque;
use std::time::Duration;

use keyway_offsets::Offset;

use crate::command::Command;
use crate::core::Core;
use crate::gate::Gate;
use crate::ids::{Epoch, PartitionSlot, RouteId, Timestamp, WorkerIndex};
use crate::lanes::Waiting;
use crate::mutant::{Mutant, mutated};
use crate::work::{Finished, Task, TaskRef, Verdict};

/// When a route is held, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CircuitPolicy {
    /// The share of failures, above 0 and at most 1, from which on it opens.
    pub share: f64,
    /// Of so many of the last attempts.
    pub of_last: u32,
    /// Below so many attempts it does not open.
    pub at_least: u32,
    /// Attempts of longer ago are forgotten.
    pub window: Duration,
    /// How long it is open at first; twice as long after each probe that fails.
    pub open_for: Duration,
    /// The longest that it is open without a probe.
    pub longest: Duration,
    /// Calls that go through as probes.
    pub probes: u32,
}

/// Where a circuit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitState {
    /// Calls are made.
    Closed,
    /// None are made.
    Open {
        /// Until then.
        until: Timestamp,
    },
    /// Probes are made.
    HalfOpen,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed,
    Open {
        until: Timestamp,
    },
    HalfOpen {
        /// Probes that may still begin.
        left: u32,
        /// Should no probe have come back by then, others may begin: one that hangs must not hold the route for ever.
        more_at: Timestamp,
    },
}

/// What a report means for the failures in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noted {
    Counts,
    Forgiven,
    /// Forgiven, and the circuit has opened with them.
    Opened,
}

/// Attempts that ended alike in one report.
#[derive(Clone, Copy, Debug)]
struct Ended {
    at: Timestamp,
    failed: bool,
    attempts: u32,
}

#[derive(Debug)]
pub(crate) struct Circuit {
    policy: CircuitPolicy,
    state: State,
    /// The last attempts, while it is closed.
    last: VecDeque<Ended>,
    /// How long it is open the next time.
    open_for: Duration,
    /// Records of probes that have not come back.
    out: Vec<(PartitionSlot, Offset, Epoch)>,
    /// Probes' records that have come back since it was half open, and how many of them failed.
    came_back: (u32, u32),
}

impl Circuit {
    pub(crate) fn new(policy: CircuitPolicy) -> Self {
        Self {
            policy,
            state: State::Closed,
            last: VecDeque::new(),
            open_for: policy.open_for,
            out: Vec::new(),
            came_back: (0, 0),
        }
    }

    pub(crate) fn state(&self) -> CircuitState {
        match self.state {
            State::Closed => CircuitState::Closed,
            State::Open { until } => CircuitState::Open { until },
            State::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }

    /// Calls that may begin now.
    pub(crate) fn allowance(&self) -> u32 {
        match self.state {
            State::Closed => u32::MAX,
            State::Open { .. } if mutated(Mutant::CircuitIgnored) => u32::MAX,
            State::Open { .. } => 0,
            State::HalfOpen { left, .. } => left,
        }
    }

    /// When time alone lets a call begin.
    pub(crate) fn next(&self) -> Timestamp {
        match self.state {
            State::Closed => Timestamp::NEVER,
            State::Open { until } => until,
            State::HalfOpen { more_at, .. } => more_at,
        }
    }

    /// Whether time has come for a probe, or for another one.
    pub(crate) fn pass_time(&mut self, now: Timestamp) {
        if self.next() > now {
            return;
        }
        if let State::Open { .. } = self.state {
            self.out.clear();
            self.came_back = (0, 0);
        }
        self.state = State::HalfOpen {
            left: self.policy.probes.max(1),
            more_at: now.after(self.open_for.max(SHORTEST)),
        };
    }

    /// A call begins with these records.
    pub(crate) fn begins<P>(&mut self, tasks: &[Task<P>]) {
        if let State::HalfOpen { left, .. } = &mut self.state {
            *left = left.saturating_sub(1);
            self.out.extend(tasks.iter().map(|task| place(&task.at)));
        }
    }

    fn note<P>(&mut self, finished: &[Finished<P>], batch_failed: bool, now: Timestamp) -> Noted {
        match self.state {
            State::Closed => {
                self.count(finished, batch_failed, now);
                if self.has_failed_enough() {
                    self.open(now);
                    return Noted::Opened;
                }
                Noted::Counts
            }
            State::Open { .. } => Noted::Forgiven,
            State::HalfOpen { .. } => {
                self.take_probes(finished, now);
                Noted::Forgiven
            }
        }
    }

    /// Takes attempts among the last ones. A batch that failed as a whole is one attempt: of its records nobody knows.
    fn count<P>(&mut self, finished: &[Finished<P>], batch_failed: bool, now: Timestamp) {
        let attempts = finished.iter().map(|finished| &finished.verdict);
        let attempts = attempts.filter(|verdict| !matches!(verdict, Verdict::Returned { .. }));
        for verdict in attempts.take(if batch_failed { 1 } else { usize::MAX }) {
            let failed = matches!(verdict, Verdict::Failed { .. });
            match self.last.back_mut() {
                Some(ended) if ended.at == now && ended.failed == failed => ended.attempts += 1,
                _ => self.last.push_back(Ended {
                    at: now,
                    failed,
                    attempts: 1,
                }),
            }
        }
        let mut total: u32 = self.last.iter().map(|ended| ended.attempts).sum();
        while let Some(oldest) = self.last.front_mut() {
            let over = total.saturating_sub(self.policy.of_last);
            let is_old = now.since(oldest.at) > self.policy.window;
            if is_old || over >= oldest.attempts {
                total -= oldest.attempts;
                self.last.pop_front();
            } else {
                oldest.attempts -= over;
                break;
            }
        }
    }

    fn has_failed_enough(&self) -> bool {
        let attempts: u32 = self.last.iter().map(|ended| ended.attempts).sum();
        let failed = self.last.iter().filter(|ended| ended.failed);
        let failed: u32 = failed.map(|ended| ended.attempts).sum();
        attempts >= self.policy.at_least.max(1) && self.is_share(failed, attempts)
    }

    fn is_share(&self, failed: u32, attempts: u32) -> bool {
        failed > 0 && f64::from(failed) >= self.policy.share * f64::from(attempts)
    }

    fn open(&mut self, now: Timestamp) {
        self.last.clear();
        self.state = State::Open {
            until: now.after(self.open_for.max(SHORTEST)),
        };
        self.open_for = self.open_for.saturating_mul(2).min(self.policy.longest);
    }

    fn take_probes<P>(&mut self, finished: &[Finished<P>], now: Timestamp) {
        let mut unstarted = 0;
        for Finished { at, verdict } in finished {
            let Some(index) = self.out.iter().position(|out| *out == place(at)) else {
                continue;
            };
            self.out.swap_remove(index);
            if matches!(verdict, Verdict::Returned { .. }) {
                unstarted += 1;
            } else {
                self.came_back.0 += 1;
                self.came_back.1 += u32::from(matches!(verdict, Verdict::Failed { .. }));
            }
        }
        if let State::HalfOpen { left, .. } = &mut self.state {
            // It was no probe, so that another may be one.
            *left = (*left + unstarted).min(self.policy.probes.max(1));
        }
        let (attempts, failed) = self.came_back;
        if !self.out.is_empty() || attempts == 0 {
            return;
        }
        if self.is_share(failed, attempts) {
            self.open(now);
        } else {
            self.state = State::Closed;
            self.open_for = self.policy.open_for;
        }
    }
}

/// An open circuit is so for some time: at once it would be none.
const SHORTEST: Duration = Duration::from_millis(1);

fn place(at: &TaskRef) -> (PartitionSlot, Offset, Epoch) {
    (at.slot, at.offset, at.epoch)
}

impl<P, G: Gate<P>> Core<P, G> {
    /// A report is about to be taken in; whether its failures are forgiven.
    pub(crate) fn note_in_circuit(
        &mut self,
        route: RouteId,
        finished: &[Finished<P>],
        batch_failed: bool,
        now: Timestamp,
    ) -> bool {
        let Some(circuit) = &mut self.routes[route.index()].circuit else {
            return false;
        };
        let before = circuit.state();
        let noted = circuit.note(finished, batch_failed, now);
        let after = circuit.state();
        if before != after {
            self.commands.push_back(Command::Circuit {
                route,
                state: after,
            });
        }
        if noted == Noted::Opened {
            self.counters.circuits_opened += 1;
            self.hold_route(route, now);
        }
        noted != Noted::Counts && !mutated(Mutant::NothingForgiven)
    }

    /// The circuit of a route has opened: nothing that is queued at its workers is to start, and the failures that
    /// opened it are forgiven.
    fn hold_route(&mut self, route: RouteId, now: Timestamp) {
        for (index, worker) in self.routes[route.index()].workers.iter().enumerate() {
            if worker.held > 0 {
                let worker = WorkerIndex(index as u32);
                self.commands.push_back(Command::TakeBack { route, worker });
            }
        }
        let partitions = &self.partitions;
        let mut unstarted = 0;
        self.lanes.each(|lane| {
            // What is on hold is not tried again, circuit or not.
            let is_on_hold = lane.due == Timestamp::NEVER;
            if partitions[lane.slot.index()].route != route || is_on_hold {
                return;
            }
            let waiting = lane.waiting.iter_mut().chain(&mut lane.returned);
            // Nor is what only its dead letter waits for.
            let runs_again = |waiting: &&mut Waiting<P>| {
                waiting.task.at.attempt > 1 && waiting.letter_tries == 0
            };
            for waiting in waiting.filter(runs_again) {
                waiting.task.at.attempt -= 1;
                unstarted += u64::from(waiting.task.at.attempt == 1);
            }
        });
        self.give_starts_back(unstarted, now);
    }

    /// Records that had started count as never started: others may start in their place.
    pub(crate) fn give_starts_back(&mut self, starts: u64, now: Timestamp) {
        if let (Some(left), true) = (&mut self.starts_left, starts > 0) {
            *left += starts;
            self.queue_behind_limit(now);
        }
    }
}
