//! Waiting for a condition: the only place of this crate that sleeps.
//!
//! A test never sleeps *in place of* a condition. It names what it waits for and how long that may take at
//! worst; the bound is generous, since it costs nothing when all is well.

use std::thread;
use std::time::{Duration, Instant};

/// How often a condition is looked at.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// Asks `condition` until it answers `Some`, and panics with `what` when `at_most` is over.
#[track_caller]
pub fn until<T>(what: &str, at_most: Duration, condition: impl FnMut() -> Option<T>) -> T {
    try_until(at_most, condition)
        .unwrap_or_else(|| panic!("waited {at_most:?} in vain for: {what}"))
}

/// Asks `condition` until it answers `Some`; `None` when `at_most` is over.
pub fn try_until<T>(at_most: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + at_most;
    loop {
        if let Some(answer) = condition() {
            return Some(answer);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(POLL_EVERY);
    }
}
