//! Commits that are asked for, and what they carry.

use std::time::Duration;

use keyway::{CommitMode, MapsWithoutEpoch};
use keyway_offsets::{HoleMap, Offset, OffsetRange};
use keyway_tests::cluster::Committed;
use keyway_tests::world::{CLEAN, World};

use crate::SOON;

#[test]
fn a_commit_that_is_asked_for_is_on_the_broker_when_it_returns() {
    let world = World::new(1);
    world.fill(100, 100);
    world.hold(|_, offset| offset == 40);
    let rarely = CommitMode::Periodic(Duration::from_secs(3_600));
    let member = world
        .member("m")
        .with(move |builder| builder.commit_mode(rarely))
        .start();
    member.until_completed(99);
    assert_eq!(world.committed_holes(), [(0, 0)], "only where it started");
    member.commit(SOON).expect("a commit");
    assert_eq!(world.committed_holes(), [(40, 1)]);
    world.release();
    member.until_completed(100);
    member.commit(SOON).expect("a commit");
    assert_eq!(world.committed_holes(), [(100, 0)]);
    member.commit(SOON).expect("nothing to commit is as good");
    member.end();
    world.judge(&CLEAN);
}

#[test]
fn synchronous_commits_follow_each_completion() {
    let world = World::new(1);
    world.fill(10, 10);
    let at_once = CommitMode::Synchronous;
    world.hold(|_, offset| offset >= 5);
    let member = world
        .member("m")
        .with(move |builder| builder.commit_mode(at_once))
        .start();
    world.until_finished(5);
    keyway_tests::wait::until("the commit behind it", SOON, || {
        (world.committed_holes() == [(5, 0)]).then_some(())
    });
    member.kill();
    world.release();
    let next = world.member("next").start();
    world.until_finished(10);
    next.end();
    assert_eq!(world.judge(&CLEAN).repeated, 0);
}

/// What the map's safety rests on: a tool that copies offsets to another cluster can't copy the epoch.
#[test]
fn commits_carry_the_leader_epoch_and_those_of_a_plain_consumer_do_not() {
    let world = World::new(1);
    world.fill(10, 10);
    world.fail(|_, offset| offset == 3);
    let member = world.member("m").start();
    world.until_finished(9);
    member.end();
    let committed = world.committed();
    assert_eq!(
        (committed[0].offset, committed[0].leader_epoch),
        (3, Some(0))
    );

    let Committed {
        offset, metadata, ..
    } = &committed[0];
    world
        .cluster
        .commit_as_other_program(&world.group, &world.topic, 0, *offset, metadata)
        .expect("the group has no members");
    assert_eq!(world.committed()[0].leader_epoch, None);
}

/// Without the look at the leader epoch it fails with 2 of 8 done.
#[test]
fn a_map_without_a_leader_epoch_is_used_or_discarded_as_the_policy_says() {
    let base = World::new(1);
    base.fill(10, 10);
    let at = |offset| Offset::new(offset).expect("an offset");
    let map = HoleMap::new(at(2), 8, [OffsetRange::single(at(2))]).expect("a map");
    let text = keyway_offsets::encode(&map).text;
    for (policy, runs) in [
        (MapsWithoutEpoch::Accept, 2),
        (MapsWithoutEpoch::Discard, 8),
    ] {
        let world = base.another_group();
        world.forget(|record| record.offset < 2);
        world
            .cluster
            .commit_as_other_program(&world.group, &world.topic, 0, 2, text.as_bytes())
            .expect("the group has no members");
        let member = world
            .member("m")
            .with(move |builder| builder.maps_without_epoch(policy))
            .start();
        world.until_finished(runs);
        member.end();
        assert_eq!(world.seen(|seen| seen.started().len()), runs, "{policy:?}");
        assert_eq!(world.committed_holes(), [(10, 0)]);
    }
}
