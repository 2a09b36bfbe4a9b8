//! A transaction makes complete what it carries, and carries what it makes complete: so outputs are there once, those of
//! a lane in the order of its records.

use std::collections::BTreeSet;

use keyway_core::Staged;
use keyway_offsets::{HoleMap, Offset};

use super::{Check, ensure};
use crate::assignment::Assignment;
use crate::broker::Log;
use crate::history::History;
use crate::record::{Lane, Payload};

/// The core has just made a transaction that carries these.
pub(crate) fn is_staged(assignment: &Assignment, covered: &BTreeSet<i64>) -> Check {
    let stranger = covered
        .iter()
        .find(|offset| !assignment.staged.contains_key(offset));
    ensure(stranger.is_none(), "exactly once", || {
        format!("{stranger:?} is in a transaction, and is not done")
    })
}

/// A transaction is about to be committed: `before` is what was complete until now.
pub(crate) fn covers(
    log: &Log,
    partition: usize,
    before: &HoleMap,
    after: &HoleMap,
    staged: &[Staged<Payload>],
) -> Check {
    let carried: BTreeSet<i64> = staged.iter().map(|staged| staged.at.offset.get()).collect();
    let is_new = |value: i64| {
        Offset::new(value).is_some_and(|at| after.is_complete(at) && !before.is_complete(at))
    };
    let lost = carried.iter().find(|offset| !is_new(**offset));
    ensure(lost.is_none(), "exactly once", || {
        format!(
            "partition {partition}: {lost:?} is written, and the map does not make it complete: {before:?} to {after:?}"
        )
    })?;
    let end = after.highest().max(after.base().get() - 1);
    let missing = (before.base().get()..=end)
        .filter(|offset| log.holds_record(*offset) && is_new(*offset))
        .find(|offset| !carried.contains(offset));
    ensure(missing.is_none(), "exactly once", || {
        format!("partition {partition}: {missing:?} becomes complete without what it writes")
    })
}

/// Outputs of this record are seen by readers from now on.
pub(crate) fn written(history: &mut History, lane: Lane, partition: usize, offset: i64) -> Check {
    let is_first = history.pasts[partition].written.insert(offset);
    ensure(is_first, "exactly once", || {
        format!("partition {partition}: outputs of {offset} are there twice")
    })?;
    let last = history.last_written.insert(lane, offset);
    ensure(
        last.is_none_or(|last| last < offset),
        "exactly once",
        || format!("outputs of {offset} come after those of {last:?} in {lane:?}"),
    )
}
