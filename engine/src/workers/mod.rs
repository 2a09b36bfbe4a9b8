//! The only code that runs handlers.
//!
//! A route's handler decides which kind of worker it gets; the poll loop sees one [`WorkerPool`] for each
//! route and never waits for it:
//!
//! ```text
//!   poll loop --dispatch--> WorkerPool: threads | rayon | tokio --> handler
//!       ^                                                              |
//!       '------------------- Reports <--------- ReportSender <---------'
//! ```
//!
//! Every task that was dispatched comes back in a report exactly once, or through
//! [`WorkerPool::take_back`], whatever the handler does: it may fail, panic, or lose its runtime. The one
//! exception is a handler that never returns.

mod attempt;
mod inline;
mod lives;
mod rayon;
mod report;
#[cfg(test)]
mod testing;
mod threads;
mod tokio;
mod wake;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyway_core::{Finished, RunningCall, Task, Verdict, Work};
use keyway_core::{LaneIndex, RouteId, Timestamp, WorkerIndex};

pub(crate) use self::attempt::{guarded, panic_text};
pub(crate) use self::inline::InlineWorkers;
pub(crate) use self::report::{ReportSender, Reports, reports};
pub(crate) use self::wake::Wake;

use self::rayon::RayonPool;
use self::report::Gathered;
use self::threads::ThreadPool;
use self::tokio::TokioPool;
use crate::context::Member;
use crate::handler::Handler;
use crate::observer::Observer;
use crate::record::Message;

/// Workers that can't be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum WorkersError {
    /// Usually the limit of processes or of memory is reached.
    #[error("could not start the threads for CPU-bound handlers: {0}")]
    Rayon(#[from] ::rayon::ThreadPoolBuildError),
    /// Usually the limit of processes or of memory is reached.
    #[error("could not start a runtime for async handlers: {0}")]
    Tokio(#[source] std::io::Error),
}

/// What every worker of a route has at hand.
#[derive(Clone)]
pub(crate) struct RouteContext {
    pub(crate) route: RouteId,
    pub(crate) member: Arc<Member>,
    pub(crate) reports: ReportSender,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// How long a call of an async handler may take.
    pub(crate) timeout: Option<Duration>,
}

impl RouteContext {
    fn gathered(&self, worker: Option<WorkerIndex>) -> Gathered {
        Gathered::new(self.route, worker, self.reports.clone())
    }

    /// Gives work back that no worker will take.
    fn return_unstarted(&self, worker: Option<WorkerIndex>, work: Work<Message>) {
        let mut gathered = self.gathered(worker);
        for task in into_tasks(work) {
            gathered.push_returned(task);
        }
        gathered.send();
    }

    /// Gives work back that could not be started, so that it is tried again after `delay`.
    fn return_after(&self, worker: Option<WorkerIndex>, work: Work<Message>, delay: Duration) {
        let mut gathered = self.gathered(worker);
        let mut lanes = HashSet::new();
        for task in into_tasks(work) {
            if lanes.insert(task.at.lane) {
                let verdict = Verdict::Failed {
                    payload: task.payload,
                    after: Some(delay),
                };
                gathered.push(Finished {
                    at: task.at,
                    verdict,
                });
            } else {
                gathered.push_returned(task);
            }
        }
        gathered.send();
    }
}

fn into_tasks(work: Work<Message>) -> Vec<Task<Message>> {
    match work {
        Work::Records(tasks) | Work::Batch(tasks) => tasks,
    }
}

/// The workers of one route.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    flavour: Flavour,
}

#[derive(Debug)]
enum Flavour {
    Threads(ThreadPool),
    Rayon(RayonPool),
    Tokio(TokioPool),
}

impl WorkerPool {
    /// Makes the workers of a route. `concurrency` is the number given to [`Handler::shape`]; `runtime` is
    /// the caller's tokio runtime if there is one, for async handlers.
    pub(crate) fn start(
        handler: Handler,
        concurrency: u32,
        context: RouteContext,
        runtime: Option<::tokio::runtime::Handle>,
    ) -> Result<Self, WorkersError> {
        let flavour = match handler {
            Handler::Threads(handler) => {
                Flavour::Threads(ThreadPool::new(handler, concurrency, context))
            }
            Handler::Cpu(handler) => Flavour::Rayon(RayonPool::new(handler, context)?),
            Handler::Async(handler) => Flavour::Tokio(TokioPool::new(handler, context, runtime)?),
        };
        Ok(Self { flavour })
    }

    /// Hands work over, and gives the emptied vector back where there is one. The worker is the one that the
    /// core names; pools without pinned lanes ignore it. Work for a closed pool comes back in a report.
    pub(crate) fn dispatch(
        &mut self,
        worker: Option<WorkerIndex>,
        work: Work<Message>,
    ) -> Option<Vec<Task<Message>>> {
        match &mut self.flavour {
            Flavour::Threads(pool) => pool.dispatch(worker.unwrap_or(WorkerIndex(0)), work),
            Flavour::Rayon(pool) => pool.dispatch(work),
            Flavour::Tokio(pool) => pool.dispatch(work),
        }
    }

    /// Lets a lane that failed on this worker run there again.
    pub(crate) fn reopen(&self, worker: WorkerIndex, lane: LaneIndex) {
        if let Flavour::Threads(pool) = &self.flavour {
            pool.reopen(worker, lane);
        }
    }

    /// Takes back what a worker has not started, and makes it report what it has finished, even while it is
    /// inside a handler.
    pub(crate) fn take_back(&self, worker: WorkerIndex, into: &mut Vec<Task<Message>>) {
        if let Flavour::Threads(pool) = &self.flavour {
            pool.take_back(worker, into);
        }
    }

    /// The worker holds nothing and gets nothing more: its thread ends.
    pub(crate) fn retire(&mut self, worker: WorkerIndex) {
        if let Flavour::Threads(pool) = &mut self.flavour {
            pool.retire(worker);
        }
    }

    /// When the call that the worker is in began, on the member's clock.
    pub(crate) fn running_since(&self, worker: WorkerIndex) -> Option<Timestamp> {
        match &self.flavour {
            Flavour::Threads(pool) => pool.running_since(worker),
            Flavour::Rayon(_) | Flavour::Tokio(_) => None,
        }
    }

    /// Tells `look` of each call that its workers are in, of pinned ones with the worker.
    pub(crate) fn calls(&self, mut look: impl FnMut(Option<WorkerIndex>, RunningCall)) {
        match &self.flavour {
            Flavour::Threads(pool) => pool
                .calls()
                .for_each(|(worker, call)| look(Some(worker), call)),
            Flavour::Rayon(pool) => pool.calls().for_each(|call| look(None, call)),
            Flavour::Tokio(pool) => pool.calls().for_each(|call| look(None, call)),
        }
    }

    /// Whether calls beyond the concurrency can be made in place of ones that hang. Not on the CPU pool: whatever
    /// computes for ever takes its core with it, and a further thread would not bring that back.
    pub(crate) fn can_grow(&self) -> bool {
        !matches!(self.flavour, Flavour::Rayon(_))
    }

    /// No more work will come: the workers finish what they have (a stopping member returns what was not
    /// started) and end. Does not wait.
    pub(crate) fn close(&mut self) {
        match &mut self.flavour {
            Flavour::Threads(pool) => pool.close(),
            Flavour::Rayon(pool) => pool.close(),
            Flavour::Tokio(pool) => pool.close(),
        }
    }

    /// Closes the pool and waits until its workers have ended, at most until `deadline`. The number of
    /// threads, or of runs, that are still inside a handler then; they are left alone.
    pub(crate) fn join(&mut self, deadline: Instant) -> usize {
        self.close();
        let stuck = match &mut self.flavour {
            Flavour::Threads(pool) => pool.join(deadline),
            Flavour::Rayon(pool) => pool.join(deadline),
            Flavour::Tokio(pool) => pool.join(deadline),
        };
        if stuck > 0 {
            tracing::warn!(stuck, "handlers did not return in time and are left behind");
        }
        stuck
    }
}
