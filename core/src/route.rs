//! One route's workers: who holds how much, and who takes the next lane.
//!
//! A pinned route fills the worker that is busy already as long as what is queued there is short in time, then
//! wakes an idle one. A pool counts its runs and leaves the rest to the pool.

use std::collections::VecDeque;
use std::time::Duration;

use crate::circuit::Circuit;
use crate::config::{RouteConfig, Shape};
use crate::ids::{PartitionSlot, Timestamp, WorkerIndex};
use crate::mutant::{Mutant, mutated};
use crate::service::ServiceTime;
use crate::work::Task;

#[derive(Debug)]
pub(crate) struct Worker<P> {
    /// Records handed over and not reported.
    pub(crate) held: u32,
    /// Its running attempt takes long: nothing is queued behind it.
    pub(crate) stuck: bool,
    /// There are to be fewer workers: it gets no more.
    pub(crate) retired: bool,
    /// Handed over at the end of this event.
    pub(crate) pending: Vec<Task<P>>,
}

impl<P> Worker<P> {
    fn new() -> Self {
        Self {
            held: 0,
            stuck: false,
            retired: false,
            pending: Vec::new(),
        }
    }

    fn takes_more(&self) -> bool {
        !self.stuck && (!self.retired || mutated(Mutant::RetiredGetsMore))
    }
}

#[derive(Debug)]
pub(crate) struct Route<P> {
    pub(crate) config: RouteConfig,
    pub(crate) service: ServiceTime,
    pub(crate) circuit: Option<Circuit>,
    pub(crate) workers: Vec<Worker<P>>,
    /// Workers that hold nothing, the latest on top, so that warm ones are used first.
    idle: Vec<WorkerIndex>,
    /// The worker that new lanes go to while it has room.
    favourite: WorkerIndex,
    /// Workers with something pending.
    pub(crate) touched: Vec<WorkerIndex>,
    /// Runs of a pool that are out.
    pub(crate) runs: u32,
    /// Calls at once as they are wished for.
    pub(crate) calls: u32,
    /// Calls beyond, in place of ones that hang.
    pub(crate) surplus: u32,
    /// Partitions with lanes that may run, each once, served in turn.
    pub(crate) queue: VecDeque<PartitionSlot>,
    /// When the batch that is filling up has to go.
    pub(crate) batch_due: Option<Timestamp>,
    /// A batch may go and no worker has room: a report brings it on, not time.
    pub(crate) batch_waits_for_room: bool,
}

impl<P> Route<P> {
    pub(crate) fn new(config: RouteConfig) -> Self {
        let (count, calls) = match config.shape {
            Shape::Pinned { workers } => (workers.max(1), workers.max(1)),
            Shape::Pool { concurrency } => (0, concurrency.max(1)),
        };
        Self {
            circuit: config.circuit.map(Circuit::new),
            config,
            service: ServiceTime::unknown(),
            workers: (0..count).map(|_| Worker::new()).collect(),
            idle: (0..count).rev().map(WorkerIndex).collect(),
            favourite: WorkerIndex(0),
            touched: Vec::new(),
            runs: 0,
            calls,
            surplus: 0,
            queue: VecDeque::new(),
            batch_due: None,
            batch_waits_for_room: false,
        }
    }

    /// Calls that may begin, as far as the circuit says.
    pub(crate) fn allowance(&self) -> u32 {
        self.circuit.as_ref().map_or(u32::MAX, Circuit::allowance)
    }

    /// Whether a lane that may run would go to a worker by `until`, as far as the circuit says.
    pub(crate) fn may_go_on_by(&self, until: Timestamp) -> bool {
        !self.queue.is_empty()
            && (self.allowance() > 0 || self.circuit.as_ref().is_none_or(|its| its.next() <= until))
    }

    /// Records that one worker may hold before it gets no more; of a batch any, since a batch is as long as its
    /// slowest record.
    pub(crate) fn depth(&self) -> u32 {
        if self.config.batch.is_some() {
            1
        } else {
            self.service.depth()
        }
    }

    fn has_room(&self, worker: WorkerIndex) -> bool {
        let state = &self.workers[worker.index()];
        state.takes_more() && state.held < self.depth()
    }

    /// How many more records `worker` may hold.
    pub(crate) fn room(&self, worker: WorkerIndex) -> u32 {
        let state = &self.workers[worker.index()];
        if state.takes_more() {
            self.depth().saturating_sub(state.held)
        } else {
            0
        }
    }

    /// A worker that holds nothing.
    pub(crate) fn idle(&self) -> Option<WorkerIndex> {
        let mut workers = self.workers.iter();
        let index = workers.position(|state| state.held == 0 && state.takes_more())?;
        Some(WorkerIndex(index as u32))
    }

    /// The worker that takes the next lane, or `None` while all are full.
    pub(crate) fn place(&mut self) -> Option<WorkerIndex> {
        if !self.service.spreads() && self.has_room(self.favourite) {
            return Some(self.favourite);
        }
        while let Some(worker) = self.idle.pop() {
            // Entries go stale when a lane went to its own worker directly.
            let state = &self.workers[worker.index()];
            if state.held == 0 && state.takes_more() {
                self.favourite = worker;
                return Some(worker);
            }
        }
        if self.has_room(self.favourite) {
            return Some(self.favourite);
        }
        if self.depth() <= 1 {
            // With a depth of one whoever has room is idle, and no idle one was left.
            return None;
        }
        let found = (0..self.workers.len())
            .map(|index| WorkerIndex(index as u32))
            .filter(|worker| self.has_room(*worker))
            .min_by_key(|worker| self.workers[worker.index()].held)?;
        self.favourite = found;
        Some(found)
    }

    /// Whether a worker, or the pool, takes another lane: whether `place` would name one.
    pub(crate) fn takes_more(&self) -> bool {
        match self.config.shape {
            Shape::Pool { .. } => self.pool_has_room(),
            Shape::Pinned { .. } => {
                let is_idle = |worker: &WorkerIndex| self.has_room(*worker);
                let mut all = (0..self.workers.len()).map(|index| WorkerIndex(index as u32));
                self.has_room(self.favourite)
                    || self.idle.iter().rev().any(is_idle)
                    || all.any(|worker| self.has_room(worker))
            }
        }
    }

    /// Whether a pool may start another run.
    pub(crate) fn pool_has_room(&self) -> bool {
        matches!(self.config.shape, Shape::Pool { concurrency } if self.runs < concurrency.max(1))
    }

    /// Puts a task into the next hand-over to `worker`.
    pub(crate) fn give(&mut self, worker: WorkerIndex, task: Task<P>) {
        let state = &mut self.workers[worker.index()];
        state.held += 1;
        if state.pending.is_empty() {
            self.touched.push(worker);
        }
        state.pending.push(task);
    }

    /// Takes in that `worker` reported `records` records.
    pub(crate) fn give_back(&mut self, worker: WorkerIndex, records: u32) {
        let state = &mut self.workers[worker.index()];
        if records == 0 {
            return;
        }
        state.held = state.held.saturating_sub(records);
        state.stuck = false;
        if state.held == 0 && !state.retired {
            self.idle.push(worker);
            // Each report of an idle worker adds an entry and `place` drops the stale ones; a bound keeps the
            // list from growing when `place` is not asked.
            if self.idle.len() > 2 * self.workers.len() {
                let workers = &self.workers;
                let mut seen = vec![false; workers.len()];
                self.idle.retain(|worker| {
                    workers[worker.index()].held == 0
                        && !std::mem::replace(&mut seen[worker.index()], true)
                });
            }
        }
    }

    /// Makes room for the calls that are wished for and those in place of ones that hang. Workers beyond are retired, and
    /// come back when there are to be more again.
    pub(crate) fn resize(&mut self) {
        let calls = self.calls.saturating_add(self.surplus);
        match &mut self.config.shape {
            Shape::Pool { concurrency } => *concurrency = calls,
            Shape::Pinned { workers } => {
                *workers = calls;
                let most = self.workers.len().max(calls as usize);
                self.workers.resize_with(most, || Worker {
                    retired: true,
                    ..Worker::new()
                });
                for (index, worker) in self.workers.iter_mut().enumerate() {
                    let retired = index >= calls as usize;
                    let returns = std::mem::replace(&mut worker.retired, retired) && !retired;
                    if returns && worker.held == 0 {
                        self.idle.push(WorkerIndex(index as u32));
                    }
                }
            }
        }
    }

    /// Workers that are retired and have not finished.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = WorkerIndex> + '_ {
        let workers = self.workers.iter().enumerate();
        let leaving = workers.filter(|(_, worker)| worker.retired && worker.held > 0);
        leaving.map(|(index, _)| WorkerIndex(index as u32))
    }

    /// The most records that one run of a pool takes: what fits into a slow attempt, so that an assignment
    /// that ends gets them back soon.
    pub(crate) fn run_length(&self) -> u32 {
        self.service.depth()
    }

    pub(crate) fn batch_wait(&self) -> Duration {
        self.config.batch.map_or(Duration::ZERO, |batch| batch.wait)
    }
}
