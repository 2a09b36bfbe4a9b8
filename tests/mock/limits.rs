//! Limits that are changed while the engine runs, with the whole's threads and timing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use keyway::{LimitError, Rate, Record};
use keyway_tests::wait;

use crate::world::{Door, LONG, OpenAtEnd, Run, World};

// Without the pace 2,000 records are done in milliseconds.
#[test]
fn a_rate_is_kept_and_ends_when_it_is_taken_away() {
    let world = World::of(4);
    world.produce(2_000, 100);
    let run = world.start(|builder| builder.rate(Rate::per_second(500)).handler(|_: &Record| ()));
    run.until_done(1);
    let begun = Instant::now();
    run.until_done(551);
    // 50 may come at once, and each of the others has its time.
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(950), "{took:?}");
    run.until_status("the wait", |status| {
        status.paced || status.completed > 1_500
    });
    run.engine.limits().set_rate(None).expect("it runs");
    run.until_done(2_000);
    run.seen.assert_each_done_once(2_000);
    run.seen.assert_key_order();
    run.stop();
}

#[test]
fn a_key_over_its_rate_waits_and_no_other_does() {
    let world = World::of(1);
    let hot = (0..50).map(|n| (0, Some("hot".to_owned()), n.to_string()));
    let others = (0..500).map(|n| (0, Some(n.to_string()), n.to_string()));
    world.produce_to("t", hot.chain(others));
    let run = world.start(|builder| {
        builder
            .concurrency(2)
            .key_rate(Rate::per_second(2))
            .handler(|_: &Record| ())
    });
    wait::until("the others", LONG, || {
        let done = run.seen.done_offsets();
        (done.iter().filter(|offset| **offset >= 50).count() == 500).then_some(())
    });
    assert!(run.seen.done().len() < 550, "the hot key is not through");
    run.until_status("the wait of its lane", |status| {
        status.partitions.iter().any(|part| part.lanes_paced == 1)
    });
    run.engine
        .limits()
        .set_key_rate("t", None)
        .expect("it runs");
    run.until_done(550);
    run.seen.assert_key_order();
    run.stop();
}

#[test]
fn a_drain_and_a_stop_do_not_wait_for_a_rate_beyond_their_bound() {
    for is_drain in [true, false] {
        let world = World::filled(200);
        let run = world.start(|builder| builder.rate(Rate::per_second(5)).handler(|_: &Record| ()));
        run.until_done(2);
        let begun = Instant::now();
        let within = Duration::from_secs(1);
        match is_drain {
            true => run.engine.drain(within),
            false => run.engine.stop(within),
        }
        let report = run.end().expect("an orderly end");
        assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
        assert!(report.left_open > 150 && report.all_committed, "{report:?}");
    }
}

/// Calls inside the handler, and the most at once since it was last asked.
#[derive(Clone, Default)]
struct Inside(Arc<(AtomicUsize, AtomicUsize)>);

impl Inside {
    fn enter(&self) {
        let now = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(now, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn now(&self) -> usize {
        self.0.0.load(Ordering::SeqCst)
    }
}

fn behind(door: &Door, inside: &Inside) -> impl Fn(&Record) + Send + Sync + 'static {
    let (door, inside) = (door.clone(), inside.clone());
    move |_: &Record| {
        inside.enter();
        door.pass();
        inside.leave();
    }
}

fn until_inside(run: &Run, inside: &Inside, calls: usize) {
    let there = wait::try_until(LONG, || (inside.now() == calls).then_some(()));
    assert!(there.is_some(), "{} {:?}", inside.now(), run.status());
}

#[test]
fn threads_are_added_and_retired_without_killing_what_runs() {
    let world = World::filled(400);
    let (door, inside) = (Door::default(), Inside::default());
    let _open = OpenAtEnd(door.clone());
    let run = world.start(|builder| builder.concurrency(2).handler(behind(&door, &inside)));
    until_inside(&run, &inside, 2);
    let limits = run.engine.limits();
    limits.set_concurrency(12).expect("it runs");
    until_inside(&run, &inside, 12);
    limits.set_concurrency(1).expect("it runs");
    run.until_status("those beyond", |status| {
        status
            .routes
            .iter()
            .any(|route| route.leaving == 11 && route.concurrency == 1)
    });
    assert_eq!(inside.now(), 12, "nothing is killed");
    door.open();
    run.until_done(400);
    run.until_status("their end", |status| {
        status.routes.iter().all(|route| route.leaving == 0)
    });
    limits.set_concurrency(5).expect("it runs");
    world.produce(400, 400);
    run.until_done(800);
    let report = run.stop();
    assert_eq!(report.left_running, 0);
    assert_eq!(limits.set_concurrency(3), Err(LimitError::Ended));
}

// What a retired worker gives back, and what it may not get any more, is shown by `core/tests/concurrency.rs`.
#[test]
fn concurrency_up_and_down_under_load_keeps_every_key_in_order() {
    let world = World::of(4);
    let run = world.start(|builder| {
        builder.concurrency(8).handler(|record: &Record| {
            // Some long enough that others queue behind them.
            if record.offset() % 97 == 0 {
                std::thread::sleep(Duration::from_millis(3));
            }
        })
    });
    run.until_assigned(4);
    let limits = run.engine.limits();
    let mut produced = 0;
    for calls in [1, 6, 2, 16, 1, 3, 9, 1] {
        world.produce(2_000, 40);
        produced += 2_000;
        limits.set_concurrency(calls).expect("it runs");
        run.until_done(produced - 1_000);
    }
    run.until_done(produced);
    run.seen.assert_key_order();
    run.stop();
}
