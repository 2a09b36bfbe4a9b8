//! Where the broker has stored a part of a plan the rest is sent again at once.

use keyway_core::{CommitAnswer, CommitFinished};

use super::{Check, ensure};
use crate::member::{Member, Request};

/// Whether the answer tells of a part that was stored, and of another that was not and is still this member's.
pub(crate) fn is_torn(member: &mut Member, finished: &CommitFinished) -> bool {
    let mut parts = finished.partitions.iter();
    let is_stored = parts.any(|part| part.answer == CommitAnswer::Stored);
    let mut parts = finished.partitions.iter();
    is_stored
        && parts.any(|part| {
            part.answer == CommitAnswer::Repeat && member.current(part.slot, part.epoch).is_some()
        })
}

/// After such an answer was taken in, and all commands with it.
pub(crate) fn is_mended(m: usize, member: &Member) -> Check {
    let mends = matches!(member.request, Some(Request::Planned(..)));
    ensure(mends, "torn", || {
        format!("a plan of {m} was stored in part, and the rest is not sent")
    })
}
