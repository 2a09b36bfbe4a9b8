//! Workers: taking records, ending attempts, reporting.

use std::time::Duration;

use keyway_core::{
    CircuitState, Exhausted, Finished, PartitionSlot, RiderSource, RouteId, Task, TaskRef,
    Timestamp, Verdict,
};
use keyway_rider::Update;

use super::Step;
use super::pump::pump;
use crate::assignment::Assignment;
use crate::coverage::Event;
use crate::history::{Attempt, Past};
use crate::invariants::{Check, order, replay};
use crate::record::Payload;
use crate::scenario::Scenario;
use crate::world::World;

pub(super) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    for (m, member) in world.members.iter().enumerate() {
        if member.is_up() && !world.calm && world.scenario.weights.resize > 0 {
            for route in 0..world.scenario.core.routes.len() {
                into.push((Step::Resize(m, route), world.scenario.weights.resize));
            }
        }
        for (r, runner) in member.runners.iter().enumerate() {
            if runner.running.is_some() {
                into.push((Step::Finish(m, r), 50));
                if runner.queued > 0 && runner.worker.is_some() && !world.calm {
                    into.push((Step::TakeBack(m, r), world.scenario.weights.take_back));
                }
            } else if runner.queued > 0 {
                into.push((Step::Take(m, r), 60));
            }
            if runner.has_gathered() {
                into.push((Step::Flush(m, r), 30));
            }
            if !runner.outbox.is_empty() {
                into.push((Step::Report(m, r), 60));
            }
        }
    }
}

/// A route is to have another number of calls at once.
pub(super) fn resize(world: &mut World, m: usize, route: usize) -> Check {
    world.coverage.note(Event::Resized);
    let calls = world.rng.between(1, 4) as u32;
    let (now, id) = (world.now, RouteId(route as u16));
    let member = &mut world.members[m];
    member.concurrency[route] = calls;
    member.core.set_concurrency(id, calls, now);
    pump(world, m)
}

/// A worker takes the next item from its queue, and starts it when it may.
pub(super) fn take(world: &mut World, m: usize, r: usize) -> Check {
    let call = world.next_id();
    let member = &mut world.members[m];
    let before = (
        member.runners[r].refused_closed,
        member.runners[r].refused_over,
    );
    let leases = std::sync::Arc::clone(&member.leases);
    let started: Vec<(keyway_core::TaskRef, Payload)> = member.runners[r]
        .take(&leases, call)
        .map(|call| {
            call.tasks
                .iter()
                .map(|task| (task.at, task.payload))
                .collect()
        })
        .unwrap_or_default();
    if member.runners[r].refused_closed > before.0 {
        world.coverage.note(Event::LaneClosed);
    }
    if member.runners[r].refused_over > before.1 {
        world.coverage.note(Event::LeaseOver);
    }
    let incarnation = member.incarnation;
    let offsets: Vec<i64> = started.iter().map(|(at, _)| at.offset.get()).collect();
    if started.len() > 1 {
        world.coverage.note(Event::BatchRan);
    }
    let mut attempts = Vec::new();
    for (at, payload) in &started {
        let lane = world.lane_of(payload);
        let offset = at.offset.get();
        let Some(assignment) = world.members[m].current(at.slot, at.epoch) else {
            return crate::invariants::ensure(false, "lease", || {
                format!("{at:?} starts after its end")
            });
        };
        let attempt = Attempt {
            offset,
            incarnation,
            assignment: assignment.id,
            call,
        };
        let batch: Vec<i64> = if started.len() > 1 {
            of_partition(&started, at.slot)
        } else {
            offsets.clone()
        };
        order::starts(&world.history, assignment, lane, attempt, &batch)?;
        replay::starts(assignment, offset)?;
        if world.history.pasts[payload.partition]
            .finished
            .contains(&offset)
        {
            world.coverage.note(Event::Repeated);
        }
        if at.attempt > 1 {
            world.coverage.note(Event::RetryRan);
            if started.len() == 1 && world.members[m].runners[r].is_batch() {
                world.coverage.note(Event::BatchSplitToOne);
            }
        }
        attempts.push((lane, attempt));
    }
    for (index, (lane, attempt)) in attempts.iter().enumerate() {
        if attempts[..index].iter().any(|(earlier, _)| earlier == lane) {
            world.coverage.note(Event::BatchSameLane);
        }
        world.history.started(*lane, *attempt);
    }
    world.drop_finished_runs(m);
    Ok(())
}

fn of_partition(started: &[(keyway_core::TaskRef, Payload)], slot: PartitionSlot) -> Vec<i64> {
    let of_slot = started.iter().filter(|(at, _)| at.slot == slot);
    of_slot.map(|(at, _)| at.offset.get()).collect()
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    Outputs(u32),
    Skipped,
    Failed(Option<Duration>),
    GiveUp,
    DeadLetter,
    Stop,
}

/// The running call of a worker ends.
pub(super) fn finish(world: &mut World, m: usize, r: usize) -> Check {
    let Some(call) = world.members[m].runners[r].running.take() else {
        return Ok(());
    };
    let poisoned = call.tasks.len() > 1 && call.tasks.iter().any(|task| task.payload.poison);
    let rates = world.scenario.rates;
    let whole =
        call.batch && (poisoned || (!world.calm && world.rng.chance(rates.batch_fails_whole)));
    if whole {
        world.coverage.note(Event::BatchFailedWhole);
    }
    let took = if world.rng.chance(rates.slow) {
        world.coverage.note(Event::SlowHandler);
        Duration::from_micros(3_000)
    } else {
        Duration::from_nanos(world.rng.between(200, 20_000) as u64)
    };
    let mut results = Vec::with_capacity(call.tasks.len());
    for task in call.tasks {
        let end = if whole {
            End::Failed(None)
        } else {
            draw_end(world)
        };
        note_end(world, m, &task, call.number, end);
        results.push(result(task, end, &world.scenario));
    }
    let batch_failed = call.batch.then_some(whole);
    world.members[m].runners[r].finish(results, batch_failed, took);
    Ok(())
}

fn draw_end(world: &mut World) -> End {
    let rates = world.scenario.rates;
    if world.calm {
        End::Done
    } else if world.rng.chance(rates.fail) {
        world.coverage.note(Event::Failed);
        let own = world.rng.chance(300);
        End::Failed(own.then(|| Duration::from_micros(world.rng.pick(&[0, 100, 8_000]))))
    } else if world.rng.chance(rates.panic) {
        world.coverage.note(Event::Panicked);
        End::Failed(None)
    } else if world.rng.chance(rates.stop) {
        End::Stop
    } else if world.rng.chance(rates.dead_letter) {
        world.coverage.note(Event::DeadLetterAsked);
        End::DeadLetter
    } else if world.rng.chance(rates.give_up) {
        world.coverage.note(Event::GivenUp);
        End::GiveUp
    } else if world.rng.chance(rates.outputs) {
        world.coverage.note(Event::OutputsAsked);
        End::Outputs(world.rng.pick(&[1, 10, 30]))
    } else if world.rng.chance(rates.skip) {
        world.coverage.note(Event::Skipped);
        End::Skipped
    } else {
        End::Done
    }
}

fn note_end(world: &mut World, m: usize, task: &Task<Payload>, call: u64, end: End) {
    let offset = task.at.offset.get();
    let lane = world.lane_of(&task.payload);
    let incarnation = world.members[m].incarnation;
    if let Some(running) = world.history.running.get(&lane) {
        let ended = running
            .iter()
            .find(|running| {
                running.offset == offset
                    && running.call == call
                    && running.incarnation == incarnation
            })
            .copied();
        if let Some(ended) = ended {
            world.history.ended(lane, ended);
        }
    }
    let transactional = world.scenario.transactional();
    // In transactions outputs hold up nobody.
    let is_over = match end {
        End::Done | End::Skipped => true,
        End::Outputs(_) => transactional,
        _ => false,
    };
    if is_over {
        if !transactional {
            world.history.pasts[task.payload.partition]
                .finished
                .insert(offset);
        }
        if let Some(assignment) = world.members[m].current(task.at.slot, task.at.epoch) {
            assignment.finish(offset);
        }
    }
}

fn result(Task { at, payload }: Task<Payload>, end: End, scenario: &Scenario) -> Finished<Payload> {
    let riders = scenario.core.riders;
    let verdict = match end {
        End::Done if riders == RiderSource::State => {
            Verdict::DoneWith(Update::new(at.offset.get()))
        }
        End::Done => Verdict::Done,
        End::Outputs(bytes) if scenario.transactional() => Verdict::Staged {
            payload,
            update: (riders == RiderSource::State).then(|| Update::new(at.offset.get())),
            bytes,
        },
        End::Outputs(bytes) => Verdict::Outputs {
            payload,
            update: (riders == RiderSource::State).then(|| Update::new(at.offset.get())),
            bytes,
        },
        End::Skipped => Verdict::Skipped,
        End::Failed(after) => Verdict::Failed { payload, after },
        End::GiveUp => Verdict::GiveUp { payload },
        End::DeadLetter => Verdict::DeadLetter { payload },
        End::Stop => Verdict::Stop {
            payload,
            reason: "asked to".to_owned(),
        },
    };
    Finished { at, verdict }
}

/// What a report says of a record.
enum Said {
    Complete {
        updates: bool,
    },
    Outputs,
    Staged {
        updates: bool,
        bytes: u32,
    },
    /// Outputs that are not taken, since a record before runs again.
    HeldBack,
    Unstarted,
    Failed {
        after: Option<Duration>,
    },
    GivenUp,
    DeadLetter,
    Stop,
}

impl Said {
    fn of(verdict: &Verdict<Payload>) -> Self {
        match verdict {
            Verdict::Done | Verdict::Skipped => Said::Complete { updates: false },
            Verdict::DoneWith(_) => Said::Complete { updates: true },
            Verdict::Outputs { .. } => Said::Outputs,
            Verdict::Staged { update, bytes, .. } => Said::Staged {
                updates: update.is_some(),
                bytes: *bytes,
            },
            Verdict::Returned { .. } => Said::Unstarted,
            Verdict::Failed { after, .. } => Said::Failed { after: *after },
            Verdict::GiveUp { .. } => Said::GivenUp,
            Verdict::DeadLetter { .. } => Said::DeadLetter,
            Verdict::Stop { .. } => Said::Stop,
        }
    }
}

/// A report reaches the core.
pub(super) fn report(world: &mut World, m: usize, r: usize) -> Check {
    let now = world.now;
    let member = &mut world.members[m];
    let Some(report) = member.runners[r].outbox.pop_front() else {
        return Ok(());
    };
    let (route, batch_failed) = (report.route, report.batch_failed);
    let finished = report.finished.iter();
    let mut said: Vec<_> = finished
        .map(|end| (end.at, Said::of(&end.verdict)))
        .collect();
    if let Some(book) = &member.let_through {
        // What fails may get its next turn before this report is taken in whole.
        let failed = said
            .iter()
            .filter(|(_, said)| matches!(said, Said::Failed { .. }));
        failed.for_each(|(at, _)| book.forget(at));
    }
    let opened = member.core.counters().circuits_opened;
    let was_held = member.circuits[route.index()] != CircuitState::Closed;
    member.core.completed(report, now);
    let opens = member.core.counters().circuits_opened > opened;
    if opens {
        world.forgive_waiting(m, route);
    }
    let held_back = world.members[m].held_back();
    for (at, said) in &mut said {
        if held_back.contains(&(at.slot, at.offset.get())) {
            *said = Said::HeldBack;
        }
    }
    world.take_what_was_said(m, route, &said, batch_failed, opens || was_held);
    if !held_back.is_empty() {
        world.members[m].look_how_far_maps_reach();
    }
    world.drop_finished_runs(m);
    pump(world, m)
}

impl World {
    /// A circuit has opened: what waits for another attempt has spent one less.
    fn forgive_waiting(&mut self, m: usize, route: RouteId) {
        self.coverage.note(Event::CircuitOpened);
        let member = &mut self.members[m];
        for (partition, slot) in member.slots.iter_mut().enumerate() {
            let Some(assignment) = &mut slot.assignment else {
                continue;
            };
            if self.scenario.route(partition) != route {
                continue;
            }
            for (offset, (spent, due)) in &mut assignment.retries {
                let is_away =
                    assignment.out.contains(offset) || assignment.sending.contains(offset);
                let waits = !is_away && *due != Timestamp::NEVER;
                if waits && assignment.incomplete.contains(offset) && *spent > 0 {
                    *spent -= 1;
                    member.starts_left = match *spent {
                        0 => member.starts_left.map(|left| left + 1),
                        _ => member.starts_left,
                    };
                }
            }
        }
    }

    fn take_what_was_said(
        &mut self,
        m: usize,
        route: RouteId,
        said: &[(TaskRef, Said)],
        batch_failed: bool,
        forgiven: bool,
    ) {
        let now = self.now;
        let member = &mut self.members[m];
        let policy = self.scenario.core.routes[route.index()].retry;
        let started = |said: &&(TaskRef, Said)| !matches!(said.1, Said::Unstarted);
        // Of a batch that failed as a whole nobody knows which record was to blame.
        let transactional = self.scenario.transactional();
        let is_blamed = !batch_failed || said.iter().filter(started).count() <= 1;
        for (at, said) in said {
            member.came_back(at, matches!(said, Said::Unstarted));
            let offset = at.offset.get();
            let Some(assignment) = member.current(at.slot, at.epoch) else {
                continue;
            };
            let due = match said {
                Said::Complete { updates } if transactional => {
                    assignment.stage(offset, *updates, 0);
                    continue;
                }
                Said::HeldBack => {
                    assignment.unfinish(offset);
                    continue;
                }
                Said::Staged { updates, bytes } => {
                    assignment.stage(offset, *updates, *bytes);
                    continue;
                }
                Said::Complete { updates } => {
                    if *updates {
                        assignment.tally.add(offset);
                    }
                    assignment.complete(offset);
                    continue;
                }
                Said::Outputs | Said::Unstarted => continue,
                Said::Failed { .. } if is_blamed && policy.is_last(at.attempt) && !forgiven => {
                    let past = &mut self.history.pasts[at.slot.index()];
                    give_up(policy.exhausted, offset, assignment, past, transactional)
                }
                Said::GivenUp => {
                    let past = &mut self.history.pasts[at.slot.index()];
                    give_up(policy.exhausted, offset, assignment, past, transactional)
                }
                Said::DeadLetter => {
                    let past = &mut self.history.pasts[at.slot.index()];
                    give_up(
                        Exhausted::DeadLetter,
                        offset,
                        assignment,
                        past,
                        transactional,
                    )
                }
                Said::Failed { after } => now.after(after.unwrap_or_else(|| policy.delay(at))),
                Said::Stop => Timestamp::NEVER,
            };
            let spent = assignment
                .retries
                .get(&offset)
                .map_or(0, |(spent, _)| *spent);
            if forgiven && matches!(said, Said::Failed { .. }) {
                assignment.retries.insert(offset, (spent, due));
                if spent == 0 {
                    member.starts_left = member.starts_left.map(|left| left + 1);
                }
                self.coverage.note(Event::Forgiven);
            } else {
                assignment.retries.insert(offset, (spent + 1, due));
            }
        }
    }
}

/// No further attempt is made. Answers when there is one all the same: never.
pub(super) fn give_up(
    exhausted: Exhausted,
    offset: i64,
    assignment: &mut Assignment,
    past: &mut Past,
    transactional: bool,
) -> Timestamp {
    match exhausted {
        Exhausted::Skip if transactional => {
            assignment.stage(offset, false, 0);
        }
        Exhausted::DeadLetter if transactional => {
            assignment.buried.insert(offset);
            assignment.letters_of_stage.insert(offset);
        }
        Exhausted::Skip => {
            assignment.finish(offset);
            assignment.complete(offset);
            past.finished.insert(offset);
        }
        Exhausted::DeadLetter => {
            assignment.buried.insert(offset);
        }
        _ => {}
    }
    Timestamp::NEVER
}

/// What a busy worker has not started is taken back.
pub(super) fn take_back(world: &mut World, m: usize, r: usize) -> Check {
    let now = world.now;
    let member = &mut world.members[m];
    let mut tasks = member.runners[r].take_back();
    let (route, worker) = (member.runners[r].route, member.runners[r].worker);
    let (Some(worker), false) = (worker, tasks.is_empty()) else {
        return Ok(());
    };
    for task in &tasks {
        member.came_back(&task.at, true);
    }
    world.coverage.note(Event::TakenBack);
    world.members[m]
        .core
        .taken_back(route, worker, &mut tasks, now);
    pump(world, m)
}

impl World {
    /// Runs of pools that have reported everything are gone.
    fn drop_finished_runs(&mut self, m: usize) {
        self.members[m]
            .runners
            .retain(|runner| runner.worker.is_some() || !runner.is_over());
    }
}
