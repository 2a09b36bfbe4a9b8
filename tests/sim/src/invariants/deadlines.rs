//! The core says when it has to be called again, and that is never "at once" for ever: otherwise the thread that
//! owns it would spin, or sleep through something.

use keyway_core::Timestamp;

use super::{Check, ensure};

/// `tick` was called at `now`.
pub(crate) fn in_the_future(now: Timestamp, next: Timestamp) -> Check {
    ensure(next > now, "deadline", || {
        format!("after a tick at {now:?} another is due at {next:?}")
    })
}

/// A partition without a commit was assigned at `now`: its first position is committed at once.
pub(crate) fn first_position(now: Timestamp, next: Timestamp, in_flight: bool) -> Check {
    ensure(in_flight || next <= now, "deadline", || {
        format!("a first position waits until {next:?}, it is {now:?}")
    })
}
