//! Drain and stop, with handlers that take long, hang, or are to be tried again much later.

use std::time::{Duration, Instant};

use keyway::{Outcome, Record};

use crate::world::{Door, OpenAtEnd, World};

/// Without a stop's own bound the end never comes.
#[test]
fn a_stop_leaves_a_handler_that_hangs_behind_and_says_so() {
    let (world, door) = (World::filled(3), Door::default());
    let _open = OpenAtEnd(door.clone());
    let passed = door;
    let run = world.start(|builder| {
        builder.handler(move |record: &Record| {
            if record.offset() == 1 {
                passed.pass();
            }
        })
    });
    run.until_done(2);
    let began = Instant::now();
    run.engine.stop(Duration::from_millis(500));
    let report = run.end().expect("an end that was asked for");
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        (report.left_running, report.left_open, report.records),
        (1, 1, 2)
    );
    let (offset, metadata) = world.committed(0).expect("a commit");
    assert!(
        offset == 1 && !metadata.is_empty(),
        "what was done beside it is committed"
    );
}

/// Without a stop's own bound the end never comes.
#[test]
fn an_async_handler_that_hangs_is_left_behind_as_well() {
    let world = World::filled(3);
    let run = world.start(|builder| {
        builder.async_handler(|record: Record| async move {
            if record.offset() == 1 {
                std::future::pending::<()>().await;
            }
        })
    });
    run.until_done(2);
    run.engine.stop(Duration::from_millis(300));
    let report = run.end().expect("an end that was asked for");
    assert_eq!(
        (report.left_running, report.left_open, report.records),
        (1, 1, 2)
    );
}

/// Without the wait for what runs it fails with 1,004 of 1,000 done over both; without `Leases::set_stopping` all 1,000
/// start after the stop; without the last commit not all is committed.
#[test]
fn a_stop_finishes_what_runs_and_starts_nothing_more() {
    let world = World::filled(1_000);
    let run = world.start(|builder| {
        builder
            .concurrency(4)
            .handler(|_: &Record| std::thread::sleep(Duration::from_millis(20)))
    });
    run.until_done(20);
    run.engine.stop(Duration::from_secs(20));
    let started = run.seen.started().len();
    let report = run.end().expect("an orderly end");
    // The message is on its way for moments, in which each thread may start another.
    assert!(
        run.seen.started().len() <= started + 12,
        "{} after {started}",
        run.seen.started().len()
    );
    assert_eq!(report.left_running, 0);
    assert_eq!(
        run.seen.started().len(),
        run.seen.done().len(),
        "what ran was finished"
    );
    assert!(report.all_committed);
    let again = world.start(|builder| builder.handler(|_: &Record| ()));
    again.until_done(1_000 - run.seen.done().len());
    let both = [run.seen.done_offsets(), again.seen.done_offsets()].concat();
    again.stop();
    assert_eq!(both.len(), 1_000, "each once, over both");
}

/// Without the pause at its begin it fails with 800 records; without the last commit not all is committed.
#[test]
fn a_drain_finishes_what_is_buffered_and_takes_in_nothing_more() {
    let world = World::filled(600);
    let run = world.start(|builder| {
        builder
            .concurrency(2)
            .handler(|_: &Record| std::thread::sleep(Duration::from_millis(5)))
    });
    run.until_status("records in the buffers", |status| status.buffered > 50);
    let seen = run.seen.clone();
    run.engine.drain(Duration::from_secs(40));
    run.until_status("the drain", |status| status.stopping);
    world.produce(200, 200);
    let report = run.end().expect("an orderly end");
    assert!(report.all_committed && report.left_open == 0, "{report:?}");
    assert!(report.records <= 600, "{report:?}");
    assert_eq!(report.records as usize, seen.done().len());
    assert_eq!(
        world.committed(0),
        Some((report.records as i64, String::new()))
    );
}

/// With a stop that a drain under way takes no notice of it fails after 50 s, when all is done.
#[test]
fn a_second_stop_ends_a_drain() {
    let world = World::filled(2_000);
    let run = world.start(|builder| {
        builder
            .concurrency(2)
            .handler(|_: &Record| std::thread::sleep(Duration::from_millis(50)))
    });
    run.until_status("records in the buffers", |status| status.buffered > 500);
    let began = Instant::now();
    run.engine.drain(Duration::from_secs(600));
    run.until_status("the drain", |status| status.stopping);
    run.engine.stop(Duration::from_secs(10));
    let report = run.end().expect("an orderly end");
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    assert!(report.all_committed && report.left_open > 500, "{report:?}");
}

/// Without the stop that a drain becomes near its end, handlers go on being called while it commits, and there is always
/// something new to commit: it fails with a drain that takes 11 s, and leaves handlers running.
#[test]
fn a_drain_that_has_no_time_for_its_buffers_ends_in_time_and_leaves_nothing_running() {
    let world = World::filled(90_000);
    let run = world.start(|builder| {
        builder
            .concurrency(16)
            .handler(|_: &Record| std::thread::sleep(Duration::from_millis(2)))
    });
    run.until_status("records in the buffers", |status| status.buffered > 20_000);
    // While a commit is on its way, more is done.
    let round_trip = Duration::from_millis(20);
    world
        .broker
        .set_round_trip(1, round_trip)
        .expect("a broker");
    let (began, seen) = (Instant::now(), run.seen.clone());
    run.engine.drain(Duration::from_secs(1));
    let report = run.end().expect("an orderly end");
    assert!(
        began.elapsed() < Duration::from_secs(6),
        "{:?}",
        began.elapsed()
    );
    assert!(report.all_committed && report.left_open > 0, "{report:?}");
    assert_eq!(report.left_running, 0);
    assert_eq!(seen.started().len(), seen.done().len());
}

/// Without the retries in `is_drained` it fails with two records left open.
#[test]
fn a_drain_does_not_wait_for_a_far_retry_but_for_a_near_one() {
    let world = World::filled(10);
    let run = world.start(|builder| {
        builder.handler(
            |record: &Record| match (record.offset(), record.attempt()) {
                (3, _) => Outcome::Retry {
                    after: Some(Duration::from_secs(3600)),
                },
                (5, 1) => Outcome::Retry {
                    after: Some(Duration::from_millis(800)),
                },
                _ => Outcome::Done,
            },
        )
    });
    run.until_done(8);
    let began = Instant::now();
    let seen = run.seen.clone();
    let report = run.drain();
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
    assert_eq!((report.records, report.left_open), (9, 1));
    assert!(seen.done_offsets().contains(&5));
    let (offset, metadata) = world.committed(0).expect("a commit");
    assert!(offset == 3 && !metadata.is_empty());
}

#[test]
fn a_limit_of_records_is_kept_exactly() {
    let world = World::of(4);
    world.produce(2_000, 100);
    let run = world.start(|builder| builder.record_limit(777).handler(|_: &Record| ()));
    let report = run.end().expect("an orderly end");
    assert_eq!((report.records, run.seen.started().len()), (777, 777));
    assert!(report.all_committed);
}
