//! What is remembered of topics that refuse: those written to, and those whose offsets are committed.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use keyway_core::{Carried, CommitAnswer, Staged};

use super::Transactor;
use crate::dead_letters::DeadLetters;
use crate::kafka::{ClientError, DeniedWhat, NotWritten, TopicPartition};
use crate::record::Message;

/// A missing topic is asked for before the next try, and so long an answer is waited for.
const TOPIC_ANSWER: Duration = Duration::from_secs(1);

/// Topics of which something is remembered: beyond, all of it is forgotten, which costs a question or a status line.
const MOST_TOPICS: usize = 1_000;

/// By what they refused.
#[derive(Debug, Default)]
pub(super) struct Topics {
    /// Have refused something and taken nothing since.
    pub(super) failing: HashSet<String>,
    /// Of these, were missing: asked for before the next try.
    missing: BTreeSet<String>,
    /// The group's coordinator did not know them: left out until they are seen.
    pub(super) unknown: HashSet<Arc<str>>,
}

impl Transactor {
    /// Of the topics that the coordinator did not know those are forgotten which are there.
    pub(super) fn look_for_unknown(&mut self, names: &[TopicPartition]) {
        let unknown = &mut self.state.topics.unknown;
        if !names.iter().any(|name| unknown.contains(&name.topic)) {
            return;
        }
        match self.group.topics(self.timeout) {
            Ok(topics) => unknown.retain(|topic| !topics.iter().any(|name| **name == **topic)),
            // Then the coordinator is asked.
            Err(_) => unknown.clear(),
        }
    }

    /// A topic that has been made since it was missing is known from then on.
    pub(super) fn look_for_missing(&mut self) {
        let missing = std::mem::take(&mut self.state.topics.missing);
        if let (Some(topic), Ok(producer)) = (missing.first(), self.producers.current()) {
            producer.look_for(topic, TOPIC_ANSWER);
        }
    }

    pub(super) fn note_refusal(&mut self, failure: &NotWritten) {
        if self.state.topics.failing.len() >= MOST_TOPICS {
            self.state.topics.failing.clear();
            self.state.topics.missing.clear();
        }
        self.state.topics.failing.insert(failure.topic.clone());
        if let ClientError::Denied {
            what: DeniedWhat::MissingTopic(topic),
            ..
        } = &failure.error
        {
            self.state.topics.missing.insert(topic.clone());
        }
    }

    /// Topics that had refused something, and were written to.
    pub(super) fn healed(
        &mut self,
        staged: &[Vec<Staged<Message>>],
        letters: &[Option<DeadLetters>],
        answers: &[CommitAnswer],
    ) -> Vec<String> {
        let mut healed = Vec::new();
        let mut took = |topic: &str| {
            if let Some(topic) = self.state.topics.failing.take(topic) {
                healed.push(topic);
            }
        };
        let parts = staged.iter().zip(letters).zip(answers);
        for ((staged, to), _) in parts.filter(|(_, answer)| **answer == CommitAnswer::Stored) {
            for staged in staged {
                match &staged.carried {
                    Carried::Nothing => {}
                    Carried::Outputs(message) => message.read_outputs(|outputs| {
                        outputs.iter().for_each(|output| took(output.topic()));
                    }),
                    Carried::Letter { .. } => to.iter().for_each(|to| took(to.topic())),
                }
            }
        }
        healed
    }
}
