//! A simulated worker, or one run of a pool: what stands between a hand-over and its reports.
//!
//! It keeps the rules of the engine's workers over the real [`WorkQueue`]: one call at a time; a lane whose
//! record was not done is closed until it is reopened, and what else of it is queued goes back; the lease is
//! looked at before each start.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use keyway_core::{
    Epoch, Finished, Item, LaneIndex, Leases, Report, RouteId, SLOW_ATTEMPT, Task, Verdict,
    WorkQueue, WorkerIndex,
};

use crate::record::Payload;

/// A call that is inside the handler.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) number: u64,
    pub(crate) tasks: Vec<Task<Payload>>,
    pub(crate) batch: bool,
}

/// A worker.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) route: RouteId,
    /// `None` for a run of a pool, which ends with its queue.
    pub(crate) worker: Option<WorkerIndex>,
    pub(crate) queue: WorkQueue<Payload>,
    /// Items in the queue; the queue itself does not tell.
    pub(crate) queued: usize,
    /// How many of them reopen a lane.
    reopens: usize,
    closed: BTreeMap<LaneIndex, Epoch>,
    pub(crate) running: Option<Call>,
    gathered: Vec<Finished<Payload>>,
    busy: Duration,
    slow: u32,
    batch_failed: bool,
    /// Records given back because their lane was closed.
    pub(crate) refused_closed: u64,
    /// Records given back because their assignment had ended or the member stops.
    pub(crate) refused_over: u64,
    /// Reports on their way, in order.
    pub(crate) outbox: VecDeque<Report<Payload>>,
}

impl Runner {
    pub(crate) fn new(route: RouteId, worker: Option<WorkerIndex>) -> Self {
        Self {
            route,
            worker,
            queue: WorkQueue::default(),
            queued: 0,
            reopens: 0,
            closed: BTreeMap::new(),
            running: None,
            gathered: Vec::new(),
            busy: Duration::ZERO,
            slow: 0,
            batch_failed: false,
            refused_closed: 0,
            refused_over: 0,
            outbox: VecDeque::new(),
        }
    }

    /// Takes the next item and, when it may run, begins the call `number`.
    pub(crate) fn take(&mut self, leases: &Leases, number: u64) -> Option<&Call> {
        self.queued -= 1;
        match self.queue.try_next()? {
            Item::Reopen(lane) => {
                self.reopens -= 1;
                self.closed.remove(&lane);
            }
            Item::Task(task) => {
                if self.admits(&task, leases) {
                    self.running = Some(Call {
                        number,
                        tasks: vec![task],
                        batch: false,
                    });
                } else {
                    self.give_back(task);
                }
            }
            Item::Batch(tasks) => {
                let (admitted, refused): (Vec<_>, Vec<_>) = tasks
                    .into_iter()
                    .partition(|task| self.admits(task, leases));
                refused.into_iter().for_each(|task| self.give_back(task));
                if admitted.is_empty() {
                    self.send();
                } else {
                    self.running = Some(Call {
                        number,
                        tasks: admitted,
                        batch: true,
                    });
                }
            }
        }
        self.running.as_ref()
    }

    fn admits(&mut self, task: &Task<Payload>, leases: &Leases) -> bool {
        let closed = self.closed.get(&task.at.lane) == Some(&task.at.epoch);
        let over = !leases.holds(task.at.slot, task.at.epoch) || leases.is_stopping();
        self.refused_closed += u64::from(closed);
        self.refused_over += u64::from(over);
        !closed && !over
    }

    fn give_back(&mut self, Task { at, payload }: Task<Payload>) {
        self.gathered.push(Finished {
            at,
            verdict: Verdict::Returned { payload },
        });
    }

    /// The running call ended like this.
    pub(crate) fn finish(
        &mut self,
        results: Vec<Finished<Payload>>,
        batch_failed: Option<bool>,
        took: Duration,
    ) {
        for result in &results {
            if result.verdict.closes_lane() {
                self.closed.insert(result.at.lane, result.at.epoch);
            }
        }
        self.busy += took;
        if took > SLOW_ATTEMPT {
            self.slow += results.len() as u32;
        }
        self.gathered.extend(results);
        if let Some(failed) = batch_failed {
            // One report for each batch.
            self.batch_failed = failed;
            self.send();
        }
    }

    /// A lane's reopening was queued.
    pub(crate) fn note_reopen(&mut self) {
        self.queued += 1;
        self.reopens += 1;
    }

    /// What was not started leaves again.
    pub(crate) fn take_back(&mut self) -> Vec<Task<Payload>> {
        let mut tasks = Vec::new();
        self.queue.take_back(&mut tasks);
        self.queued = self.reopens;
        tasks
    }

    /// Whether a batch runs.
    pub(crate) fn is_batch(&self) -> bool {
        self.running.as_ref().is_some_and(|call| call.batch)
    }

    /// Whether results wait to be sent.
    pub(crate) fn has_gathered(&self) -> bool {
        !self.gathered.is_empty()
    }

    /// Sends what was gathered.
    pub(crate) fn send(&mut self) {
        self.outbox.push_back(Report {
            route: self.route,
            worker: self.worker,
            finished: std::mem::take(&mut self.gathered),
            busy: std::mem::take(&mut self.busy),
            slow: std::mem::take(&mut self.slow),
            batch_failed: std::mem::take(&mut self.batch_failed),
        });
    }

    /// Whether it holds no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.queued == self.reopens && self.running.is_none() && self.gathered.is_empty()
    }

    /// Whether nothing of it is left.
    pub(crate) fn is_over(&self) -> bool {
        self.queued == 0
            && self.running.is_none()
            && self.gathered.is_empty()
            && self.outbox.is_empty()
    }
}
