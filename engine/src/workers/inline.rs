//! The same workers without threads: their owner runs them, one step at a time, for `keyway::testing`.
//!
//! Everything around a handler's call is the code of the other flavours: a thread's worker with its queue and
//! closed lanes, a job of the CPU pool, a task of the runtime. Only who lends the thread, and when, is
//! different, so that the order of everything is the same in every run.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use keyway_core::{LaneIndex, Task, Work, WorkerIndex};
use tokio::sync::Notify;

use super::RouteContext;
use super::lives::Lives;
use super::rayon::Runner;
use super::threads::Stepped;
use super::tokio::Run;
use crate::handler::{AsyncHandler, Handler, SyncHandler};
use crate::record::Message;

/// The workers of one route.
pub(crate) struct InlineWorkers {
    flavour: Flavour,
}

enum Flavour {
    Threads {
        handler: SyncHandler,
        context: RouteContext,
        /// Made with the first work for them.
        seats: Vec<Stepped>,
        /// Whose turn is next.
        next: usize,
    },
    Cpu {
        runner: Runner,
        waiting: VecDeque<Work<Message>>,
    },
    Async {
        handler: AsyncHandler,
        context: Arc<RouteContext>,
        lives: Lives,
        runs: Vec<Running>,
        /// Rung whenever one of the runs can go on.
        bell: Arc<Notify>,
    },
}

/// A run of an async handler that has not ended.
struct Running {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    alarm: Arc<Alarm>,
}

/// Remembers that a run can go on.
struct Alarm {
    woken: AtomicBool,
    bell: Arc<Notify>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: what the waker's thread did before is seen by the poll that follows.
        self.woken.store(true, Ordering::Release);
        self.bell.notify_one();
    }
}

impl InlineWorkers {
    pub(crate) fn new(handler: Handler, context: RouteContext, bell: Arc<Notify>) -> Self {
        let flavour = match handler {
            Handler::Threads(handler) => Flavour::Threads {
                handler,
                context,
                seats: Vec::new(),
                next: 0,
            },
            Handler::Cpu(handler) => Flavour::Cpu {
                // No thread of a pool calls it.
                runner: Runner::new(handler, context, 0),
                waiting: VecDeque::new(),
            },
            Handler::Async(handler) => Flavour::Async {
                handler,
                context: Arc::new(context),
                lives: Lives::new(),
                runs: Vec::new(),
                bell,
            },
        };
        Self { flavour }
    }

    /// Takes work; nothing of it runs before [`InlineWorkers::step`].
    pub(crate) fn dispatch(
        &mut self,
        worker: Option<WorkerIndex>,
        work: Work<Message>,
    ) -> Option<Vec<Task<Message>>> {
        match &mut self.flavour {
            Flavour::Threads {
                handler,
                context,
                seats,
                ..
            } => {
                let worker = worker.map_or(0, WorkerIndex::index);
                while seats.len() <= worker {
                    let index = WorkerIndex(seats.len() as u32);
                    seats.push(Stepped::new(handler.clone(), context.clone(), index));
                }
                seats[worker].queue().push(work)
            }
            Flavour::Cpu { waiting, .. } => {
                waiting.push_back(work);
                None
            }
            Flavour::Async {
                handler,
                context,
                lives,
                runs,
                bell,
            } => {
                let run = Run::new(context, work, Arc::default(), lives.life()?);
                let alarm = Alarm {
                    woken: AtomicBool::new(true),
                    bell: Arc::clone(bell),
                };
                runs.push(Running {
                    future: match handler {
                        AsyncHandler::Each(handler) => Box::pin(run.each(Arc::clone(handler))),
                        AsyncHandler::Batch(handler) => Box::pin(run.batch(Arc::clone(handler))),
                    },
                    alarm: Arc::new(alarm),
                });
                None
            }
        }
    }

    pub(crate) fn reopen(&self, worker: WorkerIndex, lane: LaneIndex) {
        if let Flavour::Threads { seats, .. } = &self.flavour {
            if let Some(seat) = seats.get(worker.index()) {
                seat.queue().reopen(lane);
            }
        }
    }

    /// Takes back what a worker has not started.
    pub(crate) fn take_back(&self, worker: WorkerIndex, into: &mut Vec<Task<Message>>) {
        if let Flavour::Threads { seats, .. } = &self.flavour {
            if let Some(seat) = seats.get(worker.index()) {
                seat.queue().take_back(into);
            }
        }
    }

    /// Runs what is next: a record or a batch of the workers in turn, a job of the CPU pool, or an async
    /// handler up to where it waits. `false` when nothing can go on.
    pub(crate) fn step(&mut self) -> bool {
        match &mut self.flavour {
            Flavour::Threads { seats, next, .. } => {
                for turn in 0..seats.len() {
                    let seat = (*next + turn) % seats.len();
                    if seats[seat].step() {
                        *next = seat + 1;
                        return true;
                    }
                }
                false
            }
            Flavour::Cpu { runner, waiting } => match waiting.pop_front() {
                Some(work) => {
                    runner.run(work);
                    true
                }
                None => false,
            },
            Flavour::Async { runs, .. } => {
                // Acquire: pairs with the alarm.
                let woken = |run: &Running| run.alarm.woken.swap(false, Ordering::Acquire);
                let Some(index) = runs.iter().position(woken) else {
                    return false;
                };
                let waker = Waker::from(Arc::clone(&runs[index].alarm));
                let mut context = Context::from_waker(&waker);
                if let Poll::Ready(()) = runs[index].future.as_mut().poll(&mut context) {
                    runs.remove(index);
                }
                true
            }
        }
    }

    /// Runs that have begun and not ended.
    pub(crate) fn running(&self) -> usize {
        match &self.flavour {
            Flavour::Threads { .. } | Flavour::Cpu { .. } => 0,
            Flavour::Async { runs, .. } => runs.len(),
        }
    }
}
