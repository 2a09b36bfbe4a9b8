//! What the broker has as complete, it has with its causes. Excused is only what a live member is mending: the rest of a
//! plan that was stored in part, and what landed late over something newer.

use super::{Check, ensure};
use crate::world::World;

pub(crate) fn is_closed(world: &mut World) -> Check {
    if !world.mending.is_empty() {
        return Ok(());
    }
    let new: Vec<usize> = world
        .ever
        .iter()
        .filter(|at| !world.judged.contains(*at))
        .collect();
    for effect in new {
        for cause in world.records[effect].ancestors.iter() {
            let counts = world.is_consumed(cause) && world.is_there(cause);
            ensure(!counts || world.ever.contains(cause), "cut", || {
                let (effect, cause) = (world.name(effect), world.name(cause));
                format!("{effect} is committed, and its cause {cause} is not")
            })?;
        }
        world.judged.insert(effect);
    }
    Ok(())
}
