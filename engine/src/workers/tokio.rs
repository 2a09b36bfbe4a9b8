//! Handlers that are futures: one tokio task for each run.
//!
//! A [`Run`] owns its records until they are reported. Whatever ends it (its last record, a panic, a runtime
//! that is shut down under it), what it still has goes back to the core when it is dropped.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use keyway_core::{Running, RunningCall, Task, Work};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Sleep;

use super::attempt::{Ended, Kept, announce_batch, guarded, panic_text, settle_batch};
use super::lives::{Life, Lives};
use super::report::{Gathered, Pace, failed};
use super::{RouteContext, WorkersError, into_tasks};
use crate::handler::{AsyncBatchFn, AsyncEachFn, AsyncHandler, BoxFuture};
use crate::record::{Message, Record};

pub(super) struct TokioPool {
    handler: AsyncHandler,
    context: Arc<RouteContext>,
    handle: Handle,
    /// The runtime, when it is the engine's own.
    own: Option<Runtime>,
    lives: Lives,
    runs: Runs,
}

/// What the runs are inside of. Some of them have ended: they are dropped when there are as many as those that have
/// not, so that a run costs its place and nothing else.
#[derive(Debug, Default)]
struct Runs {
    all: Vec<Arc<Running>>,
    /// So many are kept before the next look.
    room: usize,
}

impl Runs {
    /// At least so many.
    const ROOM: usize = 64;

    fn begin(&mut self) -> Arc<Running> {
        if self.all.len() >= self.room {
            self.all.retain(|run| Arc::strong_count(run) > 1);
            self.room = Self::ROOM.max(2 * self.all.len());
        }
        let run = Arc::new(Running::default());
        self.all.push(Arc::clone(&run));
        run
    }
}

impl TokioPool {
    pub(super) fn new(
        handler: AsyncHandler,
        context: RouteContext,
        runtime: Option<Handle>,
    ) -> Result<Self, WorkersError> {
        let (handle, own) = match runtime {
            Some(handle) => (handle, None),
            None => {
                let runtime = Builder::new_multi_thread()
                    .thread_name("keyway-async")
                    .enable_all()
                    .build()
                    .map_err(WorkersError::Tokio)?;
                (runtime.handle().clone(), Some(runtime))
            }
        };
        Ok(Self {
            handler,
            context: Arc::new(context),
            handle,
            own,
            lives: Lives::new(),
            runs: Runs::default(),
        })
    }

    pub(super) fn dispatch(&mut self, work: Work<Message>) -> Option<Vec<Task<Message>>> {
        let Some(life) = self.lives.life() else {
            self.context.return_unstarted(None, work);
            return None;
        };
        let run = Run::new(&self.context, work, self.runs.begin(), life);
        // A runtime that was shut down drops the future at once, and the run gives its records back.
        match &self.handler {
            AsyncHandler::Each(handler) => drop(self.handle.spawn(run.each(Arc::clone(handler)))),
            AsyncHandler::Batch(handler) => drop(self.handle.spawn(run.batch(Arc::clone(handler)))),
        }
        None
    }

    /// The calls that have not returned.
    pub(super) fn calls(&self) -> impl Iterator<Item = RunningCall> + '_ {
        let runs = self.runs.all.iter();
        let alive = runs.filter(|run| Arc::strong_count(run) > 1);
        alive.filter_map(|run| run.call())
    }

    pub(super) fn close(&mut self) {
        self.lives.close();
    }

    pub(super) fn join(&mut self, deadline: Instant) -> usize {
        self.lives.wait(deadline)
    }
}

impl Drop for TokioPool {
    fn drop(&mut self) {
        if let Some(runtime) = self.own.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for TokioPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokioPool")
            .field("own", &self.own.is_some())
            .finish_non_exhaustive()
    }
}

/// The records of one task of the runtime. Fields are dropped in this order: the life last.
pub(super) struct Run {
    gathered: Gathered,
    context: Arc<RouteContext>,
    waiting: std::vec::IntoIter<Task<Message>>,
    /// Inside the handler.
    running: Vec<Kept>,
    /// The same, for others to see.
    call: Arc<Running>,
    _life: Life,
}

impl Run {
    pub(super) fn new(
        context: &Arc<RouteContext>,
        work: Work<Message>,
        call: Arc<Running>,
        life: Life,
    ) -> Self {
        Self {
            gathered: context.gathered(None),
            context: Arc::clone(context),
            waiting: into_tasks(work).into_iter(),
            running: Vec::new(),
            call,
            _life: life,
        }
    }

    pub(super) async fn each(mut self, handler: Arc<AsyncEachFn>) {
        let clock = self.context.member.clock().clone();
        let mut now = clock.now();
        let mut pace = Pace::new(now);
        while let Some(task) = self.waiting.next() {
            let Some(fence) = self.context.member.admit(task.at.slot, task.at.epoch) else {
                self.gathered.push_returned(task);
                continue;
            };
            let kept = Kept::new(task, fence);
            self.call.begin(now, &kept.at);
            let record = kept.record(&self.context.member);
            self.running.push(kept);
            let start = || {
                if let Some(observer) = &self.context.observer {
                    observer.started(&record);
                }
                handler(record)
            };
            let limit = self.context.timeout;
            let outcome = caught(start, limit, || self.gathered.send()).await;
            let end = clock.now();
            let slow = self.gathered.took(end.since(now));
            now = end;
            let ended = outcome.map_or_else(Ended::failed, Ended::from);
            if !self.finish_one(ended) {
                self.return_waiting();
            } else if slow || pace.is_due(now, &self.gathered) {
                self.gathered.send();
                pace.sent(now);
                // Futures that are ready at once must not keep a thread of the runtime to themselves.
                tokio::task::yield_now().await;
                now = clock.now();
            }
        }
    }

    pub(super) async fn batch(mut self, handler: Arc<AsyncBatchFn>) {
        let clock = self.context.member.clock().clone();
        for task in self.waiting.by_ref() {
            match self.context.member.admit(task.at.slot, task.at.epoch) {
                Some(fence) => self.running.push(Kept::new(task, fence)),
                None => self.gathered.push_returned(task),
            }
        }
        if self.running.is_empty() {
            return;
        }
        let records: Vec<Record> = self
            .running
            .iter()
            .map(|kept| kept.record(&self.context.member))
            .collect();
        let started = clock.now();
        self.call.begin(started, &self.running[0].at);
        let start = || {
            announce_batch(self.context.observer.as_deref(), &records);
            handler(records)
        };
        let limit = self.context.timeout;
        let outcome = caught(start, limit, || self.gathered.send()).await;
        let took = clock.now().since(started);
        let kept = std::mem::take(&mut self.running);
        let result = settle_batch(
            outcome,
            kept,
            self.context.observer.as_deref(),
            &self.context.member,
        );
        self.gathered.push_batch(result, took);
    }

    /// Notes the end of the one that runs; `false` when its lane must not go on.
    fn finish_one(&mut self, ended: Ended) -> bool {
        let Some(kept) = self.running.pop() else {
            return true;
        };
        let observer = self.context.observer.as_deref();
        let (finished, _) = kept.ended(ended, observer, Arc::clone(&self.context.member));
        let goes_on = !finished.verdict.closes_lane();
        self.gathered.push(finished);
        goes_on
    }

    fn return_waiting(&mut self) {
        self.waiting
            .by_ref()
            .for_each(|task| self.gathered.push_returned(task));
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.running.is_empty() || self.waiting.len() > 0 {
            self.give_up();
        }
        self.gathered.send();
    }
}

impl Run {
    /// The runtime dropped the run before its end. Its first record counts as failed even if it was never
    /// started, so that a runtime that is gone is not tried again at once.
    fn give_up(&mut self) {
        const ERROR: &str = "the tokio runtime dropped the handler before it returned";
        guarded(|| tracing::error!("{ERROR}"));
        if self.running.is_empty() {
            if let Some(task) = self.waiting.next() {
                self.gathered.push(failed(task.at, task.payload));
            }
        }
        for kept in std::mem::take(&mut self.running) {
            let ended = Ended::failed(ERROR.to_owned());
            let observer = self.context.observer.as_deref();
            let (finished, _) = kept.ended(ended, observer, Arc::clone(&self.context.member));
            self.gathered.push(finished);
        }
        self.return_waiting();
    }
}

/// Runs a handler's future to its end, or for as long as it may take, with the text of the panic if it panics.
/// `pending` is called each time it waits.
async fn caught<T>(
    start: impl FnOnce() -> BoxFuture<T>,
    limit: Option<Duration>,
    mut pending: impl FnMut(),
) -> Result<T, String> {
    let mut future = catch_unwind(AssertUnwindSafe(start)).map_err(panic_text)?;
    // A runtime whose time is not enabled panics here, and that is the attempt's failure.
    let alarm = || limit.map(|limit| Box::pin(tokio::time::sleep(limit)));
    let mut alarm = catch_unwind(AssertUnwindSafe(alarm)).map_err(panic_text)?;
    let outcome =
        poll_fn(
            |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
                Ok(Poll::Ready(outcome)) => Poll::Ready(Ok(outcome)),
                Ok(Poll::Pending) => {
                    pending();
                    let rings =
                        |alarm: &mut Pin<Box<Sleep>>| alarm.as_mut().poll(context).is_ready();
                    if alarm.as_mut().is_some_and(rings) {
                        let limit = limit.unwrap_or_default();
                        return Poll::Ready(Err(format!("took longer than {limit:?}")));
                    }
                    Poll::Pending
                }
                Err(panic) => Poll::Ready(Err(panic_text(panic))),
            },
        )
        .await;
    guarded(|| drop(future));
    outcome
}

#[cfg(test)]
#[path = "tokio_tests.rs"]
mod tests;
