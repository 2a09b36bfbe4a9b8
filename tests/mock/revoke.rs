//! Partitions that leave and come back while handlers run.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering as Atomic};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use keyway::testing::{MockFault, MockRequest};
use keyway::{Builder, Record};
use keyway_tests::wait;

use crate::world::{Door, LONG, OpenAtEnd, Run, World};

/// Makes the member join anew: its partitions are revoked and assigned again.
fn rebalance(world: &World, run: &Run) {
    let (revoked, assigned) = (run.seen.revoked(), run.seen.assigned());
    world
        .broker
        .fail_requests(MockRequest::Heartbeat, &[MockFault::RebalanceInProgress]);
    wait::until("the revoke", LONG, || {
        (run.seen.revoked() > revoked).then_some(())
    });
    wait::until("the assignment", LONG, || {
        (run.seen.assigned() > assigned).then_some(())
    });
}

fn attempts_at_first(run: &Run) -> usize {
    run.seen
        .started()
        .iter()
        .filter(|offset| **offset == 0)
        .count()
}

fn short(builder: Builder) -> Builder {
    builder.revoke_wait(Duration::from_millis(300))
}

/// Without the end of the wait the assignment never comes; with the late result counted (`LateResultCounts`) the engine
/// counts below zero; without settling the lane of a late result its record never runs again.
#[test]
fn a_revoke_waits_for_a_handler_only_so_long_and_its_late_result_has_no_effect() {
    let (world, door) = (World::filled(2), Door::default());
    let _open = OpenAtEnd(door.clone());
    let passed = door.clone();
    let run = world.start(|builder| {
        short(builder).handler(move |record: &Record| {
            if record.offset() == 0 {
                passed.pass();
            }
        })
    });
    run.until_done(1);
    let began = Instant::now();
    rebalance(&world, &run);
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
    run.until_status("a lane that waits for the old attempt", |status| {
        status
            .partitions
            .iter()
            .any(|partition| partition.stale_lanes == 1)
    });
    assert_eq!(
        attempts_at_first(&run),
        1,
        "the key runs nowhere else meanwhile"
    );
    assert_eq!(world.committed(0).expect("a commit").0, 0);
    door.open();
    run.until_done(3);
    assert_eq!(attempts_at_first(&run), 2, "its late result did not count");
    world.until_committed(2);
    run.stop();
}

/// Without the wait for it, without the commit behind it, or with what ends during a revoke not counted
/// (`RevokeDropsCompletions`), it fails: 1 is never committed.
#[test]
fn a_handler_within_the_wait_is_finished_and_committed() {
    let world = World::filled(1);
    let run = world.start(|builder| {
        builder
            .revoke_wait(Duration::from_secs(20))
            .commit_interval(Duration::from_secs(3600))
            .handler(|record: &Record| {
                // Until it hears of the revoke, and a little longer.
                let deadline = Instant::now() + LONG;
                while !record.cancelled() && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(5));
                }
                std::thread::sleep(Duration::from_millis(100));
            })
    });
    wait::until("the start", LONG, || {
        (run.seen.started() == [0]).then_some(())
    });
    rebalance(&world, &run);
    world.until_committed(1);
    assert_eq!(run.seen.started(), [0], "it does not run again");
    run.stop();
}

/// Fetched on from where it was read to, and not from the base, it fails with 64 of 400.
#[test]
fn what_was_queued_at_a_revoke_runs_after_the_return() {
    let world = World::of(2);
    world.produce(400, 40);
    let run = world.start(|builder| {
        short(builder)
            .concurrency(2)
            .handler(|_: &Record| std::thread::sleep(Duration::from_millis(3)))
    });
    run.until_done(20);
    rebalance(&world, &run);
    run.until_status("all complete", |status| {
        !status.partitions.is_empty()
            && status
                .partitions
                .iter()
                .all(|partition| partition.base == 200)
    });
    let seen = run.seen.clone();
    assert!(run.stop().all_committed);
    let distinct: HashSet<_> = seen.done().into_iter().collect();
    assert_eq!(distinct.len(), 400);
}

/// With a lane for each assignment (`StaleLaneIgnored`) it fails with a dozen overlaps.
#[test]
fn a_key_is_never_on_two_threads_however_often_its_partition_comes_back() {
    let (world, door) = (World::of(2), Door::default());
    world.produce(200, 8);
    let _open = OpenAtEnd(door.clone());
    door.open();
    type Lane = (i32, Vec<u8>);
    let inside: Arc<Mutex<HashSet<Lane>>> = Arc::default();
    let overlaps = Arc::new(AtomicU32::new(0));
    let (held, counted) = (Arc::clone(&inside), Arc::clone(&overlaps));
    let passed = door.clone();
    let run = world.start(|builder| {
        builder
            .revoke_wait(Duration::from_millis(20))
            .handler(move |record: &Record| {
                let lane = (record.partition(), record.key().expect("a key").to_vec());
                if !held.lock().expect("no panic").insert(lane.clone()) {
                    counted.fetch_add(1, Atomic::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(20));
                passed.pass();
                held.lock().expect("no panic").remove(&lane);
            })
    });
    for round in 1..=3 {
        run.until_done(10 * round);
        door.close();
        // Until the partitions are back, and their keys with them.
        rebalance(&world, &run);
        run.until_status("lanes that wait for the old attempts", |status| {
            let waiting: usize = status.partitions.iter().map(|part| part.stale_lanes).sum();
            waiting > 0 || overlaps.load(Atomic::Relaxed) > 0
        });
        door.open();
    }
    run.until_status("all complete", |status| {
        status.partitions.len() == 2
            && status
                .partitions
                .iter()
                .all(|partition| partition.base == 100)
    });
    run.stop();
    assert_eq!(overlaps.load(Atomic::Relaxed), 0);
}

#[test]
fn a_loss_is_survived_and_what_was_not_committed_runs_again() {
    let world = World::filled(20);
    let run = world.start(|builder| {
        builder
            .commit_interval(Duration::from_secs(3600))
            .handler(|_: &Record| ())
    });
    run.until_done(20);
    world
        .broker
        .fail_requests(MockRequest::Heartbeat, &[MockFault::UnknownMember]);
    wait::until("the loss", LONG, || (run.seen.lost() == 1).then_some(()));
    run.until_done(40);
    let seen = run.seen.clone();
    assert!(run.stop().all_committed);
    assert_eq!(seen.done().len(), 40, "a loss commits nothing");
    world.until_committed(20);
}
