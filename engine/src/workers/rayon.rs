//! Handlers that compute: a rayon pool of their own, no larger than the machine.
//!
//! A run, all of one lane, is one job of the pool. It goes on until a record is not done, and the rest of it
//! returns unstarted.

use std::sync::Arc;
use std::time::Instant;

use keyway_core::{Running, RunningCall, Task, Work};
use rayon::ThreadPoolBuilder;

use super::attempt::{Kept, panic_text, run_batch, run_each};
use super::lives::Lives;
use super::report::Pace;
use super::{RouteContext, WorkersError, into_tasks};
use crate::handler::{BatchFn, EachFn, SyncHandler};
use crate::record::Message;

pub(super) struct RayonPool {
    pool: rayon::ThreadPool,
    runner: Arc<Runner>,
    lives: Lives,
}

impl RayonPool {
    pub(super) fn new(handler: SyncHandler, context: RouteContext) -> Result<Self, WorkersError> {
        // How many of them are busy is the core's to say, and may change.
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("keyway-cpu-{index}"))
            // Handlers' panics are caught before; without this another one would abort the process.
            .panic_handler(|panic| {
                tracing::error!(panic = panic_text(panic), "a job of the CPU pool panicked");
            })
            .build()?;
        Ok(Self {
            pool,
            runner: Arc::new(Runner::new(handler, context, threads)),
            lives: Lives::new(),
        })
    }

    pub(super) fn dispatch(&self, work: Work<Message>) -> Option<Vec<Task<Message>>> {
        let Some(life) = self.lives.life() else {
            self.runner.context.return_unstarted(None, work);
            return None;
        };
        let runner = Arc::clone(&self.runner);
        self.pool.spawn(move || {
            runner.run(work);
            drop(life);
        });
        None
    }

    /// The calls that its threads are in.
    pub(super) fn calls(&self) -> impl Iterator<Item = RunningCall> + '_ {
        self.runner.threads.iter().filter_map(Running::call)
    }

    pub(super) fn close(&mut self) {
        self.lives.close();
    }

    pub(super) fn join(&mut self, deadline: Instant) -> usize {
        self.lives.wait(deadline)
    }
}

impl std::fmt::Debug for RayonPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RayonPool")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

/// What a job of the pool works with; whichever thread calls it.
pub(super) struct Runner {
    handler: SyncHandler,
    context: RouteContext,
    /// What each thread of the pool is inside of.
    threads: Box<[Running]>,
}

impl Runner {
    /// For a pool of so many threads.
    pub(super) fn new(handler: SyncHandler, context: RouteContext, threads: usize) -> Self {
        Self {
            handler,
            context,
            threads: (0..threads).map(|_| Running::default()).collect(),
        }
    }

    /// Where the calling thread says what it is inside of, if it is one of the pool.
    fn thread(&self) -> Option<&Running> {
        self.threads.get(rayon::current_thread_index()?)
    }

    pub(super) fn run(&self, work: Work<Message>) {
        let tasks = into_tasks(work);
        match &self.handler {
            SyncHandler::Each(handler) => self.each(&**handler, tasks),
            SyncHandler::Batch(handler) => self.batch(&**handler, tasks),
        }
    }

    fn each(&self, handler: &EachFn, tasks: Vec<Task<Message>>) {
        let clock = self.context.member.clock();
        let mut gathered = self.context.gathered(None);
        let mut member = Arc::clone(&self.context.member);
        let mut now = clock.now();
        let mut pace = Pace::new(now);
        let thread = self.thread();
        let mut tasks = tasks.into_iter();
        while let Some(task) = tasks.next() {
            let Some(fence) = member.admit(task.at.slot, task.at.epoch) else {
                gathered.push_returned(task);
                continue;
            };
            if let Some(thread) = thread {
                thread.begin(now, &task.at);
            }
            let finished;
            (finished, member) = run_each(
                handler,
                self.context.observer.as_deref(),
                task,
                fence,
                member,
            );
            let end = clock.now();
            let slow = gathered.took(end.since(now));
            now = end;
            let goes_on = !finished.verdict.closes_lane();
            gathered.push(finished);
            if !goes_on {
                tasks.by_ref().for_each(|task| gathered.push_returned(task));
            } else if slow || pace.is_due(now, &gathered) {
                gathered.send();
                pace.sent(now);
            }
        }
        if let Some(thread) = thread {
            thread.end();
        }
        gathered.send();
    }

    fn batch(&self, handler: &BatchFn, tasks: Vec<Task<Message>>) {
        let clock = self.context.member.clock();
        let member = &self.context.member;
        let mut gathered = self.context.gathered(None);
        let mut kept = Vec::with_capacity(tasks.len());
        for task in tasks {
            match member.admit(task.at.slot, task.at.epoch) {
                Some(fence) => kept.push(Kept::new(task, fence)),
                None => gathered.push_returned(task),
            }
        }
        if !kept.is_empty() {
            let start = clock.now();
            let thread = self.thread();
            if let Some(thread) = thread {
                thread.begin(start, &kept[0].at);
            }
            let result = run_batch(handler, self.context.observer.as_deref(), kept, member);
            if let Some(thread) = thread {
                thread.end();
            }
            gathered.push_batch(result, clock.now().since(start));
        }
        gathered.send();
    }
}

#[cfg(test)]
mod tests {
    use super::super::WorkerPool;
    use super::super::testing::{Barrier, EPOCH, SLOT, World, in_words, long, soon, until};
    use crate::handler::Handler;
    use crate::outcome::Outcome;
    use crate::record::Record;

    #[test]
    fn a_run_stops_at_the_first_record_that_is_not_done() {
        let world = World::new();
        let mut pool = world.pool(Handler::cpu(|record: &Record| match record.offset() {
            2 => Outcome::Failed("two".into()),
            _ => Outcome::Done,
        }));
        pool.dispatch(None, world.records(&[(1, 0), (2, 0), (3, 0)]));
        assert_eq!(world.results(3), ["1 done", "2 failed", "3 returned"]);
        assert_eq!(
            world.journal.lines(),
            ["start 1", "done 1", "start 2", "failed 2: two"]
        );
    }

    #[test]
    fn a_panic_fails_its_attempt_and_leaves_the_pool_alone() {
        let world = World::new();
        let mut pool = world.pool(Handler::cpu(|record: &Record| {
            assert!(record.offset() != 1);
        }));
        pool.dispatch(None, world.records(&[(1, 0)]));
        assert_eq!(world.results(1), ["1 failed"]);
        pool.dispatch(None, world.records(&[(2, 0)]));
        assert_eq!(world.results(1), ["2 done"]);
        assert_eq!(world.live_messages(), 0);
    }

    #[test]
    fn nothing_starts_once_its_assignment_has_ended() {
        let world = World::new();
        let member = std::sync::Arc::clone(&world.member);
        let mut pool = world.pool(Handler::cpu(move |_: &Record| member.leases().end(SLOT)));
        pool.dispatch(None, world.records(&[(1, 0), (2, 0)]));
        assert_eq!(world.results(2), ["1 done", "2 returned"]);
        world.member.leases().grant(SLOT, EPOCH);
        world.member.leases().set_stopping();
        pool.dispatch(None, world.records(&[(3, 0)]));
        assert_eq!(world.results(1), ["3 returned"]);
    }

    #[test]
    fn a_batch_is_one_call_and_splits_when_it_fails_as_a_whole() {
        let world = World::new();
        let mut pool = world.pool(Handler::cpu_batch(|records: Vec<Record>| {
            if records.len() > 1 {
                Err("too many")
            } else {
                Ok(())
            }
        }));
        pool.dispatch(None, world.batch(&[(1, 0), (2, 1)]));
        let report = world.report();
        assert!(report.batch_failed);
        assert_eq!(
            report.finished.iter().map(in_words).collect::<Vec<_>>(),
            ["1 failed", "2 failed"]
        );
        pool.dispatch(None, world.batch(&[(1, 0)]));
        assert_eq!(world.results(1), ["1 done"]);
    }

    #[test]
    fn the_calls_of_its_threads_are_there_to_see() {
        let world = World::new();
        let barrier = Barrier::new();
        let at_barrier = barrier.clone();
        let mut pool = world.pool(Handler::cpu(move |record: &Record| at_barrier.pass(record)));
        pool.dispatch(None, world.records(&[(1, 0), (2, 0)]));
        assert_eq!(barrier.arrival(), 1);
        let calls = |pool: &WorkerPool| {
            let mut calls = Vec::new();
            pool.calls(|worker, call| calls.push((worker, call.slot, call.offset.get())));
            calls
        };
        assert_eq!(calls(&pool), [(None, SLOT, 1)]);
        barrier.open();
        assert_eq!(barrier.arrival(), 2);
        until("the next one", || calls(&pool) == [(None, SLOT, 2)]);
        barrier.open();
        until("none", || calls(&pool).is_empty());
    }

    #[test]
    fn waiting_is_bounded_and_a_closed_pool_gives_work_back() {
        let world = World::new();
        let barrier = Barrier::new();
        let at_barrier = barrier.clone();
        let mut pool = world.pool(Handler::cpu(move |record: &Record| at_barrier.pass(record)));
        pool.dispatch(None, world.records(&[(1, 0)]));
        assert_eq!(barrier.arrival(), 1);
        assert_eq!(pool.join(soon()), 1);
        pool.dispatch(None, world.records(&[(2, 1)]));
        assert_eq!(world.results(1), ["2 returned"]);
        barrier.open();
        assert_eq!(pool.join(long()), 0);
        assert_eq!(world.results(1), ["1 done"]);
    }
}
