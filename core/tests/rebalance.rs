//! A partition that was revoked or lost leaves nothing behind but the attempts that still run, and those block
//! only their own lanes.

mod support;

use keyway_core::{CommitAnswer, CommitReason, PartitionSlot, SLOW_ATTEMPT, Verdict};
use support::{INTERVAL, RETRY_DELAY, World, map, pinned, pool};

const SLOT: PartitionSlot = PartitionSlot(0);

/// Without the end of the lease it fails with a worker that would go on, without the count of what is out with a revoke
/// that waits for nothing.
#[test]
fn a_revoke_starts_nothing_more_and_counts_what_finishes() {
    let mut world = World::new(pool(1));
    world.begin();
    world.arrive(&[(1, "a"), (2, "b")]);
    world.with(|core, _| core.revoking(SLOT));
    assert!(
        !world.leases.holds(SLOT, world.epochs[0]),
        "workers see it at once"
    );
    assert!(!world.core.is_quiet(SLOT));
    world.done(&[1]);
    assert!(world.core.is_quiet(SLOT));
    assert!(world.running().is_empty(), "2 is not started");
    let plan = world.with(|core, now| core.commit_now(CommitReason::Revoke, Some(&[SLOT]), now));
    assert!(plan.is_some());
    assert_eq!(world.planned(), &map(2, 1, &[]));
    world.answer(CommitAnswer::Stored);
    assert!(world.core.is_clean(SLOT));
    world.with(|core, _| core.revoked(SLOT));
    assert_eq!(world.core.load(), (0, 0));
    assert_eq!(world.core.status().lanes, 0);
}

#[test]
fn what_was_handed_over_and_not_started_is_forgotten_when_it_comes_back() {
    let mut world = World::new(pinned(1));
    world.warm_up(0, 200);
    world.arrive(&[(200, "a"), (201, "a")]);
    world.with(|core, _| core.revoking(SLOT));
    world.give_back(&[200, 201]);
    assert_eq!(world.core.load(), (0, 0));
    assert!(world.core.is_quiet(SLOT));
}

/// With a lane for each assignment (`StaleLaneIgnored`) it fails with the record beside itself; without settling the
/// lane of a late result, with nothing running for ever.
#[test]
fn a_late_result_is_dropped_and_its_record_runs_again() {
    let mut world = World::new(pinned(2));
    world.arrive(&[(0, "a")]);
    let late = world.out.remove(&(0, 0)).expect("it runs");
    world.with(|core, _| core.lost(SLOT));
    world.assign(0, Some(0), None);
    world.arrive(&[(0, "a")]);
    assert!(
        world.running().is_empty(),
        "its lane still runs from the assignment before"
    );
    assert_eq!(world.core.status().partitions[0].stale_lanes, 1);
    world.out.insert((0, 0), late);
    world.done(&[0]);
    assert_eq!(world.core.counters().late_results, 1);
    assert_eq!(
        world.core.status().partitions[0].map,
        map(0, -1, &[]),
        "it did not count"
    );
    assert_eq!(world.running(), [0], "and the lane is free");
}

#[test]
fn a_lane_that_still_runs_from_an_older_assignment_blocks_only_itself() {
    let mut world = World::new(pinned(2));
    world.arrive(&[(0, "a")]);
    let late = world.out.remove(&(0, 0)).expect("it runs");
    world.with(|core, _| core.revoked(SLOT));
    world.assign(0, Some(0), None);
    world.arrive(&[(0, "a"), (1, "b"), (2, "a")]);
    assert_eq!(world.running(), [1]);
    world.done(&[1]);
    world.out.insert((0, 0), late);
    // A failure of the old attempt does not delay the new one.
    world.fail(&[0]);
    assert_eq!(
        world.reopened.len(),
        1,
        "but the worker had closed the lane"
    );
    assert!(world.running().contains(&0));
}

#[test]
fn records_of_an_older_assignment_are_dropped() {
    let mut world = World::new(pinned(1));
    let old = world.epochs[0];
    world.with(|core, _| core.revoked(SLOT));
    world.assign(0, Some(0), None);
    world.arrive_under(0, old, &[(7, Some(b"a"))]);
    assert!(world.running().is_empty());
    world.arrive(&[(0, "a")]);
    assert_eq!(world.running(), [0], "the tracker has not seen 7");
}

#[test]
fn a_retry_of_an_older_assignment_does_not_hold_the_new_one() {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a")]);
    world.fail(&[0]);
    world.with(|core, _| core.revoked(SLOT));
    world.assign(0, Some(0), None);
    world.arrive(&[(0, "a")]);
    assert_eq!(world.running(), [0]);
    assert_eq!(world.attempt(0), 1, "attempts start anew");
    world.done(&[0]);
    world.wait(RETRY_DELAY * 2);
    assert!(world.running().is_empty());
}

#[test]
fn a_loss_leaves_the_other_partitions_alone() {
    let mut world = World::with_partitions(pinned(2), 2);
    world.arrive_at(0, &[(0, "a")]);
    world.arrive_at(1, &[(0, "a")]);
    world.with(|core, _| core.lost(SLOT));
    world.done_at(1, &[0]);
    world.wait(INTERVAL);
    assert_eq!(world.last_plan().partitions.len(), 1);
    assert_eq!(world.last_plan().partitions[0].slot, PartitionSlot(1));
}

/// Without forgetting what waited (`RevokedStillCounted`), or what comes back unstarted, it fails in round 1 with 3
/// records, or 1, that are counted and gone; without forgetting what ends late in round 0 with 3; without giving their
/// lanes back at the end with 2 of these.
#[test]
fn a_thousand_revokes_leave_no_count_behind() {
    let mut world = World::with_partitions(pinned(3), 2);
    world.took = SLOW_ATTEMPT * 2;
    for round in 0..1_000_i64 {
        world.arrive_at(0, &[(0, "a"), (1, "b"), (2, "a"), (3, "c")]);
        let running = world.running();
        match round % 4 {
            0 => world.done(&running[..1]),
            1 => world.fail(&running[..1]),
            2 => world.end_at(0, &running[..1], false, |_| Verdict::Skipped),
            _ => world.give_back(&running[..1]),
        }
        world.with(|core, _| core.revoking(SLOT));
        let still = world.running();
        if round % 5 == 0 {
            // What runs is not waited for, and ends late.
            world.with(|core, _| core.revoked(SLOT));
        }
        world.give_back(&still);
        assert!(world.core.is_quiet(SLOT));
        world.with(|core, _| core.revoked(SLOT));
        assert_eq!(world.core.load(), (0, 0), "round {round}");
        world.assign(0, Some(0), None);
    }
    let status = world.core.status();
    assert_eq!((status.records, status.running, status.lanes), (0, 0, 0));
}

#[test]
fn every_assignment_has_an_epoch_of_its_own() {
    let mut world = World::with_partitions(pinned(1), 2);
    let before = world.epochs.clone();
    let after = world.assign(0, Some(0), None);
    assert!(before.iter().all(|epoch| *epoch < after));
    assert!(world.leases.holds(SLOT, after) && !world.leases.holds(SLOT, before[0]));
}
