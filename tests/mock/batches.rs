//! Handlers of several records at once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use keyway::{BatchOutcome, Builder, Ordering, Outcome, Record, Route};

use crate::world::{Door, OpenAtEnd, World};

/// The offsets of each call.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<Vec<i64>>>>);

impl Calls {
    fn note(&self, records: &[Record]) {
        let offsets = records.iter().map(Record::offset).collect();
        self.0.lock().expect("no panic").push(offsets);
    }

    fn all(&self) -> Vec<Vec<i64>> {
        self.0.lock().expect("no panic").clone()
    }

    fn largest(&self) -> usize {
        self.all().iter().map(Vec::len).max().unwrap_or(0)
    }
}

fn hundred_bytes(records: i64) -> World {
    let world = World::of(1);
    world.produce_to(
        "t",
        (0..records).map(|n| (0, Some(n.to_string()), "x".repeat(100))),
    );
    world
}

/// Gives a builder its handler.
type Kind = fn(Builder, Calls) -> Builder;

#[test]
fn every_kind_of_batch_handler_does_each_record_once() {
    let kinds: [(&str, Kind); 3] = [
        ("threads", |builder, calls| {
            builder.route(
                Route::batch_handler(move |records: Vec<Record>| calls.note(&records))
                    .batch_max(20),
            )
        }),
        ("rayon", |builder, calls| {
            builder.route(
                Route::cpu_batch_handler(move |records: Vec<Record>| calls.note(&records))
                    .batch_max(20),
            )
        }),
        ("tokio", |builder, calls| {
            builder.route(
                Route::async_batch_handler(move |records: Vec<Record>| {
                    calls.note(&records);
                    async move {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        drop(records);
                    }
                })
                .batch_max(20),
            )
        }),
    ];
    for (kind, wish) in kinds {
        let world = World::of(4);
        world.produce(2_000, 100);
        let calls = Calls::default();
        let run = world.start(|builder| wish(builder, calls.clone()));
        run.until_done(2_000);
        let seen = run.seen.clone();
        run.stop();
        seen.assert_each_done_once(2_000);
        seen.assert_key_order();
        assert!(
            (2..=20).contains(&calls.largest()),
            "{kind}: {}",
            calls.largest()
        );
    }
}

/// What has gathered behind a first call, which waits at the door, in calls of `route`.
fn gathered(world: &World, records: usize, limit: fn(Route) -> Route) -> Calls {
    let (calls, door) = (Calls::default(), Door::default());
    let _open = OpenAtEnd(door.clone());
    let (noted, passed) = (calls.clone(), door.clone());
    let run = world.start(|builder| {
        let route = Route::batch_handler(move |records: Vec<Record>| {
            passed.pass();
            noted.note(&records);
        });
        builder.route(limit(route.concurrency(1)))
    });
    run.until_status("the records behind the door", |status| {
        status.buffered == records
    });
    door.open();
    run.until_done(records);
    run.stop();
    calls
}

/// Without the bound it fails with all 300 in one.
#[test]
fn a_batch_is_bounded_by_records() {
    let world = hundred_bytes(300);
    let calls = gathered(&world, 300, |route| route.batch_max(7));
    assert_eq!(calls.largest(), 7);
}

/// Without the bound it fails with all 60 in one.
#[test]
fn a_batch_is_bounded_by_bytes_and_a_larger_record_goes_alone() {
    let world = hundred_bytes(60);
    let few = gathered(&world, 60, |route| route.batch_bytes(2_000));
    assert!((2..=20).contains(&few.largest()), "{}", few.largest());
    let world = hundred_bytes(20);
    let alone = gathered(&world, 20, |route| route.batch_bytes(10));
    assert_eq!(alone.largest(), 1);
}

/// With as many of a lane as there are it fails with 50 in one, with one of each lane in any case with 1.
#[test]
fn a_batch_holds_one_record_of_a_lane_unless_told_otherwise() {
    let world = World::of(1);
    world.produce(100, 1);
    let calls = gathered(&world, 100, |route| route.batch_max(50));
    assert_eq!(calls.largest(), 1);
    let world = World::of(1);
    world.produce(100, 1);
    let calls = gathered(&world, 100, |route| {
        route.batch_max(50).batch_same_lane(true)
    });
    assert!(calls.largest() > 10, "{}", calls.largest());
    let flat: Vec<_> = calls.all().concat();
    assert_eq!(
        flat,
        (0..100).collect::<Vec<_>>(),
        "in order across and within calls"
    );
}

/// Without the wait it fails with eight calls; without the look whether it is full, with none; with a drain that waits
/// to fill up too it leaves three records open.
#[test]
fn a_batch_waits_to_fill() {
    let world = World::of(1);
    let calls = Calls::default();
    let noted = calls.clone();
    let run = world.start(|builder| {
        builder
            .batch_max(10)
            .batch_wait(Duration::from_secs(60))
            .batch_handler(move |records: Vec<Record>| noted.note(&records))
    });
    run.until_assigned(1);
    for number in 0..10_u64 {
        world
            .broker
            .produce_numbered("t", 0, number, 1)
            .expect("appended");
    }
    run.until_done(10);
    assert_eq!(
        calls.all(),
        [(0..10).collect::<Vec<_>>()],
        "one full call, long before its wait was over"
    );
    // A drain does not wait for what will not come.
    world
        .broker
        .produce_numbered("t", 0, 10, 3)
        .expect("appended");
    run.until_status("three more", |status| status.buffered == 3);
    assert_eq!(run.drain().left_open, 0);
    assert_eq!(calls.all().len(), 2);
}

/// Without the halving (`BatchNotSplit`) it fails with 48 of 63 done.
#[test]
fn a_batch_that_fails_as_a_whole_is_split_until_the_bad_record_stands_alone() {
    let world = World::filled(64);
    let calls = Calls::default();
    let noted = calls.clone();
    let run = world.start(|builder| {
        builder
            .ordering(Ordering::Unordered)
            .batch_max(16)
            .retry_delay(Duration::from_millis(20))
            .batch_handler(move |records: Vec<Record>| {
                noted.note(&records);
                match records.iter().any(|record| record.offset() == 37) {
                    true => Err("one of them is bad"),
                    false => Ok(()),
                }
            })
    });
    run.until_done(63);
    assert!(!run.seen.done_offsets().contains(&37));
    run.until_status("only the bad one", |status| status.buffered == 1);
    assert!(calls.all().contains(&vec![37]), "it stands alone");
    let (offset, metadata) = keyway_tests::wait::until("the commit", crate::world::LONG, || {
        world.committed(0).filter(|(offset, _)| *offset == 37)
    });
    assert!(offset == 37 && !metadata.is_empty());
    run.stop();
}

#[test]
fn what_is_said_of_each_record_of_a_batch_is_believed() {
    let world = World::filled(30);
    let run = world.start(|builder| {
        builder
            .ordering(Ordering::Unordered)
            .retry_delay(Duration::from_millis(20))
            .batch_handler(|records: Vec<Record>| -> BatchOutcome {
                let outcome = |record: &Record| match (record.offset() % 3, record.attempt()) {
                    (0, 1) => Outcome::Failed("at first".into()),
                    (1, _) => Outcome::Skip,
                    _ => Outcome::Done,
                };
                records.iter().map(outcome).collect::<Vec<_>>().into()
            })
    });
    run.until_done(30);
    let seen = run.seen.clone();
    assert_eq!(run.stop().failed, 10);
    seen.assert_each_done_once(30);
}
