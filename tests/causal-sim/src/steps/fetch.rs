//! Records on their way into a core.

use keyway_core::{Arrival, LaneId, PartitionSlot};
use keyway_offsets::Offset;

use super::Step;
use super::pump::pump;
use crate::broker::Entry;
use crate::coverage::Event;
use crate::invariants::Check;
use crate::record::Payload;
use crate::world::World;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    for (m, member) in world.members.iter().enumerate() {
        if !member.is_up || member.is_kicked || member.core.is_full() {
            continue;
        }
        for (p, slot) in member.slots.iter().enumerate() {
            let may = slot.assignment.is_some() && slot.leaving.is_none() && !slot.paused;
            if may && slot.position < world.broker.chans[p].end() {
                into.push((Step::Deliver(m, p), 20));
            }
            if may && slot.reported < slot.position {
                into.push((Step::ReportPosition(m, p), 5));
            }
        }
    }
}

pub(super) fn deliver(world: &mut World, m: usize, p: usize) -> Check {
    let now = world.now;
    let slot = PartitionSlot(p as u32);
    let from = world.members[m].slots[p].position;
    let to = (from + world.rng.between(1, 5) as i64).min(world.broker.chans[p].end());
    let mut arrivals = Vec::new();
    for offset in from..to {
        if let Some(Entry::Record(number)) = world.broker.chans[p].entry(offset) {
            let record = &world.records[number];
            arrivals.push(Arrival {
                offset: Offset::new(offset).expect("an offset of a log"),
                lane: LaneId((p as u64) << 32 | record.lane),
                bytes: 1,
                leader_epoch: None,
                payload: Payload {
                    record: number,
                    header: record.header.clone(),
                },
            });
        }
    }
    let numbers: Vec<_> = arrivals
        .iter()
        .map(|arrival| arrival.payload.record)
        .collect();
    let member = &mut world.members[m];
    let Some(epoch) = member.slots[p].assignment.as_ref().map(|its| its.epoch) else {
        return Ok(());
    };
    member.core.records(slot, epoch, &mut arrivals, now);
    let received = numbers.len() - arrivals.len();
    for number in &numbers[..received] {
        let record = &world.records[*number];
        member.past.add_all(&record.ancestors);
        if record.is_malformed {
            world.coverage.note(Event::Malformed);
        }
        let offset = Offset::new(record.offset).expect("an offset of a log");
        let channel = world.broker.chans[p].channel;
        let blockers = member.core.gate().blockers(slot, offset);
        if blockers.iter().any(|blocker| blocker.channel == channel) {
            world.coverage.note(Event::OwnChannelHeld);
        }
    }
    match arrivals.first() {
        Some(first) => {
            world.coverage.note(Event::NoRoom);
            member.slots[p].position = first.offset.get();
        }
        None => member.slots[p].position = to,
    }
    pump(world, m)
}

/// Reading has come so far, and every record that it has brought was handed over.
pub(super) fn report_position(world: &mut World, m: usize, p: usize) -> Check {
    let now = world.now;
    let member = &mut world.members[m];
    let slot = &mut member.slots[p];
    slot.reported = slot.position;
    let position = Offset::new(slot.position).expect("an offset of a log");
    if let Some(assignment) = &slot.assignment {
        world.coverage.note(Event::PositionReported);
        let epoch = assignment.epoch;
        let slot = PartitionSlot(p as u32);
        member.core.position_reached(slot, epoch, position, now);
    }
    pump(world, m)
}
