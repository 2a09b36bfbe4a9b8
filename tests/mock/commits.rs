//! Commits that are refused, lost or late. There is never new traffic that would repeat them by chance.
//!
//! | answer | what it means | here |
//! |---|---|---|
//! | REBALANCE_IN_PROGRESS | a new plan, after a while | `a_commit_refused_during_a_rebalance_is_made_again` |
//! | STALE_MEMBER_EPOCH | the same | `a_commit_under_an_epoch_that_was_raised_is_made_again` |
//! | NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE | the same | `a_commit_refused_by_one_who_does_not_coordinate_is_made_again` |
//! | ILLEGAL_GENERATION | the rebalance event decides | `a_commit_under_an_old_generation_is_made_again_once_there_is_a_new_one` |
//! | UNKNOWN_MEMBER_ID | the partitions are lost | `a_member_that_is_unknown_loses_its_partitions_and_gets_them_again` |
//! | FENCED_MEMBER_EPOCH | the same | told so in `engine/src/kafka/tests/commits.rs`; the mock has no such members, so that the loss does not follow here |
//! | FENCED_INSTANCE_ID | another has its identity: the end | `a_member_whose_identity_was_taken_stops_with_the_reason` |
//! | OFFSET_METADATA_TOO_LARGE | a smaller cap | `a_smaller_limit_of_the_broker_is_learned`, `broker/limit.rs` |
//! | GROUP_ or TOPIC_AUTHORIZATION_FAILED | shown, and tried again | `a_commit_that_is_denied_shows_and_heals` |
//! | none, or the connection went down | neither made nor failed | `a_commit_without_an_answer_counts_as_neither_made_nor_failed`, `an_answer_that_is_late_is_no_answer` |
//! | anything else | a new plan | `a_commit_refused_for_a_reason_nobody_foresaw_is_made_again` |
//!
//! What each code is told as lies in `engine/src/kafka/errors.rs`, what follows in `core/src/commit.rs`. That an
//! assignment does not change between the check of the epochs and the hand-over, and that nobody commits as a stranger,
//! is shown in `engine/src/kafka/tests/commits.rs`.

use std::time::Duration;

use keyway::testing::{MockFault, MockRequest};
use keyway::{CommitMode, Outcome, Record, Status, StopReason};

use crate::world::{Door, LONG, Run, World};

/// Ten records, whose commits meet these faults; in the end all is committed and nothing runs again.
#[track_caller]
fn survives(faults: &[MockFault]) {
    let (world, door) = (World::filled(10), Door::default());
    let run = first_position(&world, &door, Duration::from_secs(2));
    world
        .broker
        .fail_requests(MockRequest::OffsetCommit, faults);
    door.open();
    ends_clean(&world, run);
}

/// An engine whose first position is committed, and whose ten records wait at the door.
fn first_position(world: &World, door: &Door, commit_timeout: Duration) -> Run {
    let passed = door.clone();
    let run = world.start(|builder| {
        builder
            .commit_timeout(commit_timeout)
            .handler(move |_: &Record| passed.pass())
    });
    keyway_tests::wait::until("the first commit", LONG, || world.committed(0));
    run
}

/// Waits until commits have had no success for so long.
fn until_uncommitted_for(run: &Run, time: Duration) {
    run.until_status("what is not acknowledged", |status| {
        let mut parts = status.partitions.iter();
        parts.any(|part| part.uncommitted && part.uncommitted_for > Some(time))
    });
}

#[track_caller]
fn ends_clean(world: &World, run: Run) {
    run.until_done(10);
    world.until_committed(10);
    run.until_status("a clean partition", |status| {
        status
            .partitions
            .iter()
            .all(|partition| !partition.uncommitted)
            && status.partitions.len() == 1
    });
    run.stop();
    let again = world.start(|builder| builder.handler(|_: &Record| ()));
    again.until_assigned(1);
    world
        .broker
        .produce_numbered("t", 0, 10, 1)
        .expect("appended");
    again.until_done(1);
    let seen = again.seen.clone();
    again.stop();
    assert_eq!(seen.started(), [10], "nothing runs again");
}

/// Taken for stored (`RefusalForgotten`) it fails: 10 is never committed.
#[test]
fn a_commit_refused_during_a_rebalance_is_made_again() {
    survives(&[MockFault::RebalanceInProgress; 3]);
}

/// The client repeats such a commit by itself, beyond the engine's patience: on a busy machine one run in ten had
/// an old one stored over two later ones.
#[test]
fn a_commit_refused_by_one_who_does_not_coordinate_is_made_again() {
    survives(&[
        MockFault::NotCoordinator,
        MockFault::CoordinatorLoading,
        MockFault::CoordinatorNotAvailable,
    ]);
}

/// Taken for stored (`RefusalForgotten`) it fails: 10 is never committed.
#[test]
fn a_commit_under_an_epoch_that_was_raised_is_made_again() {
    survives(&[MockFault::StaleMember; 3]);
}

/// Taken for stored (`RefusalForgotten`) it fails: 10 is never committed.
#[test]
fn a_commit_refused_for_a_reason_nobody_foresaw_is_made_again() {
    survives(&[MockFault::Unknown; 3]);
}

/// The client repeats such a commit twice by itself. Taken for stored (`AmbiguousIsStored`) it fails after that: it
/// does not show any more, and is never made.
#[test]
fn a_commit_without_an_answer_counts_as_neither_made_nor_failed() {
    let (world, door) = (World::filled(10), Door::default());
    let run = first_position(&world, &door, Duration::from_millis(500));
    world
        .broker
        .fail_requests(MockRequest::OffsetCommit, &[MockFault::Disconnect; 1_000]);
    door.open();
    until_uncommitted_for(&run, Duration::from_secs(2));
    world.broker.clear_faults(MockRequest::OffsetCommit);
    ends_clean(&world, run);
}

/// With a loss that nobody answers to the client it fails: 10 is never committed.
#[test]
fn a_commit_under_an_old_generation_is_made_again_once_there_is_a_new_one() {
    survives(&[MockFault::IllegalGeneration]);
}

/// With a loss that nobody answers to the client it waits in vain for the return.
#[test]
fn a_member_that_is_unknown_loses_its_partitions_and_gets_them_again() {
    let world = World::filled(10);
    let door = Door::default();
    let passed = door.clone();
    let run = world.start(|builder| builder.handler(move |_: &Record| passed.pass()));
    keyway_tests::wait::until("the first commit", LONG, || world.committed(0));
    world
        .broker
        .fail_requests(MockRequest::OffsetCommit, &[MockFault::UnknownMember]);
    door.open();
    keyway_tests::wait::until("the loss", LONG, || (run.seen.lost() == 1).then_some(()));
    keyway_tests::wait::until("the return", LONG, || {
        (run.seen.assigned() == 2).then_some(())
    });
    world.until_committed(10);
    run.stop();
}

/// With an error of the client that is fatal only noted it waits in vain for its end.
#[test]
fn a_member_whose_identity_was_taken_stops_with_the_reason() {
    let world = World::filled(10);
    let door = Door::default();
    let passed = door.clone();
    let run = world.start(|builder| {
        builder
            .property("group.instance.id", "one")
            .handler(move |_: &Record| passed.pass())
    });
    keyway_tests::wait::until("the first commit", LONG, || world.committed(0));
    world
        .broker
        .fail_requests(MockRequest::OffsetCommit, &[MockFault::FencedInstance]);
    door.open();
    let end = keyway_tests::wait::until("its end", LONG, || run.engine.ended());
    assert!(matches!(end, Err(StopReason::Client(_))), "{end:?}");
    assert_eq!(
        world.committed(0),
        Some((0, String::new())),
        "nothing more is committed"
    );
}

/// Taken for stored (`RefusalForgotten`) it fails: 10 is never committed.
#[test]
fn a_commit_that_is_denied_shows_and_heals() {
    for denial in [MockFault::GroupDenied, MockFault::TopicDenied] {
        denied_and_healed(denial);
    }
}

fn denied_and_healed(denial: MockFault) {
    let world = World::filled(10);
    let door = Door::default();
    let passed = door.clone();
    let run = world.start(|builder| builder.handler(move |_: &Record| passed.pass()));
    keyway_tests::wait::until("the first commit", LONG, || world.committed(0));
    world
        .broker
        .fail_requests(MockRequest::OffsetCommit, &[denial; 30]);
    door.open();
    run.until_status("the denial", |status| {
        status
            .partitions
            .iter()
            .any(|partition| partition.commit_denied)
    });
    world.broker.clear_faults(MockRequest::OffsetCommit);
    world.until_committed(10);
    run.until_status("its end", |status| {
        status
            .partitions
            .iter()
            .all(|partition| !partition.commit_denied)
    });
    run.stop();
}

/// Without what the refusal teaches (`LearnedCapIgnored`) it waits in vain for a smaller limit.
#[test]
fn a_smaller_limit_of_the_broker_is_learned() {
    let world = World::of(1);
    world.produce(400, 400);
    let run = world.start(|builder| {
        builder.handler(|record: &Record| {
            // Holes without a pattern, so that their text is long.
            match (record.offset() * 7_919 % 97) < 40 {
                true => Outcome::Retry {
                    after: Some(Duration::from_secs(3600)),
                },
                false => Outcome::Done,
            }
        })
    });
    let clean = |status: &Status| {
        status.partitions.len() == 1 && !status.partitions[0].uncommitted && status.running == 0
    };
    run.until_status("all committed", |status| {
        clean(status) && status.completed > 200 && status.completed + status.retries as u64 == 400
    });
    let (_, metadata) = world.committed(0).expect("a commit");
    let before = run.status().metadata_limit;
    assert!(
        metadata.len() > 40 && metadata.len() <= before,
        "{metadata}"
    );
    world
        .broker
        .fail_requests(MockRequest::OffsetCommit, &[MockFault::MetadataTooLarge]);
    world
        .broker
        .produce_numbered("t", 0, 400, 3)
        .expect("appended");
    run.until_status("a smaller limit, and a commit within it", |status| {
        clean(status) && status.metadata_limit < before
    });
    let learned = run.status().metadata_limit;
    assert!(learned < metadata.len() + 40, "{learned}");
    let (offset, metadata) = world.committed(0).expect("a commit");
    assert!(
        offset == 0 && metadata.len() <= learned,
        "{offset} {metadata}"
    );
    run.stop();
}

/// Each of them is a refusal that nobody has waited for. Taken for stored (`AmbiguousIsStored`) it fails: it does not
/// show any more, and is never made.
#[test]
fn an_answer_that_is_late_is_no_answer() {
    let (world, door) = (World::filled(10), Door::default());
    let run = first_position(&world, &door, Duration::from_millis(300));
    world.broker.fail_requests(
        MockRequest::OffsetCommit,
        &[MockFault::RebalanceInProgress; 1_000],
    );
    let late = Duration::from_secs(1);
    world.broker.set_round_trip(1, late).expect("a broker");
    door.open();
    until_uncommitted_for(&run, 2 * late);
    world.broker.clear_faults(MockRequest::OffsetCommit);
    world
        .broker
        .set_round_trip(1, Duration::ZERO)
        .expect("a broker");
    ends_clean(&world, run);
}

#[test]
fn a_synchronous_mode_commits_without_an_interval() {
    let world = World::filled(50);
    let run = world.start(|builder| {
        builder
            .commit_mode(CommitMode::Synchronous)
            .handler(|record: &Record| match record.offset() {
                49 => Outcome::Retry {
                    after: Some(Duration::from_secs(3600)),
                },
                _ => Outcome::Done,
            })
    });
    run.until_done(49);
    keyway_tests::wait::until("the commit", Duration::from_secs(5), || {
        world.committed(0).filter(|(offset, _)| *offset == 49)
    });
    run.stop();
}

#[test]
fn whoever_asks_for_a_commit_hears_when_it_is_there() {
    let world = World::filled(10);
    let run = world.start(|builder| {
        builder
            .commit_interval(Duration::from_secs(3600))
            .handler(|_: &Record| ())
    });
    run.until_done(10);
    // The observer hears of a record before the engine does.
    run.until_status("all complete", |status| status.completed == 10);
    run.engine.commit(LONG).expect("acknowledged");
    assert_eq!(world.committed(0), Some((10, String::new())));
    run.stop();
}
