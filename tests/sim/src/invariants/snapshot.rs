//! Offset, map and state of a plan are those of one moment: of the moment it was made.

use std::collections::BTreeSet;

use keyway_core::{PartitionPlan, PlannedRider};

use super::{Check, ensure};
use crate::assignment::Assignment;
use crate::broker::Log;

/// The core has just made this plan for a partition.
/// `covered` is what its transaction carries.
pub(crate) fn is_this_moment(
    assignment: &Assignment,
    log: &Log,
    plan: &PartitionPlan,
    covered: &BTreeSet<i64>,
) -> Check {
    let expected = assignment.map_covering(covered);
    ensure(plan.map == expected, "snapshot", || {
        format!(
            "{} plans {:?} where {expected:?} holds",
            plan.slot, plan.map
        )
    })?;
    if let PlannedRider::State(state) = &plan.rider {
        let tally = &assignment.tally_with(covered);
        ensure(state.encode(0) == Some(tally.bytes()), "snapshot", || {
            format!(
                "{}: the rider of {:?} is not {tally:?}",
                plan.slot, plan.map
            )
        })?;
    }
    let claimed = plan.leader_epoch.unwrap_or(-1);
    let last = log
        .get(plan.map.base().get() - 1)
        .map_or(log.leader_epoch, |entry| entry.leader_epoch);
    ensure(claimed <= last, "snapshot", || {
        format!(
            "{} claims leader epoch {claimed}, the record below its base has {last}",
            plan.slot
        )
    })
}
