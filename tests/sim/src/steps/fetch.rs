//! From the log to the core: fetches, their delivery, the gate.

use keyway_core::{Arrival, PartitionSlot};
use keyway_offsets::Offset;

use super::Step;
use super::pump::pump;
use crate::broker::Kind;
use crate::coverage::Event;
use crate::invariants::Check;
use crate::member::{Fetched, Mode};
use crate::record::{Lane, Payload, key_bytes};
use crate::world::World;

/// Fetches of one partition that may be on their way to the core.
const IN_FLIGHT: usize = 2;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    for (index, member) in world.members.iter().enumerate() {
        for (partition, slot) in member.slots.iter().enumerate() {
            if !slot.inbox.is_empty() {
                into.push((Step::Deliver(index, partition), 60));
            }
            let Some(assignment) = &slot.assignment else {
                continue;
            };
            if assignment.revoking {
                continue;
            }
            if !assignment.held.is_empty() {
                into.push((Step::Release(index, partition), 10));
            }
            if slot.paused_by_user {
                into.push((Step::Resume(index, partition), 5));
            } else if !world.calm {
                let weight = world.scenario.weights.pause;
                into.push((Step::Pause(index, partition), weight));
            }
            let may_fetch = member.mode == Mode::Running
                && !slot.paused
                && slot.inbox.len() < IN_FLIGHT
                && slot.position < world.broker.logs[partition].end();
            if may_fetch {
                if !member.core.is_full() {
                    into.push((Step::Fetch(index, partition), 60));
                } else if !world.calm {
                    into.push((Step::Fetch(index, partition), 1));
                }
            }
        }
    }
}

/// The user pauses a partition.
pub(super) fn pause(world: &mut World, index: usize, partition: usize) -> Check {
    world.coverage.note(Event::PausedByUser);
    let member = &mut world.members[index];
    member.slots[partition].paused_by_user = true;
    member.core.pause_by_user(PartitionSlot(partition as u32));
    pump(world, index)
}

/// The user resumes it.
pub(super) fn resume(world: &mut World, index: usize, partition: usize) -> Check {
    let now = world.now;
    let member = &mut world.members[index];
    member.slots[partition].paused_by_user = false;
    let slot = PartitionSlot(partition as u32);
    member.core.resume_by_user(slot, now);
    pump(world, index)
}

pub(super) fn fetch(world: &mut World, index: usize, partition: usize) -> Check {
    let log = &world.broker.logs[partition];
    let member = &mut world.members[index];
    let most = if member.core.is_full() {
        1
    } else {
        world.rng.between(1, world.scenario.fetch_max)
    };
    let slot = &mut member.slots[partition];
    let Some(assignment) = &slot.assignment else {
        return Ok(());
    };
    let mut position = slot.position.max(log.start);
    let mut offsets = Vec::new();
    while position < log.end() && offsets.len() < most {
        if log
            .get(position)
            .is_some_and(|entry| entry.kind == Kind::Record)
        {
            offsets.push(position);
        } else {
            world.coverage.note(Event::Marker);
        }
        position += 1;
    }
    slot.position = position;
    slot.inbox.push_back(Fetched {
        epoch: assignment.epoch,
        offsets,
        position,
    });
    Ok(())
}

pub(super) fn deliver(world: &mut World, index: usize, partition: usize) -> Check {
    let Some(fetched) = world.members[index].slots[partition].inbox.pop_front() else {
        return Ok(());
    };
    let slot = PartitionSlot(partition as u32);
    let mut arrivals = Vec::with_capacity(fetched.offsets.len());
    let mut arrived = Vec::with_capacity(fetched.offsets.len());
    for offset in &fetched.offsets {
        let Some(entry) = world.broker.logs[partition].get(*offset).copied() else {
            continue;
        };
        let payload = Payload {
            partition,
            offset: *offset,
            held: entry.held,
            poison: entry.poison,
        };
        let lane = world.lane_of(&payload);
        let member = &mut world.members[index];
        let at = offset_of(*offset);
        let key = entry.key.map(key_bytes);
        arrivals.push(Arrival {
            offset: at,
            lane: member
                .names
                .lane(world.scenario.ordering, slot, at, key.as_deref()),
            bytes: entry.bytes,
            leader_epoch: Some(entry.leader_epoch),
            payload,
        });
        arrived.push((*offset, lane, entry));
    }
    let now = world.now;
    let member = &mut world.members[index];
    member.core.records(slot, fetched.epoch, &mut arrivals, now);
    let given_back = arrivals.first().map(|first| first.offset.get());
    let taken = arrived.len() - arrivals.len();
    for (offset, lane, entry) in arrived.drain(..taken) {
        match member.current(slot, fetched.epoch) {
            Some(assignment) if !assignment.revoking => {
                if assignment.receive(offset, lane, entry.bytes) && entry.held {
                    assignment.held.insert(offset);
                    world.coverage.note(Event::Held);
                }
            }
            Some(_) => {}
            None => world.coverage.note(Event::OldRecords),
        }
    }
    if let Some(position) = given_back {
        // What was on its way behind it is thrown away.
        world.coverage.note(Event::GivenBack);
        let slot = &mut member.slots[partition];
        slot.position = position;
        slot.inbox.retain(|behind| behind.epoch != fetched.epoch);
        return pump(world, index);
    }
    if world.scenario.position_reports {
        let position = offset_of(fetched.position);
        member
            .core
            .position_reached(slot, fetched.epoch, position, now);
        if let Some(assignment) = member.current(slot, fetched.epoch) {
            if !assignment.revoking {
                assignment.position_reached(fetched.position);
            }
        }
    }
    pump(world, index)
}

/// The gate lets one of the held records through.
pub(super) fn release(world: &mut World, index: usize, partition: usize) -> Check {
    let slot = PartitionSlot(partition as u32);
    let Some(assignment) = world.members[index].assignment(slot) else {
        return Ok(());
    };
    let held: Vec<i64> = assignment.held.iter().copied().collect();
    let offset = world.rng.pick(&held);
    if let Some(assignment) = world.members[index].assignment(slot) {
        assignment.held.remove(&offset);
    }
    world.coverage.note(Event::Released);
    let now = world.now;
    world.members[index]
        .core
        .release(slot, offset_of(offset), now);
    pump(world, index)
}

pub(super) fn offset_of(value: i64) -> Offset {
    Offset::new(value).expect("offsets of a log are not negative")
}

impl World {
    /// The lane of a record by the rules.
    pub(crate) fn lane_of(&self, payload: &Payload) -> Lane {
        let entry = self.broker.logs[payload.partition].get(payload.offset);
        let key = entry.and_then(|entry| entry.key);
        Lane::of(
            self.scenario.ordering,
            payload.partition,
            payload.offset,
            key,
        )
    }
}
