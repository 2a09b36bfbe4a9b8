//! What a member knows after an assignment: all that the commits of the group stand for, whoever has made them, with a
//! map beside it or without. It is looked at where it shows: in the stamps of what the member sends from then on.

use crate::world::World;

/// The member has read what the group has committed; from now on that is before all that it sends.
pub(crate) fn begins(world: &mut World, m: usize) {
    let member = &mut world.members[m];
    for committed in world.broker.committed.iter().flatten() {
        member.past.add_all(&committed.complete);
    }
    if !world.has_forgotten {
        member.past.add_all(&world.learned);
    }
}
