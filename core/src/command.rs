//! What the core asks of the world, and what the world tells it that is more than a number.

use std::time::Duration;

use keyway_offsets::{HoleMap, Limits, Offset};
use keyway_rider::{CommitText, Rider, StateFault};

use crate::circuit::CircuitState;
use crate::dead_letter::DeadLetter;
use crate::ids::{Epoch, LaneId, LaneIndex, PartitionSlot, PlanId, RouteId, WorkerIndex};
use crate::output::Sending;
use crate::rider::PlannedRider;
use crate::stage::Transaction;
use crate::work::{TaskRef, Work};

/// A command of the core, to be carried out in the order in which they come.
#[derive(Debug)]
#[non_exhaustive]
pub enum Command<P> {
    /// Hand work to a worker of a route, or to its pool.
    Dispatch {
        /// Which route.
        route: RouteId,
        /// Which worker, for a route whose lanes are pinned.
        worker: Option<WorkerIndex>,
        /// The records.
        work: Work<P>,
    },
    /// Let a lane that failed on this worker run there again.
    Reopen {
        /// Which route.
        route: RouteId,
        /// Which worker.
        worker: WorkerIndex,
        /// Which lane.
        lane: LaneIndex,
    },
    /// Take back what this worker has not started, and give it to [`Core::taken_back`](crate::Core::taken_back).
    TakeBack {
        /// Which route.
        route: RouteId,
        /// Which worker.
        worker: WorkerIndex,
    },
    /// This worker holds nothing and gets nothing more: its thread may end.
    Retire {
        /// Which route.
        route: RouteId,
        /// Which worker.
        worker: WorkerIndex,
    },
    /// Commit this plan; nothing else is committed before its answer is given to the core.
    Commit(CommitPlan),
    /// Commit this plan in a transaction, together with what its records write, and answer with
    /// [`Core::transaction_finished`](crate::Core::transaction_finished); nothing else is committed before.
    Transact(Transaction<P>),
    /// Stop fetching a partition.
    Pause(PartitionSlot),
    /// Fetch a partition again.
    Resume(PartitionSlot),
    /// The update that the record at `offset` brought could not be applied, so its partition's commits carry no
    /// state any more: to be told to people. Comes once for each assignment.
    StateLost {
        /// Which partition.
        slot: PartitionSlot,
        /// Of which record.
        offset: Offset,
        /// Why.
        fault: StateFault,
    },
    /// The last attempt at this record has failed, and it is passed over: to be told to people. Comes before any
    /// commit that covers it.
    PassedOver {
        /// Which record.
        at: TaskRef,
        /// It was on its way back to its lane.
        payload: P,
    },
    /// The last attempt at this record has failed, and it stays as it is under this assignment: its lane waits, to be told
    /// to people.
    OnHold {
        /// Which record; `attempt` is how many were made.
        at: TaskRef,
        /// It was to be a dead letter, and its route has no topic for them.
        without_topic: bool,
    },
    /// The circuit of a route has come to another state: to be told to people.
    Circuit {
        /// Which route.
        route: RouteId,
        /// Where it stands now.
        state: CircuitState,
    },
    /// Send the outputs that this record's payload carries, those of one lane one record after the other, and answer with
    /// [`Core::outputs_acknowledged`](crate::Core::outputs_acknowledged),
    /// [`Core::outputs_failed`](crate::Core::outputs_failed) or
    /// [`Core::outputs_not_sent`](crate::Core::outputs_not_sent).
    Send(Sending<P>),
    /// Write this record to its route's dead-letter topic, and answer with
    /// [`Core::dead_letter_written`](crate::Core::dead_letter_written) or
    /// [`Core::dead_letter_failed`](crate::Core::dead_letter_failed).
    WriteDeadLetter(DeadLetter<P>),
    /// Stop the member.
    Stop(StopCause),
}

/// Why the core asks the member to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopCause {
    /// A handler asked for it.
    Handler {
        /// Partition of the record.
        slot: PartitionSlot,
        /// Offset of the record.
        offset: Offset,
        /// The handler's reason.
        reason: String,
    },
    /// The last attempt at a record has failed.
    Exhausted {
        /// Partition of the record.
        slot: PartitionSlot,
        /// Offset of the record.
        offset: Offset,
        /// Attempts made.
        attempts: u32,
    },
    /// The broker has stored a part of a commit and does not take the rest: what is committed may be the effect of what
    /// is not.
    CutTorn {
        /// A partition of the rest.
        slot: PartitionSlot,
    },
}

/// A record that arrived.
#[derive(Debug)]
pub struct Arrival<P> {
    /// Its offset.
    pub offset: Offset,
    /// Its lane.
    pub lane: LaneId,
    /// What it counts in the buffers.
    pub bytes: u32,
    /// Leader epoch of its batch, where the broker gives one.
    pub leader_epoch: Option<i32>,
    /// What the handler gets.
    pub payload: P,
}

/// Where a partition starts.
#[derive(Clone, Debug)]
pub struct Restored {
    /// What the group had committed, if anything.
    pub committed: Option<Offset>,
    /// Where reading starts: the committed offset or the log start if that is higher; the chosen start of a
    /// group without a commit.
    pub start: Offset,
    /// The map beside the committed offset, already judged to fit the log.
    pub map: Option<HoleMap>,
    /// Leader epoch that the commit carried.
    pub leader_epoch: Option<i32>,
    /// What the commit says of the application's rider.
    pub rider: Rider,
}

/// Why a plan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitReason {
    /// The interval passed, or a first position is to be written down.
    Periodic,
    /// Someone waits for it.
    Requested,
    /// Riders of idle partitions may have changed.
    Refresh,
    /// Partitions are about to leave this member.
    Revoke,
    /// The member is about to leave.
    Shutdown,
}

/// One partition of a plan: offset and map from one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionPlan {
    /// Which partition.
    pub slot: PartitionSlot,
    /// Under which assignment.
    pub epoch: Epoch,
    /// Base and holes.
    pub map: HoleMap,
    /// Leader epoch of the last record below the base.
    pub leader_epoch: Option<i32>,
    /// What rides beside the map.
    pub rider: PlannedRider,
    /// Nothing but the rider can have changed: where it has not, [`CommitAnswer::Unchanged`] saves the commit.
    pub rider_only: bool,
}

/// What to commit in one request.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitPlan {
    /// Its number.
    pub id: PlanId,
    /// Why it is made.
    pub reason: CommitReason,
    /// Limits of the text, lowered to what the broker was found to take.
    pub limits: Limits,
    /// The partitions, by slot.
    pub partitions: Vec<PartitionPlan>,
}

/// What became of one partition of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitAnswer {
    /// Stored.
    Stored,
    /// Refused for a passing reason: to be made again from what is owned then.
    Repeat,
    /// The member's generation is over: the rebalance event decides what follows.
    Superseded,
    /// The broker does not know this member: the loss of its partitions follows.
    MemberLost,
    /// The metadata is longer than the broker takes.
    TooLarge,
    /// Refused until somebody changes the broker (authorization): tried again at the commit interval.
    Denied,
    /// Not sent: the broker has all of it, the rider too.
    Unchanged,
    /// No answer came, so it may have been stored, or may still be. Never of a transaction.
    Unknown,
}

/// The answer to one partition of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionAnswer {
    /// Which partition.
    pub slot: PartitionSlot,
    /// Under which assignment.
    pub epoch: Epoch,
    /// What became of it.
    pub answer: CommitAnswer,
    /// Characters of the text that was sent.
    pub chars: usize,
    /// Characters of the hole map's own text; back-pressure is judged on it.
    pub inner_chars: usize,
    /// Whether the map did not fit and was left out.
    pub stripped: bool,
    /// Where the text was too large: the longest that the broker takes, if that was found out.
    pub takes: Option<usize>,
}

impl PartitionAnswer {
    /// What became of `part`, which was sent as `text`.
    pub fn new(part: &PartitionPlan, text: &CommitText, answer: CommitAnswer) -> Self {
        Self {
            slot: part.slot,
            epoch: part.epoch,
            answer,
            chars: text.text.len(),
            inner_chars: text.inner_chars,
            stripped: text.stripped,
            takes: None,
        }
    }
}

/// The answer to a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitFinished {
    /// Which plan.
    pub plan: PlanId,
    /// One for each partition of the plan.
    pub partitions: Vec<PartitionAnswer>,
    /// How long encoding and the broker's answer took.
    pub took: Duration,
}
