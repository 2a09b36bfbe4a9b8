//! Drain, stop, drop: what they finish, that they are bounded, and that they block nobody.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use keyway::CommitError;
use keyway_tests::checker::Rules;
use keyway_tests::cluster::{Cluster, Config};
use keyway_tests::wait;
use keyway_tests::world::{CLEAN, Member, PATIENCE, World};

use crate::SOON;

/// On a machine with much else to do, a call that does not wait is back by then.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A stop's own bound, and what may follow it: the last commit, leaving, joining threads.
const WITHIN: Duration = Duration::from_secs(2);
const COMMIT_TIMEOUT: Duration = Duration::from_secs(1);
const STOPPED_AFTER: Duration = Duration::from_secs(2 + 1 + 5 + 1 + 5);

/// Without the pause at its begin it fails with 350 records.
#[test]
fn a_drain_finishes_what_is_buffered_and_takes_in_nothing_more() {
    let world = World::new(1);
    world.fill(300, 300);
    world.hold(|_, _| true);
    let member = world
        .member("m")
        .with(|builder| builder.concurrency(4))
        .start();
    member.until("everything is buffered", |status| status.buffered == 300);
    member.drain(SOON);
    member.until("it drains", |status| status.stopping);
    world.fill(50, 50);
    world.release();
    let report = member.join();
    assert_eq!(
        (report.records, report.left_open, report.all_committed),
        (300, 0, true)
    );
    assert_eq!(world.committed_holes(), [(300, 0)]);
    world.judge(&Rules {
        finished: false,
        ..CLEAN
    });
}

#[test]
fn a_drain_leaves_what_does_not_finish_in_its_time() {
    let world = World::new(1);
    world.fill(100, 100);
    world.fail(|_, offset| offset == 20);
    let member = world.member("m").start();
    world.until_finished(99);
    let begin = Instant::now();
    member.drain(WITHIN);
    let report = member.join();
    assert!(begin.elapsed() < STOPPED_AFTER, "{:?}", begin.elapsed());
    assert_eq!(
        (report.left_open, report.left_running, report.all_committed),
        (1, 0, true)
    );
    assert_eq!(world.committed_holes(), [(20, 1)]);
}

/// Without the wait for what runs it fails with none done.
#[test]
fn a_stop_finishes_what_runs_and_starts_nothing_more() {
    let world = World::new(1);
    world.fill(300, 300);
    world.hold(|_, _| true);
    let member = world
        .member("m")
        .with(|builder| builder.concurrency(4))
        .start();
    world.until("four run", |seen| seen.started().len() == 4);
    member.until("the others are buffered", |status| status.buffered == 300);
    member.stop(SOON);
    wait::until("it stops", SOON, || member.status().stopping.then_some(()));
    world.release();
    let report = member.join();
    assert_eq!(
        (report.records, report.left_open, report.all_committed),
        (4, 296, true)
    );
    assert_eq!(world.seen(|seen| seen.started().len()), 4);
    let next = world.member("next").start();
    world.until_finished(300);
    next.end();
    assert_eq!(world.judge(&CLEAN).repeated, 0);
}

/// Without a stop's own bound it waits in vain for the end.
#[test]
fn a_handler_that_does_not_return_does_not_hold_up_a_stop() {
    let world = World::new(1);
    world.fill(100, 100);
    world.hold(|_, offset| offset == 50);
    let member = world.member("m").start();
    world.until_finished(99);
    let begin = Instant::now();
    member.stop(WITHIN);
    let report = member.wait_for_end().expect("an orderly end");
    assert!(begin.elapsed() < STOPPED_AFTER, "{:?}", begin.elapsed());
    assert_eq!(
        (report.left_running, report.left_open, report.all_committed),
        (1, 1, true)
    );
    assert_eq!(member.commit(SOON), Err(CommitError::Ended));
    assert_eq!(world.committed_holes(), [(50, 1)]);
}

/// With a drop that waits for the end it fails after 11 s.
#[test]
fn dropping_an_engine_does_not_wait_whatever_it_is_doing() {
    let world = World::new(1);
    world.fill(100, 100);
    world.hold(|_, offset| offset == 50);
    dropped_at_once("just started", world.member("early").start());
    let stuck = world.member("stuck").start();
    world.until_finished(99);
    dropped_at_once("inside a handler", stuck);
    wait::until("its commit", PATIENCE, || {
        (world.committed_holes() == [(50, 1)]).then_some(())
    });
    // A drop asks for a stop, which waits for the handler: what that finishes is committed, and the group is left.
    world.release();
    let next = world.member("next").start();
    next.until_assigned(1);
    assert_eq!(world.committed_holes(), [(100, 0)]);
    next.end();
    world.judge(&CLEAN);
}

fn dropped_at_once(when: &str, member: Member) {
    let begin = Instant::now();
    drop(member);
    assert!(begin.elapsed() < AT_ONCE, "{when}: {:?}", begin.elapsed());
}

/// One cluster for all that a dead broker can do to an end, since it dies once. With a drop that waits for the end it
/// fails after 10 s.
#[test]
fn with_the_broker_dead_a_stop_is_bounded_and_a_drop_does_not_wait() {
    let cluster = Cluster::with(Config::default());
    let world = World::on(&cluster, 1, &[]);
    world.fill(100, 100);
    let start = |world: &World<'_>, name: &str| {
        let bounded = |builder: keyway::Builder| builder.commit_timeout(COMMIT_TIMEOUT);
        let rarely = Duration::from_secs(3_600);
        world
            .member(name)
            .with(bounded)
            .with(move |builder| builder.commit_interval(rarely))
            .start()
    };
    let others: Vec<_> = (0..2).map(|_| world.another_group()).collect();
    let stopped = start(&world, "stopped");
    let drained = start(&others[0], "drained");
    let dropped = start(&others[1], "dropped");
    for world in [&world, &others[0], &others[1]] {
        world.until_finished(100);
    }
    cluster.kill_node(1);

    dropped_at_once("with the broker dead", dropped);
    let begin = Instant::now();
    stopped.stop(WITHIN);
    drained.drain(WITHIN);
    assert_eq!(
        stopped.commit(Duration::from_millis(100)),
        Err(CommitError::TimedOut)
    );
    for member in [stopped, drained] {
        let report = member.join();
        assert!(begin.elapsed() < STOPPED_AFTER, "{:?}", begin.elapsed());
        assert_eq!((report.records, report.all_committed), (100, false));
    }

    // Nothing of the run is lost by it: the broker comes back, and what was in no commit runs again.
    cluster.start_node(1);
    let next = start(&world, "next");
    world.until("everything again", |seen| {
        (0..100).all(|offset| seen.starts(0, offset) == 2)
    });
    next.end();
    world.judge(&CLEAN);
}

/// Everything that a person does with an engine, on the one thread of a runtime that has other work to do. With a start
/// that asks a broker something it fails with 3 s.
#[test]
fn no_call_blocks_the_thread_of_a_runtime() {
    let world = World::new(1);
    world.fill(200, 200);
    let nowhere = {
        // A port that nobody listens on.
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        listener.local_addr().expect("it is bound").to_string()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime of one thread");
    let longest = runtime.block_on(async {
        let ticker = Ticker::start();
        let member = world.member("m").asynchronous(16).start();
        while world.seen(|seen| seen.finished()) < 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        member.stop(SOON);
        let report = member.finished().await.expect("an orderly end");
        assert!(report.all_committed);

        let lost = world
            .member("lost")
            .property("bootstrap.servers", &nowhere)
            .start();
        tokio::time::sleep(Duration::from_millis(500)).await;
        lost.stop(WITHIN);
        lost.finished().await.expect("an orderly end");
        drop(lost);
        drop(
            world
                .member("dropped")
                .property("bootstrap.servers", &nowhere)
                .start(),
        );
        drop(world.member("dropped, too").start());
        tokio::time::sleep(Duration::from_millis(500)).await;
        ticker.longest()
    });
    assert!(
        longest < Duration::from_millis(500),
        "the runtime stood still for {longest:?}"
    );
    assert_eq!(world.committed_holes(), [(200, 0)]);
}

/// Ticks each 5 ms and keeps the longest time between two ticks.
struct Ticker(Arc<AtomicU64>);

impl Ticker {
    fn start() -> Self {
        let longest: Arc<AtomicU64> = Arc::default();
        let noted = Arc::clone(&longest);
        let mut last = Instant::now();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                let gap = u64::try_from(last.elapsed().as_micros()).unwrap_or(u64::MAX);
                noted.fetch_max(gap, Ordering::Relaxed);
                last = Instant::now();
            }
        });
        Ticker(longest)
    }

    fn longest(&self) -> Duration {
        let longest = Duration::from_micros(self.0.load(Ordering::Relaxed));
        assert!(!longest.is_zero(), "it ticked");
        longest
    }
}
