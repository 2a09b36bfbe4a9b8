//! Outputs: what their writer is asked for, and how it ends.
//!
//! Outputs are written at the moment of their acknowledgement, so a record is finished then and not before. Those of one
//! lane go one record after the other, as the engine's writer has them.

use keyway_core::{Sending, Sent, TaskRef, Timestamp};

use super::Step;
use super::pump::pump;
use super::work::give_up;
use crate::assignment::Assignment;
use crate::coverage::Event;
use crate::invariants::{Check, ensure};
use crate::member::Member;
use crate::record::Payload;
use crate::world::World;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    for (m, member) in world.members.iter().enumerate() {
        for (i, sending) in member.sendings.iter().enumerate() {
            let is_of_lane = |other: &Sending<Payload>| other.at.lane == sending.at.lane;
            if member.sendings[..i].iter().any(is_of_lane) {
                continue;
            }
            into.push((Step::AcknowledgeOutputs(m, i), 20));
            if !world.calm {
                let weight = world.scenario.rates.send_fails / 20;
                into.push((Step::FailOutputs(m, i), weight));
            }
        }
    }
}

/// The core asks for outputs: of the running assignment, of a record whose handler is over, once at a time.
pub(super) fn ask(world: &mut World, m: usize, sending: Sending<Payload>) -> Check {
    let at = sending.at;
    let offset = at.offset.get();
    let is_same = (sending.payload.partition, sending.payload.offset) == (at.slot.index(), offset);
    let is_due = |assignment: &mut Assignment| {
        !assignment.finished.contains(&offset)
            && !assignment.out.contains(&offset)
            && assignment.sending.insert(offset)
    };
    let member = &mut world.members[m];
    if let (true, Some(assignment)) = (sending.held_back, member.current(at.slot, at.epoch)) {
        // It was staged, and is not any more.
        assignment.reopen(offset);
    }
    let is_due = member.current(at.slot, at.epoch).is_some_and(is_due);
    ensure(is_due && is_same, "outputs", || {
        format!("outputs are asked for {at:?} with {:?}", sending.payload)
    })?;
    if sending.held_back {
        world.coverage.note(Event::OutputsHeldBack);
        world.members[m].sendings.push(sending);
        let index = world.members[m].sendings.len() - 1;
        let sending = take(world, m, index);
        return hold_back(world, m, sending);
    }
    let is_of_lane = |other: &Sending<Payload>| other.at.lane == at.lane;
    if member.sendings.iter().any(is_of_lane) {
        world.coverage.note(Event::OutputsBehind);
    }
    world.members[m].sendings.push(sending);
    Ok(())
}

fn take(world: &mut World, m: usize, index: usize) -> Sending<Payload> {
    let member = &mut world.members[m];
    let sending = member.sendings.remove(index);
    match member.current(sending.at.slot, sending.at.epoch) {
        Some(assignment) => drop(assignment.sending.remove(&sending.at.offset.get())),
        None => world.coverage.note(Event::OutputsLate),
    }
    sending
}

/// What a reader of the outputs finds: those of a key in the order of its records.
fn write(world: &mut World, m: usize, sending: &Sending<Payload>) -> Check {
    let (at, offset) = (sending.at, sending.at.offset.get());
    let lane = world.lane_of(&sending.payload);
    if let Some(assignment) = world.members[m].current(at.slot, at.epoch) {
        let last = assignment.last_sent.insert(lane, offset);
        ensure(last.is_none_or(|last| last <= offset), "outputs", || {
            format!("outputs of {at:?} come after those of {last:?}")
        })?;
    }
    world.history.pasts[sending.payload.partition]
        .finished
        .insert(offset);
    Ok(())
}

/// The broker has the outputs, and the core hears of it.
pub(super) fn acknowledge(world: &mut World, m: usize, index: usize) -> Check {
    let now = world.now;
    let sending = take(world, m, index);
    write(world, m, &sending)?;
    world.coverage.note(Event::OutputsAcknowledged);
    let Sending {
        at, update, bytes, ..
    } = sending;
    let member = &mut world.members[m];
    if let Some(assignment) = member.current(at.slot, at.epoch) {
        let offset = at.offset.get();
        if update.is_some() {
            assignment.tally.add(offset);
        }
        assignment.finish(offset);
        assignment.complete(offset);
    }
    let sent = Sent { at, update, bytes };
    member.core.outputs_acknowledged(sent, now);
    pump(world, m)
}

/// The core hears that the outputs were not sent. Perhaps they were: then they will be there twice. What is behind them
/// in their lane is not sent.
pub(super) fn fail(world: &mut World, m: usize, index: usize) -> Check {
    let now = world.now;
    let sending = take(world, m, index);
    world.coverage.note(Event::OutputsFailed);
    if world.rng.chance(world.scenario.rates.letter_ambiguous) {
        world.coverage.note(Event::OutputsAmbiguous);
        write(world, m, &sending)?;
    }
    let at = sending.at;
    let route = world.scenario.route(at.slot.index());
    let policy = world.scenario.core.routes[route.index()].retry;
    let past = &mut world.history.pasts[at.slot.index()];
    let member = &mut world.members[m];
    if let Some(assignment) = member.current(at.slot, at.epoch) {
        let due = match policy.is_last(at.attempt) {
            true => give_up(policy.exhausted, at.offset.get(), assignment, past, false),
            false => now.after(policy.delay(&at)),
        };
        runs_again(assignment, at.offset.get(), due);
    }
    forget_turn(member, &at);
    member.core.outputs_failed(sending, now);
    while let Some(behind) = next_of_lane(&world.members[m], at.lane) {
        let sending = take(world, m, behind);
        hold_back(world, m, sending)?;
    }
    pump(world, m)
}

/// Outputs are not sent, since a record before theirs runs again.
fn hold_back(world: &mut World, m: usize, sending: Sending<Payload>) -> Check {
    let now = world.now;
    let member = &mut world.members[m];
    let at = sending.at;
    if let Some(assignment) = member.current(at.slot, at.epoch) {
        // Nothing is wrong with it: no attempt is spent.
        let retries = &mut assignment.retries;
        let spent = retries.get(&at.offset.get()).map_or(0, |(spent, _)| *spent);
        retries.insert(at.offset.get(), (spent, now));
        if spent == 0 {
            member.starts_left = member.starts_left.map(|left| left + 1);
        }
    }
    forget_turn(member, &at);
    member.core.outputs_not_sent(sending, now);
    Ok(())
}

pub(super) fn runs_again(assignment: &mut Assignment, offset: i64, due: Timestamp) {
    let retries = &mut assignment.retries;
    let spent = retries.get(&offset).map_or(0, |(spent, _)| *spent);
    retries.insert(offset, (spent + 1, due));
}

fn next_of_lane(member: &Member, lane: keyway_core::LaneIndex) -> Option<usize> {
    let mut sendings = member.sendings.iter();
    sendings.position(|sending| sending.at.lane == lane)
}

/// What runs again gets its turn anew.
pub(super) fn forget_turn(member: &Member, at: &TaskRef) {
    if let Some(book) = &member.let_through {
        book.forget(at);
    }
}
