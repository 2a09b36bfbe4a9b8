//! Without faults all that was written gets done, and the broker hears of it.

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
