//! Records on their way to a dead-letter topic.
//!
//! The handler's part is over when the letter is asked for, and the record is complete when the broker has acknowledged
//! the letter.
//!
//! ```text
//!   last attempt failed --WriteDeadLetter--> written: complete
//!            ^                          \--> failed: in front of its lane until the next try is due
//!            '------------ later -----------------'
//! ```

use std::time::Duration;

use crate::command::Command;
use crate::core::Core;
use crate::gate::Gate;
use crate::ids::Timestamp;
use crate::lanes::Waiting;
use crate::mutant::{Mutant, mutated};
use crate::partition::Phase;
use crate::retry::{Exhausted, RetryPolicy};
use crate::work::{Task, TaskRef};
use crate::writes::Written;

/// When a letter that could not be written is tried again: soon after a passing fault, and twice a minute while the
/// topic is missing or refused, for ever.
pub const LETTER_RETRY: RetryPolicy = RetryPolicy {
    initial: Duration::from_millis(500),
    factor: 2.0,
    max: Duration::from_secs(30),
    jitter: 0.2,
    attempts: None,
    exhausted: Exhausted::Hold,
};

/// A record that is to be written to its route's dead-letter topic.
#[derive(Debug, PartialEq, Eq)]
pub struct DeadLetter<P> {
    /// Which record; `attempt` is how many were made.
    pub at: TaskRef,
    /// What goes into the letter.
    pub payload: P,
    /// Which try at writing it: 1 for the first under this assignment.
    pub tries: u32,
}

impl<P, G: Gate<P>> Core<P, G> {
    /// The record's lane waits from now on until the letter is answered.
    pub(crate) fn write_dead_letter(&mut self, letter: DeadLetter<P>, now: Timestamp) {
        if self.is_transactional() {
            return self.stage_letter(letter, now);
        }
        let at = letter.at;
        self.commands.push_back(Command::WriteDeadLetter(letter));
        self.lanes.get_mut(at.lane).note_failed(at.offset);
        if mutated(Mutant::LetterNotAwaited) {
            self.complete(at, now);
            return;
        }
        self.begin_write(&at, Written::Letter);
    }

    /// Event: the broker has acknowledged the letter of this record, which is complete by that.
    pub fn dead_letter_written(&mut self, at: TaskRef, now: Timestamp) {
        if mutated(Mutant::LetterNotAwaited) {
            return;
        }
        if self.end_write(&at, Written::Letter) {
            self.counters.dead_letters += 1;
            self.complete(at, now);
        }
        self.after_write(&at, now);
    }

    /// Event: the letter could not be written. It stays, in front of its lane, and is tried again later.
    pub fn dead_letter_failed(&mut self, letter: DeadLetter<P>, now: Timestamp) {
        let DeadLetter { at, payload, tries } = letter;
        if mutated(Mutant::LetterNotAwaited) {
            return;
        }
        if self.end_write(&at, Written::Letter) {
            self.counters.dead_letters_failed += 1;
            if mutated(Mutant::FailedLetterForgotten) {
                self.complete(at, now);
            } else {
                self.put_letter_back(at, payload, tries, now);
            }
        }
        self.after_write(&at, now);
    }

    pub(crate) fn put_letter_back(&mut self, at: TaskRef, payload: P, tries: u32, now: Timestamp) {
        let delay = LETTER_RETRY.delay(&TaskRef {
            attempt: tries,
            ..at
        });
        let lane = self.lanes.get_mut(at.lane);
        lane.due = lane.due.max(now.after(delay));
        let partition = &mut self.partitions[at.slot.index()];
        if partition.phase == Phase::Assigned {
            partition.letters_waiting += 1;
        }
        self.keep(Waiting {
            letter_tries: tries,
            ..Waiting::new(Task { at, payload })
        });
    }

    /// The next try at the letter in front of a lane, which is due.
    pub(crate) fn write_waiting_letter(&mut self, waiting: Waiting<P>, now: Timestamp) {
        let Waiting {
            task: Task { at, payload },
            letter_tries,
            ..
        } = waiting;
        self.partitions[at.slot.index()].letters_waiting -= 1;
        let letter = DeadLetter {
            at,
            payload,
            tries: letter_tries.saturating_add(1),
        };
        self.write_dead_letter(letter, now);
    }
}
