//! The core counts exactly what it holds, and holds no more than its bounds and what was on the way to it.
//!
//! What finds no room is given back, so that no partition outgrows its bound; the whole may by one record for each
//! partition, since one that holds nothing is never held back, and by what is left of assignments that have ended.

use keyway_core::PartitionStatus;

use super::{Check, ensure};
use crate::assignment::Assignment;
use crate::member::Member;
use crate::scenario::Scenario;

/// The totals, after every step.
pub(crate) fn total(member: &Member, scenario: &Scenario) -> Check {
    let current = || {
        member
            .slots
            .iter()
            .filter_map(|slot| slot.assignment.as_ref())
    };
    let buffered: usize = current().map(Assignment::buffered).sum();
    let out: usize = current().map(|assignment| assignment.out.len()).sum();
    let written = |assignment: &Assignment| assignment.letters.len() + assignment.sending.len();
    let written: usize = current().map(written).sum();
    let of_ended = member.out - out + member.letters.len() + member.sendings.len() - written;
    // What a transaction carries whose assignment has ended.
    let stale: Vec<u32> = member
        .stale_in_request()
        .map(|staged| staged.bytes)
        .collect();
    let of_ended = of_ended + stale.len();
    let staged = current().flat_map(|assignment| assignment.staged.values());
    let staged = staged.map(|done| done.output_bytes);
    let sending = member.sendings.iter().map(|sending| sending.bytes);
    let bytes: u32 = sending.chain(staged).chain(stale).sum();
    let bytes = bytes as usize;
    ensure(member.core.output_bytes() == bytes, "buffers", || {
        let counted = member.core.output_bytes();
        format!("the core counts {counted} bytes of outputs, there are {bytes}")
    })?;
    let expected = (buffered + of_ended, member.out);
    ensure(member.core.load() == expected, "buffers", || {
        format!(
            "the core counts {:?} records and at workers, there are {expected:?}",
            member.core.load()
        )
    })?;
    let overshoot = scenario.partitions + of_ended;
    let bound = scenario.core.buffers.total_records + overshoot;
    ensure(expected.0 <= bound, "buffers", || {
        format!(
            "{} records are buffered, at most {bound} may be",
            expected.0
        )
    })
}

/// One partition.
pub(crate) fn of_partition(
    assignment: &Assignment,
    paused: bool,
    status: &PartitionStatus,
    scenario: &Scenario,
) -> Check {
    let bytes: u32 = if assignment.revoking {
        assignment
            .out
            .union(&assignment.letters)
            .chain(&assignment.sending)
            .filter_map(|offset| assignment.bytes.get(offset))
            .sum()
    } else {
        assignment.bytes.values().sum()
    };
    let staged = assignment.staged.values();
    let bytes = bytes + staged.map(|done| done.bytes).sum::<u32>();
    let expected = (
        assignment.buffered(),
        bytes as usize,
        assignment.out.len(),
        assignment.letters.len(),
        assignment.sending.len(),
        paused,
    );
    let counted = (
        status.buffered,
        status.buffered_bytes,
        status.running,
        status.letters_out,
        status.sends_out,
        status.paused || status.paused_by_user,
    );
    ensure(counted == expected, "buffers", || {
        format!(
            "{} counts {counted:?} (records, bytes, running, letters, sending, paused), there are {expected:?}",
            status.slot
        )
    })?;
    let bound = scenario.core.buffers.partition_records;
    ensure(status.buffered <= bound, "buffers", || {
        format!(
            "{} buffers {} records, at most {bound} may be",
            status.slot, status.buffered
        )
    })
}
