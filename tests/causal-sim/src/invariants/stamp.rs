//! A send names everything that is before it, and nothing that nobody has read.

use keyway_causal::{Causes, Position};

use super::{Check, ensure};
use crate::broker::Entry;
use crate::world::World;

/// `to` is the channel that the output is about to be appended to.
pub(crate) fn covers(world: &World, m: usize, stamp: &[u8], to: usize) -> Check {
    let Ok(causes) = Causes::decode(stamp) else {
        return World::violation(
            "stamp",
            format!("{m} sends a header that can't be read: {stamp:?}"),
        );
    };
    for record in world.members[m].past.iter() {
        let at = &world.records[record];
        let channel = world.broker.chans[at.chan].channel;
        let position = Position::new(at.offset);
        let is_covered = position.is_some_and(|position| causes.covers(channel, position));
        ensure(is_covered, "stamp", || {
            format!(
                "{m} sends after {}, and does not say so",
                world.name(record)
            )
        })?;
    }
    for (channel, position) in causes.iter() {
        let chan = world.broker.index_of(channel);
        let entry = chan.and_then(|chan| world.broker.chans[chan].entry(position.get()));
        // What is compacted by now may have been read before.
        let was_read = matches!(entry, Some(Entry::Record(_) | Entry::Gone));
        ensure(was_read, "stamp", || {
            format!(
                "{m} names {channel}@{}, where there is no record",
                position.get()
            )
        })?;
        let is_below = chan != Some(to) || position.get() < world.broker.chans[to].end();
        ensure(is_below, "stamp", || {
            format!(
                "{m} names {channel}@{} in a send to that place or below",
                position.get()
            )
        })?;
    }
    Ok(())
}
