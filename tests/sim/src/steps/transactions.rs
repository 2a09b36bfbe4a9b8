//! Transactions: all of one is stored or nothing is, and whoever waits for its answer gets a definite one.

use keyway_core::{
    Carried as What, CommitAnswer, CommitFinished, CommitPlan, PartitionSlot, Staged,
};
use keyway_offsets::{HoleMap, Offset};

use super::commit::{committed_map, finished, judge, read, store};
use super::outputs::{forget_turn, runs_again};
use super::pump::pump;
use super::work::give_up;
use crate::coverage::Event;
use crate::invariants::{Check, exactly_once};
use crate::member::{Carried, Entry, Request};
use crate::record::Payload;
use crate::world::World;

/// A partition has left since the plan was made: none of it is sent.
pub(super) fn not_sent(world: &mut World, m: usize, plan: CommitPlan, carried: Carried) -> Check {
    let answers = finished(&plan, |_, _| Some((CommitAnswer::Repeat, None)));
    world.members[m].request = Some(Request::Answered(answers, carried));
    Ok(())
}

/// The broker takes the transaction or refuses it.
pub(super) fn apply(
    world: &mut World,
    m: usize,
    plan: CommitPlan,
    mut carried: Carried,
    entries: &[Entry],
    generation: u64,
) -> Check {
    refuse(world, &mut carried);
    let answers = conclude(world, m, &plan, &carried, entries, generation)?;
    let is_stored = answers.contains(&CommitAnswer::Stored);
    world.coverage.note(match is_stored {
        true => Event::TransactionCommitted,
        false => Event::TransactionAborted,
    });
    answered(world, m, &plan, carried, entries, &answers);
    Ok(())
}

/// No answer comes: whoever waits takes the id over, and looks.
pub(super) fn find_out(
    world: &mut World,
    m: usize,
    plan: CommitPlan,
    carried: Carried,
    entries: &[Entry],
    generation: u64,
) -> Check {
    let mut answers = vec![CommitAnswer::Repeat; entries.len()];
    if world.rng.chance(500) {
        answers = conclude(world, m, &plan, &carried, entries, generation)?;
    }
    let is_stored = answers.contains(&CommitAnswer::Stored);
    // All that is found is whether it is there.
    if !is_stored {
        answers.fill(CommitAnswer::Repeat);
    }
    world.coverage.note(match is_stored {
        true => Event::TransactionFoundCommitted,
        false => Event::TransactionFoundAborted,
    });
    answered(world, m, &plan, carried, entries, &answers);
    Ok(())
}

/// The member is gone: what it had sent is stored or never is.
pub(super) fn end_with(world: &mut World, m: usize, request: Option<Request>) -> Check {
    let Some(Request::Sent {
        plan,
        carried,
        entries,
        generation,
    }) = request
    else {
        return Ok(());
    };
    if world.rng.chance(500) {
        conclude(world, m, &plan, &carried, &entries, generation)?;
    }
    Ok(())
}

/// Some of what is carried may be refused.
fn refuse(world: &mut World, carried: &mut Carried) {
    if world.calm {
        return;
    }
    let rates = world.scenario.rates;
    for staged in carried.iter_mut().flatten() {
        let (rate, event) = match staged.carried {
            What::Nothing => continue,
            What::Outputs(_) => (rates.send_fails, Event::OutputsRefused),
            What::Letter { .. } => (rates.letter_fails, Event::LetterRefused),
        };
        if world.rng.chance(rate / 4) {
            staged.refused = true;
            world.coverage.note(event);
        }
    }
}

/// Stores all of it, or says why not.
fn conclude(
    world: &mut World,
    m: usize,
    plan: &CommitPlan,
    carried: &Carried,
    entries: &[Entry],
    generation: u64,
) -> Result<Vec<CommitAnswer>, crate::invariants::Violation> {
    let mut answers: Vec<CommitAnswer> = entries
        .iter()
        .map(|entry| judge(world, m, entry, generation))
        .collect();
    let is_refused = carried.iter().flatten().any(|staged| staged.refused);
    let stored = |answer: &CommitAnswer| *answer == CommitAnswer::Stored;
    if is_refused || !answers.iter().all(stored) {
        for answer in answers.iter_mut().filter(|answer| stored(answer)) {
            *answer = CommitAnswer::Repeat;
        }
        return Ok(answers);
    }
    for entry in entries {
        let part = plan
            .partitions
            .iter()
            .position(|part| part.slot.index() == entry.partition && part.epoch == entry.epoch);
        let staged = part.map_or(&[][..], |part| &carried[part][..]);
        commit(world, entry, staged)?;
    }
    Ok(answers)
}

fn commit(world: &mut World, entry: &Entry, staged: &[Staged<Payload>]) -> Check {
    let partition = entry.partition;
    let after = read(world, entry.offset, &entry.text)?;
    let begun_at = Offset::new(world.history.pasts[partition].begun_at);
    let before = committed_map(world, PartitionSlot(partition as u32))?
        .or(begun_at.map(HoleMap::caught_up))
        .unwrap_or_else(|| HoleMap::caught_up(Offset::ZERO));
    let log = &world.broker.logs[partition];
    exactly_once::covers(log, partition, &before, &after, staged)?;
    for staged in staged {
        let offset = staged.at.offset.get();
        world.history.pasts[partition].finished.insert(offset);
        if let What::Outputs(payload) = &staged.carried {
            let lane = world.lane_of(payload);
            exactly_once::written(&mut world.history, lane, partition, offset)?;
        }
    }
    store(world, entry, false)
}

fn answered(
    world: &mut World,
    m: usize,
    plan: &CommitPlan,
    carried: Carried,
    entries: &[Entry],
    answers: &[CommitAnswer],
) {
    let finished = finished(plan, |partition, epoch| {
        entries
            .iter()
            .zip(answers)
            .find(|(entry, _)| entry.partition == partition && entry.epoch == epoch)
            .map(|(entry, answer)| (*answer, Some(entry)))
    });
    world.members[m].request = Some(Request::Answered(finished, carried));
}

/// The core hears of it.
pub(super) fn answer(
    world: &mut World,
    m: usize,
    finished: &CommitFinished,
    carried: Carried,
) -> Check {
    let now = world.now;
    for (answer, staged) in finished.partitions.iter().zip(&carried) {
        for staged in staged {
            take(world, m, staged, answer.answer);
        }
    }
    let member = &mut world.members[m];
    member.core.transaction_finished(finished, carried, now);
    pump(world, m)
}

/// What the answer means for one record.
fn take(world: &mut World, m: usize, staged: &Staged<Payload>, answer: CommitAnswer) {
    let (at, offset) = (staged.at, staged.at.offset.get());
    let route = world.scenario.route(at.slot.index());
    let policy = world.scenario.core.routes[route.index()].retry;
    let now = world.now;
    let past = &mut world.history.pasts[at.slot.index()];
    let member = &mut world.members[m];
    let Some(assignment) = member.current(at.slot, at.epoch) else {
        world.coverage.note(Event::TransactionLate);
        return;
    };
    if answer == CommitAnswer::Stored {
        if let Some(done) = assignment.staged.remove(&offset) {
            if done.updates {
                assignment.tally.add(offset);
            }
        }
        return;
    }
    if !staged.refused {
        return;
    }
    assignment.reopen(offset);
    match staged.carried {
        What::Nothing => {}
        What::Letter { .. } => {
            assignment.letters_of_stage.insert(offset);
        }
        What::Outputs(_) => {
            let due = match policy.is_last(at.attempt) {
                true => give_up(policy.exhausted, offset, assignment, past, true),
                false => now.after(policy.delay(&at)),
            };
            runs_again(assignment, offset, due);
            forget_turn(member, &at);
        }
    }
}

/// Letters that are in a transaction are staged.
pub(super) fn note_letters(world: &mut World, m: usize, staged: &[Staged<Payload>]) {
    for staged in staged {
        let offset = staged.at.offset.get();
        if let Some(assignment) = world.members[m].current(staged.at.slot, staged.at.epoch) {
            if assignment.letters_of_stage.remove(&offset) {
                assignment.stage(offset, false, 0);
            }
        }
    }
}

/// The core does not say when a letter that was refused is staged again; its map does.
pub(crate) fn look_for_letters(world: &mut World) {
    for member in &mut world.members {
        let waits = |slot: &crate::member::Slot| {
            let assignment = slot.assignment.as_ref();
            assignment.is_some_and(|assignment| !assignment.letters_of_stage.is_empty())
        };
        if !member.is_up() || !member.slots.iter().any(waits) {
            continue;
        }
        for status in member.core.status().partitions {
            let Some(assignment) = &mut member.slots[status.slot.index()].assignment else {
                continue;
            };
            for offset in std::mem::take(&mut assignment.letters_of_stage) {
                match Offset::new(offset).is_some_and(|at| status.map.is_complete(at)) {
                    true => assignment.stage(offset, false, 0),
                    false => drop(assignment.letters_of_stage.insert(offset)),
                }
            }
        }
    }
}
