//! Without faults all that was written gets done, and the broker hears of it. While one record keeps failing, all gets done
//! that does not wait for it.

use keyway_causal::Causes;
use keyway_offsets::Offset;

use super::Violation;
use crate::broker::Entry;
use crate::world::World;

/// Steps without faults in which everything has to be done.
pub(crate) fn budget(records: usize) -> usize {
    3_000 + 120 * records
}

/// Whether the broker has all records as complete.
pub(crate) fn is_all_done(world: &World) -> bool {
    open(world).next().is_none()
}

fn open(world: &World) -> impl Iterator<Item = usize> + '_ {
    let limits = &world.scenario.core.limits;
    (0..world.broker.gated).flat_map(move |p| {
        let map = world.broker.committed[p]
            .as_ref()
            .map(|committed| committed.map(limits));
        let log = world.broker.chans[p].log.iter().enumerate();
        let records = log.filter_map(|(offset, entry)| match entry {
            Entry::Record(record) => Some((offset as i64, *record)),
            Entry::Marker | Entry::Gone => None,
        });
        let begins_at = world.broker.begins_at[p];
        records
            .filter(move |(offset, _)| *offset >= begins_at)
            .filter_map(move |(offset, record)| {
                let at = Offset::new(offset)?;
                let is_complete = map.as_ref().is_some_and(|map| map.is_complete(at));
                (!is_complete).then_some(record)
            })
    })
}

/// Some record that is not done yet, in half of the runs that have one.
pub(crate) fn draw_poison(world: &mut World) -> Option<usize> {
    let open: Vec<usize> = open(world).collect();
    let is_drawn = !open.is_empty() && world.rng.chance(500);
    is_drawn.then(|| world.rng.pick(&open))
}

/// Whether what is not done waits, by what headers say, for the record that keeps failing: a stamp names all that its
/// member has seen, so that this is more than what the record really has caused. What comes behind such a record in its
/// partition may not find room.
pub(crate) fn is_all_done_beside_poison(world: &World) -> bool {
    let mut open: Vec<usize> = open(world).collect();
    let mut waited_for: Vec<usize> = world.poison.into_iter().collect();
    while let Some(blocks) = waited_for.pop() {
        let (waits, rest) = open
            .into_iter()
            .partition::<Vec<_>, _>(|record| waits(world, *record, blocks));
        waited_for.extend(waits.into_iter().filter(|record| *record != blocks));
        open = rest;
    }
    open.is_empty()
}

fn waits(world: &World, record: usize, blocks: usize) -> bool {
    let (it, blocks) = (&world.records[record], &world.records[blocks]);
    let causes = it
        .header
        .as_ref()
        .and_then(|header| Causes::decode(header).ok());
    let named = causes.and_then(|causes| causes.get(world.broker.chans[blocks.chan].channel));
    let is_named = named.is_some_and(|position| position.get() >= blocks.offset);
    is_named || (it.chan == blocks.chan && it.offset >= blocks.offset)
}

/// What is not done.
pub(crate) fn stuck(world: &World) -> Violation {
    let names: Vec<_> = open(world).map(|record| world.name(record)).collect();
    for (m, member) in world.members.iter().enumerate() {
        world.say(|_| {
            format!(
                "{m}: {:#?}\n{:#?}",
                member.core.gate().status(),
                member.core.status()
            )
        });
    }
    Violation {
        invariant: "liveness",
        detail: format!("never complete: {}", names.join(", ")),
    }
}
