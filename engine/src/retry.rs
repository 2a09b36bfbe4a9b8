//! What follows a failed attempt, in the user's words.

use std::num::NonZeroU32;
use std::time::Duration;

use keyway_core::{Exhausted, RetryPolicy};

use crate::builder::{BuildError, in_range};

/// When a failed attempt is made again, and what follows when no more are made.
///
/// A record that waits for its next attempt holds no worker, and nothing but its lane waits for it. An attempt whose
/// handler chose a delay of its own ([`Outcome::Retry`](crate::Outcome::Retry)) counts like any other. Attempts are
/// counted in memory: from 1 again after a restart, or when the partition has moved.
///
/// ```
/// use std::time::Duration;
/// use keyway::{Exhausted, Retry};
///
/// // After 200 ms, 400 ms, 800 ms and so on up to 30 s, each up to a fifth shorter at random; ten attempts in all.
/// let retry = Retry::exponential(Duration::from_millis(200))
///     .up_to(Duration::from_secs(30))
///     .attempts(10, Exhausted::Skip);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Retry {
    policy: RetryPolicy,
    /// As given; 0 is refused when the configuration is checked.
    attempts: Option<u32>,
}

/// The longest delay unless it is chosen: what has failed for minutes is looked at once a minute.
const LONGEST: Duration = Duration::from_secs(60);

/// Enough to pull apart what failed together.
const JITTER: f64 = 0.2;

impl Retry {
    /// The same delay after every failure, without a limit of attempts.
    pub const fn every(delay: Duration) -> Self {
        Self {
            policy: RetryPolicy::fixed(delay),
            attempts: None,
        }
    }

    /// Twice the delay after each further failure, up to a minute, each up to a fifth shorter at random; without a
    /// limit of attempts.
    pub const fn exponential(initial: Duration) -> Self {
        let longest = if initial.as_nanos() > LONGEST.as_nanos() {
            initial
        } else {
            LONGEST
        };
        Self {
            policy: RetryPolicy {
                initial,
                factor: 2.0,
                max: longest,
                jitter: JITTER,
                attempts: None,
                exhausted: Exhausted::Hold,
            },
            attempts: None,
        }
    }

    /// How much longer each further delay is; at least 1.
    pub const fn factor(mut self, factor: f64) -> Self {
        self.policy.factor = factor;
        self
    }

    /// The longest delay.
    pub const fn up_to(mut self, longest: Duration) -> Self {
        self.policy.max = longest;
        self
    }

    /// The share of each delay, 0 to 1, that may be left out at random.
    pub const fn jitter(mut self, share: f64) -> Self {
        self.policy.jitter = share;
        self
    }

    /// Most attempts, at least 1, and what follows when the last of them has failed. A batch that fails as a whole
    /// is made smaller first: only a record that stands alone has a last attempt.
    pub const fn attempts(mut self, most: u32, then: Exhausted) -> Self {
        self.attempts = Some(most);
        self.policy.exhausted = then;
        self
    }

    /// What follows when no further attempt is made, without a limit of their number: for records that a handler gives
    /// up ([`Outcome::GiveUp`](crate::Outcome::GiveUp)), those that can't be decoded ([`decode`](crate::decode)) among
    /// them. Default: [`Exhausted::Hold`].
    pub const fn then(mut self, exhausted: Exhausted) -> Self {
        self.policy.exhausted = exhausted;
        self
    }

    pub(crate) fn policy(&self) -> RetryPolicy {
        RetryPolicy {
            attempts: self.attempts.and_then(NonZeroU32::new),
            ..self.policy
        }
    }

    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let policy = &self.policy;
        in_range(
            "retry.factor",
            policy.factor,
            policy.factor >= 1.0 && policy.factor.is_finite(),
            "at least 1",
        )?;
        in_range(
            "retry.jitter",
            policy.jitter,
            (0.0..=1.0).contains(&policy.jitter),
            "a share from 0 to 1",
        )?;
        in_range(
            "retry.up_to",
            policy.max.as_millis(),
            policy.max >= policy.initial,
            "at least the first delay",
        )?;
        in_range(
            "retry.attempts",
            self.attempts.unwrap_or(1),
            self.attempts != Some(0),
            "at least 1",
        )
    }
}

impl Default for Retry {
    /// From 1 s on: long enough not to press a dependency that is down, short enough that a passing fault costs
    /// little.
    fn default() -> Self {
        Self::exponential(Duration::from_secs(1))
    }
}
