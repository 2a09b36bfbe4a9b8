//! Outputs: stamped when they are sent, appended, answered.

use keyway_core::{Sending, Sent};

use super::Step;
use super::pump::pump;
use crate::coverage::Event;
use crate::invariants::{Check, lost, stamp};
use crate::member::Output;
use crate::record::Payload;
use crate::world::World;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    for (m, member) in world.members.iter().enumerate() {
        for index in 0..member.outputs.len() {
            into.push((Step::AnswerOutput(m, index), 15));
        }
    }
}

/// The core asks for the outputs of a record.
pub(super) fn send(world: &mut World, m: usize, sending: Sending<Payload>) -> Check {
    let now = world.now;
    if sending.held_back {
        world.members[m].core.outputs_not_sent(sending, now);
        return Ok(());
    }
    lost::may_send(world, m)?;
    let is_mine = world.members[m]
        .current(sending.at.slot, sending.at.epoch)
        .is_some();
    if !is_mine {
        world.members[m].outputs.push(Output {
            sending,
            fails: true,
        });
        return Ok(());
    }
    let Ok(header) = world.members[m].core.gate_mut().stamp() else {
        world.coverage.note(Event::SendRefused);
        world.members[m].was_refused = true;
        world.members[m].outputs.push(Output {
            sending,
            fails: true,
        });
        return Ok(());
    };
    let rates = world.scenario.rates;
    let (gated, all) = (world.broker.gated, world.broker.chans.len());
    let to = match world.rng.chance(rates.output_is_gated) {
        true => world.rng.below(gated),
        false => gated + world.rng.below(all - gated),
    };
    stamp::covers(world, m, &header, to)?;
    let fails = !world.calm && world.rng.chance(rates.send_fails);
    if fails && world.rng.chance(500) {
        world.coverage.note(Event::SendFailed);
    } else {
        let others = world.members[m].runs.iter();
        if others.filter(|run| run.running.is_some()).count() > 0 {
            world.coverage.note(Event::SentBesideSibling);
        }
        if to < gated {
            world.coverage.note(Event::SentToGated);
        }
        world.coverage.note(match fails {
            true => Event::SendAmbiguous,
            false => Event::Sent,
        });
        let past = world.members[m].past.clone();
        world.append(to, Some(header), past);
    }
    world.members[m].outputs.push(Output { sending, fails });
    Ok(())
}

/// The producer hears what became of an output.
pub(super) fn answer(world: &mut World, m: usize, index: usize) -> Check {
    let now = world.now;
    let Output { sending, fails } = world.members[m].outputs.remove(index);
    let at = sending.at;
    let core = &mut world.members[m].core;
    if fails {
        core.outputs_failed(sending, now);
    } else {
        let (update, bytes) = (sending.update, sending.bytes);
        core.outputs_acknowledged(Sent { at, update, bytes }, now);
        super::work::complete(world, m, &at);
    }
    pump(world, m)
}
