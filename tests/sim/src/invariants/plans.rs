//! One plan in flight, made under the running assignments, never of a partition that has nothing new.

use keyway_core::CommitPlan;

use super::{Check, ensure};
use crate::member::Member;

/// The core has just made this plan.
pub(crate) fn one_at_a_time(member: &Member, plan: &CommitPlan) -> Check {
    ensure(member.request.is_none(), "one plan", || {
        format!(
            "plan {} is made while {:?} is under way",
            plan.id.0, member.request
        )
    })?;
    ensure(!plan.partitions.is_empty(), "one plan", || {
        format!("plan {} is empty", plan.id.0)
    })?;
    for partition in &plan.partitions {
        let current = member.slots[partition.slot.index()]
            .assignment
            .as_ref()
            .map(|assignment| assignment.epoch);
        ensure(current == Some(partition.epoch), "one plan", || {
            format!(
                "plan {} names {} under {:?}, assigned is {current:?}",
                plan.id.0, partition.slot, partition.epoch
            )
        })?;
    }
    Ok(())
}
