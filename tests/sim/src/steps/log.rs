//! What happens to the logs: producers, transactions, compaction, retention.

use super::Step;
use crate::broker::{Entry, Kind};
use crate::coverage::Event;
use crate::invariants::Check;
use crate::world::World;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    if world.calm {
        return;
    }
    let weights = &world.scenario.weights;
    for (partition, log) in world.broker.logs.iter().enumerate() {
        if world.produced < world.scenario.records {
            into.push((Step::Produce(partition), 10));
        }
        into.push((Step::Marker(partition), weights.marker));
        if !log.entries.is_empty() {
            into.push((Step::Compact(partition), weights.compact));
            into.push((Step::Retain(partition), weights.retain));
        }
    }
}

pub(super) fn produce(world: &mut World, partition: usize) -> Check {
    for _ in 0..world.rng.between(1, 12) {
        let scenario = &world.scenario;
        let key = (!world.rng.chance(scenario.null_keys)).then(|| world.rng.below(scenario.keys));
        let entry = Entry {
            kind: Kind::Record,
            key,
            bytes: world.rng.between(1, 6) as u32,
            leader_epoch: world.broker.logs[partition].leader_epoch,
            held: world.rng.chance(scenario.held),
            poison: world.rng.chance(scenario.poison),
        };
        world.broker.logs[partition].entries.push(entry);
        world.produced += 1;
    }
    if world.rng.chance(50) {
        world.broker.logs[partition].leader_epoch += 1;
    }
    Ok(())
}

pub(super) fn marker(world: &mut World, partition: usize) -> Check {
    let log = &mut world.broker.logs[partition];
    log.entries.push(Entry {
        kind: Kind::Marker,
        key: None,
        bytes: 0,
        leader_epoch: log.leader_epoch,
        held: false,
        poison: false,
    });
    Ok(())
}

/// Takes some records away; never the last, which compaction keeps.
pub(super) fn compact(world: &mut World, partition: usize) -> Check {
    let log = &mut world.broker.logs[partition];
    let Some(last) = log
        .entries
        .iter()
        .rposition(|entry| entry.kind == Kind::Record)
    else {
        return Ok(());
    };
    for _ in 0..world.rng.between(1, 4) {
        // Near the end, where the windows are.
        let back = world.rng.below(24) + 1;
        let Some(index) = last.checked_sub(back) else {
            continue;
        };
        if log.entries[index].kind != Kind::Record {
            continue;
        }
        log.entries[index].kind = Kind::Gone;
        let offset = log.first + index as i64;
        let committed = world.broker.committed[partition].as_ref();
        if committed.is_some_and(|committed| committed.offset.get() <= offset)
            && !world.history.pasts[partition].finished.contains(&offset)
        {
            world.coverage.note(Event::CompactedHole);
        }
    }
    Ok(())
}

/// Moves the start of the log; never past the last record.
pub(super) fn retain(world: &mut World, partition: usize) -> Check {
    let log = &mut world.broker.logs[partition];
    let Some(last) = log
        .entries
        .iter()
        .rposition(|entry| entry.kind == Kind::Record)
    else {
        return Ok(());
    };
    let last = log.first + last as i64;
    let start = (log.start + world.rng.between(1, 8) as i64).min(last);
    for offset in log.start..start {
        if log.holds_record(offset) && !world.history.pasts[partition].finished.contains(&offset) {
            world.coverage.note(Event::RetainedIncomplete);
        }
    }
    log.start = log.start.max(start);
    Ok(())
}
