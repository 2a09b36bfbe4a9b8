//! How results get back to the poll thread: gathered, in vectors that are used again.
//!
//! ```text
//!   worker: Outbox ----Report----> channel ----> poll thread
//!              ^-- emptied vectors <-- channel <-----'
//! ```

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use keyway_core::{Finished, Report, SLOW_ATTEMPT, Task, TaskRef, Verdict};
use keyway_core::{RouteId, Timestamp, WorkerIndex};

use super::attempt::BatchResult;
use super::wake::Wake;
use crate::record::Message;

/// Results that are sent at once when so many have gathered.
const FULL: usize = 256;

/// Results are sent at the latest so long after the report before, unless the worker is inside a handler.
const LINGER: Duration = Duration::from_micros(200);

/// Emptied vectors that wait to be filled again.
const SPENT: usize = 64;

/// The way from the workers to the poll thread.
pub(crate) fn reports(wake: Arc<Wake>) -> (ReportSender, Reports) {
    let (reports, incoming) = crossbeam_channel::unbounded();
    let (recycle, spent) = crossbeam_channel::bounded(SPENT);
    (
        ReportSender {
            reports,
            spent,
            wake: Arc::clone(&wake),
        },
        Reports {
            incoming,
            recycle,
            wake,
        },
    )
}

/// The workers' end.
#[derive(Clone, Debug)]
pub(crate) struct ReportSender {
    reports: Sender<Report<Message>>,
    spent: Receiver<Vec<Finished<Message>>>,
    wake: Arc<Wake>,
}

impl ReportSender {
    fn send(&self, report: Report<Message>) {
        // Without a receiver the engine has ended, and what was not committed is read again by the next owner.
        if self.reports.send(report).is_ok() {
            self.wake.wake();
        }
    }
}

/// The poll thread's end.
#[derive(Debug)]
pub(crate) struct Reports {
    incoming: Receiver<Report<Message>>,
    recycle: Sender<Vec<Finished<Message>>>,
    wake: Arc<Wake>,
}

impl Reports {
    /// The next report, if one is there.
    pub(crate) fn try_next(&self) -> Option<Report<Message>> {
        self.incoming.try_recv().ok()
    }

    /// The next report, waiting at most until `deadline`: for the end, when the poll thread has nothing else
    /// to wait for.
    pub(crate) fn next_before(&self, deadline: std::time::Instant) -> Option<Report<Message>> {
        self.incoming.recv_deadline(deadline).ok()
    }

    /// Takes an emptied vector back to be filled again.
    pub(crate) fn recycle(&self, mut finished: Vec<Finished<Message>>) {
        finished.clear();
        // One too many is freed.
        let _ = self.recycle.try_send(finished);
    }

    /// Announces that the poll thread is about to sleep; `false` when a report came in the meantime, and it
    /// must not. [`Reports::awake`] follows in both cases.
    pub(crate) fn may_sleep(&self) -> bool {
        self.wake.raise();
        self.incoming.is_empty()
    }

    /// The poll thread is awake: until it sleeps again nobody needs to wake it.
    pub(crate) fn awake(&self) {
        self.wake.lower();
    }
}

/// Results of one report in the making.
#[derive(Debug)]
pub(super) struct Gathered {
    route: RouteId,
    worker: Option<WorkerIndex>,
    finished: Vec<Finished<Message>>,
    busy: Duration,
    slow: u32,
    sender: ReportSender,
}

impl Gathered {
    pub(super) fn new(route: RouteId, worker: Option<WorkerIndex>, sender: ReportSender) -> Self {
        let finished = sender.spent.try_recv().unwrap_or_default();
        Self {
            route,
            worker,
            finished,
            busy: Duration::ZERO,
            slow: 0,
            sender,
        }
    }

    /// Whether it is time to send, however long ago the last time was.
    pub(super) fn is_full(&self) -> bool {
        self.finished.len() >= FULL
    }

    /// Adds a result; [`Gathered::took`] adds the time of its attempt.
    pub(super) fn push(&mut self, finished: Finished<Message>) {
        self.finished.push(finished);
    }

    /// Adds the time of one call, and tells whether it was slow.
    pub(super) fn took(&mut self, time: Duration) -> bool {
        self.busy += time;
        let slow = time > SLOW_ATTEMPT;
        self.slow += u32::from(slow);
        slow
    }

    /// Adds what a batch came to and the time of its call, and tells whether that was slow. A batch that
    /// failed as a whole is sent at once and alone.
    pub(super) fn push_batch(&mut self, result: BatchResult, time: Duration) -> bool {
        if result.failed {
            self.send();
        }
        self.finished.extend(result.finished);
        let slow = self.took(time);
        if result.failed {
            self.send_as(true);
        }
        slow
    }

    pub(super) fn push_returned(&mut self, task: Task<Message>) {
        self.push(Finished {
            at: task.at,
            verdict: Verdict::Returned {
                payload: task.payload,
            },
        });
    }

    /// Sends what has gathered, if anything has.
    pub(super) fn send(&mut self) {
        self.send_as(false);
    }

    fn send_as(&mut self, batch_failed: bool) {
        if self.finished.is_empty() {
            return;
        }
        let next = self.sender.spent.try_recv().unwrap_or_default();
        let report = Report {
            route: self.route,
            worker: self.worker,
            finished: std::mem::replace(&mut self.finished, next),
            busy: std::mem::take(&mut self.busy),
            slow: std::mem::take(&mut self.slow),
            batch_failed,
        };
        self.sender.send(report);
    }
}

/// The gathered results of a worker with a queue. The worker fills it; the poll thread empties it when the
/// worker is inside a slow handler, so that finished records don't wait for an unfinished one.
#[derive(Debug)]
pub(super) struct Outbox {
    gathered: Mutex<Gathered>,
}

impl Outbox {
    pub(super) fn new(gathered: Gathered) -> Self {
        Self {
            gathered: Mutex::new(gathered),
        }
    }

    /// The results, for one thread at a time. Sending under the lock keeps the reports in order.
    pub(super) fn lock(&self) -> MutexGuard<'_, Gathered> {
        // No code of a user runs under the lock, so poisoned results are whole.
        match self.gathered.lock() {
            Ok(gathered) => gathered,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

/// When the results that have gathered are due, by the one clock reading that follows each attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    sent: Timestamp,
}

impl Pace {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { sent: now }
    }

    pub(super) fn is_due(&self, now: Timestamp, gathered: &Gathered) -> bool {
        gathered.is_full() || now.since(self.sent) >= LINGER
    }

    pub(super) fn sent(&mut self, now: Timestamp) {
        self.sent = now;
    }
}

/// A task whose attempt failed for a reason that lies with the engine or its surroundings.
pub(super) fn failed(at: TaskRef, payload: Message) -> Finished<Message> {
    Finished {
        at,
        verdict: Verdict::Failed {
            payload,
            after: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::World;
    use super::*;

    fn gathered(world: &World) -> Gathered {
        Gathered::new(RouteId(0), Some(WorkerIndex(2)), world.sender.clone())
    }

    #[test]
    fn results_travel_together_with_the_time_they_took() {
        let world = World::new();
        let mut gathered = gathered(&world);
        gathered.push_returned(world.task(1, 0));
        gathered.push_returned(world.task(2, 0));
        assert!(!gathered.took(Duration::from_micros(10)));
        assert!(gathered.took(Duration::from_millis(2)));
        gathered.send();
        let report = world.report();
        assert_eq!(report.worker, Some(WorkerIndex(2)));
        assert_eq!(report.finished.len(), 2);
        assert_eq!((report.busy, report.slow), (Duration::from_micros(2010), 1));
        assert!(!report.batch_failed);
        gathered.send();
        assert!(
            world.reports.try_next().is_none(),
            "nothing gathered, nothing sent"
        );
    }

    #[test]
    fn a_batch_that_failed_as_a_whole_is_reported_alone() {
        let world = World::new();
        let mut gathered = gathered(&world);
        gathered.push_returned(world.task(1, 0));
        let failed = vec![failed(world.task(2, 0).at, world.task(2, 0).payload)];
        gathered.push_batch(
            BatchResult {
                finished: failed,
                failed: true,
            },
            Duration::ZERO,
        );
        let (first, second) = (world.report(), world.report());
        assert_eq!((first.finished.len(), first.batch_failed), (1, false));
        assert_eq!((second.finished.len(), second.batch_failed), (1, true));
    }

    #[test]
    fn vectors_are_used_again() {
        let world = World::new();
        let mut vector = Vec::with_capacity(1000);
        let place = vector.as_ptr();
        vector.push(failed(world.task(2, 0).at, world.task(2, 0).payload));
        world.reports.recycle(vector);
        let mut gathered = gathered(&world);
        gathered.push_returned(world.task(1, 0));
        gathered.send();
        let report = world.report();
        assert_eq!(report.finished.as_ptr(), place);
        assert_eq!(report.finished.len(), 1);
    }

    #[test]
    fn the_poll_thread_does_not_sleep_over_a_report() {
        let world = World::new();
        assert!(world.reports.may_sleep());
        world.reports.awake();
        let mut gathered = gathered(&world);
        gathered.push_returned(world.task(1, 0));
        gathered.send();
        assert!(!world.reports.may_sleep());
    }

    #[test]
    fn results_are_due_by_number_or_by_time() {
        let world = World::new();
        let mut gathered = gathered(&world);
        let mut pace = Pace::new(Timestamp::from_nanos(1_000));
        let linger = u64::try_from(LINGER.as_nanos()).expect("short");
        assert!(!pace.is_due(Timestamp::from_nanos(linger), &gathered));
        assert!(pace.is_due(Timestamp::from_nanos(1_000 + linger), &gathered));
        pace.sent(Timestamp::from_nanos(1_000 + linger));
        assert!(!pace.is_due(Timestamp::from_nanos(1_001 + linger), &gathered));
        for offset in 0..256 {
            gathered.push_returned(world.task(offset, 0));
        }
        assert!(pace.is_due(Timestamp::from_nanos(1_001 + linger), &gathered));
    }
}
