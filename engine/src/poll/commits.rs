//! Plans on their way to the thread that commits, and its answers.

use std::time::Duration;

use crossbeam_channel::Sender;
use keyway_core::{
    Carried, CommitAnswer, CommitFinished, CommitPlan, PartitionAnswer, PartitionPlan, Staged,
    Timestamp, Transaction,
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

    pub(super) fn transact(&mut self, transaction: Transaction<Message>, now: Timestamp) {
        let writes = |staged: &Staged<Message>| !matches!(staged.carried, Carried::Nothing);
        let stamp = match transaction.staged.iter().flatten().any(writes) {
            true => self.stamp(now),
            false => Some(None),
        };
        let Some(stamp) = stamp else {
            return self.give_back_transaction(transaction, now);
        };
        let parts = transaction.plan.partitions.iter();
        let letters = parts.map(|part| self.slots.dead_letters(part.slot));
        let job = TransactionJob {
            names: self.names(&transaction.plan),
            letters: letters.collect(),
            origin: self.origin(),
            stamp,
            transaction,
        };
        if let Commits::Transactional(transactions) = &self.commits {
            // It ends only after this thread.
            let _ = transactions.send(job);
        }
    }

    /// Nothing of it may be written: it is as one that was aborted.
    fn give_back_transaction(&mut self, transaction: Transaction<Message>, now: Timestamp) {
        let Transaction { plan, staged } = transaction;
        let answer = |part: &PartitionPlan| PartitionAnswer {
            slot: part.slot,
            epoch: part.epoch,
            answer: CommitAnswer::Repeat,
            chars: 0,
            inner_chars: 0,
            stripped: false,
            takes: None,
        };
        let finished = CommitFinished {
            plan: plan.id,
            partitions: plan.partitions.iter().map(answer).collect(),
            took: Duration::ZERO,
        };
        self.core.transaction_finished(&finished, staged, now);
    }

    pub(super) fn committed(&mut self, finished: &CommitFinished, now: Timestamp) {
        self.note_stored(finished);
        self.core.commit_finished(finished, now);
        self.ask_for_late();
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
        self.ask_for_late();
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
