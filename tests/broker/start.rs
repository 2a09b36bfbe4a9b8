//! Where a partition starts, and that this is committed at once.

use std::time::{SystemTime, UNIX_EPOCH};

use keyway::StartAt;
use keyway_tests::cluster::Record;
use keyway_tests::wait;
use keyway_tests::world::{CLEAN, PATIENCE, World};

fn until_committed(world: &World<'_>, offset: i64) {
    wait::until(&format!("{offset} is committed"), PATIENCE, || {
        (world.committed_holes() == [(offset, 0)]).then_some(())
    });
}

/// Without `make_due` in `Core::assigned` 4 is never committed; with the start taken for complete it fails with 5 of 6
/// done.
#[test]
fn earliest_is_where_the_log_starts() {
    let world = World::new(1);
    world.fill(10, 10);
    world.cluster.delete_records(&world.topic, 0, 4);
    world.forget(|record| record.offset < 4);
    world.hold(|_, _| true);
    let member = world.member("m").start();
    until_committed(&world, 4);
    world.release();
    world.until_finished(6);
    member.end();
    world.judge(&CLEAN);
}

/// Without `make_due` in `Core::assigned` it waits in vain for 10 to be committed.
#[test]
fn latest_is_behind_the_last_record_at_the_time_of_the_first_assignment() {
    let world = World::new(1);
    world.cluster.produce(
        &world.topic,
        (0..10).map(|_| (Some(0), Some("old"), "value")),
    );
    let first = world
        .member("first")
        .with(|builder| builder.start_at(StartAt::Latest))
        .start();
    until_committed(&world, 10);
    first.kill();
    // Nothing was ever finished, and yet these are not passed over.
    world.fill(5, 5);
    let second = world
        .member("second")
        .with(|builder| builder.start_at(StartAt::Latest))
        .start();
    world.until_finished(5);
    second.end();
    assert_eq!(
        world.seen(|seen| seen.started().first().copied()),
        Some((0, 10))
    );
    world.judge(&CLEAN);
}

/// Without `make_due` in `Core::assigned` it waits in vain for 0 to be committed.
#[test]
fn a_timestamp_is_the_first_record_of_that_time_or_later() {
    let base = World::new(1);
    // An hour ago: what is older than a week is deleted.
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock");
    let begin = i64::try_from(since_epoch.as_millis()).expect("a time") - 3_600_000;
    let record = |n: i64| Record {
        partition: Some(0),
        timestamp: Some(begin + n * 1_000),
        value: Some(b"value".to_vec()),
        ..Record::default()
    };
    base.produce((0..10).map(record));
    for (time, first) in [(0, 0), (begin + 4_500, 5), (begin + 5_000, 5)] {
        let world = base.another_group();
        world.hold(|_, _| true);
        let start = StartAt::Timestamp(time);
        let member = world
            .member("m")
            .with(move |builder| builder.start_at(start))
            .start();
        until_committed(&world, first);
        world.release();
        world.forget(|record| record.offset < first);
        world.until_finished(10 - first as usize);
        member.end();
        world.judge(&CLEAN);
    }
    let world = base.another_group();
    let after = StartAt::Timestamp(begin + 9_001);
    let member = world
        .member("m")
        .with(move |builder| builder.start_at(after))
        .start();
    until_committed(&world, 10);
    member.end();
    assert_eq!(world.seen(|seen| seen.started().len()), 0);
}

/// Left to librdkafka, `latest` would jump to the end, over 150 records; read on from the committed offset it fails
/// with none of them.
#[test]
fn latest_does_not_jump_over_records_when_the_log_starts_above_the_committed_offset() {
    let world = World::new(1);
    world.fill(200, 200);
    world
        .cluster
        .commit_as_other_program(&world.group, &world.topic, 0, 10, b"")
        .expect("the group has no members");
    world.cluster.delete_records(&world.topic, 0, 50);
    world.forget(|record| record.offset < 50);
    let member = world
        .member("m")
        .with(|builder| builder.start_at(StartAt::Latest))
        .start();
    world.until_finished(150);
    member.end();
    assert_eq!(
        world.seen(|seen| seen.started().first().copied()),
        Some((0, 50))
    );
    world.judge(&CLEAN);
    assert_eq!(world.committed_holes(), [(200, 0)]);
}
