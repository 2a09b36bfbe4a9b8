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

/// Without the pause in `push_back` it fails: nothing is paused.
#[test]
fn a_full_partition_is_paused_and_resumed_at_a_quarter() {
    let mut config = pool(100);
    config.buffers.partition_records = 10;
    let mut world = World::new(config);
    world.arrive(&records(&keys(9), 0));
    assert!(world.paused.is_empty());
    world.arrive(&[(9, "x")]);
    assert_eq!(world.paused, [PartitionSlot(0)]);
    for offset in 0..7 {
        world.done(&[offset]);
    }
    assert!(world.resumed.is_empty(), "three are left");
    world.done(&[7]);
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
    let mut world = World::with_partitions(config, 8);
    world.arrive_at(0, &records(&keys(21), 0));
    assert_eq!(
        world.paused,
        [PartitionSlot(0)],
        "more than half of all, more than four shares of five records"
    );
    assert!(!world.core.is_full());
    world.arrive_at(1, &records(&keys(5), 0));
    assert_eq!(world.paused, [PartitionSlot(0)]);
}

/// A pause throws away what was fetched ahead. With a single share for each, all of them are paused.
#[test]
fn partitions_that_are_alike_are_held_back_by_the_whole_and_none_is_paused() {
    let mut config = pool(100);
    config.buffers.total_records = 40;
    let mut world = World::with_partitions(config, 8);
    for slot in 0..8 {
        world.arrive_at(slot, &records(&keys(5), 0));
    }
    assert!(world.core.is_full());
    assert_eq!(world.paused, []);
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

/// Without the threshold it is not blocked; with the lowest hole held too (`MapHoldsLowest`) 1 never runs again, and
/// with the lanes behind the map left there (`BehindMapForgotten`) neither does 41.
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
    let mut world = World::new(config);
    world.begin();
    world.arrive(&records(&keys(40), 1));
    assert_eq!(world.running(), (1..=10).collect::<Vec<_>>());
    world.done(&[10]);
    world.wait(INTERVAL);
    world.answer(CommitAnswer::Stored);
    assert!(world.is_blocked());
    world.done(&[1]);
    world.wait(INTERVAL);
    world.answer(CommitAnswer::Stored);
    assert_eq!(
        world.running(),
        (2..=11).filter(|n| *n != 10).collect::<Vec<_>>()
    );
}

#[test]
fn a_map_that_does_not_fit_is_left_out_and_counted() {
    // It was written under a larger cap: nothing that runs here could make it so long.
    let mut config = pool(64);
    config.limits = Limits::new(8, ThresholdRatio::default());
    let holes: Vec<i64> = (0..40).step_by(2).collect();
    let mut world = World::with_gate(config, keyway_core::OpenGate, 1);
    world.assign(0, Some(0), Some(map(0, 39, &holes)));
    world.arrive(&records(&keys(1), 0));
    world.done(&[0]);
    world.wait(INTERVAL);
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

/// A number without a pattern: the last steps of `SplitMix64`.
fn scattered(number: i64) -> u64 {
    let mut mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// All that is at workers ends, the latest first: that key fails, the others are done.
fn end_all_but(world: &mut World, stuck: impl Fn(i64) -> bool) {
    let mut by_worker: std::collections::BTreeMap<_, Vec<i64>> = std::collections::BTreeMap::new();
    for ((_, offset), (worker, _)) in world.out.iter().rev() {
        by_worker.entry(*worker).or_default().push(*offset);
    }
    for offsets in by_worker.into_values() {
        world.end_at(0, &offsets, false, |offset| match stuck(offset as i64) {
            true => Verdict::Failed {
                payload: offset,
                after: Some(std::time::Duration::from_secs(3_600)),
            },
            false => Verdict::Done,
        });
    }
}

/// Whether the record is of the key that is stuck, and its key: of such a log no form is short.
fn stuck_or_not(offset: i64) -> (bool, String) {
    match scattered(offset) % 8 < 3 {
        true => (true, "stuck".to_owned()),
        false => (false, (offset % 100).to_string()),
    }
}

/// Without the horizon (`NoHorizon`) it fails with 10 maps that were left out, under a cap of 64.
#[test]
fn a_fast_handler_beside_a_stuck_key_never_outgrows_the_cap() {
    for cap in [64, 400, 2_000, 4_096] {
        let mut config = pinned(4);
        config.limits = Limits::new(cap, ThresholdRatio::default());
        let mut world = World::new(config);
        // So fast that a worker is given thousands at once.
        world.took = std::time::Duration::from_nanos(50);
        let mut offset = 0;
        let mut was_blocked = false;
        for _ in 0..60 {
            let records: Vec<(i64, String)> = (offset..offset + 1_000)
                .map(|offset| (offset, stuck_or_not(offset).1))
                .collect();
            offset += 1_000;
            let records: Vec<_> = records
                .iter()
                .map(|(at, key)| (*at, key.as_str()))
                .collect();
            world.arrive(&records);
            end_all_but(&mut world, |offset| stuck_or_not(offset).0);
            world.wait(INTERVAL);
            if world.core.commit_in_flight().is_some() {
                world.answer(CommitAnswer::Stored);
            }
            was_blocked |= world.is_blocked();
        }
        assert_eq!(
            world.core.counters().maps_stripped,
            0,
            "under a cap of {cap}"
        );
        assert!(was_blocked, "under a cap of {cap}");
    }
}

#[test]
fn what_the_log_skips_above_lets_nobody_pass() {
    // A marker behind each record: the highest offset without a record is ahead of all that runs.
    let mut config = pool(64);
    config.limits = tight(8);
    let mut world = World::new(config);
    world.begin();
    let every_other: Vec<(i64, String)> =
        (0..80).map(|n| (2 * n + 2, format!("key-{n}"))).collect();
    let records: Vec<_> = every_other
        .iter()
        .map(|(at, key)| (*at, key.as_str()))
        .collect();
    world.arrive(&records[..40]);
    for n in (2..40).step_by(2) {
        world.done(&[records[n].0]);
    }
    world.wait(INTERVAL);
    world.answer(CommitAnswer::Stored);
    assert!(world.is_blocked());
    world.arrive(&records[40..]);
    let above = records[40].0;
    assert!(world.running().iter().all(|offset| *offset < above));
}

/// Every so many records one of a slow key of its own, the others fast; then half of the slow ones end, in any order.
/// What is regular compresses to nothing, and must not be taken for a map that stays so.
#[test]
fn regular_holes_that_end_in_any_order_never_outgrow_the_cap() {
    for apart in [2, 20, 64, 101, 1_000] {
        let mut world = World::new(pinned(4));
        world.took = std::time::Duration::from_nanos(50);
        let is_slow = |offset: i64| offset % apart == 0;
        let mut offset = 0;
        let mut before = -1;
        // Until nothing more starts, or for so long that nobody could wait for it.
        while offset < 2_000_000 && before != world.core.counters().completed as i64 {
            before = world.core.counters().completed as i64;
            let records: Vec<(i64, String)> = (offset..offset + 20_000)
                .map(|at| {
                    (
                        at,
                        if is_slow(at) {
                            at.to_string()
                        } else {
                            (at % 97).to_string() + "fast"
                        },
                    )
                })
                .collect();
            offset += 20_000;
            let records: Vec<_> = records
                .iter()
                .map(|(at, key)| (*at, key.as_str()))
                .collect();
            world.arrive(&records);
            loop {
                let fast: Vec<i64> = world
                    .running()
                    .into_iter()
                    .filter(|at| !is_slow(*at))
                    .collect();
                if fast.is_empty() {
                    break;
                }
                let mut by_worker: std::collections::BTreeMap<_, Vec<i64>> = Default::default();
                for at in fast {
                    by_worker.entry(world.worker_of(at)).or_default().push(at);
                }
                for offsets in by_worker.into_values() {
                    world.done(&offsets);
                }
            }
            world.wait(INTERVAL);
            if world.core.commit_in_flight().is_some() {
                world.answer(CommitAnswer::Stored);
            }
        }
        let mut slow: Vec<i64> = world
            .running()
            .into_iter()
            .filter(|at| is_slow(*at))
            .collect();
        slow.sort_by_key(|at| scattered(*at));
        slow.truncate(slow.len() / 2);
        for (number, at) in slow.into_iter().enumerate() {
            world.done(&[at]);
            if number % 256 == 0 {
                world.wait(INTERVAL);
                if world.core.commit_in_flight().is_some() {
                    world.answer(CommitAnswer::Stored);
                }
            }
        }
        world.wait(INTERVAL);
        if world.core.commit_in_flight().is_some() {
            world.answer(CommitAnswer::Stored);
        }
        assert_eq!(
            world.core.counters().maps_stripped,
            0,
            "holes {apart} apart"
        );
    }
}
