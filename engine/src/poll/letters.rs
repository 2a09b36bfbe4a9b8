//! Dead letters on their way between the core and the writer.

use std::sync::Arc;

use keyway_core::{DeadLetter, TaskRef, Timestamp};

use super::PollLoop;
use crate::dead_letters::Origin;
use crate::kafka::ClientError;
use crate::record::Message;
use crate::writer::{Job, LetterJob};

impl PollLoop {
    pub(super) fn write_letter(&mut self, letter: DeadLetter<Message>, now: Timestamp) {
        let Some(to) = self.slots.dead_letters(letter.at.slot) else {
            // The core asks for none where its route has no topic.
            tracing::error!(?letter, "a dead letter without a topic");
            return;
        };
        let Some(stamp) = self.stamp(now) else {
            return self.core.dead_letter_failed(letter, now);
        };
        let origin = self.origin();
        self.writes.ask(Job::Letter(LetterJob {
            letter,
            to,
            origin,
            stamp,
        }));
    }

    /// Who gives records up: this member, as its group knows it.
    pub(super) fn origin(&self) -> Origin {
        Origin {
            group: Arc::clone(&self.writes.group),
            member: self.group.member().map(|member| member.id.into()),
        }
    }

    pub(super) fn letter_written(&mut self, at: TaskRef, now: Timestamp) {
        self.note_letter(&at);
        self.core.dead_letter_written(at, now);
    }

    /// Says that a dead letter was written.
    pub(super) fn note_letter(&mut self, at: &TaskRef) {
        self.state.letter_error = None;
        tracing::warn!(
            partition = %self.slots.partition(at.slot),
            offset = %at.offset,
            attempts = at.attempt,
            "a dead letter: no further attempt is made"
        );
    }

    /// Why letters that are not acknowledged yet could not be written, and since when.
    pub(super) fn letter_error(
        &self,
        core: &keyway_core::Status,
    ) -> Option<&(ClientError, Timestamp)> {
        let mut parts = core.partitions.iter();
        let is_open = parts.any(|part| part.letters_out + part.letters_waiting > 0);
        self.state.letter_error.as_ref().filter(|_| is_open)
    }

    pub(super) fn letter_failed(
        &mut self,
        letter: DeadLetter<Message>,
        topic: &str,
        error: ClientError,
        now: Timestamp,
    ) {
        self.note_letter_error(&letter.at, topic, error, now);
        self.core.dead_letter_failed(letter, now);
    }

    /// Says that the dead letter of this record can't be written.
    pub(super) fn note_letter_error(
        &mut self,
        at: &TaskRef,
        topic: &str,
        error: ClientError,
        now: Timestamp,
    ) {
        let number = error.code().map_or(0, |code| code.number);
        if self.state.repeats.say(number, now) {
            tracing::error!(
                partition = %self.slots.partition(at.slot),
                offset = %at.offset,
                topic,
                %error,
                "a dead letter can't be written: its key waits, and it is tried again until it can"
            );
        }
        let since = self
            .state
            .letter_error
            .take()
            .map_or(now, |(_, since)| since);
        self.state.letter_error = Some((error, since));
    }
}
