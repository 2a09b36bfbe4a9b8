//! Handlers that occupy a thread: one queue and at most one thread for each worker.
//!
//! A lane is pinned to a worker, whose queue keeps its order. A lane whose record was not done is closed
//! here: what else of it is in the queue goes back unstarted, until the core says that all of it has come
//! home and the lane may run again. Threads are spawned with the first work for their worker, and end when the
//! route has no more use for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use keyway_core::{Epoch, LaneIndex, Timestamp, WorkerIndex};
use keyway_core::{Finished, RunningCall, Task, TaskRef, Work};
use keyway_core::{Item, WorkQueue};

use super::RouteContext;
use super::attempt::{Kept, run_batch, run_each};
use super::lives::{Life, Lives};
use super::report::{Outbox, Pace};
use crate::context::Clock;
use crate::context::Member;
use crate::handler::SyncHandler;
use crate::record::Message;

/// Before a thread that could not be spawned is tried again.
const SPAWN_RETRY: Duration = Duration::from_secs(1);

/// The place of a worker whose thread was spawned.
#[derive(Debug)]
struct Seat {
    queue: Arc<WorkQueue<Message>>,
    outbox: Arc<Outbox>,
    thread: JoinHandle<()>,
}

pub(super) struct ThreadPool {
    handler: SyncHandler,
    context: RouteContext,
    seats: Vec<Option<Seat>>,
    lives: Lives,
}

impl ThreadPool {
    pub(super) fn new(handler: SyncHandler, workers: u32, context: RouteContext) -> Self {
        let seats = (0..workers.max(1)).map(|_| None).collect();
        Self {
            handler,
            context,
            seats,
            lives: Lives::new(),
        }
    }

    fn seat(&self, worker: WorkerIndex) -> Option<&Seat> {
        self.seats.get(worker.index())?.as_ref()
    }

    pub(super) fn dispatch(
        &mut self,
        worker: WorkerIndex,
        work: Work<Message>,
    ) -> Option<Vec<Task<Message>>> {
        let Some(life) = self.lives.life() else {
            self.context.return_unstarted(Some(worker), work);
            return None;
        };
        if let Some(seat) = self.seat(worker) {
            return seat.queue.push(work);
        }
        match self.spawn(worker, life) {
            Ok(seat) => {
                let spent = seat.queue.push(work);
                if worker.index() >= self.seats.len() {
                    self.seats.resize_with(worker.index() + 1, || None);
                }
                self.seats[worker.index()] = Some(seat);
                spent
            }
            Err(error) => {
                tracing::error!(%error, worker = worker.0, "could not spawn a worker's thread");
                self.context.return_after(Some(worker), work, SPAWN_RETRY);
                None
            }
        }
    }

    fn spawn(&self, index: WorkerIndex, life: Life) -> std::io::Result<Seat> {
        let worker = Worker::new(self.handler.clone(), self.context.clone(), index);
        let queue = Arc::clone(&worker.queue);
        let outbox = Arc::clone(&worker.outbox);
        let thread = std::thread::Builder::new()
            .name(format!("keyway-worker-{}", index.0))
            .spawn(move || {
                worker.run();
                drop(life);
            })?;
        Ok(Seat {
            queue,
            outbox,
            thread,
        })
    }

    pub(super) fn reopen(&self, worker: WorkerIndex, lane: LaneIndex) {
        if let Some(seat) = self.seat(worker) {
            seat.queue.reopen(lane);
        }
    }

    pub(super) fn take_back(&self, worker: WorkerIndex, into: &mut Vec<Task<Message>>) {
        if let Some(seat) = self.seat(worker) {
            seat.queue.take_back(into);
            seat.outbox.lock().send();
        }
    }

    /// The worker's thread ends. It holds nothing; should it get more one day, it gets a thread of its own again.
    pub(super) fn retire(&mut self, worker: WorkerIndex) {
        if let Some(seat) = self.seats.get_mut(worker.index()).and_then(Option::take) {
            seat.queue.close();
        }
    }

    pub(super) fn running_since(&self, worker: WorkerIndex) -> Option<Timestamp> {
        self.seat(worker)?.queue.running().since()
    }

    /// The calls that its workers are in.
    pub(super) fn calls(&self) -> impl Iterator<Item = (WorkerIndex, RunningCall)> + '_ {
        self.seats.iter().enumerate().filter_map(|(index, seat)| {
            let call = seat.as_ref()?.queue.running().call()?;
            Some((WorkerIndex(index as u32), call))
        })
    }

    pub(super) fn close(&mut self) {
        self.lives.close();
        for seat in self.seats.iter().flatten() {
            seat.queue.close();
        }
    }

    pub(super) fn join(&mut self, deadline: Instant) -> usize {
        let stuck = self.lives.wait(deadline);
        if stuck > 0 {
            for seat in self
                .seats
                .iter()
                .flatten()
                .filter(|seat| !seat.thread.is_finished())
            {
                tracing::warn!(
                    thread = seat.thread.thread().name(),
                    "a worker is stuck in its handler"
                );
                // What the stuck one had finished before must not be lost with it.
                seat.outbox.lock().send();
            }
        }
        stuck
    }

    #[cfg(test)]
    fn spawned(&self) -> usize {
        self.seats.iter().flatten().count()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadPool")
            .field("seats", &self.seats)
            .finish_non_exhaustive()
    }
}

/// What one thread works with.
struct Worker {
    context: RouteContext,
    clock: Clock,
    handler: SyncHandler,
    queue: Arc<WorkQueue<Message>>,
    outbox: Arc<Outbox>,
    /// Lanes that wait for the core, and under which assignment they failed: a lane's place in the core's
    /// table may be used again, but never by the same assignment without a word to this worker.
    closed: HashMap<LaneIndex, Epoch>,
}

/// What a worker carries from one item to the next.
struct Turn {
    /// The end of the attempt before is the start of the next: one reading of the clock a record.
    now: Timestamp,
    pace: Pace,
    /// Lent to the record of each call.
    member: Arc<Member>,
}

impl Worker {
    fn new(handler: SyncHandler, context: RouteContext, index: WorkerIndex) -> Self {
        Self {
            clock: context.member.clock().clone(),
            handler,
            queue: Arc::new(WorkQueue::default()),
            outbox: Arc::new(Outbox::new(context.gathered(Some(index)))),
            closed: HashMap::new(),
            context,
        }
    }

    fn first_turn(&self) -> Turn {
        let now = self.clock.now();
        Turn {
            now,
            pace: Pace::new(now),
            member: Arc::clone(&self.context.member),
        }
    }

    fn run(mut self) {
        let mut turn = self.first_turn();
        loop {
            let item = match self.queue.try_next() {
                Some(item) => item,
                None => {
                    self.outbox.lock().send();
                    self.queue.running().end();
                    let Some(item) = self.queue.next() else {
                        return;
                    };
                    turn.now = self.clock.now();
                    turn.pace.sent(turn.now);
                    item
                }
            };
            turn = self.take(item, turn);
        }
    }

    fn take(&mut self, item: Item<Message>, turn: Turn) -> Turn {
        match item {
            Item::Task(task) => self.one(task, turn),
            Item::Batch(tasks) => self.batch(tasks, turn),
            Item::Reopen(lane) => {
                self.closed.remove(&lane);
                turn
            }
        }
    }

    /// The fence of a record that may start.
    fn admit(&self, at: &TaskRef, member: &Member) -> Option<u64> {
        if !self.closed.is_empty() && self.closed.get(&at.lane) == Some(&at.epoch) {
            return None;
        }
        member.admit(at.slot, at.epoch)
    }

    fn note(&mut self, finished: &Finished<Message>) {
        if finished.verdict.closes_lane() {
            self.closed.insert(finished.at.lane, finished.at.epoch);
        }
    }

    fn give_back(&self, task: Task<Message>) {
        let mut gathered = self.outbox.lock();
        gathered.push_returned(task);
        if gathered.is_full() {
            gathered.send();
        }
    }

    fn one(&mut self, task: Task<Message>, mut turn: Turn) -> Turn {
        let SyncHandler::Each(handler) = &self.handler else {
            return self.batch(vec![task], turn);
        };
        let Some(fence) = self.admit(&task.at, &turn.member) else {
            self.give_back(task);
            return turn;
        };
        self.queue.running().begin(turn.now, &task.at);
        let finished;
        (finished, turn.member) = run_each(
            &**handler,
            self.context.observer.as_deref(),
            task,
            fence,
            turn.member,
        );
        self.note(&finished);
        let end = self.clock.now();
        let mut gathered = self.outbox.lock();
        gathered.push(finished);
        let slow = gathered.took(end.since(turn.now));
        if slow || turn.pace.is_due(end, &gathered) {
            gathered.send();
            turn.pace.sent(end);
        }
        drop(gathered);
        turn.now = end;
        turn
    }

    fn batch(&mut self, tasks: Vec<Task<Message>>, mut turn: Turn) -> Turn {
        let SyncHandler::Batch(handler) = &self.handler else {
            return tasks
                .into_iter()
                .fold(turn, |turn, task| self.one(task, turn));
        };
        let mut kept = Vec::with_capacity(tasks.len());
        for task in tasks {
            match self.admit(&task.at, &turn.member) {
                Some(fence) => kept.push(Kept::new(task, fence)),
                None => self.give_back(task),
            }
        }
        if kept.is_empty() {
            return turn;
        }
        self.queue.running().begin(turn.now, &kept[0].at);
        let result = run_batch(
            &**handler,
            self.context.observer.as_deref(),
            kept,
            &turn.member,
        );
        result
            .finished
            .iter()
            .for_each(|finished| self.note(finished));
        let end = self.clock.now();
        let mut gathered = self.outbox.lock();
        let slow = gathered.push_batch(result, end.since(turn.now));
        if slow || turn.pace.is_due(end, &gathered) {
            gathered.send();
            turn.pace.sent(end);
        }
        drop(gathered);
        turn.now = end;
        turn
    }
}

/// A worker whose owner lends it a thread, for one item at a time.
pub(super) struct Stepped(Worker);

impl Stepped {
    pub(super) fn new(handler: SyncHandler, context: RouteContext, index: WorkerIndex) -> Self {
        Self(Worker::new(handler, context, index))
    }

    pub(super) fn queue(&self) -> &WorkQueue<Message> {
        &self.0.queue
    }

    /// Runs the next item and reports what came of it; `false` when there is none.
    pub(super) fn step(&mut self) -> bool {
        let Some(item) = self.0.queue.try_next() else {
            return false;
        };
        let turn = self.0.first_turn();
        self.0.take(item, turn);
        self.0.outbox.lock().send();
        self.0.queue.running().end();
        true
    }
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
