//! What goes to a worker may go: it is of the running assignment, due, not held, let through, not there already,
//! within the limit of starts, in a batch of the shape that was asked for, and to a worker that is to have more.

use std::collections::BTreeSet;

use keyway_core::{BatchConfig, CircuitState, RouteId, Task, Timestamp, WorkerIndex};

use super::{Check, ensure};
use crate::member::{Member, Mode};
use crate::record::{Lane, Payload};
use crate::runner::Runner;

/// One record is handed over.
pub(crate) fn task(member: &Member, task: &Task<Payload>, now: Timestamp) -> Check {
    let at = &task.at;
    let offset = at.offset.get();
    let wrong = |why: &str| {
        Err(super::Violation {
            invariant: "hand-over",
            detail: format!("{at:?} was handed over {why}"),
        })
    };
    let Some(assignment) = &member.slots[at.slot.index()].assignment else {
        return wrong("without an assignment");
    };
    if assignment.epoch != at.epoch {
        return wrong("under an assignment that ended");
    }
    if (task.payload.partition, task.payload.offset) != (at.slot.index(), offset) {
        return wrong("with the payload of another record");
    }
    if assignment.revoking || member.mode == Mode::Stopping {
        return wrong("while its partition or member leaves");
    }
    if member.slots[at.slot.index()].paused_by_user {
        return wrong("while its user has paused its partition");
    }
    if assignment.out.contains(&offset) {
        return wrong("twice");
    }
    if assignment.sending.contains(&offset) {
        return wrong("while its outputs are being sent");
    }
    if assignment.letters.contains(&offset) {
        return wrong("while its dead letter is being written");
    }
    if assignment.buried.contains(&offset) {
        return wrong("after its last attempt");
    }
    if assignment.held.contains(&offset) {
        return wrong("while the gate holds it");
    }
    let (attempts, due) = assignment
        .retries
        .get(&offset)
        .copied()
        .unwrap_or((0, Timestamp::ZERO));
    if due > now {
        return wrong("before its retry was due");
    }
    if at.attempt != attempts + 1 {
        return wrong("with the wrong number of its attempt");
    }
    if member
        .let_through
        .as_ref()
        .is_some_and(|book| !book.holds(at))
    {
        return wrong("before the pace had let it through");
    }
    if member.starts_left == Some(0) && at.attempt == 1 {
        return wrong("over the limit of starts");
    }
    Ok(())
}

/// Work goes to a worker, or to a pool, that is to have it.
pub(crate) fn within_concurrency(
    member: &Member,
    route: RouteId,
    worker: Option<WorkerIndex>,
) -> Check {
    let calls = member.concurrency[route.index()];
    let is_run = |runner: &&Runner| runner.route == route && runner.worker.is_none();
    let before = match worker {
        Some(worker) => worker.0 as usize,
        None => member.runners.iter().filter(is_run).count(),
    };
    ensure(before < calls as usize, "hand-over", || {
        format!("{worker:?} of {calls} gets more, {before} are before it")
    })
}

/// Nothing goes to a route whose circuit is open.
pub(crate) fn not_held(member: &Member, route: RouteId, now: Timestamp) -> Check {
    let state = member.circuits[route.index()];
    let is_open = matches!(state, CircuitState::Open { until } if until > now);
    ensure(!is_open, "hand-over", || {
        format!("{route:?} gets work while its circuit is {state:?}")
    })
}

/// One batch is handed over.
pub(crate) fn batch(tasks: &[Task<Payload>], lanes: &[Lane], config: &BatchConfig) -> Check {
    let bytes: usize = tasks.iter().map(|task| task.at.bytes as usize).sum();
    ensure(
        !tasks.is_empty() && tasks.len() <= config.max_records.max(1),
        "batch",
        || {
            format!(
                "a batch of {} records, at most {}",
                tasks.len(),
                config.max_records
            )
        },
    )?;
    ensure(
        tasks.len() == 1 || bytes <= config.max_bytes,
        "batch",
        || format!("a batch of {bytes} bytes, at most {}", config.max_bytes),
    )?;
    let distinct: BTreeSet<&Lane> = lanes.iter().collect();
    ensure(
        config.same_lane || distinct.len() == lanes.len(),
        "batch",
        || "a batch holds two records of one lane".to_owned(),
    )
}
