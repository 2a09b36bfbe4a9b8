//! Commits on their way: sent, stored or refused, answered, lost, landing late.

use std::time::Duration;

use keyway_core::{CommitAnswer, CommitFinished, CommitPlan, PartitionAnswer, PartitionSlot};
use keyway_offsets::HoleMap;
use keyway_rider::{CommitMap, Metadata, Rider, Rung};

use super::pump::pump;
use super::{Step, transactions};
use crate::broker::Committed;
use crate::coverage::Event;
use crate::invariants::{Check, Violation, base, fits, loss};
use crate::member::{Entry, Request};
use crate::rider;
use crate::world::{LateCommit, World};

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    for (index, member) in world.members.iter().enumerate() {
        match &member.request {
            Some(Request::Planned(..)) => into.push((Step::Send(index), 50)),
            Some(Request::Sent { .. }) => {
                into.push((Step::Apply(index), 50));
                if !world.calm {
                    into.push((
                        Step::LoseAnswer(index),
                        world.scenario.rates.answer_lost / 10,
                    ));
                }
            }
            Some(Request::Answered(..)) => into.push((Step::Answer(index), 50)),
            None => {}
        }
    }
    for index in 0..world.late.len() {
        into.push((Step::Land(index), 2));
    }
}

/// Encodes a plan and sends it, without the partitions that have left in the meantime.
pub(super) fn send(world: &mut World, index: usize) -> Check {
    let transactional = world.scenario.transactional();
    let member = &mut world.members[index];
    let Some(Request::Planned(plan, carried)) = member.request.take() else {
        return Ok(());
    };
    let mut entries = Vec::new();
    for partition in &plan.partitions {
        if member.current(partition.slot, partition.epoch).is_none() {
            if transactional {
                return transactions::not_sent(world, index, plan, carried);
            }
            continue;
        }
        let map = CommitMap::new(&partition.map, &plan.limits);
        let offer = rider::offer(partition, &map, world.steps as u64);
        let text = map.with(&offer);
        if partition.rider_only && world.rng.chance(500) {
            world.coverage.note(Event::RiderUnchanged);
            continue;
        }
        if let Some(offset) = rider::counted_twice(partition, &text) {
            return Err(Violation {
                invariant: "rider",
                detail: format!(
                    "{} has {offset} in its state and not in {:?}",
                    partition.slot, text.rung
                ),
            });
        }
        match text.rung {
            Rung::MarkerAndMap | Rung::MarkerOnly => world.coverage.note(Event::RiderShed),
            rung if rung.has_rider() => world.coverage.note(Event::RiderCommitted),
            _ => {}
        }
        let stripped = text.stripped;
        match transactional {
            true => fits::never_stripped(stripped)?,
            false => fits::not_stripped(stripped, &plan.limits, &world.scenario.core.limits)?,
        }
        entries.push(Entry {
            partition: partition.slot.index(),
            epoch: partition.epoch,
            offset: partition.map.base(),
            stripped,
            inner_chars: text.inner_chars,
            text: text.text,
            leader_epoch: partition.leader_epoch,
            stores: 0,
        });
    }
    let generation = member.generation;
    member.request = Some(Request::Sent {
        plan,
        carried,
        entries,
        generation,
    });
    Ok(())
}

/// The broker takes a request, and answers it.
pub(super) fn apply(world: &mut World, index: usize) -> Check {
    let Some(Request::Sent {
        plan,
        carried,
        entries,
        generation,
    }) = world.members[index].request.take()
    else {
        return Ok(());
    };
    if world.scenario.transactional() {
        return transactions::apply(world, index, plan, carried, &entries, generation);
    }
    let mut answers = Vec::new();
    for entry in &entries {
        let answer = judge(world, index, entry, generation);
        if answer == CommitAnswer::Stored {
            store(world, entry, false)?;
        }
        answers.push((entry, answer));
    }
    let stored = answers
        .iter()
        .filter(|(_, answer)| *answer == CommitAnswer::Stored)
        .count();
    if stored > 0 && stored < answers.len() {
        world.coverage.note(Event::CommitPartial);
    }
    let finished = finished(&plan, |partition, epoch| {
        answers
            .iter()
            .find(|(entry, _)| entry.partition == partition && entry.epoch == epoch)
            .map(|(entry, answer)| (*answer, Some(*entry)))
    });
    world.members[index].request = Some(Request::Answered(finished, carried));
    Ok(())
}

/// What the broker says of one partition of a request.
pub(super) fn judge(
    world: &mut World,
    index: usize,
    entry: &Entry,
    generation: u64,
) -> CommitAnswer {
    let rates = world.scenario.rates;
    let (answer, event) = if world.members[index].kicked {
        (CommitAnswer::MemberLost, Event::CommitMemberLost)
    } else if generation != world.broker.generation {
        (CommitAnswer::Superseded, Event::CommitSuperseded)
    } else if entry.text.encode_utf16().count() > world.scenario.broker_cap {
        (CommitAnswer::TooLarge, Event::CommitTooLarge)
    } else if !world.calm && world.rng.chance(rates.commit_denied) {
        (CommitAnswer::Denied, Event::CommitDenied)
    } else if !world.calm && world.rng.chance(rates.commit_repeat) {
        (CommitAnswer::Repeat, Event::CommitRepeat)
    } else {
        (CommitAnswer::Stored, Event::CommitStored)
    };
    world.coverage.note(event);
    answer
}

/// The core's answer for each partition of a plan; those that were not sent are superseded.
pub(super) fn finished<'a>(
    plan: &CommitPlan,
    answer_of: impl Fn(usize, keyway_core::Epoch) -> Option<(CommitAnswer, Option<&'a Entry>)>,
) -> CommitFinished {
    let partitions = plan
        .partitions
        .iter()
        .map(|partition| {
            let (answer, entry) = answer_of(partition.slot.index(), partition.epoch).unwrap_or(
                match partition.rider_only {
                    true => (CommitAnswer::Unchanged, None),
                    false => (CommitAnswer::Superseded, None),
                },
            );
            PartitionAnswer {
                slot: partition.slot,
                epoch: partition.epoch,
                answer,
                chars: entry.map_or(0, |entry| entry.text.len()),
                inner_chars: entry.map_or(0, |entry| entry.inner_chars),
                stripped: entry.is_some_and(|entry| entry.stripped),
                takes: None,
            }
        })
        .collect();
    CommitFinished {
        plan: plan.id,
        partitions,
        took: Duration::from_millis(1),
    }
}

/// No answer comes: the request was stored, or never is, or lands later.
pub(super) fn lose_answer(world: &mut World, index: usize) -> Check {
    let Some(Request::Sent {
        plan,
        carried,
        mut entries,
        generation,
    }) = world.members[index].request.take()
    else {
        return Ok(());
    };
    if world.scenario.transactional() {
        return transactions::find_out(world, index, plan, carried, &entries, generation);
    }
    match world.rng.below(3) {
        0 => {
            for entry in &entries {
                if judge(world, index, entry, generation) == CommitAnswer::Stored {
                    store(world, entry, false)?;
                }
            }
            world.coverage.note(Event::AnswerLostStored);
        }
        1 => world.coverage.note(Event::AnswerLostNever),
        _ => {
            for entry in &mut entries {
                entry.stores = world.broker.stores[entry.partition];
            }
            world.late.push(LateCommit {
                generation,
                entries,
            });
        }
    }
    let finished = finished(&plan, |_, _| Some((CommitAnswer::Unknown, None)));
    world.members[index].request = Some(Request::Answered(finished, carried));
    Ok(())
}

pub(super) fn answer(world: &mut World, index: usize) -> Check {
    let now = world.now;
    let Some(Request::Answered(finished, carried)) = world.members[index].request.take() else {
        return Ok(());
    };
    world.say(|_| format!("       {index}: {finished:?}"));
    if world.scenario.transactional() {
        return transactions::answer(world, index, &finished, carried);
    }
    world.members[index].core.commit_finished(&finished, now);
    pump(world, index)
}

/// A late commit lands, where it still can: behind one newer commit, not behind two.
pub(super) fn land(world: &mut World, index: usize) -> Check {
    let late = world.late.swap_remove(index);
    if late.generation != world.broker.generation {
        return Ok(());
    }
    for entry in &late.entries {
        let newer = world.broker.stores[entry.partition] - entry.stores;
        if newer < 2 && entry.text.len() <= world.scenario.broker_cap {
            store(world, entry, true)?;
            let event = if newer == 0 {
                Event::LandedLate
            } else {
                Event::LandedBehindNewer
            };
            world.coverage.note(event);
        }
    }
    Ok(())
}

pub(super) fn store(world: &mut World, entry: &Entry, late: bool) -> Check {
    let partition = entry.partition;
    let map = read(world, entry.offset, &entry.text)?;
    world.say(|_| {
        format!(
            "       stored of {partition}: {map:?}{}",
            if late { " late" } else { "" }
        )
    });
    loss::stored(
        &mut world.history.pasts[partition],
        &world.broker.logs[partition],
        partition,
        &map,
    )?;
    if !late {
        if let Some(before) = &world.broker.committed[partition] {
            let before = read(world, before.offset, &before.text)?;
            base::forgets_nothing(partition, &before, &map, entry.stripped)?;
        }
        world.broker.stores[partition] += 1;
    }
    world.regressed[partition] = late || entry.stripped;
    world.broker.committed[partition] = Some(Committed {
        offset: entry.offset,
        text: entry.text.clone(),
        leader_epoch: entry.leader_epoch,
    });
    Ok(())
}

/// Reads a commit as a new owner does.
pub(super) fn read(
    world: &World,
    offset: keyway_offsets::Offset,
    text: &str,
) -> Result<HoleMap, Violation> {
    match read_all(world, offset, text).map {
        Ok(decoded) => Ok(decoded.map),
        Err(error) => Err(Violation {
            invariant: "text",
            detail: format!("{text:?} at {offset} can't be read: {error}"),
        }),
    }
}

fn read_all(world: &World, offset: keyway_offsets::Offset, text: &str) -> Metadata {
    let window = world.scenario.core.limits.max_window;
    keyway_rider::read(offset, text.as_bytes(), window)
}

/// The rider beside what the group has committed for a partition.
pub(crate) fn committed_rider(world: &World, slot: PartitionSlot) -> Rider {
    world.broker.committed[slot.index()]
        .as_ref()
        .map_or(Rider::None, |committed| {
            read_all(world, committed.offset, &committed.text).rider
        })
}

/// What the group has committed for a partition.
pub(crate) fn committed_map(
    world: &World,
    slot: PartitionSlot,
) -> Result<Option<HoleMap>, Violation> {
    match &world.broker.committed[slot.index()] {
        Some(committed) => read(world, committed.offset, &committed.text).map(Some),
        None => Ok(None),
    }
}
