//! Commits of offsets alone: a plan becomes text, the text a request, its answer an event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use keyway_core::{CommitAnswer, CommitFinished, CommitPlan, PartitionAnswer};

use super::{Composer, judge_code, judge_not_sent, refused};
use crate::kafka::{self, GroupClient, TopicPartition};
use crate::poll::{Inbound, InboxSender};

/// A plan with the names of its partitions, in its order.
#[derive(Debug)]
pub(crate) struct CommitJob {
    pub(crate) plan: CommitPlan,
    pub(crate) names: Vec<TopicPartition>,
}

/// What the committer works with.
pub(crate) struct Committer {
    pub(crate) group: GroupClient,
    pub(crate) timeout: Duration,
    pub(crate) composer: Composer,
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
        let made = self.composer.compose(plan, &job.names);
        let parts = || plan.partitions.iter().zip(&made);
        let to_send = || parts().filter(|(_, made)| !made.is_unchanged);
        let offsets: Vec<_> = parts()
            .zip(&job.names)
            .filter(|((_, made), _)| !made.is_unchanged)
            .map(|((part, made), name)| made.offset(part, name))
            .collect();
        let answers = if offsets.is_empty() {
            Vec::new()
        } else {
            let owned = Arc::clone(&self.composer.owned);
            let answer = self.group.commit(&offsets, self.timeout, || {
                owned.holds_all(to_send().map(|(part, _)| part))
            });
            judge(&answer, offsets.len())
        };
        for ((offset, (part, made)), answer) in offsets.iter().zip(to_send()).zip(&answers) {
            if *answer == CommitAnswer::Stored {
                self.composer.note_stored(plan, part, made, offset);
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
            let answer = judge_not_sent(why);
            refused("not_sent");
            vec![answer; partitions]
        }
    }
}
