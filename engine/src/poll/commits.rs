//! The committer thread: a plan becomes text, the text a request, its answer an event.
//!
//! One plan is under way at a time, so this thread may wait for the broker. Whether a plan is still this
//! member's to make is judged under the group lock, at the moment of the hand-over: the poll thread takes a
//! partition out of [`Owned`] before it gives the partition back, under the same lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use keyway_core::{
    CommitAnswer, CommitFinished, CommitPlan, Epoch, PartitionAnswer, PartitionPlan, PartitionSlot,
    TaskRef,
};
use keyway_rider::Rider;

use super::inbox::{Inbound, InboxSender};
use crate::kafka::{self, CommitCode, CommitOffset, GroupClient, NotSent, TopicPartition};
use crate::metrics;
use crate::observer::Observer;
use crate::riders::{Made, Texts};

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

    fn holds_all<'a>(&self, mut partitions: impl Iterator<Item = &'a PartitionPlan>) -> bool {
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

/// A plan with the names of its partitions, in its order.
#[derive(Debug)]
pub(crate) struct CommitJob {
    pub(crate) plan: CommitPlan,
    pub(crate) names: Vec<TopicPartition>,
}

/// What the committer works with.
pub(crate) struct Committer {
    pub(crate) group: GroupClient,
    pub(crate) owned: Arc<Owned>,
    pub(crate) timeout: Duration,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) texts: Texts,
    pub(crate) inbox: InboxSender,
}

impl Committer {
    /// Starts the thread; it ends when the sender is dropped.
    pub(crate) fn start(self) -> std::io::Result<Sender<CommitJob>> {
        // Never more than one plan is under way.
        let (sender, jobs) = crossbeam_channel::unbounded();
        std::thread::Builder::new()
            .name("keyway-commit".to_owned())
            .spawn(move || self.run(&jobs))?;
        Ok(sender)
    }

    fn run(mut self, jobs: &Receiver<CommitJob>) {
        for job in jobs {
            let started = Instant::now();
            let partitions = self.commit(&job);
            let finished = CommitFinished {
                plan: job.plan.id,
                partitions,
                took: started.elapsed(),
            };
            if !self.inbox.send(Inbound::Committed(finished)) {
                return;
            }
        }
    }

    fn commit(&mut self, job: &CommitJob) -> Vec<PartitionAnswer> {
        let plan = &job.plan;
        let owned = Arc::clone(&self.owned);
        let made = self
            .texts
            .make(plan, &job.names, |slot, epoch| owned.rider(slot, epoch));
        let parts = || plan.partitions.iter().zip(&made);
        let to_send = || parts().filter(|(_, made)| !made.is_unchanged);
        let offsets: Vec<_> = parts()
            .zip(&job.names)
            .filter(|((_, made), _)| !made.is_unchanged)
            .map(|((part, made), name)| CommitOffset {
                tp: name.clone(),
                offset: part.map.base().get(),
                leader_epoch: part.leader_epoch,
                metadata: &made.text.text,
            })
            .collect();
        let answers = if offsets.is_empty() {
            Vec::new()
        } else {
            let answer = self.group.commit(&offsets, self.timeout, || {
                self.owned.holds_all(to_send().map(|(part, _)| part))
            });
            judge(&answer, offsets.len())
        };
        for ((offset, (part, made)), answer) in offsets.iter().zip(to_send()).zip(&answers) {
            if *answer == CommitAnswer::Stored {
                self.note_stored(plan, part, made, offset);
            }
        }
        let mut answers = answers.into_iter();
        parts()
            .map(|(part, made)| {
                let answer = if made.is_unchanged {
                    CommitAnswer::Unchanged
                } else {
                    answers.next().unwrap_or(CommitAnswer::Unknown)
                };
                PartitionAnswer::new(part, &made.text, answer)
            })
            .collect()
    }

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
            observer.committed(&offset.tp, offset.offset, offset.metadata);
        }
    }
}

/// The answer of each of `partitions` partitions: the table of the commit protocol.
fn judge(answer: &kafka::CommitAnswer, partitions: usize) -> Vec<CommitAnswer> {
    match answer {
        kafka::CommitAnswer::Answered(results) => results
            .iter()
            .map(|result| judge_code(&result.tp, &result.code))
            .collect(),
        kafka::CommitAnswer::NoAnswer(code) => {
            tracing::warn!(
                ?code,
                partitions,
                "no answer to a commit: it counts as neither made nor failed"
            );
            refused("no_answer");
            vec![CommitAnswer::Unknown; partitions]
        }
        kafka::CommitAnswer::OlderOpen => {
            tracing::debug!("a commit was stored, and an older one may still be stored over it");
            vec![CommitAnswer::Unknown; partitions]
        }
        kafka::CommitAnswer::NotSent(why) => {
            let answer = match why {
                NotSent::Guard | NotSent::NotAMember => CommitAnswer::Repeat,
                NotSent::AssignmentLost => CommitAnswer::MemberLost,
                NotSent::Closed => CommitAnswer::Superseded,
                NotSent::Refused(error) => {
                    tracing::warn!(%error, "the client did not take a commit");
                    CommitAnswer::Repeat
                }
            };
            refused("not_sent");
            vec![answer; partitions]
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
