//! Drain, stop, limits: when a member is done.

mod support;

use std::time::Duration;

use keyway_core::{CommitAnswer, CommitReason, PartitionSlot, StopCause, Timestamp, Verdict};
use support::{RETRY_DELAY, World, at, map, pinned, pool};

#[test]
fn a_drain_ends_when_all_that_may_run_has_run() {
    let mut world = World::new(pool(1));
    world.arrive(&[(0, "a"), (1, "b")]);
    world.with(|core, now| core.begin_drain(now));
    assert!(!world.core.is_drained(world.now));
    world.done(&[0]);
    assert!(!world.core.is_drained(world.now), "1 runs");
    world.done(&[1]);
    assert!(world.core.is_drained(world.now) && world.core.is_empty());
}

/// Without the retries in `is_drained` it is drained although one is due in time.
#[test]
fn a_drain_waits_for_the_retries_that_are_due_by_then() {
    let mut world = World::new(pool(1));
    world.arrive(&[(0, "a")]);
    world.fail(&[0]);
    assert!(world.core.is_drained(world.now));
    assert!(!world.core.is_drained(world.now.after(RETRY_DELAY)));
}

#[test]
fn a_stop_starts_nothing_and_takes_back_what_was_not_started() {
    let mut world = World::new(pinned(1));
    world.warm_up(0, 200);
    world.arrive(&[(200, "a"), (201, "b")]);
    world.with(|core, _| core.begin_stop());
    assert!(world.leases.is_stopping());
    world.arrive(&[(202, "c")]);
    world.done(&[200]);
    world.give_back(&[201]);
    assert!(world.running().is_empty() && world.core.is_all_quiet());
    world.wait(Duration::ZERO);
    if world.core.commit_in_flight().is_some() {
        world.answer(CommitAnswer::Stored);
    }
    while !world.core.is_all_clean() {
        world.with(|core, now| core.commit_now(CommitReason::Shutdown, None, now));
        world.answer(CommitAnswer::Stored);
    }
    assert_eq!(world.planned(), &map(201, 200, &[]));
}

#[test]
fn a_handler_that_asks_for_a_stop_is_named_and_its_record_stays_incomplete() {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a")]);
    world.end_at(0, &[0], false, |payload| Verdict::Stop {
        payload,
        reason: "enough".to_owned(),
    });
    let cause = StopCause::Handler {
        slot: PartitionSlot(0),
        offset: at(0),
        reason: "enough".to_owned(),
    };
    assert_eq!(world.stop, Some(cause));
    assert_eq!(
        world.core.next_deadline(),
        Timestamp::NEVER,
        "it is not tried again"
    );
    assert_eq!(world.core.status().partitions[0].map, map(0, -1, &[]));
}

#[test]
fn a_limit_of_starts_is_kept_and_retries_do_not_count() {
    let mut world = World::new(pool(8));
    world.with(|core, _| core.limit_starts(2));
    world.arrive(&[(0, "a"), (1, "b"), (2, "c")]);
    assert_eq!(world.running(), [0, 1]);
    world.done(&[1]);
    world.fail(&[0]);
    assert!(world.running().is_empty());
    assert!(!world.core.is_drained(world.now.after(RETRY_DELAY)));
    world.arrive(&[(3, "d")]);
    assert!(world.running().is_empty());
}

#[test]
fn at_the_limit_of_starts_a_retry_still_runs() {
    let mut world = World::new(pool(8));
    world.with(|core, _| core.limit_starts(1));
    world.arrive(&[(0, "a"), (1, "b")]);
    world.fail(&[0]);
    world.wait(RETRY_DELAY);
    assert_eq!(world.running(), [0]);
    assert_eq!(world.attempt(0), 2);
}

#[test]
fn a_start_that_comes_back_at_the_limit_goes_to_one_that_waits() {
    let mut world = World::new(pool(8));
    world.with(|core, _| core.limit_starts(1));
    world.arrive(&[(0, "a"), (1, "b")]);
    assert!(!world.core.is_drained(world.now));
    world.give_back(&[0]);
    assert_eq!(world.running().len(), 1);
    let running = world.running();
    world.done(&running);
    assert!(
        world.core.is_drained(world.now),
        "the other has no start left"
    );
}

#[test]
fn what_came_back_unstarted_does_not_count_as_a_start_even_after_its_assignment() {
    let mut world = World::new(pinned(1));
    world.with(|core, _| core.limit_starts(1));
    world.arrive(&[(0, "a")]);
    let unstarted = world.out.remove(&(0, 0)).expect("handed over");
    world.with(|core, _| core.lost(PartitionSlot(0)));
    world.assign(0, Some(0), None);
    world.out.insert((0, 0), unstarted);
    world.give_back(&[0]);
    world.arrive(&[(0, "a")]);
    assert_eq!(world.running(), [0]);
}
