//! The group: assignments, revokes, losses, crashes, restarts, draining and stopping.

use keyway_core::{CommitReason, PartitionSlot, Restored, RiderSource};
use keyway_rider::StateCell;

use super::Step;
use super::commit::{committed_map, committed_rider};
use super::fetch::offset_of;
use super::pump::pump;
use crate::assignment::Assignment;
use crate::coverage::Event;
use crate::invariants::{Check, deadlines, window};
use crate::member::{Member, Mode, Request};
use crate::rider::Tally;
use crate::world::{LateCommit, World};

/// Commits that a leaving member tries before it goes without.
const LAST_TRIES: u32 = 6;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    let fault = |weight: u32| if world.calm { 0 } else { weight };
    let weights = &world.scenario.weights;
    for (partition, owner) in world.broker.owner.iter().enumerate() {
        match owner {
            None if !candidates(world, partition).is_empty() => {
                into.push((Step::Assign(partition), 30));
            }
            None => {}
            Some(m) => {
                let member = &world.members[*m];
                let slot = &member.slots[partition];
                let may = member.mode != Mode::Stopping && slot.revoke_until.is_none();
                if may && slot.assignment.is_some() {
                    into.push((Step::Revoke(partition), fault(weights.revoke)));
                }
            }
        }
    }
    for (m, member) in world.members.iter().enumerate() {
        if !member.is_up() {
            into.push((Step::Restart(m), 30));
            continue;
        }
        into.push((Step::Crash(m), fault(weights.crash)));
        if member.kicked {
            into.push((Step::NoticeLoss(m), 20));
            continue;
        }
        for (partition, slot) in member.slots.iter().enumerate() {
            if slot.revoke_until.is_some() && may_leave(world, member, partition) {
                into.push((Step::Leave(m, partition), 30));
            }
        }
        if member.has_assignments() {
            into.push((Step::Kick(m), fault(weights.kick)));
        }
        match member.mode {
            Mode::Running => {
                into.push((Step::Drain(m), fault(weights.stop)));
                into.push((Step::Stop(m), fault(weights.stop)));
                if member.starts_left == Some(0) && member.core.is_drained(world.now) {
                    into.push((Step::Stop(m), 20));
                }
            }
            Mode::Draining => {
                let weight = if member.core.is_drained(world.now) {
                    20
                } else {
                    fault(weights.stop)
                };
                into.push((Step::Stop(m), weight));
            }
            Mode::Stopping if may_stop_further(world, member) => {
                into.push((Step::StopFurther(m), 30));
            }
            _ => {}
        }
    }
}

/// Whether a member that stops has something to do.
fn may_stop_further(world: &World, member: &Member) -> bool {
    let idle = member.core.is_all_quiet() && member.request.is_none();
    idle && (member.core.is_all_clean() || member.last_try != Some(world.now) || !world.calm)
}

/// Members that may get a partition.
fn candidates(world: &World, partition: usize) -> Vec<usize> {
    let fits = |member: &Member| {
        member.mode == Mode::Running
            && !member.kicked
            && member.slots[partition].assignment.is_none()
    };
    (0..world.members.len())
        .filter(|m| fits(&world.members[*m]))
        .collect()
}

/// A rebalance ends: everybody who is there has the new generation.
fn next_generation(world: &mut World) {
    world.broker.generation += 1;
    let generation = world.broker.generation;
    for member in world.members.iter_mut().filter(|member| !member.kicked) {
        member.generation = generation;
    }
}

pub(super) fn assign(world: &mut World, partition: usize) -> Check {
    let candidates = candidates(world, partition);
    let m = world.rng.pick(&candidates);
    next_generation(world);
    let slot = PartitionSlot(partition as u32);
    let map = committed_map(world, slot)?;
    let rider = committed_rider(world, slot);
    let committed = world.broker.committed[partition].clone();
    let log = &world.broker.logs[partition];
    let past = &mut world.history.pasts[partition];
    let start = match &committed {
        Some(committed) => committed.offset.get().max(log.start),
        None => {
            world.coverage.note(Event::FirstPosition);
            let start = if world.scenario.start_latest {
                world.coverage.note(Event::StartLatest);
                log.end()
            } else {
                log.start
            };
            past.begun_at = past.begun_at.max(start);
            start
        }
    };
    if committed
        .as_ref()
        .is_some_and(|committed| committed.offset.get() < start)
    {
        world.coverage.note(Event::RestoredLogStart);
    }
    if map.as_ref().is_some_and(|map| !map.is_caught_up()) {
        world.coverage.note(Event::RestoredHoles);
    }
    let restored = Restored {
        committed: committed.as_ref().map(|committed| committed.offset),
        start: offset_of(start),
        map: map.clone(),
        leader_epoch: committed
            .as_ref()
            .and_then(|committed| committed.leader_epoch),
        rider,
    };
    let id = world.next_id();
    let now = world.now;
    match world.last_owner[partition].replace(m) {
        Some(last) if last == m => world.coverage.note(Event::ReassignedSame),
        Some(_) => world.coverage.note(Event::Moved),
        None => {}
    }
    world.broker.owner[partition] = Some(m);
    let member = &mut world.members[m];
    let epoch = member.core.assigned(slot, &restored, now);
    let tally = Tally::restored(&restored.rider);
    if world.scenario.core.riders == RiderSource::State {
        member
            .core
            .attach_state(slot, StateCell::new(tally.clone()));
    }
    if tally != Tally::default() {
        world.coverage.note(Event::RiderRestored);
    }
    let map = map.unwrap_or_else(|| keyway_offsets::HoleMap::caught_up(restored.start));
    let state = &mut member.slots[partition];
    state.assignment = Some(Assignment::new(id, epoch, map, start, tally));
    state.position = start;
    state.paused = false;
    state.paused_by_user = false;
    state.revoke_until = None;
    if committed.is_none() {
        let in_flight = member.core.commit_in_flight().is_some();
        deadlines::first_position(now, member.core.next_deadline(), in_flight)?;
    }
    pump(world, m)
}

pub(super) fn revoke(world: &mut World, partition: usize) -> Check {
    let Some(m) = world.broker.owner[partition] else {
        return Ok(());
    };
    let until = world.now.after(world.scenario.revoke_wait);
    let member = &mut world.members[m];
    member.last_try = None;
    member.core.revoking(PartitionSlot(partition as u32));
    let slot = &mut member.slots[partition];
    slot.revoke_until = Some(until);
    if let Some(assignment) = &mut slot.assignment {
        assignment.revoking = true;
        assignment.held.clear();
    }
    pump(world, m)
}

/// Whether a revoke has something to do.
fn may_leave(world: &World, member: &Member, partition: usize) -> bool {
    let slot = PartitionSlot(partition as u32);
    let over = member.slots[partition]
        .revoke_until
        .is_some_and(|until| until <= world.now);
    let can_commit = member.request.is_none() && member.last_try != Some(world.now);
    over || (member.core.is_quiet(slot) && (member.core.is_clean(slot) || can_commit))
}

/// A revoke goes on: it commits what can be, and lets go when all is done or the wait is over.
pub(super) fn leave(world: &mut World, m: usize, partition: usize) -> Check {
    let slot = PartitionSlot(partition as u32);
    let now = world.now;
    let member = &mut world.members[m];
    let clean = member.core.is_clean(slot);
    let over = member.slots[partition]
        .revoke_until
        .is_some_and(|until| until <= now);
    if !clean && !over {
        member.last_try = Some(now);
        if member.request.is_none() {
            member
                .core
                .commit_now(CommitReason::Revoke, Some(&[slot]), now);
        }
        return pump(world, m);
    }
    if clean && member.core.is_quiet(slot) {
        world.coverage.note(Event::RevokedClean);
        let committed = committed_map(world, slot)?;
        let regressed = world.regressed[partition] || !world.late.is_empty();
        if let (Some(committed), Some(assignment), false) = (
            committed,
            &world.members[m].slots[partition].assignment,
            regressed,
        ) {
            window::left_clean(assignment, partition, &committed)?;
        }
    }
    world.members[m].core.revoked(slot);
    world.broker.owner[partition] = None;
    world.end_assignment(m, partition, false);
    pump(world, m)
}

/// The group throws a member out, and gives its partitions to others before it knows.
pub(super) fn kick(world: &mut World, m: usize) -> Check {
    world.coverage.note(Event::Kicked);
    world.members[m].kicked = true;
    for owner in &mut world.broker.owner {
        if *owner == Some(m) {
            *owner = None;
        }
    }
    for slot in &world.members[m].slots {
        if let Some(assignment) = &slot.assignment {
            world.history.outlived.insert(assignment.id);
        }
    }
    next_generation(world);
    Ok(())
}

pub(super) fn notice_loss(world: &mut World, m: usize) -> Check {
    for partition in 0..world.scenario.partitions {
        if world.members[m].slots[partition].assignment.is_some() {
            world.members[m].core.lost(PartitionSlot(partition as u32));
            world.end_assignment(m, partition, true);
        }
    }
    world.members[m].kicked = false;
    world.members[m].generation = world.broker.generation;
    pump(world, m)
}

impl World {
    fn end_assignment(&mut self, m: usize, partition: usize, lost: bool) {
        let slot = &mut self.members[m].slots[partition];
        slot.revoke_until = None;
        slot.paused = false;
        let Some(assignment) = slot.assignment.take() else {
            return;
        };
        if !assignment.out.is_empty() {
            self.history.outlived.insert(assignment.id);
            if !lost {
                self.coverage.note(Event::RevokeOutlived);
            }
        }
    }
}

pub(super) fn crash(world: &mut World, m: usize) -> Check {
    world.coverage.note(Event::Crashed);
    if !world.members[m].core.is_all_clean() {
        world.coverage.note(Event::CrashedDirty);
    }
    world.gather_counters(m);
    let member = &mut world.members[m];
    world.history.crashed(member.incarnation);
    let request = member.request.take();
    if world.scenario.transactional() {
        super::transactions::end_with(world, m, request)?;
    } else if let Some(Request::Sent {
        mut entries,
        generation,
        ..
    }) = request
    {
        for entry in &mut entries {
            entry.stores = world.broker.stores[entry.partition];
        }
        world.late.push(LateCommit {
            generation,
            entries,
        });
    }
    go_down(world, m);
    Ok(())
}

fn go_down(world: &mut World, m: usize) {
    for owner in &mut world.broker.owner {
        if *owner == Some(m) {
            *owner = None;
        }
    }
    world.members[m] = Member::down(&world.scenario);
}

pub(super) fn restart(world: &mut World, m: usize) -> Check {
    let incarnation = world.next_id();
    let seed = world.rng.number();
    let mut member = Member::start(&world.scenario, incarnation, seed);
    if !world.calm && world.rng.chance(world.scenario.limited) {
        let limit = world.rng.between(1, 30) as u64;
        member.core.limit_starts(limit);
        member.starts_left = Some(limit);
    }
    member.generation = world.broker.generation;
    world.members[m] = member;
    Ok(())
}

pub(super) fn drain(world: &mut World, m: usize) -> Check {
    world.coverage.note(Event::Drained);
    let now = world.now;
    world.members[m].mode = Mode::Draining;
    world.members[m].core.begin_drain(now);
    pump(world, m)
}

pub(crate) fn begin_stop(world: &mut World, m: usize) {
    if world.members[m].starts_left == Some(0) {
        world.coverage.note(Event::LimitReached);
    }
    let member = &mut world.members[m];
    member.mode = Mode::Stopping;
    member.last_try = None;
    member.core.begin_stop();
}

/// Nothing runs any more: commit, then leave.
pub(super) fn stop_further(world: &mut World, m: usize) -> Check {
    let now = world.now;
    let member = &mut world.members[m];
    member.core.begin_last_commit();
    if !member.core.is_all_clean() && member.last_tries < LAST_TRIES {
        member.last_try = Some(now);
        if member
            .core
            .commit_now(CommitReason::Shutdown, None, now)
            .is_none()
        {
            // A passing refusal is waited for.
            member.last_tries += u32::from(member.core.is_all_settled());
            return Ok(());
        }
        member.last_tries += 1;
        return pump(world, m);
    }
    for partition in 0..world.scenario.partitions {
        world.members[m]
            .core
            .revoked(PartitionSlot(partition as u32));
        world.end_assignment(m, partition, false);
    }
    pump(world, m)?;
    world.coverage.note(Event::Stopped);
    world.gather_counters(m);
    go_down(world, m);
    Ok(())
}
