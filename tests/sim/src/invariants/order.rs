//! In a lane one record at a time, in the order of offsets, within a member and across members. The exception
//! is documented: an attempt whose assignment ended before it did may overlap with the next owner's.

use super::{Check, ensure};
use crate::assignment::Assignment;
use crate::history::{Attempt, History};
use crate::record::Lane;

/// An attempt is about to start in a call together with the offsets of `call`.
pub(crate) fn starts(
    history: &History,
    assignment: &Assignment,
    lane: Lane,
    attempt: Attempt,
    call: &[i64],
) -> Check {
    for running in history.running.get(&lane).into_iter().flatten() {
        if running.call == attempt.call {
            continue;
        }
        let excused = running.incarnation != attempt.incarnation
            && (history.outlived.contains(&running.assignment)
                || history.outlived.contains(&attempt.assignment));
        ensure(excused, "overlap", || {
            format!("{attempt:?} starts in {lane:?} while {running:?} runs")
        })?;
    }
    let unfinished = assignment.unfinished.get(&lane).into_iter().flatten();
    for earlier in unfinished.take_while(|offset| **offset < attempt.offset) {
        let may_pass = call.contains(earlier) || assignment.was_ahead(attempt.offset, *earlier);
        ensure(may_pass, "order", || {
            format!("{attempt:?} starts in {lane:?} before {earlier}, which is not finished")
        })?;
    }
    Ok(())
}
