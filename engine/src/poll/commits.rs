//! Plans on their way to the thread that commits, and its answers.

use crossbeam_channel::Sender;
use keyway_core::{
    Carried, CommitAnswer, CommitFinished, CommitPlan, PartitionAnswer, Staged, Timestamp,
    Transaction,
};

use super::PollLoop;
use crate::commits::{CommitJob, Refusal, Transacted, TransactionJob};
use crate::kafka::TopicPartition;
use crate::record::Message;

/// The way to the thread that commits.
pub(crate) enum Commits {
    Plain(Sender<CommitJob>),
    Transactional(Sender<TransactionJob>),
}

impl PollLoop {
    fn names(&self, plan: &CommitPlan) -> Vec<TopicPartition> {
        let parts = plan.partitions.iter();
        parts
            .map(|part| self.slots.partition(part.slot).clone())
            .collect()
    }

    pub(super) fn commit(&self, plan: CommitPlan) {
        let names = self.names(&plan);
        if let Commits::Plain(commits) = &self.commits {
            // The committer ends only after this thread.
            let _ = commits.send(CommitJob { plan, names });
        }
    }

    pub(super) fn transact(&self, transaction: Transaction<Message>) {
        let parts = transaction.plan.partitions.iter();
        let letters = parts.map(|part| self.slots.dead_letters(part.slot));
        let job = TransactionJob {
            names: self.names(&transaction.plan),
            letters: letters.collect(),
            origin: self.origin(),
            transaction,
        };
        if let Commits::Transactional(transactions) = &self.commits {
            // It ends only after this thread.
            let _ = transactions.send(job);
        }
    }

    pub(super) fn committed(&mut self, finished: &CommitFinished, now: Timestamp) {
        self.note_stored(finished);
        self.core.commit_finished(finished, now);
    }

    pub(super) fn transacted(&mut self, transacted: Transacted, now: Timestamp) {
        let Transacted {
            finished,
            staged,
            refusals,
            healed,
        } = transacted;
        self.note_stored(&finished);
        for topic in healed {
            self.state.send_errors.remove(&topic);
        }
        for refusal in refusals {
            let Refusal {
                at,
                is_letter,
                failure,
            } = refusal;
            match is_letter {
                true => self.note_letter_error(&at, &failure.topic, failure.error, now),
                false => self.note_send_error(&at, failure, now),
            }
        }
        for (answer, staged) in finished.partitions.iter().zip(&staged) {
            if answer.answer == CommitAnswer::Stored {
                self.note_letters(staged);
            }
        }
        self.core.transaction_finished(&finished, staged, now);
    }

    fn note_letters(&mut self, staged: &[Staged<Message>]) {
        for staged in staged {
            if let Carried::Letter { .. } = staged.carried {
                self.note_letter(&staged.at);
            }
        }
    }

    fn note_stored(&mut self, finished: &CommitFinished) {
        let stored = |part: &PartitionAnswer| part.answer == CommitAnswer::Stored;
        if finished.partitions.iter().any(stored) {
            self.state.denials.stored();
        }
        tracing::trace!(plan = finished.plan.0, took = ?finished.took, "commit answered");
    }
}
