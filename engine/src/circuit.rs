//! What holds a route while its dependency is down, in the user's words.

use std::time::Duration;

use keyway_core::{CircuitPolicy, CircuitState, Timestamp};

use crate::builder::{BuildError, in_range};

/// When a route is held because what its handler depends on is down.
///
/// It opens when a share of the last attempts has failed. Then nothing of the route starts, and nothing that waits
/// takes a worker; after a while one call goes through as a probe. When that is done everything goes on; when it
/// fails the circuit is open for twice as long, up to a longest time.
///
/// What fails because of the outage costs no attempts ([`Retry::attempts`](crate::Retry::attempts)): neither the
/// probes, nor what ran when it opened, nor of each record that waits the failure that helped to open it. The number of
/// the record's next attempt is that of the one forgiven. A record whose last attempt failed before it opened is given up,
/// so set more attempts than one.
///
/// A failed attempt is one that failed, panicked, timed out or asked for another. A batch that failed as a whole is one.
///
/// ```
/// use std::time::Duration;
/// use keyway::Circuit;
///
/// // When 70 % of the last 200 attempts of a minute have failed; a probe after 2 s, 4 s and so on up to half a minute.
/// let circuit = Circuit::default()
///     .share(0.7)
///     .of_last(200)
///     .window(Duration::from_secs(60))
///     .open_for(Duration::from_secs(2))
///     .up_to(Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Circuit {
    policy: CircuitPolicy,
}

impl Default for Circuit {
    /// Open when half of the last 50 attempts of the last 10 s, and at least 20, have failed: more than a few poison
    /// records do, and an outage does within moments. Open for 5 s, then twice as long up to a minute; one probe.
    fn default() -> Self {
        Self {
            policy: CircuitPolicy {
                share: 0.5,
                of_last: 50,
                at_least: 20,
                window: Duration::from_secs(10),
                open_for: Duration::from_secs(5),
                longest: Duration::from_secs(60),
                probes: 1,
            },
        }
    }
}

/// More attempts than this are no moment any more.
const MOST_ATTEMPTS: u32 = 100_000;

impl Circuit {
    /// The share of failures, above 0 and at most 1, from which on it opens.
    pub const fn share(mut self, share: f64) -> Self {
        self.policy.share = share;
        self
    }

    /// Of so many of the last attempts.
    pub const fn of_last(mut self, attempts: u32) -> Self {
        self.policy.of_last = attempts;
        self
    }

    /// Below so many attempts it does not open.
    pub const fn at_least(mut self, attempts: u32) -> Self {
        self.policy.at_least = attempts;
        self
    }

    /// Attempts of longer ago are forgotten.
    pub const fn window(mut self, window: Duration) -> Self {
        self.policy.window = window;
        self
    }

    /// How long it is open before the first probe.
    pub const fn open_for(mut self, time: Duration) -> Self {
        self.policy.open_for = time;
        self
    }

    /// The longest time without a probe.
    pub const fn up_to(mut self, longest: Duration) -> Self {
        self.policy.longest = longest;
        self
    }

    /// Calls that go through as probes; when fewer than [`Circuit::share`] of them fail it closes.
    pub const fn probes(mut self, calls: u32) -> Self {
        self.policy.probes = calls;
        self
    }

    pub(crate) const fn policy(&self) -> CircuitPolicy {
        self.policy
    }

    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let policy = &self.policy;
        in_range(
            "circuit.share",
            policy.share,
            policy.share > 0.0 && policy.share <= 1.0,
            "above 0 and at most 1",
        )?;
        in_range(
            "circuit.of_last",
            policy.of_last,
            (1..=MOST_ATTEMPTS).contains(&policy.of_last),
            "from 1 to 100,000 attempts",
        )?;
        in_range(
            "circuit.at_least",
            policy.at_least,
            (1..=policy.of_last).contains(&policy.at_least),
            "from 1 attempt to as many as `of_last` looks at, or it would never open",
        )?;
        in_range(
            "circuit.window",
            policy.window.as_millis(),
            policy.window >= Duration::from_millis(1),
            "at least 1 ms",
        )?;
        in_range(
            "circuit.open_for",
            policy.open_for.as_millis(),
            policy.open_for >= Duration::from_millis(1),
            "at least 1 ms",
        )?;
        in_range(
            "circuit.up_to",
            policy.longest.as_millis(),
            policy.longest >= policy.open_for,
            "at least as long as `open_for`",
        )?;
        in_range(
            "circuit.probes",
            policy.probes,
            policy.probes > 0,
            "at least 1 call",
        )
    }
}

/// Where a circuit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CircuitStatus {
    /// Calls are made.
    Closed,
    /// None are made.
    Open {
        /// For so long at least.
        another: Duration,
    },
    /// A probe is under way, or waits for a record.
    HalfOpen,
}

impl CircuitStatus {
    pub(crate) fn of(state: CircuitState, now: Timestamp) -> Self {
        match state {
            CircuitState::Closed => Self::Closed,
            CircuitState::Open { until } => Self::Open {
                another: until.since(now),
            },
            CircuitState::HalfOpen => Self::HalfOpen,
        }
    }

    /// Whether it holds records.
    pub fn holds(&self) -> bool {
        !matches!(self, Self::Closed)
    }
}
