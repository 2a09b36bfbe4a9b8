//! A record starts when each of its true causes that the group consumes is complete: here, under the running
//! assignment, or by what the group has committed. One whose causes can't be known does not start.

use super::{Check, ensure};
use crate::coverage::Event;
use crate::world::World;

pub(crate) fn starts(world: &mut World, m: usize, record: usize) -> Check {
    let it = &world.records[record];
    let chan = &world.broker.chans[it.chan];
    let by_name = (chan.topic.clone(), chan.channel.partition(), it.offset);
    let is_accepted = world.config.undecodable_accepted.contains(&by_name);
    ensure(!it.is_malformed || is_accepted, "decodable", || {
        format!(
            "{} starts, and its causes can't be read",
            world.name(record)
        )
    })?;
    let mut local = 0;
    for cause in it.ancestors.iter() {
        if !world.is_consumed(cause) || !world.is_there(cause) || world.ever.contains(cause) {
            continue;
        }
        let at = &world.records[cause];
        let assignment = world.members[m].slots[at.chan].assignment.as_ref();
        let is_done = assignment.is_some_and(|assignment| assignment.is_done(at.offset));
        ensure(is_done, "order", || {
            let (effect, cause) = (world.name(record), world.name(cause));
            format!("{effect} starts at {m} before its cause {cause} is complete")
        })?;
        local += 1;
    }
    if local > 0 {
        world.coverage.note(Event::LocalAbove);
    }
    Ok(())
}
