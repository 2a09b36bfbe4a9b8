//! What other members have committed, read for the records that wait for it.

use keyway_causal::Reading;

use super::Step;
use super::pump::pump;
use crate::coverage::Event;
use crate::invariants::Check;
use crate::world::World;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    for (m, member) in world.members.iter().enumerate() {
        if !member.is_up || member.is_kicked {
            continue;
        }
        if !member.core.gate().foreign_waited_for().is_empty() {
            into.push((Step::ReadForeign(m), 10));
        }
        // Every request of the time is over.
        if member.core.gate().suspects().next().is_some() && world.mending.is_empty() {
            into.push((Step::ReadSuspects(m), 2));
        }
    }
}

pub(super) fn read(world: &mut World, m: usize) -> Check {
    let channels = world.members[m].core.gate().foreign_waited_for();
    world.coverage.note(Event::ForeignRead);
    ask(world, m, channels, Reading::First)
}

pub(super) fn read_suspects(world: &mut World, m: usize) -> Check {
    let channels = world.members[m].core.gate().suspects().collect();
    ask(world, m, channels, Reading::Again)
}

fn ask(
    world: &mut World,
    m: usize,
    channels: Vec<keyway_causal::Channel>,
    reading: Reading,
) -> Check {
    let now = world.now;
    let member = &mut world.members[m];
    let freed = member.core.gate().counters().freed;
    for channel in channels {
        let committed = world.broker.index_of(channel);
        let committed = committed.and_then(|p| world.broker.committed.get(p)?.as_ref());
        let committed = committed.map(|committed| committed.offset);
        member
            .core
            .gate_mut()
            .foreign_committed(channel, committed, reading);
    }
    if member.core.gate().counters().freed > freed {
        world.coverage.note(Event::ForeignFreed);
    }
    member.core.pass_gate(now);
    pump(world, m)
}
