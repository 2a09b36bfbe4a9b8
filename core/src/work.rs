//! What travels between the core and the workers: tasks out, results back.
//!
//! ```text
//!   core --Dispatch{Work}--> worker --Report{Finished, ..}--> core
//! ```
//!
//! A payload that was not completed always travels back, so that nothing is lost between the two.

use std::time::Duration;

use keyway_offsets::Offset;
use keyway_rider::Update;

use crate::ids::{Epoch, LaneIndex, PartitionSlot, RouteId, WorkerIndex};

/// Where a task belongs: enough to find its partition and lane again, and to see that it is out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRef {
    /// Offset of the record.
    pub offset: Offset,
    /// Assignment under which it was received.
    pub epoch: Epoch,
    /// Partition it came from.
    pub slot: PartitionSlot,
    /// Lane it runs in.
    pub lane: LaneIndex,
    /// Bytes that it counts in the buffers.
    pub bytes: u32,
    /// 1 for the first attempt since this assignment.
    pub attempt: u32,
}

/// One record on its way to a handler.
#[derive(Debug, PartialEq, Eq)]
pub struct Task<P> {
    /// Where it belongs.
    pub at: TaskRef,
    /// What the handler gets.
    pub payload: P,
}

/// One hand-over.
#[derive(Debug, PartialEq, Eq)]
pub enum Work<P> {
    /// Records to run one after another, those of one lane in the order given. When one is not done, the
    /// later ones of its lane are returned unstarted.
    Records(Vec<Task<P>>),
    /// Records for one call of a batch handler.
    Batch(Vec<Task<P>>),
}

impl<P> Work<P> {
    /// Number of records.
    pub fn len(&self) -> usize {
        match self {
            Work::Records(tasks) | Work::Batch(tasks) => tasks.len(),
        }
    }

    /// Whether it holds no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What became of a task.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<P> {
    /// The handler finished it.
    Done,
    /// The handler finished it, and this is what it brings to the state of its partition.
    DoneWith(Update),
    /// The handler finished it, and it is complete once its outputs are acknowledged.
    Outputs {
        /// Carries the outputs, and goes back to its lane when they can't be sent.
        payload: P,
        /// What it brings to the state of its partition, if anything.
        update: Option<Update>,
        /// What the outputs count against [`BufferConfig::output_bytes`](crate::BufferConfig::output_bytes).
        bytes: u32,
    },
    /// The handler finished it, and it is complete with the transaction that carries its outputs: what `Outputs` is where
    /// commits are transactional.
    Staged {
        /// Carries the outputs, and goes back to its lane when they are refused.
        payload: P,
        /// What it brings to the state of its partition, if anything.
        update: Option<Update>,
        /// What the outputs count against [`BufferConfig::output_bytes`](crate::BufferConfig::output_bytes).
        bytes: u32,
    },
    /// The handler chose to pass over it; counts as complete.
    Skipped,
    /// The attempt failed. `after` is the handler's own choice of a delay.
    Failed {
        /// Goes back to its lane.
        payload: P,
        /// Delay chosen by the handler; the route's retry policy decides where it is `None`.
        after: Option<Duration>,
    },
    /// The attempt failed, and the handler says that no further one is to be made: what follows is what the route's
    /// retry policy does with a record whose last attempt has failed.
    GiveUp {
        /// Goes wherever the policy says.
        payload: P,
    },
    /// The attempt failed, and the handler says that the record is to be written to the dead-letter topic.
    DeadLetter {
        /// Goes into the letter.
        payload: P,
    },
    /// The handler asks for the engine to stop; the record stays incomplete.
    Stop {
        /// Goes back to its lane.
        payload: P,
        /// For the person who reads why it stopped.
        reason: String,
    },
    /// It was never started: its lane's earlier record was not done, its assignment ended, or it was
    /// taken back from a worker that was busy with another.
    Returned {
        /// Goes back to its lane.
        payload: P,
    },
}

impl<P> Verdict<P> {
    /// Whether a worker lets nothing more of the record's lane start until it is told to.
    pub fn closes_lane(&self) -> bool {
        match self {
            Verdict::Done | Verdict::DoneWith(_) | Verdict::Staged { .. } | Verdict::Skipped => {
                false
            }
            Verdict::Outputs { .. }
            | Verdict::Failed { .. }
            | Verdict::GiveUp { .. }
            | Verdict::DeadLetter { .. }
            | Verdict::Stop { .. }
            | Verdict::Returned { .. } => true,
        }
    }
}

/// A task with its verdict.
#[derive(Debug, PartialEq, Eq)]
pub struct Finished<P> {
    /// Which task.
    pub at: TaskRef,
    /// What became of it.
    pub verdict: Verdict<P>,
}

/// What a worker reports at once.
#[derive(Debug)]
pub struct Report<P> {
    /// The route of the worker.
    pub route: RouteId,
    /// The worker, for routes whose lanes are pinned.
    pub worker: Option<WorkerIndex>,
    /// Results in the order in which they came about.
    pub finished: Vec<Finished<P>>,
    /// Time spent inside handlers for these results, all attempts together.
    pub busy: Duration,
    /// How many of the attempts took longer than [`SLOW_ATTEMPT`].
    pub slow: u32,
    /// For a batch: the call failed as a whole (an error or a panic), so that the next attempt splits it.
    pub batch_failed: bool,
}

/// An attempt longer than this holds up what is queued behind it; also the most work, in time, that may be
/// queued ahead of a record on one worker.
pub const SLOW_ATTEMPT: Duration = Duration::from_millis(1);
