//! A world for the workers' tests: a member with one assigned slot, and the poll thread's end of the reports.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use keyway_core::{
    Epoch, Finished, LaneIndex, Leases, PartitionSlot, Report, RouteId, Task, TaskRef, Verdict,
    Work, WorkerIndex,
};
use keyway_offsets::Offset;

use super::{ReportSender, Reports, RouteContext, Wake, WorkerPool, reports};
use crate::context::Member;
use crate::handler::Handler;
use crate::kafka::{NativeRecord, RecordParts};
use crate::observer::Observer;
use crate::record::{Message, Record};

pub(super) const SLOT: PartitionSlot = PartitionSlot(3);
pub(super) const EPOCH: Epoch = Epoch(7);
pub(super) const FIRST: WorkerIndex = WorkerIndex(0);

/// Longer than anything takes that ends at all.
pub(super) const LONG: Duration = Duration::from_secs(30);

pub(super) fn soon() -> Instant {
    Instant::now() + Duration::from_millis(20)
}

pub(super) fn long() -> Instant {
    Instant::now() + LONG
}

/// Waits until `condition` holds.
pub(super) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = long();
    while !condition() {
        assert!(Instant::now() < end, "{what} never came true");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A gate at which handlers wait until a test opens it.
#[derive(Clone, Debug)]
pub(super) struct Barrier {
    arrived: crossbeam_channel::Sender<i64>,
    arrivals: crossbeam_channel::Receiver<i64>,
    open: crossbeam_channel::Sender<()>,
    opened: crossbeam_channel::Receiver<()>,
}

impl Barrier {
    pub(super) fn new() -> Self {
        let (arrived, arrivals) = crossbeam_channel::unbounded();
        let (open, opened) = crossbeam_channel::unbounded();
        Self {
            arrived,
            arrivals,
            open,
            opened,
        }
    }

    /// Called by a handler.
    pub(super) fn pass(&self, record: &Record) {
        self.arrived.send(record.offset()).expect("the test lives");
        self.opened
            .recv_timeout(LONG)
            .expect("the test opens the barrier");
    }

    /// The offset of the next handler that has come here.
    pub(super) fn arrival(&self) -> i64 {
        self.arrivals.recv_timeout(LONG).expect("a handler comes")
    }

    /// Lets one handler pass.
    pub(super) fn open(&self) {
        self.open.send(()).expect("the barrier lives");
    }
}

/// An observer that writes down what it is told about records.
#[derive(Debug, Default)]
pub(super) struct Journal {
    lines: Mutex<Vec<String>>,
}

impl Journal {
    fn add(&self, line: String) {
        self.lines
            .lock()
            .expect("no panic under the lock")
            .push(line);
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no panic under the lock").clone()
    }
}

impl Observer for Journal {
    fn started(&self, record: &Record) {
        self.add(format!("start {}", record.offset()));
    }

    fn done(&self, record: &Record) {
        self.add(format!("done {}", record.offset()));
    }

    fn failed(&self, record: &Record, error: &str) {
        self.add(format!("failed {}: {error}", record.offset()));
    }
}

pub(super) struct World {
    pub(super) member: Arc<Member>,
    pub(super) sender: ReportSender,
    pub(super) reports: Reports,
    pub(super) journal: Arc<Journal>,
    /// What each message points to; only the test's own reference is left once all are destroyed.
    topic: Arc<str>,
}

impl World {
    pub(super) fn new() -> Self {
        let member = Arc::new(Member::new(Arc::new(Leases::default())));
        member.leases().grant(SLOT, EPOCH);
        let (sender, reports) = reports(Arc::new(Wake::new(|| {})));
        Self {
            member,
            sender,
            reports,
            journal: Arc::default(),
            topic: "orders".into(),
        }
    }

    pub(super) fn context(&self) -> RouteContext {
        RouteContext {
            route: RouteId(0),
            member: Arc::clone(&self.member),
            reports: self.sender.clone(),
            observer: Some(Arc::clone(&self.journal) as Arc<dyn Observer>),
            timeout: None,
        }
    }

    pub(super) fn pool(&self, handler: Handler) -> WorkerPool {
        WorkerPool::start(handler, 4, self.context(), None).expect("the pool starts")
    }

    pub(super) fn task(&self, offset: i64, lane: u32) -> Task<Message> {
        let native = NativeRecord::made(RecordParts::new(Arc::clone(&self.topic), 0, offset));
        let at = TaskRef {
            offset: Offset::new(offset).expect("not negative"),
            epoch: EPOCH,
            slot: SLOT,
            lane: LaneIndex(lane),
            bytes: 0,
            attempt: 1,
        };
        Task {
            at,
            payload: native.into(),
        }
    }

    /// Records given as (offset, lane).
    pub(super) fn tasks(&self, records: &[(i64, u32)]) -> Vec<Task<Message>> {
        records
            .iter()
            .map(|&(offset, lane)| self.task(offset, lane))
            .collect()
    }

    pub(super) fn records(&self, records: &[(i64, u32)]) -> Work<Message> {
        Work::Records(self.tasks(records))
    }

    pub(super) fn batch(&self, records: &[(i64, u32)]) -> Work<Message> {
        Work::Batch(self.tasks(records))
    }

    pub(super) fn report(&self) -> Report<Message> {
        self.reports.next_before(long()).expect("a report comes")
    }

    /// The next `count` results, in words.
    pub(super) fn results(&self, count: usize) -> Vec<String> {
        let mut results = Vec::new();
        while results.len() < count {
            let report = self.report();
            results.extend(report.finished.iter().map(in_words));
            self.reports.recycle(report.finished);
        }
        results
    }

    /// As [`World::results`], in the order of the offsets.
    pub(super) fn sorted_results(&self, count: usize) -> Vec<String> {
        let mut results = self.results(count);
        results.sort();
        results
    }

    /// Messages that are not destroyed yet.
    pub(super) fn live_messages(&self) -> usize {
        Arc::strong_count(&self.topic) - 1
    }
}

pub(super) fn in_words(finished: &Finished<Message>) -> String {
    let offset = finished.at.offset.get();
    match &finished.verdict {
        Verdict::Done | Verdict::DoneWith(_) => format!("{offset} done"),
        Verdict::Skipped => format!("{offset} skipped"),
        Verdict::Failed { after: None, .. } => format!("{offset} failed"),
        Verdict::Failed {
            after: Some(after), ..
        } => format!("{offset} failed, after {after:?}"),
        Verdict::GiveUp { .. } => format!("{offset} given up"),
        Verdict::DeadLetter { .. } => format!("{offset} dead letter"),
        Verdict::Outputs { .. } => format!("{offset} outputs"),
        Verdict::Staged { .. } => format!("{offset} staged"),
        Verdict::Stop { reason, .. } => format!("{offset} stop: {reason}"),
        Verdict::Returned { .. } => format!("{offset} returned"),
    }
}
