//! When faults stop, everything is finished and committed within a budget of steps, and nothing is parked.

use super::{Check, ensure};
use crate::broker::{Broker, Kind};
use crate::history::Past;
use crate::member::Member;

/// Steps that a run without faults may take until all is done.
pub(crate) fn budget(records: usize) -> usize {
    5_000 + 200 * records
}

/// Everything has come to rest: nothing is left to do.
pub(crate) fn all_done(broker: &Broker, pasts: &[Past]) -> Check {
    for (partition, (log, past)) in broker.logs.iter().zip(pasts).enumerate() {
        for offset in log.start.max(past.begun_at)..log.end() {
            let finished = !log.holds_record(offset) || past.finished.contains(&offset);
            ensure(finished, "liveness", || {
                format!("partition {partition}: {offset} is never handled")
            })?;
        }
        let last = log
            .entries
            .iter()
            .rposition(|entry| entry.kind == Kind::Record);
        let end = last.map_or(log.first, |index| log.first + index as i64 + 1);
        let committed = broker.committed[partition].as_ref();
        // Without reports of its position a member can't know of what follows the last record.
        let all = committed.is_some_and(|committed| {
            let text = committed.text.as_bytes();
            let map = keyway_rider::read(committed.offset, text, u64::MAX).map;
            map.is_ok_and(|read| read.map.is_caught_up())
                && committed.offset.get() >= end.min(log.end())
        });
        ensure(all, "liveness", || {
            format!("partition {partition} ends at {end} and {committed:?} is committed")
        })?;
    }
    Ok(())
}

/// A member at rest holds nothing.
pub(crate) fn empty(member: &Member) -> Check {
    ensure(member.core.is_all_clean(), "liveness", || {
        "a member at rest has something to commit".to_owned()
    })?;
    let status = member.core.status();
    ensure(
        status.records == 0 && status.running == 0 && status.lanes == 0,
        "liveness",
        || {
            format!(
                "a member at rest holds {} records in {} lanes",
                status.records, status.lanes
            )
        },
    )
}
