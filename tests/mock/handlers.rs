//! Handlers of every kind, one record at a time, and what they may answer.

use std::time::Duration;

use keyway::{Builder, Outcome, Record, Route, StopReason, TopicPartition};

use crate::world::{Event, World};

/// Gives a builder its handler.
type Kind = fn(Builder, Duration) -> Builder;

#[test]
fn every_kind_of_handler_does_each_record_once_in_the_order_of_its_key() {
    let nap = Duration::from_micros(200);
    let kinds: [(&str, Kind); 3] = [
        ("threads", |builder, nap| {
            builder.handler(move |_: &Record| std::thread::sleep(nap))
        }),
        ("rayon", |builder, nap| {
            builder.cpu_handler(move |_: &Record| std::thread::sleep(nap))
        }),
        ("tokio", |builder, nap| {
            builder.async_handler(move |_: Record| tokio::time::sleep(nap))
        }),
    ];
    for (kind, wish) in kinds {
        let world = World::of(4);
        world.produce(3_000, 50);
        let run = world.start(|builder| wish(builder, nap));
        run.until_done(3_000);
        let seen = run.seen.clone();
        let report = run.stop();
        assert_eq!((report.records, report.left_open), (3_000, 0), "{kind}");
        assert!(report.all_committed, "{kind}");
        seen.assert_each_done_once(3_000);
        seen.assert_key_order();
        for partition in 0..4 {
            let (_, metadata) = world.committed(partition).expect("a commit");
            assert_eq!(metadata, "", "{kind}: no hole is left");
        }
    }
}

#[test]
fn each_topic_has_its_own_route() {
    let world = World::of(1);
    world.broker.create_topic("own", 1).expect("a topic");
    world.produce(50, 50);
    world.produce_to(
        "own",
        (0..50).map(|n| (0, Some("k".to_owned()), n.to_string())),
    );
    let run = world.start(|builder| {
        let own = Route::async_handler(|record: Record| async move {
            match record.offset() {
                7 if record.attempt() == 1 => Outcome::Retry {
                    after: Some(Duration::ZERO),
                },
                8 => Outcome::Skip,
                _ => Outcome::Done,
            }
        });
        builder.handler(|_: &Record| ()).topic("own", own)
    });
    run.until_done(100);
    let seen = run.seen.clone();
    assert_eq!(run.stop().failed, 1);
    seen.assert_each_done_once(100);
    seen.assert_key_order();
}

#[test]
fn a_retry_keeps_its_place_and_other_keys_pass() {
    let world = World::of(1);
    world.produce(300, 10);
    let run = world.start(|builder| {
        builder
            .retry_delay(Duration::from_millis(300))
            .handler(|record: &Record| match (record.key(), record.attempt()) {
                (Some(b"3"), 1 | 2) if record.offset() == 3 => Err("not yet"),
                _ => Ok(()),
            })
    });
    run.until_done(300);
    let seen = run.seen.clone();
    assert_eq!(run.stop().failed, 2);
    seen.assert_each_done_once(300);
    seen.assert_key_order();
    let done = seen.done_offsets();
    let place = done.iter().position(|offset| *offset == 3).expect("done");
    assert_eq!(place, 270, "all records of the other nine keys passed it");
}

/// Without `catch_unwind` around the handler the workers die of it, and none of five is done.
#[test]
fn a_panic_is_a_failed_attempt_on_every_kind_of_worker() {
    let kinds: [fn(Builder) -> Builder; 3] = [
        |builder| builder.handler(|record: &Record| assert!(record.attempt() > 1, "first")),
        |builder| builder.cpu_handler(|record: &Record| assert!(record.attempt() > 1, "first")),
        |builder| {
            builder.async_handler(|record: Record| async move {
                assert!(record.attempt() > 1, "first");
            })
        },
    ];
    for wish in kinds {
        let world = World::filled(5);
        let run = world.start(|builder| wish(builder.retry_delay(Duration::from_millis(20))));
        run.until_done(5);
        let seen = run.seen.clone();
        assert_eq!(run.stop().failed, 5);
        assert!(seen.failures().iter().all(|text| text == "panicked: first"));
    }
}

#[test]
fn a_handler_that_asks_for_a_stop_is_the_reason_and_its_record_is_the_first_again() {
    let world = World::of(1);
    world.produce(20, 1);
    let run = world.start(|builder| {
        builder.handler(|record: &Record| match record.offset() {
            11 => Outcome::Stop("the disk is full".into()),
            _ => Outcome::Done,
        })
    });
    let reason = run.end().expect_err("not asked to end");
    let expected = StopReason::Handler {
        partition: TopicPartition::new("t", 0),
        offset: 11,
        reason: "the disk is full".into(),
    };
    assert_eq!(reason, expected);
    assert_eq!(run.seen.done_offsets(), (0..11).collect::<Vec<_>>());
    assert_eq!(world.committed(0), Some((11, String::new())));
    let again = world.start(|builder| builder.handler(|_: &Record| ()));
    again.until_done(9);
    let seen = again.seen.clone();
    again.stop();
    assert_eq!(seen.started(), (11..20).collect::<Vec<_>>());
}

#[test]
fn a_lane_function_that_panics_stops_the_engine_and_loses_nothing() {
    let world = World::filled(20);
    let run = world.start(|builder| {
        builder.handler(|_: &Record| ()).lane_by(|record: &Record| {
            assert!(record.offset() != 11, "no lane");
            record.offset()
        })
    });
    let reason = run.end().expect_err("not asked to end");
    let StopReason::LaneFunction { offset, panic, .. } = reason else {
        panic!("another reason: {reason}");
    };
    assert_eq!((offset, panic.as_str()), (11, "no lane"));
    assert!(run.seen.done_offsets().iter().all(|offset| *offset < 11));
    let again = world.start(|builder| builder.handler(|_: &Record| ()));
    let left = 20 - run.seen.done().len();
    again.until_done(left);
    let committed = |event: &Event| matches!(event, Event::Committed(..));
    assert!(run.seen.count(committed) > 0, "it committed what was done");
    again.stop();
    world.until_committed(20);
}
