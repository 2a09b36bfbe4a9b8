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
};
use keyway_offsets::{CommitText, Limits, commit_text};
use rayon::prelude::*;

use super::inbox::{Inbound, InboxSender};
use crate::kafka::{self, CommitCode, CommitOffset, GroupClient, NotSent, TopicPartition};
use crate::metrics;
use crate::observer::Observer;

/// Which assignments are this member's, as far as commits go: from the assignment to the moment before the
/// partition is given back, longer than its records may start.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    epochs: Mutex<HashMap<PartitionSlot, Epoch>>,
}

impl Owned {
    fn lock(&self) -> MutexGuard<'_, HashMap<PartitionSlot, Epoch>> {
        match self.epochs.lock() {
            Ok(epochs) => epochs,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    pub(crate) fn add(&self, slot: PartitionSlot, epoch: Epoch) {
        self.lock().insert(slot, epoch);
    }

    pub(crate) fn remove(&self, slot: PartitionSlot) {
        self.lock().remove(&slot);
    }

    fn holds_all(&self, partitions: &[PartitionPlan]) -> bool {
        let epochs = self.lock();
        partitions
            .iter()
            .all(|partition| epochs.get(&partition.slot) == Some(&partition.epoch))
    }
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
    pub(crate) inbox: InboxSender,
}

/// From so many partitions on, texts are made on several cores.
const PARALLEL_FROM: usize = 32;

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

    fn run(self, jobs: &Receiver<CommitJob>) {
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

    fn commit(&self, job: &CommitJob) -> Vec<PartitionAnswer> {
        let plan = &job.plan;
        let texts = texts(&plan.partitions, &plan.limits);
        let offsets: Vec<_> = plan
            .partitions
            .iter()
            .zip(&job.names)
            .zip(&texts)
            .map(|((partition, name), text)| CommitOffset {
                tp: name.clone(),
                offset: partition.map.base().get(),
                leader_epoch: partition.leader_epoch,
                metadata: &text.text,
            })
            .collect();
        let answer = self.group.commit(&offsets, self.timeout, || {
            self.owned.holds_all(&plan.partitions)
        });
        let answers = judge(&answer, offsets.len());
        if let Some(observer) = &self.observer {
            for (offset, answer) in offsets.iter().zip(&answers) {
                if *answer == CommitAnswer::Stored {
                    observer.committed(&offset.tp, offset.offset, offset.metadata);
                }
            }
        }
        let parts = plan.partitions.iter().zip(&texts).zip(answers);
        parts
            .map(|((part, text), answer)| PartitionAnswer::new(part, text, answer))
            .collect()
    }
}

fn texts(partitions: &[PartitionPlan], limits: &Limits) -> Vec<CommitText> {
    if partitions.len() >= PARALLEL_FROM {
        partitions
            .par_iter()
            .map(|partition| commit_text(&partition.map, limits))
            .collect()
    } else {
        partitions
            .iter()
            .map(|partition| commit_text(&partition.map, limits))
            .collect()
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
