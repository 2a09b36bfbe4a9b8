//! Bounds: of the buffers, by partition and in all, and of the hole map.

mod support;

use keyway_core::{CommitAnswer, PartitionSlot, RESERVE_RECORDS, Verdict};
use keyway_offsets::{Limits, ThresholdRatio};
use support::{INTERVAL, RETRY_DELAY, World, map, pinned, pool};

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|key| format!("key-{key}")).collect()
}

fn records(keys: &[String], first: i64) -> Vec<(i64, &str)> {
    (first..)
        .zip(keys)
        .map(|(offset, key)| (offset, key.as_str()))
        .collect()
}

#[test]
fn a_full_partition_is_paused_and_resumed_at_half() {
    let mut config = pool(100);
    config.buffers.partition_records = 10;
    let mut world = World::new(config);
    world.arrive(&records(&keys(9), 0));
    assert!(world.paused.is_empty());
    world.arrive(&[(9, "x")]);
    assert_eq!(world.paused, [PartitionSlot(0)]);
    for offset in 0..4 {
        world.done(&[offset]);
    }
    assert!(world.resumed.is_empty(), "six are left");
    world.done(&[4]);
    assert_eq!(world.resumed, [PartitionSlot(0)]);
}

#[test]
fn bytes_count_like_records() {
    let mut config = pool(100);
    config.buffers.partition_bytes = 30;
    let mut world = World::new(config);
    world.arrive(&records(&keys(3), 0));
    assert_eq!(world.paused, [PartitionSlot(0)]);
}

#[test]
fn under_pressure_each_partition_has_its_share_and_the_others_find_room() {
    let mut config = pool(100);
    config.buffers.total_records = 40;
    let mut world = World::with_partitions(config, 4);
    world.arrive_at(0, &records(&keys(21), 0));
    assert_eq!(
        world.paused,
        [PartitionSlot(0)],
        "more than half of all, more than a quarter by one"
    );
    assert!(!world.core.is_full());
    world.arrive_at(1, &records(&keys(5), 0));
    assert_eq!(world.paused, [PartitionSlot(0)]);
}

#[test]
fn full_buffers_are_said_to_be_full() {
    let mut config = pool(100);
    config.buffers.total_records = 5;
    let mut world = World::new(config);
    world.arrive(&records(&keys(5), 0));
    assert!(world.core.is_full());
    world.done(&[0]);
    assert!(!world.core.is_full());
}

#[test]
fn beyond_the_reserve_everything_is_paused_and_comes_back_when_its_cause_leaves() {
    let mut config = pool(10_000);
    config.buffers.total_records = 100;
    let mut world = World::with_partitions(config, 2);
    world.arrive_at(1, &[(0, "a")]);
    world.arrive_at(0, &records(&keys(100 + RESERVE_RECORDS), 0));
    assert_eq!(world.paused, [PartitionSlot(0), PartitionSlot(1)]);
    // The small one becomes empty while the reserve is still used up.
    world.done_at(1, &[0]);
    assert!(world.resumed.is_empty());
    let all = world.running();
    world.with(|core, _| core.lost(PartitionSlot(0)));
    for offset in all {
        world.end_at(0, &[offset], false, |_| Verdict::Done);
    }
    assert_eq!(
        world.resumed,
        [PartitionSlot(1)],
        "no completion of its own would do it"
    );
}

fn tight(threshold: usize) -> Limits {
    let mut limits = Limits::new(4096, ThresholdRatio::default());
    limits.threshold_chars = threshold;
    limits
}

/// Every other of the first `count` records is done, so that the map has many holes.
fn with_holes(config: keyway_core::CoreConfig, count: i64) -> World {
    let mut world = World::new(config);
    world.begin();
    world.arrive(&records(&keys(count as usize), 1));
    for offset in (2..=count).step_by(2) {
        world.done(&[offset]);
    }
    world.wait(INTERVAL);
    world
}

#[test]
fn a_map_over_the_threshold_holds_back_what_is_above_it_and_never_its_lowest_hole() {
    let mut config = pool(64);
    config.limits = tight(8);
    let mut world = with_holes(config, 40);
    world.answer(CommitAnswer::Stored);
    assert!(world.is_blocked());
    world.arrive(&[(41, "new")]);
    assert!(!world.running().contains(&41));
    // A record below the top that has to run again may.
    world.fail(&[1]);
    world.wait(RETRY_DELAY);
    assert!(world.running().contains(&1));
    for offset in (1..40).step_by(2) {
        world.done(&[offset]);
    }
    assert!(!world.is_blocked(), "judged when nothing runs any more");
    assert!(world.running().contains(&41));
}

#[test]
fn a_window_at_its_widest_holds_back_what_is_above() {
    let mut config = pool(64);
    config.limits = Limits::default().with_max_window(10);
    let mut world = with_holes(config, 40);
    world.answer(CommitAnswer::Stored);
    assert!(world.is_blocked());
    world.arrive(&[(41, "new")]);
    assert!(!world.running().contains(&41));
}

#[test]
fn a_map_that_does_not_fit_is_left_out_and_counted() {
    let mut config = pool(64);
    config.limits = Limits::new(8, ThresholdRatio::default());
    let mut world = with_holes(config, 40);
    world.answer(CommitAnswer::Stored);
    assert_eq!(world.core.counters().maps_stripped, 1);
    assert!(world.is_blocked());
}

#[test]
fn a_restored_map_whose_holes_were_compacted_away_holds_nobody_back() {
    let mut config = pinned(2);
    config.limits = tight(8);
    let holes: Vec<i64> = (0..40).step_by(2).collect();
    let mut world = World::with_gate(config, keyway_core::OpenGate, 1);
    world.assign(0, Some(0), Some(map(0, 39, &holes)));
    assert!(world.is_blocked());
    // The first record that is left comes from above the map, and nothing runs whose end would free it.
    world.arrive(&[(40, "a")]);
    assert_eq!(world.running(), [40]);
}
