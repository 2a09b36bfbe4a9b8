//! A rate as the user says it.

use std::num::NonZeroU32;

use governor::Quota;

use crate::builder::{BuildError, in_range};

/// At most so many records start in a second.
///
/// A record starts when it is handed to a worker, and each attempt is a start: a further one costs whoever is to be
/// spared as much as the first. A tenth of a second's worth, and always one, may start at once after a quiet time;
/// that lets waits last milliseconds without costing rate, and is no heap to whoever is behind the handler.
///
/// A wait holds no worker and keeps the order. Of a key only the records of its lane wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_second: u32,
}

/// More than one thread hands over, so that more would limit nothing.
const MOST: u32 = 10_000_000;

/// Bursts in a second's worth.
const BURSTS: u32 = 10;

impl Rate {
    /// So many records a second, from 1 to 10,000,000.
    pub const fn per_second(records: u32) -> Self {
        Self {
            per_second: records,
        }
    }

    /// Records a second.
    pub const fn records_per_second(self) -> u32 {
        self.per_second
    }

    pub(crate) fn check(self, setting: &'static str) -> Result<(), BuildError> {
        in_range(
            setting,
            self.per_second,
            (1..=MOST).contains(&self.per_second),
            "from 1 to 10,000,000 records a second; leave it out for as many as can",
        )
    }

    pub(super) fn quota(self) -> Quota {
        let at_least_one = |number: u32| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        Quota::per_second(at_least_one(self.per_second))
            .allow_burst(at_least_one(self.per_second / BURSTS))
    }
}
