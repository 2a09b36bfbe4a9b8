//! What a restored map says is complete does not run again, and nothing else is passed over.

mod support;

use keyway_core::OpenGate;
use support::{INTERVAL, World, map, pinned, pool};

/// Without the map (`RestoredMapIgnored`) it fails with all six running.
#[test]
fn complete_records_of_a_restored_map_are_passed_over_and_its_holes_run() {
    let mut world = World::with_gate(pool(8), OpenGate, 1);
    world.assign(0, Some(10), Some(map(10, 14, &[10, 12])));
    world.arrive(&[
        (10, "a"),
        (11, "b"),
        (12, "c"),
        (13, "d"),
        (14, "e"),
        (15, "f"),
    ]);
    assert_eq!(world.running(), [10, 12, 15]);
    assert_eq!(world.core.counters().skipped_complete, 3);
}

#[test]
fn the_next_commit_knows_what_the_restored_one_knew() {
    let mut world = World::with_gate(pool(8), OpenGate, 1);
    world.assign(0, Some(10), Some(map(10, 30, &[10, 12, 20])));
    world.arrive(&[(10, "a"), (11, "b"), (12, "c")]);
    world.done(&[10]);
    world.wait(INTERVAL);
    assert_eq!(world.planned(), &map(12, 30, &[12, 20]));
}

/// With the offset that was committed taken for complete it fails with nothing running; without the note that the
/// broker has it already, with a commit of 0.
#[test]
fn a_group_at_offset_zero_is_neither_skipped_nor_moved() {
    let mut world = World::with_gate(pinned(1), OpenGate, 1);
    world.assign(0, Some(0), None);
    world.arrive(&[(0, "a")]);
    assert_eq!(world.running(), [0]);
    world.wait(INTERVAL);
    assert!(world.plans.is_empty(), "there is nothing to write down");
}

/// Without `Received::Repeated` it fails with none of the two counted: they run once more, behind themselves.
#[test]
fn a_record_that_comes_twice_runs_once() {
    let mut world = World::new(pool(4));
    world.arrive(&[(0, "a"), (1, "b")]);
    world.arrive(&[(0, "a"), (1, "b"), (2, "c")]);
    assert_eq!(world.running(), [0, 1, 2]);
    assert_eq!(world.core.counters().repeated, 2);
}

/// Without the map (`RestoredMapIgnored`) it fails with 13 and 14 running too.
#[test]
fn a_log_start_above_holes_gives_them_up() {
    let mut world = World::with_gate(pool(4), OpenGate, 1);
    world.assign_from(0, Some(10), 13, Some(map(10, 20, &[10, 15])));
    world.arrive(&[(13, "a"), (14, "b"), (15, "c")]);
    assert_eq!(world.running(), [15]);
}
