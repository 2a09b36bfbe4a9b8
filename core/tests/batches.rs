//! Batches: filled, split, waited for.

mod support;

use std::time::Duration;

use keyway_core::{BatchConfig, Shape};
use support::{RETRY_DELAY, World, batches};

const POOL: Shape = Shape::Pool { concurrency: 2 };
const ONE: Shape = Shape::Pinned { workers: 1 };
const WAIT: Duration = Duration::from_millis(5);

fn of(max_records: usize) -> BatchConfig {
    BatchConfig {
        max_records,
        ..BatchConfig::default()
    }
}

/// With a further record of the lane it fails with 1 running beside 0.
#[test]
fn a_batch_takes_one_record_of_each_lane() {
    let mut world = World::new(batches(POOL, of(10)));
    world.arrive(&[(0, "a"), (1, "a"), (2, "b")]);
    assert_eq!(world.running(), [0, 2]);
    assert!(world.handed_over[0].batch);
}

/// With one record of each lane all the same it fails with 0 and 4 in a batch; without the bound of records, with all
/// five.
#[test]
fn a_batch_may_hold_several_records_of_a_lane_where_that_was_asked_for() {
    let batch = BatchConfig {
        same_lane: true,
        ..of(3)
    };
    let mut world = World::new(batches(POOL, batch));
    world.arrive(&[(0, "a"), (1, "a"), (2, "a"), (3, "a"), (4, "b")]);
    assert_eq!(world.handed_over[0].offsets, [0, 1, 2]);
    assert_eq!(world.running(), [0, 1, 2, 4], "3 waits for its lane");
}

/// Without the bound of bytes it fails with all three in one.
#[test]
fn bytes_bound_a_batch_and_a_single_larger_record_goes_alone() {
    let batch = BatchConfig {
        max_bytes: 25,
        ..of(10)
    };
    let mut world = World::new(batches(ONE, batch));
    world.arrive(&[(0, "a"), (1, "b"), (2, "c")]);
    assert_eq!(world.running(), [0, 1], "of ten bytes each");
    let batch = BatchConfig {
        max_bytes: 5,
        ..of(10)
    };
    let mut world = World::new(batches(ONE, batch));
    world.arrive(&[(0, "a"), (1, "b")]);
    assert_eq!(world.running(), [0]);
}

#[test]
fn without_a_wait_nothing_is_held_back_to_fill_up() {
    let mut world = World::new(batches(POOL, of(10)));
    world.arrive(&[(0, "a")]);
    assert_eq!(world.running(), [0]);
}

/// Without the wait 0 runs at once; without the look whether it is full nothing does; without the end of the wait a
/// tick leaves it due.
#[test]
fn with_a_wait_a_batch_goes_when_it_is_full_or_the_wait_is_over() {
    let mut world = World::new(batches(
        POOL,
        BatchConfig {
            wait: WAIT,
            ..of(3)
        },
    ));
    world.arrive(&[(0, "a"), (1, "b")]);
    assert!(world.running().is_empty());
    assert_eq!(world.core.next_deadline(), world.now.after(WAIT));
    world.arrive(&[(2, "c")]);
    assert_eq!(world.running(), [0, 1, 2], "full");
    world.arrive(&[(3, "d")]);
    world.wait(WAIT);
    assert!(world.running().contains(&3), "waited for");
}

/// With a wait to fill up in a drain it fails with nothing running.
#[test]
fn a_drain_does_not_wait_for_more() {
    let mut world = World::new(batches(
        POOL,
        BatchConfig {
            wait: WAIT,
            ..of(3)
        },
    ));
    world.arrive(&[(0, "a")]);
    world.with(|core, now| core.begin_drain(now));
    assert_eq!(world.running(), [0]);
}

/// Without the halving (`BatchNotSplit`) it fails with twenty batches of eight.
#[test]
fn a_batch_that_fails_as_a_whole_is_halved_until_the_bad_record_stands_alone() {
    let mut world = World::new(batches(ONE, of(8)));
    // The worker is busy while the others gather.
    world.arrive(&[(0, "first")]);
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let records: Vec<(i64, &str)> = (1..).zip(keys).collect();
    world.arrive(&records);
    world.done(&[0]);
    let mut sizes = Vec::new();
    while world.core.counters().completed < 8 {
        let running = world.running();
        sizes.push(running.len());
        // 5 is the bad one.
        if running.contains(&5) {
            world.fail_batch(&running);
        } else {
            world.done(&running);
        }
        world.wait(RETRY_DELAY);
        assert!(sizes.len() < 20, "{sizes:?}");
    }
    assert_eq!(world.running(), [5], "it stands alone");
    assert_eq!(sizes.iter().max(), Some(&8));
}

#[test]
fn a_failed_record_of_a_batch_is_let_in_again_by_its_pinned_worker() {
    let mut world = World::new(batches(ONE, of(2)));
    world.arrive(&[(0, "a")]);
    let worker = world.worker_of(0);
    world.fail(&[0]);
    assert_eq!(
        world.reopened.first().map(|(reopened, _)| *reopened),
        Some(worker)
    );
    world.wait(RETRY_DELAY);
    assert_eq!(world.running(), [0]);
}

/// With room for as many as a fast handler has, it fails with 2 there already.
#[test]
fn a_pinned_worker_gets_no_second_batch_though_it_reports_the_first_in_parts() {
    let mut world = World::new(batches(ONE, of(2)));
    world.arrive(&[(0, "a"), (1, "b"), (2, "c")]);
    // One came back unstarted and was reported ahead of the other.
    world.give_back(&[0]);
    assert_eq!(world.running(), [1]);
    world.done(&[1]);
    assert_eq!(world.running(), [0, 2]);
}
