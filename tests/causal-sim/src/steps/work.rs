//! Handlers: a run of one lane, one record after the other.

use std::time::Duration;

use keyway_core::{Finished, Report, Task, TaskRef, Verdict};

use super::Step;
use super::pump::pump;
use crate::broker::Entry;
use crate::coverage::Event;
use crate::invariants::{Check, order};
use crate::record::Payload;
use crate::world::World;

/// Outputs of one run, so that those that go back to the group come to an end.
const MOST_RECORDS: usize = 260;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    for (m, member) in world.members.iter().enumerate() {
        for (r, run) in member.runs.iter().enumerate() {
            match run.running {
                Some(_) => into.push((Step::Finish(m, r), world.scenario.weights.finish)),
                None => into.push((Step::Start(m, r), 30)),
            }
        }
    }
}

pub(super) fn start(world: &mut World, m: usize, r: usize) -> Check {
    let member = &mut world.members[m];
    let Some(task) = member.runs[r].queue.pop_front() else {
        return Ok(());
    };
    if !member.leases.holds(task.at.slot, task.at.epoch) {
        member.runs[r].queue.push_front(task);
        return give_back(world, m, r, Vec::new());
    }
    let record = task.payload.record;
    order::starts(world, m, record)?;
    note_overlap(world, record);
    let member = &mut world.members[m];
    member.past.add_all(&world.records[record].ancestors);
    member.past.insert(record);
    member.runs[r].running = Some(task);
    Ok(())
}

fn note_overlap(world: &mut World, record: usize) {
    let members = world.members.iter();
    let running = members
        .flat_map(|member| &member.runs)
        .filter_map(|run| run.running.as_ref());
    let is_independent = |other: usize| {
        let (one, two) = (&world.records[record], &world.records[other]);
        other != record && !one.ancestors.contains(other) && !two.ancestors.contains(record)
    };
    let overlaps = running
        .filter(|task| is_independent(task.payload.record))
        .count();
    world.coverage.note_many(Event::Overlapped, overlaps as u64);
}

/// The running record of a run ends.
pub(super) fn finish(world: &mut World, m: usize, r: usize) -> Check {
    let Some(task) = world.members[m].runs[r].running.take() else {
        return Ok(());
    };
    let rates = world.scenario.rates;
    let Task { at, payload } = task;
    let verdict = if world.poison == Some(payload.record) {
        world.coverage.note(Event::PoisonFailed);
        Verdict::Failed {
            payload,
            after: None,
        }
    } else if world.calm {
        Verdict::Done
    } else if world.rng.chance(rates.fails) {
        world.coverage.note(Event::Failed);
        Verdict::Failed {
            payload,
            after: None,
        }
    } else if world.rng.chance(rates.outputs) && world.records.len() < MOST_RECORDS {
        Verdict::Outputs {
            payload,
            update: None,
            bytes: 1,
        }
    } else {
        Verdict::Done
    };
    match verdict.closes_lane() {
        true => give_back(world, m, r, vec![Finished { at, verdict }]),
        false => report(world, m, r, vec![Finished { at, verdict }]),
    }
}

/// Nothing more of the run starts: what is left goes back.
fn give_back(world: &mut World, m: usize, r: usize, mut ended: Vec<Finished<Payload>>) -> Check {
    let rest = std::mem::take(&mut world.members[m].runs[r].queue);
    ended.extend(rest.into_iter().map(|Task { at, payload }| Finished {
        at,
        verdict: Verdict::Returned { payload },
    }));
    report(world, m, r, ended)
}

fn report(world: &mut World, m: usize, r: usize, finished: Vec<Finished<Payload>>) -> Check {
    let now = world.now;
    let done: Vec<TaskRef> = finished
        .iter()
        .filter(|finished| finished.verdict == Verdict::Done)
        .map(|finished| finished.at)
        .collect();
    let member = &mut world.members[m];
    let route = member.runs[r].route;
    if member.runs[r].queue.is_empty() {
        member.runs.remove(r);
    }
    let report = Report {
        route,
        worker: None,
        finished,
        busy: Duration::from_micros(1),
        slow: 0,
        batch_failed: false,
    };
    member.core.completed(report, now);
    for at in done {
        complete(world, m, &at);
    }
    pump(world, m)
}

/// A record is complete, if it is still this member's.
pub(super) fn complete(world: &mut World, m: usize, at: &TaskRef) {
    let offset = at.offset.get();
    let entry = world.broker.chans[at.slot.index()].entry(offset);
    if let Some(assignment) = world.members[m].current(at.slot, at.epoch) {
        assignment.done.insert(offset);
        if world.poison.is_some() {
            world.coverage.note(Event::BesidePoison);
        }
        if let Some(Entry::Record(record)) = entry {
            assignment.complete.insert(record);
        }
    }
}
