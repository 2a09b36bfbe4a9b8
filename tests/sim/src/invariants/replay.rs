//! Nothing that was committed as complete runs again, and nothing is finished twice under one assignment.

use super::{Check, ensure};
use crate::assignment::Assignment;

/// `offset` is about to start under `assignment`.
pub(crate) fn starts(assignment: &Assignment, offset: i64) -> Check {
    ensure(!assignment.restored_complete(offset), "replay", || {
        format!(
            "{offset} runs under assignment {}, whose commit says that it is complete",
            assignment.id
        )
    })?;
    ensure(
        !assignment.finished.contains(&offset),
        "finished twice",
        || format!("{offset} runs again under assignment {}", assignment.id),
    )
}
