//! A committed base never goes down in one assignment, and a commit forgets nothing that the one before it knew,
//! unless it was stripped.

use keyway_core::PartitionPlan;
use keyway_offsets::HoleMap;

use super::{Check, ensure};
use crate::assignment::Assignment;

/// The core has just made this plan for a partition.
pub(crate) fn rises(assignment: &Assignment, plan: &PartitionPlan) -> Check {
    let before = assignment.planned_base;
    ensure(
        before.is_none_or(|before| before <= plan.map.base()),
        "base",
        || {
            format!(
                "{} plans base {} after {before:?}",
                plan.slot,
                plan.map.base()
            )
        },
    )
}

/// A commit in its turn replaces what was stored.
pub(crate) fn forgets_nothing(
    partition: usize,
    before: &HoleMap,
    after: &HoleMap,
    stripped: bool,
) -> Check {
    ensure(before.base() <= after.base(), "base", || {
        format!(
            "partition {partition}: {} stored over {}",
            after.base(),
            before.base()
        )
    })?;
    if stripped {
        return Ok(());
    }
    let end = before.highest();
    for value in after.base().get()..=end {
        let Some(offset) = keyway_offsets::Offset::new(value) else {
            continue;
        };
        let kept = !before.is_complete(offset) || after.is_complete(offset);
        ensure(kept, "base", || {
            format!(
                "partition {partition}: {offset} was committed as complete, and the next commit forgot it"
            )
        })?;
    }
    Ok(())
}
