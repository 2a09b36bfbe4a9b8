//! A lane's records run one after another, and a failing one holds back its own lane and nothing else.

mod support;

use std::time::Duration;

use keyway_core::{Ordering, SLOW_ATTEMPT, Verdict};
use support::{FAST, RETRY_DELAY, World, pinned, pool};

#[test]
fn a_pinned_lane_gets_its_next_records_without_waiting_for_a_completion() {
    let mut world = World::new(pinned(2));
    world.warm_up(0, 200);
    world.arrive(&[(200, "a")]);
    world.arrive(&[(201, "a"), (202, "a")]);
    assert_eq!(world.running(), [200, 201, 202]);
    assert_eq!(world.worker_of(200), world.worker_of(202));
}

#[test]
fn behind_a_failed_record_nothing_of_its_lane_is_handed_over_and_other_keys_pass() {
    let mut world = World::new(pinned(2));
    world.warm_up(0, 200);
    world.arrive(&[(200, "a"), (201, "a"), (202, "b")]);
    world.fail(&[200]);
    world.arrive(&[(203, "a"), (204, "c")]);
    assert_eq!(
        world.running(),
        [201, 202, 204],
        "203 waits though 201 is still out"
    );
    assert!(world.reopened.is_empty(), "201 has not come back yet");
    world.give_back(&[201]);
    assert_eq!(world.reopened.len(), 1);
    world.wait(RETRY_DELAY);
    assert_eq!(world.running(), [200, 201, 202, 203, 204]);
    let last = &world.handed_over[world.handed_over.len() - 1];
    assert_eq!(
        last.offsets,
        [200, 201, 203],
        "what came back goes in front"
    );
}

#[test]
fn a_retry_is_not_before_its_time_and_holds_no_worker() {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a"), (1, "a")]);
    world.fail(&[0]);
    assert!(world.running().is_empty() || world.running() == [1]);
    if world.running() == [1] {
        world.give_back(&[1]);
    }
    world.arrive(&[(2, "b")]);
    assert_eq!(world.running(), [2], "the only worker is free for others");
    world.done(&[2]);
    world.wait(RETRY_DELAY - Duration::from_nanos(1));
    assert!(world.running().is_empty());
    assert_eq!(
        world.core.next_deadline(),
        world.now.after(Duration::from_nanos(1))
    );
    world.wait(Duration::from_nanos(1));
    assert!(world.running().contains(&0));
    assert_eq!(world.attempt(0), 2);
}

#[test]
fn the_handlers_own_delay_wins() {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a")]);
    let own = RETRY_DELAY * 3;
    world.end_at(0, &[0], false, |payload| Verdict::Failed {
        payload,
        after: Some(own),
    });
    world.wait(RETRY_DELAY * 2);
    assert!(world.running().is_empty());
    world.wait(RETRY_DELAY);
    assert_eq!(world.running(), [0]);
}

#[test]
fn a_record_that_keeps_failing_counts_its_attempts() {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a")]);
    for attempt in 1..=5 {
        assert_eq!(world.attempt(0), attempt);
        world.fail(&[0]);
        world.wait(RETRY_DELAY);
    }
}

#[test]
fn a_record_that_came_back_unstarted_has_made_no_attempt() {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a")]);
    world.give_back(&[0]);
    assert_eq!(world.attempt(0), 1);
}

#[test]
fn slow_handlers_hold_one_record_a_worker_and_other_keys_pass() {
    let mut world = World::new(pinned(2));
    world.took = SLOW_ATTEMPT * 2;
    world.warm_up(0, 10);
    world.arrive(&[(10, "a"), (11, "a"), (12, "b"), (13, "c")]);
    assert_eq!(world.running(), [10, 12], "one for each worker");
    assert_eq!(world.core.status().routes[0].depth, 1);
    world.done(&[12]);
    assert_eq!(world.running(), [10, 13]);
}

#[test]
fn what_waits_behind_a_stuck_record_is_taken_back_and_runs_elsewhere() {
    let mut world = World::new(pinned(2));
    world.took = Duration::from_micros(1);
    world.warm_up(0, 300);
    world.arrive(&[(300, "a"), (301, "a"), (302, "b"), (303, "c")]);
    let stuck = world.worker_of(300);
    assert_eq!(
        world.worker_of(303),
        stuck,
        "fast handlers queue on one worker"
    );
    world.take_back(&[301, 302, 303]);
    assert_eq!(world.running(), [300, 302, 303], "301 waits for its lane");
    assert_ne!(world.worker_of(302), stuck);
    world.arrive(&[(304, "d"), (305, "a")]);
    assert_ne!(world.worker_of(304), stuck, "nothing is queued behind it");
    world.done(&[300]);
    assert!(world.running().contains(&301));
    assert_eq!(world.core.counters().taken_back, 3);
}

#[test]
fn a_lane_that_came_back_in_pieces_is_in_order_again() {
    let mut world = World::new(pinned(2));
    world.warm_up(0, 200);
    world.arrive(&[(200, "a"), (201, "a"), (202, "a"), (203, "a")]);
    world.fail(&[200]);
    world.give_back(&[203]);
    world.arrive(&[(204, "a")]);
    world.give_back(&[202]);
    world.give_back(&[201]);
    world.wait(RETRY_DELAY);
    let last = &world.handed_over[world.handed_over.len() - 1];
    assert_eq!(last.offsets, [200, 201, 202, 203, 204]);
}

#[test]
fn partition_order_runs_one_record_after_another() {
    let mut world = World::new(pool(4));
    world.ordering = Ordering::Partition;
    world.took = SLOW_ATTEMPT * 2;
    world.warm_up(0, 10);
    world.arrive(&[(10, "a"), (11, "b")]);
    assert_eq!(world.running(), [10]);
    world.done(&[10]);
    assert_eq!(world.running(), [11]);
}

#[test]
fn unordered_runs_equal_keys_side_by_side() {
    let mut world = World::new(pool(4));
    world.ordering = Ordering::Unordered;
    world.arrive(&[(0, "a"), (1, "a"), (2, "a")]);
    assert_eq!(world.running(), [0, 1, 2]);
}

#[test]
fn records_without_a_key_have_no_order_and_those_with_an_empty_one_do() {
    let mut world = World::new(pool(8));
    world.took = SLOW_ATTEMPT * 2;
    world.warm_up(0, 10);
    let epoch = world.epochs[0];
    world.arrive_under(
        0,
        epoch,
        &[(10, None), (11, None), (12, Some(b"")), (13, Some(b""))],
    );
    assert_eq!(world.running(), [10, 11, 12]);
}

/// Without the turn of the partitions (the first stays the first) it fails: the other has none.
#[test]
fn a_hot_partition_does_not_starve_another() {
    let mut world = World::with_partitions(pool(1), 2);
    world.took = FAST;
    let keys: Vec<String> = (0..100).map(|key| format!("key-{key}")).collect();
    let hot: Vec<(i64, &str)> = keys
        .iter()
        .enumerate()
        .map(|(i, key)| (i as i64, key.as_str()))
        .collect();
    world.arrive_at(0, &hot);
    world.arrive_at(1, &[(0, "a"), (1, "b")]);
    world.done(&[0]);
    assert_eq!(world.running_of(0), [1], "it was first in the queue");
    world.done(&[1]);
    assert_eq!(world.running_of(1), [0], "and now it is the other's turn");
}
