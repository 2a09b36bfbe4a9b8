//! What happens to the logs: producers that read and write, markers, compaction.

use std::sync::Arc;

use super::Step;
use crate::bits::Bits;
use crate::broker::Entry;
use crate::coverage::Event;
use crate::invariants::Check;
use crate::world::World;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    if world.calm {
        return;
    }
    let weights = &world.scenario.weights;
    for producer in 0..world.producers.len() {
        if !world.records.is_empty() {
            into.push((Step::Observe(producer), 12));
        }
        if world.produced < world.scenario.records {
            into.push((Step::Produce(producer), 10));
        }
    }
    for chan in 0..world.broker.chans.len() {
        into.push((Step::Marker(chan), weights.marker));
        into.push((Step::Compact(chan), weights.compact));
    }
    if !world.records.iter().any(|record| record.is_malformed) {
        for p in 0..world.broker.gated {
            into.push((Step::ProduceMalformed(p), weights.malformed));
        }
    }
}

/// What is there before the group begins.
pub(crate) fn begin(world: &mut World) {
    for _ in 0..world.scenario.before {
        for producer in 0..world.producers.len() {
            let _ = observe(world, producer);
            let _ = produce(world, producer);
        }
    }
    if world.scenario.starts_latest {
        for p in 0..world.broker.gated {
            world.broker.begins_at[p] = world.broker.chans[p].end();
            if world.broker.begins_at[p] > 0 {
                world.coverage.note(Event::StartedLatest);
            }
        }
    }
}

/// A producer reads some record of any topic.
pub(super) fn observe(world: &mut World, producer: usize) -> Check {
    if world.records.is_empty() {
        return Ok(());
    }
    // Mostly what came last: that is what makes long chains.
    let span = world.rng.pick(&[3, 8, usize::MAX]).min(world.records.len());
    let number = world.records.len() - 1 - world.rng.below(span);
    let record = &world.records[number];
    let chan = &world.broker.chans[record.chan];
    if world.is_there(number) && !record.is_malformed {
        world.producers[producer].observe(number, record, chan.channel);
    }
    Ok(())
}

pub(super) fn produce(world: &mut World, producer: usize) -> Check {
    let chan = match world.rng.chance(800) {
        true => world.rng.below(world.broker.gated),
        false => world.rng.below(world.broker.chans.len()),
    };
    let may_be_missing = world.rng.chance(world.scenario.rates.no_header);
    let producer = &world.producers[producer];
    let (header, past) = (producer.header(may_be_missing), producer.past.clone());
    world.append(chan, header, past);
    world.produced += 1;
    Ok(())
}

pub(super) fn produce_malformed(world: &mut World, p: usize) -> Check {
    let number = world.append(p, Some(Arc::from(&b"\x01\xff"[..])), Bits::default());
    world.records[number].is_malformed = true;
    Ok(())
}

pub(super) fn marker(world: &mut World, chan: usize) -> Check {
    world.broker.chans[chan].log.push(Entry::Marker);
    Ok(())
}

/// A record that nobody holds goes.
pub(super) fn compact(world: &mut World, chan: usize) -> Check {
    let log = world.broker.chans[chan].log.iter().enumerate();
    let records: Vec<_> = log
        .filter_map(|(offset, entry)| match entry {
            Entry::Record(number) => Some((offset, *number)),
            Entry::Marker | Entry::Gone => None,
        })
        .collect();
    if records.is_empty() {
        return Ok(());
    }
    let (offset, number) = world.rng.pick(&records);
    let is_read = |member: &crate::member::Member| {
        let slot = member.slots.get(chan);
        slot.is_some_and(|slot| slot.assignment.is_some() && slot.position > offset as i64)
    };
    if world.records[number].is_malformed || world.members.iter().any(is_read) {
        return Ok(());
    }
    world.broker.chans[chan].log[offset] = Entry::Gone;
    world.coverage.note(Event::Compacted);
    Ok(())
}
