//! Bounds: of the buffers, by partition and in all, and of the hole map.

mod support;

use keyway_core::{CommitAnswer, PartitionSlot, Verdict};
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

/// Without the end of what is taken in it fails with 30 records buffered.
#[test]
fn what_finds_no_room_in_its_partition_is_given_back() {
    let mut config = pool(100);
    config.buffers.partition_records = 10;
    let mut world = World::new(config);
    world.arrive(&records(&keys(30), 0));
    assert_eq!(world.given_back, [(0, 10)]);
    assert_eq!(world.paused, [PartitionSlot(0)]);
    assert_eq!(world.core.load(), (10, 10));
    for offset in 0..8 {
        world.done(&[offset]);
    }
    assert_eq!(world.resumed, [PartitionSlot(0)]);
    // It is a record and no hole: nothing above 9 is taken to be complete.
    assert_eq!(world.core.base(PartitionSlot(0)).get(), 8);
    world.arrive(&records(&keys(8), 10));
    assert_eq!(world.given_back, [(0, 10)]);
    let all: Vec<i64> = (8..18).collect();
    assert_eq!(world.running(), all);
}

#[test]
fn by_bytes_a_bound_is_passed_by_one_record_at_most() {
    let mut config = pool(100);
    config.buffers.partition_bytes = 25;
    let mut world = World::new(config);
    world.arrive(&records(&keys(30), 0));
    assert_eq!(world.given_back, [(0, 3)], "of ten bytes each");
}

#[test]
fn what_a_restored_map_has_as_complete_takes_no_room() {
    let mut config = pool(100);
    config.buffers.partition_records = 2;
    let mut world = World::with_gate(config, keyway_core::OpenGate, 1);
    world.assign(0, Some(0), Some(map(0, 9, &[0, 9])));
    world.arrive(&records(&keys(11), 0));
    assert_eq!(world.running(), [0, 9]);
    assert_eq!(world.given_back, [(0, 10)]);
}

/// A pause throws away what was fetched ahead. Full at the end of the part for all, and not before, each is paused.
#[test]
fn partitions_that_are_alike_are_held_back_by_the_whole_and_none_is_paused() {
    for partitions in [2, 3, 4, 12, 100] {
        let mut config = pool(100);
        config.buffers.total_records = 1_000;
        let mut world = World::with_partitions(config, partitions);
        let mut offset = 0;
        while !world.core.is_full() {
            for slot in 0..partitions {
                world.arrive_at(slot, &records(&keys(2), offset));
            }
            offset += 2;
        }
        assert_eq!(world.paused, [], "of {partitions}");
        assert!(
            world.core.load().0 >= 600,
            "three fifths: {:?}",
            world.core.load()
        );
    }
}

#[test]
fn one_that_holds_as_much_as_is_free_is_paused_and_the_others_find_room() {
    let mut config = pool(100);
    config.buffers.total_records = 40;
    let mut world = World::with_partitions(config, 8);
    world.arrive_at(0, &records(&keys(30), 0));
    assert_eq!(world.given_back, [(0, 22)], "twice what is free of 32");
    assert_eq!(world.paused, [PartitionSlot(0)]);
    assert!(!world.core.is_full());
    world.arrive_at(1, &records(&keys(6), 0));
    assert_eq!(world.paused, [PartitionSlot(0)]);
}

#[test]
fn full_buffers_are_said_to_be_full_until_some_of_it_is_done() {
    let mut config = pool(100);
    config.buffers.total_records = 5;
    let mut world = World::with_partitions(config, 3);
    for slot in 0..3 {
        assert!(!world.core.is_full());
        world.arrive_at(slot, &[(0, "a")]);
    }
    assert!(world.core.is_full());
    world.done(&[0]);
    assert!(!world.core.is_full());
}

/// By records and by bytes. All of them have a long log; those that are stuck get nothing done, ever, and the others all
/// that is at their workers.
///
/// With the reserve kept shut it fails.
#[test]
fn however_many_are_stuck_the_others_go_on_for_ever() {
    for (stuck, partitions) in [(1, 2), (2, 4), (3, 4), (10, 12), (99, 100)] {
        for by_bytes in [false, true] {
            let mut config = pool(100_000);
            // Of ten bytes each.
            match by_bytes {
                true => config.buffers.total_bytes = 20_000,
                false => config.buffers.total_records = 2_000,
            }
            let mut world = World::with_partitions(config, partitions);
            let mut next = vec![0; partitions as usize];
            let mut done = vec![0; partitions as usize];
            for _ in 0..100 {
                for slot in 0..partitions {
                    let is_paused = world.is_paused(slot);
                    if is_paused || world.core.is_full() {
                        continue;
                    }
                    let first = next[slot as usize];
                    world.given_back.clear();
                    world.arrive_at(slot, &records(&keys(50), first));
                    let rest = world.given_back.first();
                    next[slot as usize] = rest.map_or(first + 50, |(_, offset)| *offset);
                }
                for slot in stuck..partitions {
                    let running = world.running_of(slot);
                    done[slot as usize] += running.len();
                    for offset in running {
                        world.done_at(slot, &[offset]);
                    }
                }
                world.wait(INTERVAL);
                if world.core.commit_in_flight().is_some() {
                    world.answer(CommitAnswer::Stored);
                }
            }
            let what = format!("{stuck} of {partitions} stuck, by bytes: {by_bytes}");
            for slot in stuck..partitions {
                assert!(done[slot as usize] > 300, "{what}: {done:?}");
            }
            let (held, _) = world.core.load();
            assert!(held <= 2_000 + partitions as usize, "{what}: {held}");
        }
    }
}

/// Without the look at all that are paused (`ease`) it waits for a completion of its own that never comes.
#[test]
fn a_partition_is_resumed_when_others_make_room() {
    let mut config = pool(100);
    config.buffers.total_records = 40;
    let mut world = World::with_partitions(config, 3);
    world.arrive_at(0, &records(&keys(30), 0));
    world.arrive_at(1, &records(&keys(5), 0));
    world.arrive_at(1, &records(&keys(30), 5));
    world.arrive_at(2, &records(&keys(3), 0));
    world.arrive_at(2, &records(&keys(30), 3));
    assert_eq!(world.paused, [0, 1, 2].map(PartitionSlot));
    for offset in world.running_of(0) {
        world.done_at(0, &[offset]);
    }
    assert_eq!(world.resumed, [PartitionSlot(0)]);
    world.wait(std::time::Duration::from_secs(1));
    assert_eq!(world.resumed, [0, 1, 2].map(PartitionSlot));
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
