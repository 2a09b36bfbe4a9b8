//! Where an assigned partition starts when the questions about it fail.

use std::time::Duration;

use keyway::testing::{MockFault, MockRequest};
use keyway::{Keyway, NotReady, Outcome, Record, StopReason};
use keyway_tests::wait;

use crate::world::{Door, LONG, Run, World};

/// A group that has done all of ten records but the fourth and the seventh.
fn with_holes() -> World {
    let world = World::filled(10);
    let run = world.start(|builder| {
        builder.handler(|record: &Record| match record.offset() {
            3 | 6 => Outcome::Retry {
                after: Some(Duration::from_secs(3600)),
            },
            _ => Outcome::Done,
        })
    });
    run.until_done(8);
    run.stop();
    let (offset, metadata) = world.committed(0).expect("a commit");
    assert!(offset == 3 && !metadata.is_empty());
    world
}

/// Exactly the two that are missing run.
#[track_caller]
fn runs_the_two(world: &World) {
    let run = world.start(|builder| builder.handler(|_: &Record| ()));
    run.until_done(2);
    let mut started = run.seen.started();
    started.sort_unstable();
    run.stop();
    assert_eq!(started, [3, 6]);
    world.until_committed(10);
}

/// Without the map (`RestoredMapIgnored`) it fails with all from 3 to 9.
#[test]
fn holes_are_all_that_runs() {
    runs_the_two(&with_holes());
}

/// Taken for nothing committed it fails with all ten running; asked once only, with none.
#[test]
fn a_question_for_what_is_committed_is_asked_again_and_never_taken_for_nothing() {
    let world = with_holes();
    let faults = [
        MockFault::CoordinatorLoading,
        MockFault::NotCoordinator,
        MockFault::Unknown,
        MockFault::Disconnect,
        MockFault::Unknown,
    ];
    world
        .broker
        .fail_requests(MockRequest::OffsetFetch, &faults);
    runs_the_two(&world);
}

/// Asked once only it fails with none running.
#[test]
fn a_question_for_the_ends_of_the_log_is_asked_again() {
    let world = with_holes();
    let faults = [
        MockFault::Unknown,
        MockFault::Disconnect,
        MockFault::Unknown,
    ];
    world
        .broker
        .fail_requests(MockRequest::ListOffsets, &faults);
    runs_the_two(&world);
}

// Without the failure that the restorer sends along it fails with a member that restores for no reason it gives.
#[test]
fn a_restore_without_an_answer_says_why() {
    let world = with_holes();
    world
        .broker
        .fail_requests(MockRequest::OffsetFetch, &[MockFault::Unknown; 100]);
    let run = world.start(|builder| builder.handler(|_: &Record| ()));
    run.until_status("a reason", |status| {
        let mut not_ready = status.health.not_ready.iter();
        not_ready.any(|why| matches!(why, NotReady::Restoring { error: Some(_), .. }))
    });
    world.broker.clear_faults(MockRequest::OffsetFetch);
    run.until_status("that it is over", |status| status.health.is_ready());
    run.stop();
}

/// Asked for at once it fails: the first record runs again, which the commit under way says is done.
#[test]
fn a_partition_that_begins_anew_is_asked_for_behind_the_commit_under_way() {
    let (world, door) = (World::of(1), Door::default());
    // Of one key, so that whatever is done by the time of that commit the first record is.
    world.produce(10, 1);
    let passed = door.clone();
    let run = world.start(|builder| {
        builder
            .commit_timeout(LONG)
            .handler(move |_: &Record| passed.pass())
    });
    wait::until("the first commit", LONG, || world.committed(0));
    // The client repeats such a commit by itself, for as long as it is refused.
    let faults = [MockFault::NotCoordinator; 1_000];
    world
        .broker
        .fail_requests(MockRequest::OffsetCommit, &faults);
    door.open();
    run.until_done(10);
    run.until_status("a commit without an answer", |status| {
        let mut parts = status.partitions.iter();
        parts.any(|part| part.uncommitted_for > Some(Duration::from_millis(500)))
    });
    world
        .broker
        .fail_requests(MockRequest::Fetch, &[MockFault::OffsetOutOfRange]);
    run.until_status("a partition that begins anew", |status| {
        let mut not_ready = status.health.not_ready.iter();
        not_ready.any(|why| matches!(why, NotReady::Restoring { .. }))
    });
    world.broker.clear_faults(MockRequest::OffsetCommit);
    run.until_status("that it is there", |status| status.health.is_ready());
    world
        .broker
        .produce_numbered("t", 0, 10, 1)
        .expect("appended");
    world.until_committed(11);
    let started = run.seen.started();
    run.stop();
    let first = started.iter().filter(|offset| **offset == 0);
    assert_eq!(first.count(), 1, "{started:?}");
}

#[test]
fn the_clients_own_reset_is_where_a_group_without_a_commit_starts() {
    let world = World::filled(5);
    let start = |reset: &str| {
        let builder = Keyway::builder(world.client())
            .group(reset)
            .topics(["t"])
            .property("auto.offset.reset", reset);
        Run::of(builder.handler(|_: &Record| ()))
    };
    let (earliest, latest) = (start("earliest"), start("latest"));
    latest.until_assigned(1);
    earliest.until_assigned(1);
    world
        .broker
        .produce_numbered("t", 0, 5, 1)
        .expect("appended");
    earliest.until_done(6);
    latest.until_done(1);
    assert_eq!(latest.seen.started(), [5]);
    earliest.stop();
    latest.stop();
}

/// With a policy that nobody asks for it waits in vain for the end.
#[test]
fn metadata_of_another_program_is_ignored_or_a_reason_to_stop() {
    let world = World::filled(5);
    world.commit_as_stranger("g", 0, 2, "not a hole map");
    let run = world.start(|builder| {
        builder
            .bad_metadata(keyway::BadMetadata::Fail)
            .handler(|_: &Record| ())
    });
    let reason = run.end().expect_err("not asked to end");
    assert!(
        matches!(reason, StopReason::BadMetadata { offset: 2, .. }),
        "{reason}"
    );
    assert_eq!(run.seen.started(), [0_i64; 0]);
    assert_eq!(
        world.committed(0),
        Some((2, "not a hole map".to_owned())),
        "left as it was"
    );
    let run = world.start(|builder| builder.handler(|_: &Record| ()));
    run.until_done(3);
    world.until_committed(5);
    run.stop();
}
