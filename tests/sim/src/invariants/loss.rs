//! Nothing below a committed base, or complete in its map, was left unfinished.

use keyway_offsets::HoleMap;

use super::{Check, ensure};
use crate::broker::Log;
use crate::history::Past;

/// The broker has stored `map`.
pub(crate) fn stored(past: &mut Past, log: &Log, partition: usize, map: &HoleMap) -> Check {
    let base = map.base().get();
    for offset in past.verified_below..base {
        judge(past, log, partition, offset, base)?;
    }
    past.verified_below = past.verified_below.max(base);
    let mut next = base;
    for hole in map.holes() {
        for offset in next..hole.first.get() {
            judge(past, log, partition, offset, base)?;
        }
        next = hole.last.get() + 1;
    }
    for offset in next..=map.highest() {
        judge(past, log, partition, offset, base)?;
    }
    Ok(())
}

fn judge(past: &Past, log: &Log, partition: usize, offset: i64, base: i64) -> Check {
    let fine =
        offset < past.begun_at || !log.holds_record(offset) || past.finished.contains(&offset);
    ensure(fine && offset < log.end(), "loss", || {
        format!(
            "partition {partition}: {offset} is committed as complete at base {base}, and no handler finished it"
        )
    })
}
