//! From plan to broker, on a thread of its own: one of two, by [`CommitMode`](crate::CommitMode).
//!
//! ```text
//!   core --plan--> Composer: offsets and texts --> Committer: offsets alone
//!                                              \-> Transactor: together with outputs and dead letters
//! ```
//!
//! One plan is under way at a time, so these threads may wait for the broker. Whether a plan is still this
//! member's to make is judged under the group lock, at the moment of the hand-over: the poll thread takes a
//! partition out of [`Owned`] before it gives the partition back, under the same lock.

mod plain;
mod transactions;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use keyway_core::{CommitAnswer, CommitPlan, Epoch, PartitionPlan, PartitionSlot, TaskRef};
use keyway_rider::Rider;

pub(crate) use self::plain::{CommitJob, Committer};
pub(crate) use self::transactions::{
    Refusal, Transacted, TransactionJob, Transactor, TransactorState, letter_of,
};
use crate::kafka::{CommitCode, CommitOffset, NotSent, TopicPartition};
use crate::metrics;
use crate::observer::Observer;
use crate::riders::{Made, Texts};
use crate::workers::guarded;

/// Which assignments are this member's, as far as commits go: from the assignment to the moment before the
/// partition is given back, longer than its records may start.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    assignments: Mutex<HashMap<PartitionSlot, Assignment>>,
}

#[derive(Debug)]
struct Assignment {
    epoch: Epoch,
    /// What the broker has beside the offset.
    rider: Rider,
}

impl Owned {
    fn lock(&self) -> MutexGuard<'_, HashMap<PartitionSlot, Assignment>> {
        match self.assignments.lock() {
            Ok(assignments) => assignments,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    pub(crate) fn add(&self, slot: PartitionSlot, epoch: Epoch, rider: Rider) {
        self.lock().insert(slot, Assignment { epoch, rider });
    }

    /// Whether the assignment that a record was received in is this member's.
    pub(crate) fn holds(&self, at: &TaskRef) -> bool {
        holds(&self.lock(), at.slot, at.epoch)
    }

    pub(crate) fn remove(&self, slot: PartitionSlot) {
        self.lock().remove(&slot);
    }

    pub(crate) fn holds_all<'a>(
        &self,
        mut partitions: impl Iterator<Item = &'a PartitionPlan>,
    ) -> bool {
        let assignments = self.lock();
        partitions.all(|part| holds(&assignments, part.slot, part.epoch))
    }

    /// What the broker has of the partition's rider.
    fn rider(&self, slot: PartitionSlot, epoch: Epoch) -> Option<Rider> {
        let assignments = self.lock();
        let assignment = assignments.get(&slot)?;
        (assignment.epoch == epoch).then(|| assignment.rider.clone())
    }

    fn note_rider(&self, part: &PartitionPlan, rider: &Rider) {
        if let Some(assignment) = self.lock().get_mut(&part.slot) {
            if assignment.epoch == part.epoch && assignment.rider != *rider {
                assignment.rider = rider.clone();
            }
        }
    }
}

fn holds(
    assignments: &HashMap<PartitionSlot, Assignment>,
    slot: PartitionSlot,
    epoch: Epoch,
) -> bool {
    let its = assignments.get(&slot);
    its.is_some_and(|assignment| assignment.epoch == epoch)
}

/// Makes of a plan what is sent.
pub(crate) struct Composer {
    pub(crate) owned: Arc<Owned>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) texts: Texts,
}

impl Composer {
    /// The text of each partition of `plan`.
    fn compose(&mut self, plan: &CommitPlan, names: &[TopicPartition]) -> Vec<Made> {
        let owned = &self.owned;
        self.texts
            .make(plan, names, |slot, epoch| owned.rider(slot, epoch))
    }

    /// The broker has it.
    fn note_stored(
        &self,
        plan: &CommitPlan,
        part: &PartitionPlan,
        made: &Made,
        offset: &CommitOffset<'_>,
    ) {
        self.owned.note_rider(part, &made.rider);
        made.note_stored(&plan.limits);
        if let Some(observer) = &self.observer {
            guarded(|| observer.committed(&offset.tp, offset.offset, offset.metadata));
        }
    }
}

impl Made {
    fn offset<'m>(&'m self, part: &PartitionPlan, name: &TopicPartition) -> CommitOffset<'m> {
        CommitOffset {
            tp: name.clone(),
            offset: part.map.base().get(),
            leader_epoch: part.leader_epoch,
            metadata: &self.text.text,
        }
    }
}

fn judge_not_sent(why: &NotSent) -> CommitAnswer {
    match why {
        NotSent::Guard | NotSent::NotAMember => CommitAnswer::Repeat,
        NotSent::AssignmentLost => CommitAnswer::MemberLost,
        NotSent::Closed => CommitAnswer::Superseded,
        NotSent::Refused(error) => {
            tracing::warn!(%error, "the client did not take a commit");
            CommitAnswer::Repeat
        }
    }
}

fn judge_code(partition: &TopicPartition, code: &CommitCode) -> CommitAnswer {
    let (answer, name, error) = match code {
        CommitCode::Success => return CommitAnswer::Stored,
        CommitCode::Retry(error) => (CommitAnswer::Repeat, "repeat", error),
        CommitCode::Other(error) => (CommitAnswer::Repeat, "other", error),
        CommitCode::Drop(error) => (CommitAnswer::Superseded, "superseded", error),
        CommitCode::Lost(error) => (CommitAnswer::MemberLost, "member_lost", error),
        CommitCode::TooLarge(error) => (CommitAnswer::TooLarge, "too_large", error),
        CommitCode::Denied(_, error) => (CommitAnswer::Denied, "denied", error),
    };
    tracing::debug!(%partition, %error, ?answer, "a commit was refused");
    refused(name);
    answer
}

fn refused(answer: &'static str) {
    ::metrics::counter!(metrics::COMMIT_REFUSALS, "answer" => answer).increment(1);
}
