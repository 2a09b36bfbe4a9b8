//! The group: assignments, revokes, losses, crashes, restarts, and what operators do.

use keyway_core::{CommitReason, Mutant, PartitionSlot, Restored, mutated};
use keyway_offsets::{HoleMap, Offset};
use keyway_rider::{CommitMap, Offer};

use super::Step;
use super::pump::pump;
use crate::bits::Bits;
use crate::coverage::Event;
use crate::invariants::{Check, memory};
use crate::member::{Assignment, Member, Request};
use crate::world::World;

/// Commits that a leaving partition waits for before it goes without.
const LAST_TRIES: u32 = 4;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    let is_mending = !world.mending.is_empty();
    let fault = |weight: u32| if world.calm || is_mending { 0 } else { weight };
    let weights = &world.scenario.weights;
    for (p, owner) in world.broker.owner.iter().enumerate() {
        if owner.is_none() && !is_mending && !candidates(world).is_empty() {
            into.push((Step::Assign(p), 30));
        }
        if world.broker.committed[p].is_some() {
            into.push((Step::LoseShard(p), fault(weights.lose_shard)));
        }
    }
    let is_refused = world
        .members
        .iter()
        .any(|member| member.is_up && member.was_refused);
    if is_refused && !is_mending {
        into.push((Step::AcceptLoss, 3));
    }
    for (m, member) in world.members.iter().enumerate() {
        if !member.is_up {
            into.push((Step::Restart(m), 20));
            continue;
        }
        if is_mending {
            continue;
        }
        into.push((Step::Crash(m), fault(weights.crash)));
        if member.is_stopping {
            into.push((Step::StopForGood(m), 20));
        }
        if member.is_kicked {
            into.push((Step::NoticeLoss(m), 10));
            continue;
        }
        if member.has_assignments() {
            into.push((Step::Kick(m), fault(weights.kick)));
        }
        let is_leaving = member.slots.iter().any(|slot| slot.leaving.is_some());
        for (p, slot) in member.slots.iter().enumerate() {
            match slot.leaving {
                Some(_) if may_leave(member, p) => into.push((Step::Leave(m, p), 20)),
                // One after the other, as rebalances are.
                None if slot.assignment.is_some() && !is_leaving => {
                    into.push((Step::Revoke(m, p), fault(weights.revoke)));
                }
                _ => {}
            }
        }
    }
}

fn candidates(world: &World) -> Vec<usize> {
    let fits = |member: &Member| member.is_up && !member.is_kicked && !member.is_stopping;
    (0..world.members.len())
        .filter(|m| fits(&world.members[*m]))
        .collect()
}

pub(super) fn assign(world: &mut World, p: usize) -> Check {
    let candidates = candidates(world);
    let m = world.rng.pick(&candidates);
    next_generation(world);
    world.broker.owner[p] = Some(m);
    if world.last_owner[p].replace(m).is_some_and(|last| last != m) {
        world.coverage.note(Event::Moved);
    }
    read_group(world, m);
    restore(world, m, p);
    pump(world, m)
}

/// The member reads what all have committed.
fn read_group(world: &mut World, m: usize) {
    let limits = &world.scenario.core.limits;
    let group = world.broker.group(limits);
    let gate = world.members[m].core.gate_mut();
    for (name, id, partitions) in &world.broker.topics {
        gate.add_topic(name, *id, *partitions);
    }
    gate.read_group(&group);
    for p in 0..world.broker.gated {
        gate.bind(PartitionSlot(p as u32), world.broker.chans[p].channel);
    }
    let mut committed = world.broker.committed.iter().flatten();
    world.members[m].must_refuse = committed.any(|committed| committed.is_lost);
    memory::begins(world, m);
}

/// A partition begins where the group has left it.
fn restore(world: &mut World, m: usize, p: usize) {
    let limits = world.scenario.core.limits;
    let slot = PartitionSlot(p as u32);
    let begins_at = Offset::new(world.broker.begins_at[p]).expect("an offset of a log");
    let committed = world.broker.committed[p].as_ref();
    let start = committed.map_or(begins_at, |committed| committed.offset);
    let map = committed.map(|committed| committed.map(&limits));
    let restored = Restored {
        committed: committed.map(|committed| committed.offset),
        start,
        map: map.clone(),
        leader_epoch: None,
        rider: committed.map_or(keyway_rider::Rider::None, |committed| {
            committed.rider(&limits)
        }),
    };
    let complete = committed.map(|committed| committed.complete.clone());
    let now = world.now;
    let member = &mut world.members[m];
    let epoch = member.core.assigned(slot, &restored, now);
    let state = &mut member.slots[p];
    state.assignment = Some(Assignment {
        epoch,
        start: start.get(),
        map: map.unwrap_or_else(|| HoleMap::caught_up(start)),
        done: std::collections::BTreeSet::new(),
        complete: complete.unwrap_or_default(),
    });
    state.position = start.get();
    state.reported = start.get();
    state.paused = false;
    state.leaving = None;
}

pub(super) fn revoke(world: &mut World, m: usize, p: usize) -> Check {
    let member = &mut world.members[m];
    member.core.revoking(PartitionSlot(p as u32));
    member.slots[p].leaving = Some(0);
    pump(world, m)
}

/// Whether a revoke has something to do.
fn may_leave(member: &Member, p: usize) -> bool {
    let slot = PartitionSlot(p as u32);
    let is_clean = member.core.is_quiet(slot) && member.core.is_clean(slot);
    // What is at the broker by then is not to be overtaken.
    let is_sent = matches!(member.request, Some(Request::Sent(_)));
    is_clean || !is_sent
}

/// A revoke goes on: it commits what can be, and lets go when all is done or the wait is over.
pub(super) fn leave(world: &mut World, m: usize, p: usize) -> Check {
    let slot = PartitionSlot(p as u32);
    let now = world.now;
    let member = &mut world.members[m];
    let is_clean = member.core.is_quiet(slot) && member.core.is_clean(slot);
    let tries = member.slots[p].leaving.unwrap_or_default();
    if !is_clean && tries < LAST_TRIES {
        member.slots[p].leaving = Some(tries + 1);
        if member.core.is_quiet(slot) {
            member
                .core
                .commit_now(CommitReason::Revoke, Some(&[slot]), now);
        }
        return pump(world, m);
    }
    // As the engine does: what matters is what is complete and not committed.
    let is_clean = member.core.is_clean(slot);
    member.core.revoked(slot);
    member.slots[p] = crate::member::Slot::default();
    world.broker.owner[p] = None;
    if is_clean {
        world.coverage.note(Event::RevokedClean);
        return pump(world, m);
    }
    world.coverage.note(Event::RevokedDirty);
    demote(world, m)?;
    pump(world, m)
}

/// A partition left without its last commit: what stays begins anew from what is committed.
fn demote(world: &mut World, m: usize) -> Check {
    if mutated(Mutant::NoDemotion) {
        return Ok(());
    }
    let slots = world.members[m].slots.iter().enumerate();
    let stay = slots.filter(|(_, slot)| slot.assignment.is_some() && slot.leaving.is_none());
    let stay: Vec<usize> = stay.map(|(p, _)| p).collect();
    if stay.is_empty() {
        return Ok(());
    }
    world.coverage.note(Event::Demoted);
    read_group(world, m);
    for p in stay {
        restore(world, m, p);
    }
    Ok(())
}

pub(super) fn kick(world: &mut World, m: usize) -> Check {
    world.members[m].is_kicked = true;
    world.coverage.note(Event::Kicked);
    disown(world, m);
    Ok(())
}

/// A rebalance: everybody who is there has the new generation.
fn next_generation(world: &mut World) {
    world.broker.generation += 1;
    for member in world.members.iter_mut().filter(|member| !member.is_kicked) {
        member.generation = world.broker.generation;
    }
}

/// The group goes on without the member.
fn disown(world: &mut World, m: usize) {
    next_generation(world);
    for owner in &mut world.broker.owner {
        if *owner == Some(m) {
            *owner = None;
        }
    }
}

pub(super) fn notice_loss(world: &mut World, m: usize) -> Check {
    let member = &mut world.members[m];
    for p in 0..member.slots.len() {
        if member.slots[p].assignment.is_some() {
            member.core.lost(PartitionSlot(p as u32));
            member.slots[p] = crate::member::Slot::default();
        }
    }
    member.is_kicked = false;
    member.generation = world.broker.generation;
    pump(world, m)
}

pub(super) fn crash(world: &mut World, m: usize) -> Check {
    world.gather_counters(m);
    world.coverage.note(Event::Crashed);
    let is_dirty = |member: &Member| !member.core.is_all_committed();
    if is_dirty(&world.members[m]) {
        world.coverage.note(Event::CrashedDirty);
    }
    let gated = world.broker.gated;
    let down = Member::start(&world.scenario, gated, world.config.clone());
    world.members[m] = Member {
        is_up: false,
        ..down
    };
    disown(world, m);
    Ok(())
}

pub(super) fn restart(world: &mut World, m: usize) -> Check {
    let gated = world.broker.gated;
    world.members[m] = Member::start(&world.scenario, gated, world.config.clone());
    world.members[m].generation = world.broker.generation;
    Ok(())
}

/// Some tool commits offsets as they are, without what stands beside them: one partition's while the group runs, or all
/// of them while it is stopped.
pub(super) fn lose_shard(world: &mut World, p: usize) -> Check {
    world.coverage.note(Event::ShardLost);
    world.has_forgotten = true;
    if world.rng.chance(500) {
        let keeps_map = world.rng.chance(500);
        take_shard(world, p, keeps_map);
        return Ok(());
    }
    for m in 0..world.members.len() {
        if world.members[m].is_up {
            crash(world, m)?;
        }
    }
    for p in 0..world.broker.gated {
        take_shard(world, p, true);
    }
    Ok(())
}

fn take_shard(world: &mut World, p: usize, keeps_map: bool) {
    let limits = &world.scenario.core.limits;
    let Some(committed) = &mut world.broker.committed[p] else {
        return;
    };
    let map = committed.map(limits);
    let text = CommitMap::new(&map, limits).with(&Offer::Nothing).text;
    committed.text = if keeps_map { text } else { String::new() };
    committed.complete = Bits::default();
    committed.is_lost = true;
}

/// An operator accepts that what was known is lost, and starts those again that send nothing.
pub(super) fn accept_loss(world: &mut World) -> Check {
    world.coverage.note(Event::LossAccepted);
    world.config.accept_lost_frontier = true;
    for m in 0..world.members.len() {
        if world.members[m].was_refused {
            crash(world, m)?;
        }
    }
    Ok(())
}

/// A member whose gate has said so stops, and an operator looks at why.
pub(super) fn stop_for_good(world: &mut World, m: usize) -> Check {
    if world.rng.chance(400) {
        let malformed: Vec<_> = world
            .records
            .iter()
            .filter(|record| record.is_malformed)
            .collect();
        for record in malformed {
            let chan = &world.broker.chans[record.chan];
            let name = (chan.topic.clone(), chan.channel.partition(), record.offset);
            world.config.undecodable_accepted.insert(name);
        }
        world.config.accept_lost_frontier = true;
        world.coverage.note(Event::MalformedAccepted);
    }
    crash(world, m)
}
