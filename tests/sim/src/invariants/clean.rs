//! What the core calls committed is what the broker has: also when an answer was lost, and an older request lands
//! behind a newer one.

use keyway_core::PartitionStatus;
use keyway_offsets::HoleMap;

use super::{Check, ensure};
use crate::assignment::Assignment;

/// The core's word on a partition, and what the broker has for it.
pub(crate) fn is_stored(
    assignment: &Assignment,
    status: &PartitionStatus,
    committed: Option<&HoleMap>,
) -> Check {
    if status.dirty {
        return Ok(());
    }
    let expected = assignment.map();
    // A map that was stripped leaves its base.
    let has = committed.is_some_and(|committed| {
        committed.base() == expected.base() && (committed.is_caught_up() || *committed == expected)
    });
    ensure(has, "clean", || {
        format!(
            "{} is said to be committed at {expected:?}, the broker has {committed:?}",
            status.slot
        )
    })
}
