//! An epoch's late results have no effect: the partition's map is what its own assignment's results made it.

use keyway_core::PartitionStatus;

use super::{Check, ensure};
use crate::assignment::Assignment;

/// The core's map of a partition at any moment.
pub(crate) fn untouched(assignment: &Assignment, status: &PartitionStatus) -> Check {
    let expected = assignment.map();
    ensure(status.map == expected, "late results", || {
        format!(
            "{} has {:?}, its own results make {expected:?}",
            status.slot, status.map
        )
    })
}
