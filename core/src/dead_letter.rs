//! Records on their way to a dead-letter topic.
//!
//! The two steps of a completion, apart: the handler's part is over when the letter is asked for, and the record is
//! complete when the broker has acknowledged the letter.
//!
//! ```text
//!   last attempt failed --WriteDeadLetter--> written: complete
//!            ^                          \--> failed: in front of its lane until the next try is due
//!            '------------ later -----------------'
//! ```
//!
//! Meanwhile its lane waits, no worker is held, and the record counts in the buffers like any other.

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
        let at = letter.at;
        // Also where a worker has closed the lane, to be told to open it again.
        self.lanes.get_mut(at.lane).failed = true;
        self.commands.push_back(Command::WriteDeadLetter(letter));
        if mutated(Mutant::LetterNotAwaited) {
            self.complete(at, now);
            return;
        }
        let lane = self.lanes.get_mut(at.lane);
        lane.out += 1;
        lane.letters += 1;
        lane.out_epoch = at.epoch;
        self.partitions[at.slot.index()].letters_out += 1;
        self.totals.letters_out += 1;
    }

    /// Event: the broker has acknowledged the letter of this record, which is complete by that.
    pub fn dead_letter_written(&mut self, at: TaskRef, now: Timestamp) {
        if self.take_letter(&at) {
            self.counters.dead_letters += 1;
            self.complete(at, now);
        }
        self.after_letter(&at, now);
    }

    /// Event: the letter could not be written. It stays, in front of its lane, and is tried again later.
    pub fn dead_letter_failed(&mut self, letter: DeadLetter<P>, now: Timestamp) {
        let DeadLetter { at, payload, tries } = letter;
        if self.take_letter(&at) {
            self.counters.dead_letters_failed += 1;
            if mutated(Mutant::FailedLetterForgotten) {
                self.complete(at, now);
            } else {
                self.put_letter_back(at, payload, tries, now);
            }
        }
        self.after_letter(&at, now);
    }

    fn put_letter_back(&mut self, at: TaskRef, payload: P, tries: u32, now: Timestamp) {
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

    /// Says whether the answer counts: not when the assignment of its record has ended.
    fn take_letter(&mut self, at: &TaskRef) -> bool {
        let lane = self.lanes.get_mut(at.lane);
        if mutated(Mutant::LetterNotAwaited) {
            return false;
        }
        lane.out -= 1;
        lane.letters -= 1;
        self.totals.letters_out -= 1;
        let partition = &mut self.partitions[at.slot.index()];
        let counts = partition.counts(at.epoch);
        if counts {
            partition.letters_out -= 1;
        } else {
            self.counters.late_results += 1;
            self.forget_total(at.bytes);
            self.let_up_all();
        }
        counts
    }

    fn after_letter(&mut self, at: &TaskRef, now: Timestamp) {
        let route = self.partitions[at.slot.index()].route;
        if !mutated(Mutant::LetterNotAwaited) {
            self.settle_lane(route, at.lane, now);
        }
        self.after_results(route, now);
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
