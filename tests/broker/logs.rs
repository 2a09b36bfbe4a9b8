//! What a log can look like: gaps, markers, aborted records, records that are gone.

use keyway_tests::cluster::Produced;
use keyway_tests::wait;
use keyway_tests::world::{CLEAN, PATIENCE, World};

use crate::SOON;

const ROLL: &[u8] = b"roll";

/// With gaps that the tracker does not step over it fails with 381 holes.
#[test]
fn offsets_that_compaction_took_away_count_as_complete() {
    let world = World::with_topic(
        1,
        &[
            ("cleanup.policy", "compact"),
            ("segment.ms", "100"),
            ("min.cleanable.dirty.ratio", "0.01"),
        ],
    );
    let record = |n: i32| (Some(0), Some(format!("key-{}", n % 20)), format!("{n}"));
    world.cluster.produce(&world.topic, (0..400).map(record));
    let left = wait::until("compaction", PATIENCE, || {
        // The active segment is never compacted: each of these may begin a new one.
        world
            .cluster
            .produce(&world.topic, [(Some(0), Some(ROLL), "")]);
        let left = world.cluster.read(&world.topic);
        (left
            .iter()
            .filter(|record| record.key.as_deref() != Some(ROLL))
            .count()
            == 20)
            .then_some(left)
    });
    // What rolls the segments is itself compacted further.
    let kept: Vec<_> = left
        .iter()
        .filter(|record| record.key.as_deref() != Some(ROLL))
        .map(|record| Produced {
            partition: record.partition,
            offset: record.offset,
        })
        .collect();
    assert_eq!(
        kept[0].offset, 380,
        "the log begins with a gap of 380 offsets"
    );
    world
        .cluster
        .produce(&world.topic, [(Some(0), Some("last"), "")]);
    world.remember(&kept);

    world.hold(|_, offset| offset == 385);
    let first = world.member("first").start();
    first.until("all but one", |status| {
        status.buffered == 1 && status.running == 1 && status.partitions[0].holes == 1
    });
    first.commit(SOON).expect("a commit");
    assert_eq!(world.committed_holes(), [(385, 1)], "gaps are no holes");
    first.kill();
    world.release();
    let second = world.member("second").start();
    world.until_finished(world.seen(|seen| seen.started().len()));
    world.until("the hole runs", |seen| seen.starts(0, 385) == 2);
    second.end();
    assert_eq!(world.seen(|seen| seen.started_by("second")), [(0, 385)]);
    world.judge(&CLEAN);
}

/// With gaps that the tracker does not step over it fails with 8 holes at 2; without the end of the partition as a
/// position, with an end of the log that is never committed.
#[test]
fn markers_and_aborted_records_count_as_complete_also_at_the_end() {
    let world = World::new(1);
    for (transaction, commit) in [true, false, true, false].into_iter().enumerate() {
        let record = |n| (Some(0), Some(format!("key-{transaction}-{n}")), "value");
        let records = (0..5).map(record);
        let placed = world
            .cluster
            .produce_transaction(&world.topic, records, commit);
        if commit {
            world.remember(&placed);
        }
    }
    let end = world.cluster.end_offsets(&world.topic);
    assert_eq!(end, [24]);

    world.hold(|_, offset| offset == 2);
    let first = world.member("first").start();
    first.until_completed(9);
    first.commit(SOON).expect("a commit");
    first.kill();
    assert_eq!(
        world.committed_holes(),
        [(2, 1)],
        "neither markers nor aborted records are holes"
    );
    world.release();
    let second = world.member("second").start();
    wait::until("the end of the log is committed", PATIENCE, || {
        (world.committed_holes() == [(24, 0)]).then_some(())
    });
    second.end();
    assert_eq!(world.seen(|seen| seen.started_by("second")), [(0, 2)]);
    world.judge(&CLEAN);
}

#[test]
fn records_deleted_below_the_committed_offset_change_nothing() {
    a_group_with_holes_at_10_and_30_whose_log_now_starts_at(5, &[(0, 10), (0, 30)]);
}

/// Read on from the committed offset, or with the map as it was, it fails: what is left is never committed.
#[test]
fn records_deleted_above_the_committed_offset_are_passed_over() {
    a_group_with_holes_at_10_and_30_whose_log_now_starts_at(20, &[(0, 30)]);
}

/// Read on from the committed offset, or with the map as it was, it fails: the end is never committed.
#[test]
fn a_log_that_is_deleted_to_its_end_leaves_nothing_open() {
    a_group_with_holes_at_10_and_30_whose_log_now_starts_at(50, &[]);
}

fn a_group_with_holes_at_10_and_30_whose_log_now_starts_at(start: i64, run: &[(i32, i64)]) {
    let world = World::new(1);
    world.fill(50, 50);
    world.fail(|_, offset| matches!(offset, 10 | 30));
    let first = world.member("first").start();
    world.until_finished(48);
    first.end();
    assert_eq!(world.committed_holes(), [(10, 2)]);

    world.cluster.delete_records(&world.topic, 0, start);
    world.forget(|record| record.offset < start);
    world.heal();
    let second = world.member("second").start();
    wait::until("everything that is left is committed", PATIENCE, || {
        (world.committed_holes() == [(50, 0)]).then_some(())
    });
    second.end();
    let mut ran = world.seen(|seen| seen.started_by("second"));
    ran.sort_unstable();
    assert_eq!(ran, run);
    // The rest of the promises: what was committed below 10 is not asked for any more.
    world.judge(&CLEAN);
}

/// Without `restore_anew` it fails with 99 done and nothing to come.
#[test]
fn records_deleted_before_they_were_fetched_are_passed_over_while_it_runs() {
    const RECORDS: i64 = 2_000;
    let world = World::new(1);
    let big = |n: i64| (Some(0), Some(format!("key-{n}")), vec![b'x'; 10_000]);
    world.produce((0..RECORDS).map(big));
    world.hold(|_, offset| offset == 0);
    let member = world
        .member("m")
        .property("fetch.message.max.bytes", "100000")
        .property("queued.max.messages.kbytes", "200")
        .property("queued.min.messages", "10")
        .with(|builder| builder.concurrency(1).partition_buffer(10))
        .start();
    member.until("a full buffer", |status| {
        status.partitions.iter().any(|at| at.paused)
    });
    world.cluster.delete_records(&world.topic, 0, RECORDS - 100);
    world.release();
    world.until("the records that are left", |seen| {
        (RECORDS - 100..RECORDS).all(|offset| seen.starts(0, offset) > 0)
    });
    member.end();
    assert_eq!(world.committed_holes(), [(RECORDS, 0)]);
    let ran = world.seen(|seen| seen.started().len());
    assert!(
        ran < 1_000,
        "most were gone before they were fetched: {ran} ran"
    );
    world.forget(|record| record.offset < RECORDS - 100);
    world.judge(&CLEAN);
}
