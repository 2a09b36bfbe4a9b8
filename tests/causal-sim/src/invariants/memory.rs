//! What a member knows after an assignment: all that the commits of the group stand for, whoever has made them, with a
//! map beside it or without. It is looked at where it shows: in the stamps of what the member sends from then on.

use crate::bits::Bits;
use crate::world::World;

/// The member has read what the group has committed; from now on that is before all that it sends.
pub(crate) fn begins(world: &mut World, m: usize) {
    let mut known = Bits::default();
    for committed in world.broker.committed.iter().flatten() {
        known.add_all(&committed.complete);
        if world.has_forgotten {
            continue;
        }
        for record in committed.complete.iter() {
            let causes = world.records[record].ancestors.iter();
            // What nobody has completed no shard tells of.
            let told = causes.filter(|cause| world.is_consumed(*cause) && world.is_there(*cause));
            told.for_each(|cause| known.insert(cause));
        }
    }
    if !world.has_forgotten {
        known.add_all(&world.learned);
    }
    world.members[m].past.add_all(&known);
}
