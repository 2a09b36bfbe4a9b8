//! What was finished and is not committed is all that may be repeated: after a revoke that ended with everything
//! at rest and committed, that is nothing.

use keyway_offsets::HoleMap;

use super::{Check, ensure};
use crate::assignment::Assignment;

/// A revoke ended in order, and this is what the broker has.
pub(crate) fn left_clean(assignment: &Assignment, partition: usize, committed: &HoleMap) -> Check {
    for offset in &assignment.finished {
        let complete =
            keyway_offsets::Offset::new(*offset).is_some_and(|at| committed.is_complete(at));
        ensure(complete, "window", || {
            format!(
                "partition {partition} left in order, but {offset} was finished and is not committed"
            )
        })?;
    }
    Ok(())
}
