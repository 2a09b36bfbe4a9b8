//! Failed attempts: when the next one is made, and when none is made any more.
//!
//! Records that wait for another attempt are a heap of lanes by the time at which they are due. The record itself
//! stays at the front of its lane, so that it holds no worker and nothing of its lane passes it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::ids::{LaneIndex, Timestamp};
use crate::work::TaskRef;

/// When a failed attempt is made again, and what follows when no more are made.
///
/// The delay before attempt `n + 1` is `initial * factor^(n - 1)`, at most `max`, less a random part of up to
/// `jitter` of it, so that what failed together does not come back together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Delay before the second attempt.
    pub initial: Duration,
    /// How much longer each further delay is; at least 1.
    pub factor: f64,
    /// The longest delay.
    pub max: Duration,
    /// The share of a delay, 0 to 1, that may be left out at random.
    pub jitter: f64,
    /// Most attempts; `None` for no limit.
    pub attempts: Option<NonZeroU32>,
    /// What follows when the last of them has failed.
    pub exhausted: Exhausted,
}

/// What becomes of a record whose last attempt has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exhausted {
    /// It stays incomplete and is not tried again under this assignment; its lane waits behind it, and nothing
    /// else does.
    #[default]
    Hold,
    /// It is passed over, and counts as complete.
    Skip,
    /// It is written to the route's dead-letter topic, and counts as complete once the broker has acknowledged that.
    /// Until then its lane waits.
    DeadLetter,
    /// The member stops.
    Stop,
}

impl RetryPolicy {
    /// The same delay after every failure, without a limit.
    pub const fn fixed(delay: Duration) -> Self {
        Self {
            initial: delay,
            factor: 1.0,
            max: delay,
            jitter: 0.0,
            attempts: None,
            exhausted: Exhausted::Hold,
        }
    }

    /// Whether `attempt` was the last one.
    pub fn is_last(&self, attempt: u32) -> bool {
        self.attempts.is_some_and(|most| attempt >= most.get())
    }

    /// The delay after the failure of the attempt that `at` names.
    pub fn delay(&self, at: &TaskRef) -> Duration {
        // Beyond this many doublings any delay is the longest one.
        const MOST_STEPS: u32 = 1_000;
        let steps = at.attempt.saturating_sub(1).min(MOST_STEPS);
        let grown = self.initial.as_secs_f64() * self.factor.max(1.0).powi(steps as i32);
        let delay = grown.min(self.max.as_secs_f64());
        let kept = 1.0 - self.jitter.clamp(0.0, 1.0) * share(at);
        Duration::try_from_secs_f64(delay * kept).unwrap_or(self.max)
    }
}

/// A number from 0 to 1 that looks random and is the same for the same attempt: the core has no randomness.
fn share(at: &TaskRef) -> f64 {
    let mut mixed = at.offset.get() as u64 ^ (u64::from(at.attempt) << 48) ^ (at.epoch.0 << 32);
    mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
}

#[derive(Debug, Default)]
pub(crate) struct Retries {
    heap: BinaryHeap<Reverse<(Timestamp, LaneIndex)>>,
}

impl Retries {
    pub(crate) fn push(&mut self, due: Timestamp, lane: LaneIndex) {
        self.heap.push(Reverse((due, lane)));
    }

    /// The next lane that is due at `now`. The caller checks that it still waits for exactly this.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, LaneIndex)> {
        let Reverse((due, _)) = *self.heap.peek()?;
        if due > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// When the next lane is due, or [`Timestamp::NEVER`].
    pub(crate) fn next(&self) -> Timestamp {
        self.heap
            .peek()
            .map_or(Timestamp::NEVER, |Reverse((due, _))| *due)
    }
}
