//! Offsets that the coordinator refuses: it gives one reason for all partitions of a transaction.

use std::sync::Arc;

use keyway_core::{CommitAnswer, CommitPlan};

use super::{Outcome, Part, Transactor};
use crate::kafka::{ClientError, CommitCode, CommitOffset, StepError};

/// A cap is looked for to this part of it.
const CLOSE_ENOUGH: usize = 32;

impl Transactor {
    /// What a refusal means for each partition of the transaction, which is aborted.
    pub(super) fn judge_offsets(
        &mut self,
        error: &StepError,
        plan: &CommitPlan,
        parts: &[Part<'_>],
    ) -> Outcome {
        let answer = self.judge(error);
        if error.is_missing_topic() {
            return Outcome::Aborted(self.judge_missing(parts));
        }
        // The longest text is one that is too long.
        let longest = (0..parts.len()).max_by_key(|at| parts[*at].offset.metadata.len());
        match longest {
            Some(longest) if answer == CommitAnswer::TooLarge => Outcome::TooLarge {
                longest,
                takes: self.find_cap(plan, &parts[longest]),
            },
            _ => Outcome::Aborted(vec![answer; parts.len()]),
        }
    }

    fn judge_missing(&mut self, parts: &[Part<'_>]) -> Vec<CommitAnswer> {
        for part in parts {
            let topic = Arc::clone(&part.offset.tp.topic);
            self.state.topics.unknown.insert(topic);
        }
        let names: Vec<_> = parts.iter().map(|part| part.offset.tp.clone()).collect();
        self.look_for_unknown(&names);
        let unknown = &self.state.topics.unknown;
        let answers = parts
            .iter()
            .map(|part| match unknown.contains(&part.offset.tp.topic) {
                true => CommitAnswer::Denied,
                false => CommitAnswer::Repeat,
            });
        answers.collect()
    }

    /// The longest text that the broker takes: found by transactions that carry nothing else and are aborted, so that no
    /// second one with outputs is refused for its text. `None` where another reason comes between.
    fn find_cap(&mut self, plan: &CommitPlan, part: &Part<'_>) -> Option<usize> {
        let (mut takes, mut refuses) = (0, part.offset.metadata.len());
        while refuses - takes > (refuses / CLOSE_ENOUGH).max(1) {
            let middle = takes + (refuses - takes) / 2;
            match self.takes(plan, part, middle) {
                Ok(true) => takes = middle,
                Ok(false) => refuses = middle,
                Err(error) => {
                    tracing::debug!(%error, "how much text the broker takes was not found out");
                    return None;
                }
            }
        }
        tracing::warn!(takes, "the broker takes less metadata than was configured");
        Some(takes)
    }

    /// Whether the broker takes a text of so many characters.
    fn takes(
        &mut self,
        plan: &CommitPlan,
        part: &Part<'_>,
        chars: usize,
    ) -> Result<bool, StepError> {
        let step = "a text's length";
        self.make_ready()?;
        let owned = Arc::clone(&self.composer.owned);
        let planned = plan.partitions.iter().skip(part.index).take(1);
        let member = self.group.member_for(|| owned.holds_all(planned));
        let member = member.map_err(|_| StepError::client(step, ClientError::Closed))?;
        let producer = self.producers.current();
        let producer = producer.map_err(|error| StepError::client(step, error))?;
        producer.begin()?;
        let text = "A".repeat(chars);
        let offset = CommitOffset {
            metadata: &text,
            ..part.offset.clone()
        };
        let timeout = self.timeout.min(self.transaction_timeout / 2);
        let sent = producer.send_offsets(&[offset], member, timeout);
        self.end_refused(&sent);
        match sent {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.code(), CommitCode::TooLarge(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
