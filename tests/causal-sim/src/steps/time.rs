//! Time, which the core is told.

use std::time::Duration;

use keyway_core::Timestamp;

use super::Step;
use super::pump::pump;
use crate::invariants::Check;
use crate::world::World;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    for (m, member) in world.members.iter().enumerate() {
        if member.is_up && member.core.next_deadline() <= world.now {
            into.push((Step::Tick(m), 30));
        }
    }
    into.push((Step::Advance, 10));
}

pub(super) fn tick(world: &mut World, m: usize) -> Check {
    let now = world.now;
    world.members[m].core.tick(now);
    pump(world, m)
}

/// Time passes: a little, or up to what somebody waits for.
pub(super) fn advance(world: &mut World) -> Check {
    let up = world.members.iter().filter(|member| member.is_up);
    let next = up.map(|member| member.core.next_deadline());
    let next = next.filter(|next| *next > world.now).min();
    let little = world.now.after(Duration::from_micros(50));
    world.now = match next {
        Some(next) if next != Timestamp::NEVER && world.rng.chance(700) => next,
        _ => little,
    };
    Ok(())
}
