//! Outputs of records, at least once.
//!
//! ```text
//!   handler finished --Send--> acknowledged: complete
//!                         \--> failed: an attempt that failed, with all that follows one
//! ```
//!
//! The next record of the lane starts only when the broker has acknowledged the outputs of the one before: otherwise
//! outputs that are sent again would come after a later record's.

use std::time::Duration;

use keyway_rider::Update;

use crate::command::Command;
use crate::core::Core;
use crate::gate::Gate;
use crate::ids::Timestamp;
use crate::mutant::{Mutant, mutated};
use crate::work::{Finished, TaskRef, Verdict};
use crate::writes::Written;

/// A record whose handler is over, and whose outputs, which its payload carries, are to be sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Sending<P> {
    /// Which record.
    pub at: TaskRef,
    /// What carries the outputs, and goes back to its lane when they can't be sent.
    pub payload: P,
    /// What the record brings to the state of its partition once it is complete.
    pub update: Option<Update>,
    /// What its outputs count against [`BufferConfig::output_bytes`](crate::BufferConfig::output_bytes).
    pub bytes: u32,
    /// A record before it in its lane runs again, as a batch may leave it: these are not to be sent, and the answer is
    /// [`Core::outputs_not_sent`].
    pub held_back: bool,
}

/// Outputs of a record that the broker has acknowledged, all of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Sent {
    /// Which record.
    pub at: TaskRef,
    /// As in its [`Sending`].
    pub update: Option<Update>,
    /// As in its [`Sending`].
    pub bytes: u32,
}

impl<P, G: Gate<P>> Core<P, G> {
    /// The handler has outputs, which its record's lane waits for from now on.
    pub(crate) fn send(&mut self, mut sending: Sending<P>, now: Timestamp) {
        let at = sending.at;
        sending.held_back = self.is_behind_a_failure(&at);
        if mutated(Mutant::OutputsNotAwaited) {
            self.commands.push_back(Command::Send(sending));
            self.complete(at, now);
            return;
        }
        self.await_outputs(sending);
    }

    /// Whether a record before this one in its lane runs again: outputs of this one would come before that one's.
    pub(crate) fn is_behind_a_failure(&self, at: &TaskRef) -> bool {
        let failed = self.lanes.get(at.lane).failed_at;
        failed.is_some_and(|failed| failed < at.offset)
            && !mutated(Mutant::OutputsBeforeEarlierOnes)
    }

    /// The record's lane waits until there is an answer about its outputs.
    pub(crate) fn await_outputs(&mut self, sending: Sending<P>) {
        self.begin_write(&sending.at, Written::Outputs);
        self.totals.output_bytes += sending.bytes as usize;
        self.commands.push_back(Command::Send(sending));
    }

    /// Event: the broker has all outputs of this record, which is complete by that.
    pub fn outputs_acknowledged(&mut self, sent: Sent, now: Timestamp) {
        let Sent { at, update, bytes } = sent;
        if mutated(Mutant::OutputsNotAwaited) {
            return;
        }
        if self.end_send(&at, bytes) {
            self.counters.sent += 1;
            if let Some(update) = &update {
                self.apply(at, update);
            }
            self.complete(at, now);
        }
        self.after_write(&at, now);
    }

    /// Event: outputs of this record could not be sent. That is an attempt which failed.
    pub fn outputs_failed(&mut self, sending: Sending<P>, now: Timestamp) {
        let Sending {
            at, payload, bytes, ..
        } = sending;
        if mutated(Mutant::OutputsNotAwaited) {
            return;
        }
        if self.end_send(&at, bytes) {
            self.counters.sends_failed += 1;
            if mutated(Mutant::FailedSendForgotten) {
                self.complete(at, now);
            } else {
                let route = self.partitions[at.slot.index()].route;
                let verdict = Verdict::Failed {
                    payload,
                    after: None,
                };
                self.take_verdict(route, at, verdict, 0, false, now);
            }
        }
        self.after_write(&at, now);
    }

    /// A record that nothing is wrong with runs again: its policy is not asked.
    fn run_again(&mut self, at: TaskRef, payload: P, now: Timestamp) {
        self.give_starts_back(u64::from(at.attempt == 1), now);
        // The attempt that comes next has the number of this one.
        let at = TaskRef {
            attempt: at.attempt.saturating_sub(1),
            ..at
        };
        self.fail(at, payload, Duration::ZERO, 0, now);
    }

    /// Event: outputs of this record were not sent, since one before it in its lane has to run again. It runs again after
    /// that one, and its policy is not asked: nothing is wrong with it.
    pub fn outputs_not_sent(&mut self, sending: Sending<P>, now: Timestamp) {
        let Sending {
            at, payload, bytes, ..
        } = sending;
        if self.end_send(&at, bytes) {
            self.run_again(at, payload, now);
        }
        self.after_write(&at, now);
    }

    fn end_send(&mut self, at: &TaskRef, bytes: u32) -> bool {
        self.totals.output_bytes -= bytes as usize;
        self.end_write(at, Written::Outputs)
    }

    /// Whether a record may start for all that is said of outputs: not while more of them are under way than there may
    /// be. What is inside handlers by then goes on.
    pub(crate) fn outputs_have_room(&mut self) -> bool {
        let has_room = self.totals.output_bytes < self.config.buffers.output_bytes;
        self.waits_for_outputs |= !has_room;
        has_room
    }

    /// Whether a record may be queued at a worker behind another one: not while what is under way, and what those at
    /// workers are likely to add, are more than there may be. Fast handlers have hundreds of records at their workers.
    pub(crate) fn outputs_allow_a_queue(&mut self) -> bool {
        let expected = self.totals.out.saturating_mul(self.mean_output_bytes);
        let bound = self.config.buffers.output_bytes;
        let allowed = self.totals.output_bytes.saturating_add(expected) < bound;
        self.waits_for_outputs |= !allowed;
        allowed
    }

    /// Notes what the attempts of a report had as outputs, those without any included.
    pub(crate) fn note_output_bytes(&mut self, finished: &[Finished<P>], attempts: usize) {
        let bytes = finished.iter().map(|finished| match finished.verdict {
            Verdict::Outputs { bytes, .. } | Verdict::Staged { bytes, .. } => bytes as usize,
            _ => 0,
        });
        let bytes: usize = bytes.sum();
        if attempts > 0 && (bytes > 0 || self.mean_output_bytes > 0) {
            let mean = bytes / attempts;
            // A quarter of the new one: a few reports tell.
            self.mean_output_bytes = (self.mean_output_bytes * 3 + mean) / 4;
        }
    }
}
