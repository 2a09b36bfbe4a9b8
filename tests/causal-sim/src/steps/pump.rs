//! Carries out the core's commands.

use keyway_causal::CausalStop;
use keyway_core::{Command, CommitPlan, Work};

use crate::bits::Bits;
use crate::invariants::{Check, ensure};
use crate::member::{Request, Run, Told};
use crate::world::World;

/// Takes all commands that a member's core has for it, and hears whether its gate wants it to stop.
pub(super) fn pump(world: &mut World, m: usize) -> Check {
    while let Some(command) = world.members[m].core.next_command() {
        world.say(|_| format!("       {m}: {command:?}"));
        match command {
            Command::Dispatch { route, work, .. } => {
                let (Work::Records(tasks) | Work::Batch(tasks)) = work;
                world.members[m].runs.push(Run {
                    route,
                    queue: tasks.into(),
                    running: None,
                });
            }
            Command::Commit(plan) => take_plan(world, m, plan)?,
            Command::Send(sending) => super::outputs::send(world, m, sending)?,
            Command::Pause(slot) => world.members[m].slots[slot.index()].paused = true,
            Command::Resume(slot) => world.members[m].slots[slot.index()].paused = false,
            other => return World::violation("commands", format!("{m}: {other:?}")),
        }
    }
    match world.members[m].core.gate_mut().take_stop() {
        None => Ok(()),
        Some(CausalStop::Undecodable { .. }) => {
            world.members[m].is_stopping = true;
            Ok(())
        }
        Some(stop) => World::violation("stop", format!("{m}: {stop}")),
    }
}

fn take_plan(world: &mut World, m: usize, plan: CommitPlan) -> Check {
    let member = &mut world.members[m];
    ensure(member.request.is_none(), "plans", || {
        format!("{m} has two plans")
    })?;
    let complete = plan.partitions.iter().map(|part| {
        let assignment = member.slots[part.slot.index()].assignment.as_ref();
        assignment
            .map(|its| its.complete.clone())
            .unwrap_or_default()
    });
    // What is of the group's own channels comes again, or its own shard tells of it.
    let gated = world.broker.gated;
    let mut learned = Bits::default();
    let outside = member
        .past
        .iter()
        .filter(|record| world.records[*record].chan >= gated);
    outside.for_each(|record| learned.insert(record));
    let told = Told {
        complete: complete.collect(),
        learned,
        is_lost: member.must_refuse && !member.core.gate().config().accept_lost_frontier,
    };
    member.request = Some(Request::Planned(plan, told));
    Ok(())
}
