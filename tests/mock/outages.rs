//! Brokers that go away, come back, or hand the group on.

use std::time::{Duration, Instant};

use keyway::Record;
use keyway::testing::{MockFault, MockRequest};

use crate::world::{Door, OpenAtEnd, Run, World};

/// How long a broker is away: longer than a fetch, shorter than anybody's patience.
const OUTAGE: Duration = Duration::from_secs(1);

/// With an error of the client that passes taken for a reason to stop it fails with 317 of 4,000 done.
#[test]
fn a_broker_that_goes_and_comes_under_load_costs_nothing_but_time() {
    let world = World::of(4);
    world.produce(4_000, 100);
    let run = world.start(|builder| {
        builder
            .concurrency(4)
            .handler(|_: &Record| std::thread::sleep(Duration::from_millis(1)))
    });
    run.until_done(300);
    world.broker.broker_down(1).expect("a broker");
    std::thread::sleep(OUTAGE);
    world.broker.broker_up(1).expect("a broker");
    run.until_done(4_000);
    // What came while nobody was there.
    world.produce(400, 100);
    run.until_done(4_400);
    let seen = run.seen.clone();
    let report = run.stop();
    assert!(report.all_committed);
    seen.assert_each_done_once(4_400);
    seen.assert_key_order();
}

#[test]
fn a_group_whose_coordinator_moves_goes_on() {
    let world = World::with_brokers(3, 4);
    world.broker.set_coordinator("g", 1).expect("a broker");
    world.produce(3_000, 100);
    let run = world.start(|builder| {
        builder
            .concurrency(4)
            .handler(|_: &Record| std::thread::sleep(Duration::from_millis(1)))
    });
    for (broker, done) in [(2, 500), (3, 1_500)] {
        run.until_done(done);
        world.broker.set_coordinator("g", broker).expect("a broker");
    }
    run.until_done(3_000);
    let seen = run.seen.clone();
    let report = run.stop();
    assert!(report.all_committed);
    seen.assert_each_done_once(3_000);
    for partition in 0..4 {
        assert_eq!(world.committed(partition).expect("a commit").1, "");
    }
}

/// An engine that has something to commit, on a broker that went away.
fn cut_off(world: &World, door: &Door) -> Run {
    let passed = door.clone();
    let run = world.start(|builder| {
        builder
            .commit_timeout(Duration::from_secs(1))
            .commit_interval(Duration::from_secs(3600))
            // A loss would end what is to be waited for.
            .property("session.timeout.ms", "60000")
            .concurrency(1)
            .handler(move |record: &Record| {
                if record.offset() > 4 {
                    passed.pass();
                }
            })
    });
    run.until_done(5);
    run.until_status("all of the rest waits", |status| status.buffered == 5);
    world.broker.broker_down(1).expect("a broker");
    run
}

/// What is beyond a bound that was given: the commit's own time, leaving, ending the threads, a busy machine.
const BEYOND: Duration = Duration::from_secs(1 + 5 + 1 + 5);

/// Without the bound of the last commit, or that of leaving, it fails after a minute, when the session ends; without
/// the stop's own bound the end never comes. With a commit without an answer taken for stored (`AmbiguousIsStored`) it
/// says that all is committed.
#[test]
fn a_stop_without_a_broker_returns_within_its_bound() {
    let (world, door) = (World::filled(10), Door::default());
    let run = cut_off(&world, &door);
    let _open = OpenAtEnd(door);
    let began = Instant::now();
    run.engine.stop(Duration::from_secs(1));
    let report = run.end().expect("an end that was asked for");
    assert!(
        began.elapsed() < Duration::from_secs(1) + BEYOND,
        "{:?}",
        began.elapsed()
    );
    assert!(!report.all_committed, "and says so");
    assert_eq!(report.left_running, 1);
}

/// Without the bound of the last commit, or that of leaving, it fails after a minute, when the session ends. With a
/// commit without an answer taken for stored (`AmbiguousIsStored`) it says that all is committed.
#[test]
fn a_drain_without_a_broker_returns_within_its_bound() {
    let (world, door) = (World::filled(10), Door::default());
    let run = cut_off(&world, &door);
    let began = Instant::now();
    run.engine.drain(Duration::from_secs(2));
    door.open();
    let report = run.end().expect("an end that was asked for");
    assert!(
        began.elapsed() < Duration::from_secs(2) + BEYOND,
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        (report.records, report.left_open, report.all_committed),
        (10, 0, false)
    );
}

/// With a drop that waits for the end it fails after 17 s.
#[test]
fn dropping_the_engine_without_a_broker_does_not_wait() {
    let (world, door) = (World::filled(10), Door::default());
    let run = cut_off(&world, &door);
    let _open = OpenAtEnd(door);
    let began = Instant::now();
    drop(run.engine);
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
}

/// Every answer is a refusal that asks for another try. Without the bound of the last commit the end never comes.
#[test]
fn a_stop_whose_commits_are_refused_returns_within_its_bound_and_says_so() {
    for fault in [
        MockFault::RebalanceInProgress,
        MockFault::NotCoordinator,
        MockFault::GroupDenied,
    ] {
        let world = World::filled(10);
        let run = world.start(|builder| {
            builder
                .commit_timeout(Duration::from_secs(1))
                .commit_interval(Duration::from_secs(3600))
                .handler(|_: &Record| ())
        });
        run.until_done(10);
        // More than can be asked for in that time.
        world
            .broker
            .fail_requests(MockRequest::OffsetCommit, &[fault; 1_000]);
        let began = Instant::now();
        run.engine.stop(Duration::from_secs(1));
        let report = run.end().expect("an end that was asked for");
        let took = began.elapsed();
        assert!(
            took < Duration::from_secs(1) + BEYOND,
            "{fault:?}: {took:?}"
        );
        assert_eq!(
            (report.left_running, report.all_committed),
            (0, false),
            "{fault:?}: {report:?}"
        );
        world.broker.clear_faults(MockRequest::OffsetCommit);
    }
}
