//! Dead letters: what their writer is asked for, and how it ends.
//!
//! Here a letter is written at the moment of its acknowledgement, so a record is finished then and not before.

use keyway_core::DeadLetter;

use super::Step;
use super::pump::pump;
use crate::coverage::Event;
use crate::invariants::{Check, ensure};
use crate::record::Payload;
use crate::world::World;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    for (m, member) in world.members.iter().enumerate() {
        for letter in 0..member.letters.len() {
            into.push((Step::WriteLetter(m, letter), 20));
            if !world.calm {
                let weight = world.scenario.rates.letter_fails / 20;
                into.push((Step::FailLetter(m, letter), weight));
            }
        }
    }
}

/// The core asks for a letter: of the running assignment, of a record that nobody tries again, once at a time.
pub(super) fn ask(world: &mut World, m: usize, letter: DeadLetter<Payload>) -> Check {
    let at = letter.at;
    let offset = at.offset.get();
    ensure(!world.scenario.transactional(), "letters", || {
        format!("the dead letter of {at:?} goes beside the transactions")
    })?;
    let is_same = (letter.payload.partition, letter.payload.offset) == (at.slot.index(), offset);
    let member = &mut world.members[m];
    if let Some(assignment) = member.current(at.slot, at.epoch) {
        let is_due = assignment.buried.contains(&offset)
            && !assignment.finished.contains(&offset)
            && !assignment.out.contains(&offset)
            && assignment.letters.insert(offset);
        ensure(is_due && is_same, "letters", || {
            format!(
                "a dead letter is asked for {at:?} with {:?}",
                letter.payload
            )
        })?;
    } else {
        ensure(false, "letters", || {
            format!("a dead letter is asked for {at:?} after its assignment")
        })?;
    }
    if letter.tries > 1 {
        world.coverage.note(Event::LetterTriedAgain);
    }
    world.members[m].letters.push(letter);
    Ok(())
}

fn take(world: &mut World, m: usize, index: usize) -> DeadLetter<Payload> {
    let member = &mut world.members[m];
    let letter = member.letters.swap_remove(index);
    match member.current(letter.at.slot, letter.at.epoch) {
        Some(assignment) => drop(assignment.letters.remove(&letter.at.offset.get())),
        None => world.coverage.note(Event::LetterLate),
    }
    letter
}

/// The broker has the letter, and the core hears of it.
pub(super) fn write(world: &mut World, m: usize, index: usize) -> Check {
    let now = world.now;
    let letter = take(world, m, index);
    let (at, offset) = (letter.at, letter.at.offset.get());
    world.coverage.note(Event::LetterWritten);
    world.history.pasts[letter.payload.partition]
        .finished
        .insert(offset);
    let member = &mut world.members[m];
    if let Some(assignment) = member.current(at.slot, at.epoch) {
        assignment.finish(offset);
        assignment.complete(offset);
    }
    member.core.dead_letter_written(at, now);
    pump(world, m)
}

/// The core hears that the letter was not written. Perhaps it was: then there will be two.
pub(super) fn fail(world: &mut World, m: usize, index: usize) -> Check {
    let now = world.now;
    let letter = take(world, m, index);
    world.coverage.note(Event::LetterFailed);
    if world.rng.chance(world.scenario.rates.letter_ambiguous) {
        world.coverage.note(Event::LetterAmbiguous);
        world.history.pasts[letter.payload.partition]
            .finished
            .insert(letter.at.offset.get());
    }
    world.members[m].core.dead_letter_failed(letter, now);
    pump(world, m)
}
