//! Holes are committed, and whoever comes next runs exactly these.

use keyway_tests::world::{CLEAN, World};

use crate::SOON;

#[test]
fn after_a_crash_exactly_the_holes_run() {
    const RECORDS: usize = 4_000;
    let world = World::new(2);
    let produced = world.fill(RECORDS, RECORDS);
    world.hold(|_, offset| offset % 97 == 13);
    let held: Vec<_> = produced
        .iter()
        .map(|at| (at.partition, at.offset))
        .filter(|(_, offset)| offset % 97 == 13)
        .collect();

    let first = world
        .member("first")
        .with(|builder| builder.concurrency(64))
        .start();
    first.until_completed(RECORDS - held.len());
    first.commit(SOON).expect("a commit");
    first.kill();
    assert!(
        world
            .committed_holes()
            .iter()
            .all(|&(base, open)| base == 13 && open >= 20)
    );

    world.release();
    let second = world.member("second").start();
    world.until_finished(RECORDS);
    second.end();
    let mut ran = world.seen(|seen| seen.started_by("second"));
    ran.sort_unstable();
    let mut held = held;
    held.sort_unstable();
    assert_eq!(ran, held);
    let tally = world.judge(&CLEAN);
    assert!(tally.kills == 1 && tally.maps > 0, "{tally:?}");
    assert_eq!(world.committed_holes(), [(2_000, 0), (2_000, 0)]);
}

#[test]
fn after_a_stop_with_one_stuck_key_exactly_its_records_run() {
    const RECORDS: usize = 2_000;
    let world = World::new(1);
    world.fill(RECORDS, 100);
    // Key 7's second record fails, so the 18 behind it wait.
    world.fail(|_, offset| offset == 107);
    let first = world.member("first").start();
    world.until_finished(RECORDS - 19);
    let report = first.end();
    assert_eq!(report.left_open, 19);
    assert_eq!(world.committed_holes(), [(107, 19)]);

    world.heal();
    let second = world.member("second").start();
    world.until_finished(RECORDS);
    second.end();
    let of_the_key: Vec<_> = (1..20).map(|n| (0, n * 100 + 7)).collect();
    assert_eq!(
        world.seen(|seen| seen.started_by("second")),
        of_the_key,
        "in their order"
    );
    world.judge(&CLEAN);
    assert_eq!(world.committed_holes(), [(2_000, 0)]);
}

#[test]
fn a_record_that_failed_blocks_its_key_alone() {
    let world = World::new(1);
    world.fill(300, 3);
    world.fail(|_, offset| offset == 3);
    let member = world.member("m").start();
    world.until_finished(201);
    world.heal();
    world.until_finished(300);
    member.end();
    world.judge(&CLEAN);
}
