//! Time: it jumps, and cores are ticked when they asked for it, or at any other moment.

use std::time::Duration;

use keyway_core::Timestamp;

use super::Step;
use super::pump::pump;
use crate::invariants::{Check, deadlines};
use crate::world::World;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    for (index, member) in world.members.iter().enumerate() {
        if member.is_up() {
            let due = member.core.next_deadline() <= world.now;

            if due || !world.calm {
                into.push((Step::Tick(index), if due { 60 } else { 4 }));
            }
        }
    }
    // Without faults time passes only when nothing else can happen, to the moment that somebody waits for.
    let idle = into.iter().all(|(_, weight)| *weight == 0);
    if !world.calm || (idle && next_moment(world) != Timestamp::NEVER) {
        into.push((Step::Advance, 15));
    }
}

/// The earliest moment that somebody waits for.
fn next_moment(world: &World) -> Timestamp {
    let up = || world.members.iter().filter(|member| member.is_up());
    let ticks = up().map(|member| member.core.next_deadline());
    let revokes = up().flat_map(|member| member.slots.iter().filter_map(|slot| slot.revoke_until));
    ticks.chain(revokes).min().unwrap_or(Timestamp::NEVER)
}

pub(super) fn tick(world: &mut World, index: usize) -> Check {
    let now = world.now;
    world.members[index].core.tick(now);
    pump(world, index)?;
    deadlines::in_the_future(now, world.members[index].core.next_deadline())
}

pub(super) fn advance(world: &mut World) {
    let next = next_moment(world);
    let jump = world.rng.pick(&[0, 1, 50, 1_000, 40_000]);
    if world.calm || (jump == 0 && next != Timestamp::NEVER) {
        world.now = world.now.max(next);
    } else {
        world.now = world.now.after(Duration::from_micros(jump));
    }
}
