//! Where a shard is missing nothing is sent until that is accepted, and everything is otherwise.

use keyway_causal::StampError;

use super::{Check, ensure};
use crate::world::World;

pub(crate) fn may_send(world: &World, m: usize) -> Check {
    let member = &world.members[m];
    let may = member.core.gate().may_stamp();
    let is_refused = matches!(may, Err(StampError::FrontierLost { .. }));
    let expected = member.must_refuse && !member.core.gate().config().accept_lost_frontier;
    ensure(is_refused == expected, "lost", || match expected {
        true => format!("{m} sends, though what the group knew is lost"),
        false => format!("{m} sends nothing, though nothing is lost: {may:?}"),
    })
}
