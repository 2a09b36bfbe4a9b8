//! Commits on their way: sent, stored whole or in part, refused, answered, lost, landing late.

use std::time::Duration;

use keyway_core::{CommitAnswer, CommitFinished, CommitPlan, Epoch, PartitionAnswer, PlannedRider};
use keyway_offsets::Offset;
use keyway_rider::{CommitMap, Offer, RiderBytes};

use super::Step;
use super::pump::pump;
use crate::broker::{Committed, Entry as LogEntry};
use crate::coverage::Event;
use crate::invariants::{Check, torn};
use crate::member::{Entry, Request, Sent};
use crate::world::World;

/// More than any text has room for.
const NO_ROOM: usize = 1 << 20;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    let weight = match world.calm {
        true => 30,
        false => world.scenario.weights.commit,
    };
    for (m, member) in world.members.iter().enumerate() {
        match &member.request {
            Some(Request::Planned(..)) => into.push((Step::Send(m), weight)),
            Some(Request::Sent(_)) => {
                into.push((Step::Apply(m), weight));
                if !world.calm {
                    into.push((Step::LoseAnswer(m), world.scenario.rates.answer_lost / 25));
                }
            }
            Some(Request::Answered(_)) => into.push((Step::Answer(m), weight)),
            None => {}
        }
    }
    for index in 0..world.late.len() {
        into.push((Step::Land(index), 3));
    }
}

/// Encodes a plan and sends it, without the partitions that have left in the meantime.
pub(super) fn send(world: &mut World, m: usize) -> Check {
    let strips = world.rng.chance(world.scenario.rates.strip);
    let Some(Request::Planned(plan, told)) = world.members[m].request.take() else {
        return Ok(());
    };
    let mut entries = Vec::new();
    for (part, complete) in plan.partitions.iter().zip(told.complete) {
        if world.members[m].current(part.slot, part.epoch).is_none() {
            continue;
        }
        let PlannedRider::Gate(shard) = &part.rider else {
            return World::violation("shard", format!("{m} commits {} without one", part.slot));
        };
        let room = if strips { NO_ROOM } else { shard.len() };
        let map = CommitMap::new(&part.map, &plan.limits).giving_way_to(room);
        let rider = RiderBytes::new(shard.clone()).expect("a shard is short");
        let text = map.with(&Offer::Rider(rider));
        if text.stripped {
            world.coverage.note(Event::MapStripped);
        }
        entries.push(Entry {
            slot: part.slot.index(),
            epoch: part.epoch,
            offset: part.map.base(),
            text,
            complete,
            is_lost: told.is_lost,
            stores: 0,
        });
    }
    let member = &mut world.members[m];
    member.request = Some(Request::Sent(Sent {
        plan,
        entries,
        learned: told.learned,
        generation: member.generation,
    }));
    Ok(())
}

/// The broker takes a request, and answers it.
pub(super) fn apply(world: &mut World, m: usize) -> Check {
    let Some(Request::Sent(sent)) = world.members[m].request.take() else {
        return Ok(());
    };
    let answers = take_in(world, m, &sent);
    let finished = finished(&sent.plan, |slot, epoch| {
        let at = sent
            .entries
            .iter()
            .position(|entry| (entry.slot, entry.epoch) == (slot, epoch))?;
        Some((answers[at], Some(&sent.entries[at])))
    });
    world.members[m].request = Some(Request::Answered(finished));
    Ok(())
}

/// The broker stores what it stores of a request.
fn take_in(world: &mut World, m: usize, sent: &Sent) -> Vec<CommitAnswer> {
    let is_old = sent.generation != world.broker.generation;
    let is_kicked = world.members[m].is_kicked;
    let rate = match world.calm {
        true => 0,
        false => world.scenario.rates.repeat,
    };
    let all_refused = world.rng.chance(rate / 2);
    let mut answers = Vec::new();
    for _ in &sent.entries {
        answers.push(if is_kicked {
            CommitAnswer::MemberLost
        } else if is_old {
            world.coverage.note(Event::Superseded);
            CommitAnswer::Superseded
        } else if all_refused || world.rng.chance(rate) {
            CommitAnswer::Repeat
        } else {
            CommitAnswer::Stored
        });
    }
    let is_stored = |answer: &CommitAnswer| *answer == CommitAnswer::Stored;
    let stored = answers.iter().filter(|answer| is_stored(answer)).count();
    for (entry, answer) in sent.entries.iter().zip(&answers) {
        match is_stored(answer) {
            true => store(world, entry),
            false if stored > 0 => {
                world.mending.insert(entry.slot);
            }
            false => {}
        }
    }
    if stored == sent.plan.partitions.len() {
        world.learned.add_all(&sent.learned);
    } else if stored > 0 {
        world.coverage.note(Event::PartialStore);
    } else if answers.contains(&CommitAnswer::Repeat) {
        world.coverage.note(Event::Refused);
    }
    world.say(|_| format!("       {m}: {answers:?}"));
    answers
}

fn store(world: &mut World, entry: &Entry) {
    let p = entry.slot;
    let committed = Committed {
        offset: entry.offset,
        text: entry.text.text.clone(),
        complete: entry.complete.clone(),
        is_lost: entry.is_lost,
    };
    let map = committed.map(&world.scenario.core.limits);
    for (offset, at) in world.broker.chans[p].log.iter().enumerate() {
        let LogEntry::Record(record) = at else {
            continue;
        };
        if Offset::new(offset as i64).is_some_and(|at| map.is_complete(at)) {
            world.ever.insert(*record);
        }
    }
    world.mending.remove(&p);
    world.broker.stores[p] += 1;
    world.say(|_| format!("       {p} has {map:?}"));
    world.broker.committed[p] = Some(committed);
}

/// The core's answer for each partition of a plan; those that were not sent are superseded.
fn finished<'a>(
    plan: &CommitPlan,
    answer_of: impl Fn(usize, Epoch) -> Option<(CommitAnswer, Option<&'a Entry>)>,
) -> CommitFinished {
    let parts = plan.partitions.iter().map(|part| {
        let answer = answer_of(part.slot.index(), part.epoch);
        let (answer, entry) = answer.unwrap_or((CommitAnswer::Superseded, None));
        PartitionAnswer {
            slot: part.slot,
            epoch: part.epoch,
            answer,
            chars: entry.map_or(0, |entry| entry.text.text.len()),
            inner_chars: entry.map_or(0, |entry| entry.text.inner_chars),
            stripped: entry.is_some_and(|entry| entry.text.stripped),
            takes: None,
        }
    });
    CommitFinished {
        plan: plan.id,
        partitions: parts.collect(),
        took: Duration::from_millis(1),
    }
}

/// No answer comes: the request was stored, or never is, or lands later.
pub(super) fn lose_answer(world: &mut World, m: usize) -> Check {
    let Some(Request::Sent(mut sent)) = world.members[m].request.take() else {
        return Ok(());
    };
    world.coverage.note(Event::AnswerLost);
    let finished = finished(&sent.plan, |_, _| Some((CommitAnswer::Unknown, None)));
    match world.rng.below(3) {
        0 => {
            take_in(world, m, &sent);
        }
        1 => {}
        _ => {
            for entry in &mut sent.entries {
                entry.stores = world.broker.stores[entry.slot];
            }
            world.late.push((m, sent));
        }
    }
    world.members[m].request = Some(Request::Answered(finished));
    Ok(())
}

pub(super) fn answer(world: &mut World, m: usize) -> Check {
    let now = world.now;
    let Some(Request::Answered(finished)) = world.members[m].request.take() else {
        return Ok(());
    };
    let member = &mut world.members[m];
    let is_torn = torn::is_torn(member, &finished);
    member.core.commit_finished(&finished, now);
    pump(world, m)?;
    match is_torn {
        true => torn::is_mended(m, &world.members[m]),
        false => Ok(()),
    }
}

/// A late commit lands, where it still can: behind one newer commit, not behind two, and while its sender lives and has
/// the partition.
pub(super) fn land(world: &mut World, index: usize) -> Check {
    let (m, sent) = world.late.swap_remove(index);
    if sent.generation != world.broker.generation
        || !world.members[m].is_up
        || world.members[m].is_kicked
    {
        return Ok(());
    }
    for entry in &sent.entries {
        let newer = world.broker.stores[entry.slot] - entry.stores;
        let slot = keyway_core::PartitionSlot(entry.slot as u32);
        let is_its = world.members[m].current(slot, entry.epoch).is_some();
        if newer < 2 && is_its {
            store(world, entry);
            world.mending.insert(entry.slot);
            world.coverage.note(Event::LandedLate);
        }
    }
    Ok(())
}
