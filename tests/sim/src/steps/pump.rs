//! Carries out the core's commands, and judges each of them.

use keyway_core::{CircuitState, Command, CommitPlan, RouteId, Transaction, Work, WorkerIndex};

use crate::coverage::Event;
use crate::invariants::{Check, base, ensure, exactly_once, hand_over, plans, snapshot};
use crate::member::{Carried, Request};
use crate::record::{Lane, Payload};
use crate::runner::Runner;
use crate::world::World;

/// Takes all commands that a member's core has for it.
pub(super) fn pump(world: &mut World, index: usize) -> Check {
    let mut stops = false;
    let mut taken_back = Vec::new();
    while let Some(command) = world.members[index].next_command() {
        world.say(|_| format!("       {index}: {command:?}"));
        match command {
            Command::Dispatch {
                route,
                worker,
                work,
            } => dispatch(world, index, route, worker, work)?,
            Command::Reopen {
                route,
                worker,
                lane,
            } => {
                let member = &mut world.members[index];
                let r = member.runner(route, worker);
                let runner = &mut member.runners[r];
                runner.queue.reopen(lane);
                runner.note_reopen();
            }
            Command::Circuit { route, state } => {
                world.members[index].circuits[route.index()] = state;
                if state == CircuitState::Closed {
                    world.coverage.note(Event::CircuitClosed);
                }
            }
            Command::TakeBack { route, worker } => taken_back.push((route, worker)),
            Command::Retire { route, worker } => retire(world, index, route, worker)?,
            Command::Commit(plan) => take_plan(world, index, plan, Vec::new())?,
            Command::Transact(Transaction { plan, staged }) => {
                take_plan(world, index, plan, staged)?;
            }
            Command::Pause(slot) => {
                let paused = &mut world.members[index].slots[slot.index()].paused;
                ensure(!std::mem::replace(paused, true), "buffers", || {
                    format!("{slot} is paused twice")
                })?;
                world.coverage.note(Event::Paused);
            }
            Command::Resume(slot) => {
                let paused = &mut world.members[index].slots[slot.index()].paused;
                ensure(std::mem::replace(paused, false), "buffers", || {
                    format!("{slot} is resumed twice")
                })?;
                world.coverage.note(Event::Resumed);
            }
            Command::OnHold { .. } => {}
            Command::PassedOver { at, payload } => {
                ensure(payload.offset == at.offset.get(), "hand-over", || {
                    format!("{at:?} is passed over with the payload of another record")
                })?;
                world.coverage.note(Event::PassedOver);
            }
            Command::Send(sending) => super::outputs::ask(world, index, sending)?,
            Command::WriteDeadLetter(letter) => super::letters::ask(world, index, letter)?,
            Command::Stop(_) => {
                world.coverage.note(Event::StopAsked);
                stops = true;
            }
            other => {
                return ensure(false, "commands", || format!("unknown: {other:?}"));
            }
        }
    }
    for (route, worker) in taken_back {
        let r = world.members[index].runner(route, worker);
        if world.members[index].runners[r].running.is_some() {
            world.coverage.note(Event::RetiredLate);
        }
        super::work::take_back(world, index, r)?;
    }
    if stops {
        super::group::begin_stop(world, index);
    }
    Ok(())
}

/// A worker's thread ends; should the worker come back, it is with another.
fn retire(world: &mut World, index: usize, route: RouteId, worker: WorkerIndex) -> Check {
    world.coverage.note(Event::Retired);
    let member = &mut world.members[index];
    let r = member.runner(route, worker);
    let runner = member.runners.remove(r);
    ensure(runner.is_empty(), "hand-over", || {
        format!("{worker:?} is retired and holds records")
    })
}

fn take_plan(world: &mut World, index: usize, plan: CommitPlan, carried: Carried) -> Check {
    plans::one_at_a_time(&world.members[index], &plan)?;
    let transactional = world.scenario.transactional();
    for (at, partition) in plan.partitions.iter().enumerate() {
        let staged = carried.get(at).map_or(&[][..], |staged| &staged[..]);
        super::transactions::note_letters(world, index, staged);
        let covered = staged.iter().map(|staged| staged.at.offset.get()).collect();
        let slot = partition.slot;
        let log = &world.broker.logs[slot.index()];
        if partition.map.span() >= world.scenario.core.limits.max_window {
            world.coverage.note(Event::WindowFull);
        }
        if let Some(assignment) = world.members[index].assignment(slot) {
            exactly_once::is_staged(assignment, &covered)?;
            snapshot::is_this_moment(assignment, log, partition, &covered)?;
            if covered.len() < assignment.staged.len() {
                world.coverage.note(Event::CoveredInPart);
            }
            // A transaction that is aborted may be followed by one that covers less.
            if !transactional {
                base::rises(assignment, partition)?;
            }
            assignment.planned_base = Some(partition.map.base());
        }
    }
    world.members[index].request = Some(Request::Planned(plan, carried));
    Ok(())
}

fn dispatch(
    world: &mut World,
    index: usize,
    route: RouteId,
    worker: Option<WorkerIndex>,
    work: Work<Payload>,
) -> Check {
    let (tasks, is_batch) = match &work {
        Work::Records(tasks) => (tasks, false),
        Work::Batch(tasks) => (tasks, true),
    };
    for task in tasks {
        let member = &mut world.members[index];
        hand_over::task(member, task, world.now)?;
        member.out += 1;
        if task.at.attempt == 1 {
            if let Some(left) = &mut member.starts_left {
                *left -= 1;
            }
        }
        if let Some(assignment) = member.current(task.at.slot, task.at.epoch) {
            assignment.out.insert(task.at.offset.get());
        }
    }
    let lanes: Vec<Lane> = tasks
        .iter()
        .map(|task| world.lane_of(&task.payload))
        .collect();
    if let (true, Some(config)) = (is_batch, &world.scenario.core.routes[route.index()].batch) {
        hand_over::batch(tasks, &lanes, config)?;
    }
    if worker.is_none() && !is_batch {
        ensure(
            lanes.iter().all(|lane| *lane == lanes[0]),
            "hand-over",
            || "a run of a pool holds several lanes".to_owned(),
        )?;
    }
    hand_over::not_held(&world.members[index], route, world.now)?;
    // A batch some of which is refused reports twice, so that another may begin a little early.
    if worker.is_some() || !is_batch {
        hand_over::within_concurrency(&world.members[index], route, worker)?;
    }
    let items = if is_batch { 1 } else { work.len() };
    let runner = match worker {
        Some(worker) => {
            let member = &mut world.members[index];
            let r = member.runner(route, worker);
            &mut member.runners[r]
        }
        None => {
            let runners = &mut world.members[index].runners;
            runners.push(Runner::new(route, None));
            let last = runners.len() - 1;
            &mut runners[last]
        }
    };
    runner.queued += items;
    let deep = runner.queued > 2;
    if let Some(spent) = runner.queue.push(work) {
        world.members[index].core.recycle(spent);
    }
    if deep {
        world.coverage.note(Event::DeepQueue);
    }
    Ok(())
}
