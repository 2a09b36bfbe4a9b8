//! What the test engine promises to those who test with it.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering as Atomic};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use keyway_core::Ordering;

use super::{AttemptOutcome, TestEngine, TestRecord};
use crate::{
    BatchOutcome, BuildError, Builder, ClientConfig, CommitMode, Exhausted, Keyway, Observer,
    Outcome, Record, Retry, Route, StartAt, StopReason, TopicPartition,
};

const SECOND: Duration = Duration::from_secs(1);

fn wish() -> Builder {
    Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["t"])
}

fn engine(builder: Builder) -> TestEngine {
    TestEngine::new(builder).expect("a configuration that is right")
}

fn with_handler<O: Into<Outcome>>(
    handler: impl Fn(&Record) -> O + Send + Sync + 'static,
) -> TestEngine {
    engine(wish().handler(handler))
}

/// Offsets of the attempts from the `skip`th on.
fn offsets(engine: &TestEngine, skip: usize) -> Vec<i64> {
    engine.attempts()[skip..]
        .iter()
        .map(|attempt| attempt.id.offset)
        .collect()
}

fn base(engine: &TestEngine, partition: i32) -> Option<i64> {
    engine.committed("t", partition).map(|commit| commit.offset)
}

/// A handler that waits until it is let go, record by record.
#[derive(Clone, Default)]
struct Gate(Arc<tokio::sync::Notify>);

impl Gate {
    fn builder(&self) -> Builder {
        let gate = self.clone();
        wish().async_handler(move |_record: Record| {
            let gate = gate.clone();
            async move { gate.0.notified().await }
        })
    }

    fn open_once(&self) {
        self.0.notify_one();
    }
}

// ---- running ----

#[test]
fn nothing_runs_before_it_is_told_to() {
    let mut engine = with_handler(|_: &Record| ());
    engine.feed("t", 0, "k", "v");
    assert!(engine.attempts().is_empty());
    engine.run();
    assert_eq!(offsets(&engine, 0), [0]);
}

#[test]
fn a_handler_sees_all_of_its_record() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = Arc::clone(&seen);
    let mut engine = with_handler(move |record: &Record| {
        let header = record
            .header("trace")
            .expect("readable")
            .and_then(|header| header.value());
        let text =
            |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        sink.lock().expect("lock").push(format!(
            "{} {:?} {:?} {:?} {:?} {}",
            record.id(),
            text(record.key()),
            text(record.value()),
            text(header),
            record.timestamp(),
            record.fence().expect("a fence").get()
        ));
    });
    engine.feed("t", 0, "k", "v");
    engine.feed_record(
        TestRecord::new("t", 1)
            .value("")
            .header("trace", "7f")
            .timestamp(17),
    );
    engine.feed_record(TestRecord::new("t", 1).key("k").null_header("trace"));
    engine.run();
    let mut seen = seen.lock().expect("lock").clone();
    seen.sort();
    assert_eq!(
        seen,
        [
            r#"t/0/0 Some("k") Some("v") None None 1"#,
            r#"t/1/0 None Some("") Some("7f") Some(17) 2"#,
            r#"t/1/1 Some("k") None None None 2"#,
        ]
    );
}

#[test]
fn every_kind_of_handler_runs_here_and_keeps_the_order_of_a_key() {
    let kinds: [(&str, Builder); 6] = [
        ("threads", wish().handler(|_: &Record| ())),
        ("cpu", wish().cpu_handler(|_: &Record| ())),
        ("async", wish().async_handler(|_: Record| async {})),
        ("batch", wish().batch_handler(|_: Vec<Record>| ())),
        (
            "cpu batch",
            wish().route(Route::cpu_batch_handler(|_: Vec<Record>| ())),
        ),
        (
            "async batch",
            wish().async_batch_handler(|_: Vec<Record>| async {}),
        ),
    ];
    for (kind, builder) in kinds {
        let mut engine = engine(builder);
        engine.feed_all(
            "t",
            0,
            (0..300).map(|n| ((n % 7).to_string(), n.to_string())),
        );
        engine.advance(SECOND);
        for key in 0..7 {
            let order = engine.order_of(key.to_string());
            assert!(order.is_sorted(), "{kind}: {order:?}");
        }
        assert_eq!(engine.outcomes().len(), 300, "{kind}");
        assert_eq!(base(&engine, 0), Some(300), "{kind}");
    }
}

#[test]
fn the_same_test_takes_the_same_course_each_time() {
    let course = || {
        let mut engine = engine(wish().async_handler(|record: Record| async move {
            let nap = record.offset() as u64 * 37 % 11;
            tokio::time::sleep(Duration::from_millis(nap)).await;
            if nap == 3 && record.attempt() == 1 {
                Err("three")
            } else {
                Ok(())
            }
        }));
        for partition in 0..3 {
            let records = (0..50).map(|n: i32| ((n % 9).to_string(), "v"));
            engine.feed_all("t", partition, records);
        }
        engine.advance(10 * SECOND);
        (engine.attempts(), engine.outcomes())
    };
    let first = course();
    assert!(first.0.len() > 150, "some were tried twice");
    assert_eq!(first, course());
}

#[test]
fn each_topic_has_its_own_route() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let route = Route::handler(move |_: &Record| {
        counted.fetch_add(1, Atomic::Relaxed);
        Outcome::Skip
    });
    let mut engine = engine(wish().handler(|_: &Record| ()).topic("own", route));
    engine.feed("t", 0, "k", "v").feed("own", 0, "k", "v").run();
    assert_eq!(calls.load(Atomic::Relaxed), 1);
    let outcomes: Vec<_> = engine
        .outcomes()
        .into_iter()
        .map(|(id, outcome)| (id.topic, outcome))
        .collect();
    assert!(outcomes.contains(&("t".to_owned(), AttemptOutcome::Done)));
    assert!(outcomes.contains(&("own".to_owned(), AttemptOutcome::Skipped)));
}

#[test]
fn a_pattern_takes_the_topics_that_it_matches() {
    let builder = Keyway::builder(ClientConfig::new())
        .group("g")
        .topic_pattern("order-.*");
    let mut engine = engine(builder.handler(|_: &Record| ()));
    engine.feed("order-eu", 0, "k", "v").run();
    assert_eq!(offsets(&engine, 0), [0]);
}

#[test]
#[should_panic(expected = "does not subscribe to `other`")]
fn a_topic_that_is_not_subscribed_is_a_mistake_in_the_test() {
    with_handler(|_: &Record| ()).feed("other", 0, "k", "v");
}

#[test]
fn a_wrong_configuration_is_refused_as_in_production() {
    let builder = Keyway::builder(ClientConfig::new())
        .topics(["t"])
        .handler(|_: &Record| ());
    let error = TestEngine::new(builder).expect_err("no group");
    assert!(error.to_string().contains("group.id"), "{error}");
}

// ---- failures ----

#[test]
fn a_retry_runs_when_it_is_due_and_its_key_waits_for_it() {
    let mut engine = engine(wish().retry_delay(5 * SECOND).handler(|record: &Record| {
        match (record.offset(), record.attempt()) {
            (0, 1 | 2) => Err("not yet"),
            _ => Ok(()),
        }
    }));
    engine.feed_all("t", 0, [("k", "a"), ("k", "b"), ("other", "c")]);
    engine.run();
    assert_eq!(
        (engine.order_of("k"), engine.order_of("other")),
        (vec![0], vec![2])
    );
    engine.advance(5 * SECOND - Duration::from_millis(1));
    assert_eq!(engine.order_of("k"), [0], "not a millisecond early");
    engine.advance(Duration::from_millis(1));
    assert_eq!(engine.order_of("k"), [0, 0]);
    engine.advance(5 * SECOND);
    assert_eq!(engine.order_of("k"), [0, 0, 0, 1]);
    let third = &engine.attempts()[3];
    assert_eq!((third.number, third.began), (3, 10 * SECOND));
}

#[test]
fn the_delay_is_the_handlers_choice_where_it_makes_one() {
    let mut engine = with_handler(|record: &Record| match record.attempt() {
        1 => Outcome::Retry {
            after: Some(Duration::from_secs(3600)),
        },
        _ => Outcome::Done,
    });
    engine.feed("t", 0, "k", "v");
    let real = Instant::now();
    engine.advance(Duration::from_secs(3599));
    assert_eq!(engine.order_of("k"), [0]);
    engine.advance(SECOND);
    assert_eq!(engine.order_of("k"), [0, 0]);
    assert!(
        real.elapsed() < Duration::from_secs(10),
        "an hour takes no time"
    );
}

/// Without `catch_unwind` around the handler it fails with the panic.
#[test]
fn a_panic_is_a_failed_attempt() {
    let mut engine = with_handler(|record: &Record| assert!(record.attempt() > 1, "first"));
    engine.feed("t", 0, "k", "v");
    engine.advance(2 * SECOND);
    let outcomes: Vec<_> = engine
        .outcomes()
        .into_iter()
        .map(|(_, outcome)| outcome)
        .collect();
    assert_eq!(
        outcomes,
        [
            AttemptOutcome::Failed("panicked: first".into()),
            AttemptOutcome::Done
        ]
    );
}

#[test]
fn a_batch_that_fails_is_split_until_the_bad_record_stands_alone() {
    let mut engine = engine(
        wish()
            .ordering(Ordering::Unordered)
            .batch_max(8)
            .batch_handler(|records: Vec<Record>| {
                match records.iter().any(|record| record.offset() == 5) {
                    true => Err("five is among them"),
                    false => Ok(()),
                }
            }),
    );
    engine.feed_all("t", 0, (0..8).map(|_| ("k", "v")));
    engine.advance(10 * SECOND);
    let commit = engine.committed("t", 0).expect("a commit");
    assert_eq!(
        (commit.offset, commit.map.hole_count()),
        (5, 1),
        "all but the bad one"
    );
}

#[test]
fn outcomes_of_a_batch_belong_to_their_records() {
    let mut engine = engine(wish().ordering(Ordering::Unordered).batch_handler(
        |records: Vec<Record>| -> BatchOutcome {
            let outcome = |record: &Record| match record.offset() {
                1 => Outcome::Skip,
                2 => Outcome::Failed("two".into()),
                _ => Outcome::Done,
            };
            records.iter().map(outcome).collect::<Vec<_>>().into()
        },
    ));
    engine.feed_all("t", 0, (0..4).map(|_| ("k", "v"))).run();
    let mut outcomes: Vec<_> = engine
        .outcomes()
        .into_iter()
        .map(|(id, outcome)| (id.offset, outcome))
        .collect();
    outcomes.sort_by_key(|(offset, _)| *offset);
    assert_eq!(
        outcomes
            .into_iter()
            .map(|(_, outcome)| outcome)
            .collect::<Vec<_>>(),
        [
            AttemptOutcome::Done,
            AttemptOutcome::Skipped,
            AttemptOutcome::Failed("two".into()),
            AttemptOutcome::Done
        ]
    );
}

#[test]
fn a_batch_waits_to_fill_as_long_as_it_was_told() {
    let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
    let sink = Arc::clone(&sizes);
    let builder = wish()
        .ordering(Ordering::Unordered)
        .batch_max(3)
        .batch_wait(SECOND);
    let mut engine = engine(builder.batch_handler(move |records: Vec<Record>| {
        sink.lock().expect("lock").push(records.len());
    }));
    engine.feed_all("t", 0, (0..4).map(|_| ("k", "v"))).run();
    assert_eq!(*sizes.lock().expect("lock"), [3], "one is full");
    engine.advance(Duration::from_millis(999));
    assert_eq!(sizes.lock().expect("lock").len(), 1);
    engine.advance(Duration::from_millis(1));
    assert_eq!(*sizes.lock().expect("lock"), [3, 1]);
}

#[test]
#[should_panic(expected = "there is always more to run")]
fn a_retry_without_a_delay_is_found_out() {
    let again = Outcome::Retry {
        after: Some(Duration::ZERO),
    };
    with_handler(move |_: &Record| again.clone())
        .feed("t", 0, "k", "v")
        .run();
}

// ---- async handlers ----

#[test]
fn an_async_handler_runs_up_to_where_it_waits() {
    let gate = Gate::default();
    let mut engine = engine(gate.builder());
    engine.feed_all("t", 0, [("a", "v"), ("b", "v")]).run();
    assert_eq!((engine.running(), engine.outcomes().len()), (2, 0));
    gate.open_once();
    engine.run();
    assert_eq!((engine.running(), engine.outcomes().len()), (1, 1));
    assert_eq!(engine.buffered(), 1);
}

#[test]
fn timers_and_tasks_of_async_handlers_follow_the_clock() {
    let mut engine = engine(wish().async_handler(|_: Record| async {
        let nap = tokio::spawn(tokio::time::sleep(Duration::from_secs(30)));
        nap.await.expect("no panic");
        tokio::time::sleep(Duration::from_secs(30)).await;
    }));
    engine
        .feed("t", 0, "k", "v")
        .advance(Duration::from_secs(59));
    assert_eq!(engine.running(), 1);
    engine.advance(SECOND);
    assert_eq!(
        (engine.running(), engine.now()),
        (0, Duration::from_secs(60))
    );
}

#[test]
fn concurrency_bounds_the_calls_at_once() {
    let gate = Gate::default();
    let mut engine = engine(gate.builder().concurrency(3));
    engine
        .feed_all("t", 0, (0..10).map(|n| (n.to_string(), "v")))
        .run();
    assert_eq!(engine.running(), 3);
}

// ---- commits ----

#[test]
fn commits_come_at_their_interval_with_the_holes_in_their_text() {
    let mut engine = with_handler(
        |record: &Record| match (record.offset(), record.attempt()) {
            (1, 1) => Outcome::Retry {
                after: Some(Duration::from_secs(60)),
            },
            _ => Outcome::Done,
        },
    );
    engine.feed_all("t", 0, [("a", ""), ("b", ""), ("c", ""), ("d", "")]);
    engine.advance(SECOND);
    let commit = engine.committed("t", 0).expect("a commit");
    assert_eq!((commit.offset, commit.map.highest_complete()), (1, 3));
    assert!(!commit.metadata.is_empty());
    engine.advance(Duration::from_secs(61));
    let commit = engine.committed("t", 0).expect("a commit");
    assert_eq!((commit.offset, commit.metadata.as_str()), (4, ""));
}

#[test]
fn a_synchronous_commit_does_not_wait_for_time() {
    let mut engine = engine(
        wish()
            .commit_mode(CommitMode::Synchronous)
            .handler(|_: &Record| ()),
    );
    engine.feed("t", 0, "k", "v").run();
    assert_eq!((base(&engine, 0), engine.now()), (Some(1), Duration::ZERO));
}

#[test]
fn a_hole_map_that_is_too_long_holds_back_what_is_above_it_and_lets_go_again() {
    let healed = Arc::new(AtomicU32::new(0));
    let heals = Arc::clone(&healed);
    let builder = wish()
        .ordering(Ordering::Unordered)
        .metadata_limit(24)
        .concurrency(1);
    let mut engine = engine(builder.handler(move |record: &Record| {
        match record.offset() % 2 == 0 && heals.load(Atomic::Relaxed) == 0 {
            true => Err("every other one is stuck"),
            false => Ok(()),
        }
    }));
    engine.feed_all("t", 0, (0..4000).map(|_| ("k", "v")));
    engine.advance(10 * SECOND);
    let highest = engine
        .committed("t", 0)
        .expect("a commit")
        .map
        .highest_complete();
    assert!(highest < 4000, "held back: {highest}");
    assert!(engine.committed("t", 0).expect("a commit").metadata.len() <= 24);
    healed.store(1, Atomic::Relaxed);
    engine.advance(100 * SECOND);
    assert_eq!(base(&engine, 0), Some(4000));
}

// ---- assignments ----

#[test]
fn a_revoke_commits_what_is_done_and_another_assignment_goes_on_behind_it() {
    let mut engine = engine(
        wish()
            .commit_interval(60 * SECOND)
            .handler(
                |record: &Record| match (record.offset(), record.attempt()) {
                    (1, 1) => Err("once"),
                    _ => Ok(()),
                },
            ),
    );
    engine
        .feed_all("t", 0, [("a", ""), ("b", ""), ("c", "")])
        .run();
    engine.revoke("t", 0);
    let commit = engine.committed("t", 0).expect("a commit");
    assert_eq!((commit.offset, commit.map.hole_count()), (1, 1));
    assert!(!engine.is_assigned("t", 0));
    engine.advance(10 * SECOND);
    assert_eq!(
        offsets(&engine, 0),
        [0, 1, 2],
        "nothing of it runs here any more"
    );
    engine.assign("t", 0).run();
    assert_eq!(offsets(&engine, 3), [1]);
    assert_eq!(engine.attempts()[3].number, 1, "counted anew");
}

#[test]
fn a_revoke_waits_for_what_runs_as_long_as_it_may() {
    let builder = wish().revoke_wait(4 * SECOND);
    let mut engine = engine(builder.async_handler(|record: Record| async move {
        tokio::time::sleep(Duration::from_secs(if record.partition() == 0 {
            3
        } else {
            60
        }))
        .await;
    }));
    engine.feed("t", 0, "k", "v").feed("t", 1, "k", "v").run();
    engine.revoke("t", 0);
    assert_eq!((engine.now(), base(&engine, 0)), (3 * SECOND, Some(1)));
    engine.revoke("t", 1);
    assert_eq!(engine.now(), 7 * SECOND, "bounded");
    engine.advance(60 * SECOND);
    assert_eq!(
        engine.outcomes().len(),
        2,
        "the handler itself went on to its end"
    );
    assert_eq!(base(&engine, 1), Some(0), "without effect");
}

#[test]
fn a_handler_sees_that_it_is_not_wanted_any_more() {
    let seen = Arc::new(AtomicU32::new(0));
    let sink = Arc::clone(&seen);
    let mut engine = engine(
        wish()
            .revoke_wait(4 * SECOND)
            .async_handler(move |record: Record| {
                let sink = Arc::clone(&sink);
                async move {
                    while !record.cancelled() {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    sink.fetch_add(1, Atomic::Relaxed);
                }
            }),
    );
    engine.feed("t", 0, "k", "v").run();
    engine.revoke("t", 0);
    assert_eq!(seen.load(Atomic::Relaxed), 1);
    assert!(engine.now() < 2 * SECOND);
}

#[test]
fn a_partition_that_comes_back_runs_a_key_only_when_its_old_attempt_has_ended() {
    let gate = Gate::default();
    let mut engine = engine(gate.builder());
    engine.feed("t", 0, "k", "v").run();
    engine.lose("t", 0).assign("t", 0).run();
    assert_eq!(offsets(&engine, 0), [0], "the old attempt still runs");
    gate.open_once();
    engine.run();
    assert_eq!(offsets(&engine, 0), [0, 0], "its result has no effect");
    gate.open_once();
    engine.advance(SECOND);
    assert_eq!(base(&engine, 0), Some(1));
}

#[test]
fn a_loss_commits_nothing() {
    let mut engine = engine(wish().commit_interval(60 * SECOND).handler(|_: &Record| ()));
    engine.feed("t", 0, "k", "v").run();
    let before = engine.committed("t", 0);
    engine.lose("t", 0).advance(120 * SECOND);
    assert_eq!(engine.committed("t", 0), before);
    engine.assign("t", 0).run();
    assert_eq!(offsets(&engine, 0), [0, 0]);
}

#[test]
fn a_partition_without_a_commit_starts_where_the_builder_says() {
    for (start, expected) in [
        (StartAt::Earliest, vec![0, 1, 2]),
        (StartAt::Latest, vec![2]),
        (StartAt::Timestamp(20), vec![1, 2]),
    ] {
        let mut engine = engine(wish().start_at(start).handler(|_: &Record| ()));
        engine.assign("t", 0);
        engine.lose("t", 0);
        for time in [10, 20] {
            engine.feed_record(TestRecord::new("t", 0).timestamp(time));
        }
        engine.assign("t", 0);
        engine.feed_record(TestRecord::new("t", 0).timestamp(30));
        engine.run();
        assert_eq!(offsets(&engine, 0), expected, "{start:?}");
    }
}

// ---- ends ----

#[test]
fn a_crash_repeats_what_was_not_committed_and_nothing_else() {
    let mut engine = with_handler(|record: &Record| match record.key() {
        Some(b"stuck") => Outcome::Retry { after: None },
        _ => Outcome::Done,
    });
    engine.feed_all("t", 0, [("stuck", ""), ("a", ""), ("b", "")]);
    engine.advance(Duration::from_millis(1001));
    engine.feed_all("t", 0, [("c", ""), ("d", "")]).run();
    let before = engine.attempts().len();
    engine.crash().run();
    assert_eq!(offsets(&engine, before), [0, 3, 4]);
}

#[test]
fn a_crash_cuts_running_handlers_off() {
    let gate = Gate::default();
    let mut engine = engine(gate.builder());
    engine.feed("t", 0, "k", "v").run();
    engine.crash();
    assert_eq!((engine.running(), engine.outcomes().len()), (0, 0));
    engine.run();
    assert_eq!(offsets(&engine, 0), [0, 0]);
    assert_eq!(engine.attempts()[0].outcome, None);
}

#[test]
fn a_stop_finishes_what_runs_and_commits() {
    let gate = Gate::default();
    let mut engine = engine(gate.builder().concurrency(1));
    engine.feed_all("t", 0, [("a", ""), ("b", "")]).run();
    gate.open_once();
    let report = engine.stop(5 * SECOND).expect("an orderly end");
    assert_eq!(
        (report.records, report.left_open, report.left_running),
        (1, 1, 0)
    );
    assert!(report.all_committed);
    assert_eq!(base(&engine, 0), Some(1));
    engine.feed("t", 0, "c", "").advance(10 * SECOND);
    assert_eq!(offsets(&engine, 0), [0], "it has ended");
    engine.restart().run();
    assert_eq!(offsets(&engine, 1), [1]);
}

#[test]
fn a_stop_does_not_wait_for_ever() {
    let mut engine = engine(Gate::default().builder());
    engine.feed("t", 0, "k", "v").run();
    let report = engine.stop(5 * SECOND).expect("an end");
    assert_eq!((report.left_running, engine.now()), (1, 5 * SECOND));
}

#[test]
fn a_drain_finishes_what_is_buffered_but_not_a_far_retry() {
    let mut engine = engine(wish().concurrency(1).handler(
        |record: &Record| match record.offset() {
            0 => Outcome::Retry {
                after: Some(Duration::from_secs(600)),
            },
            3 if record.attempt() == 1 => Outcome::Retry {
                after: Some(SECOND),
            },
            _ => Outcome::Done,
        },
    ));
    engine
        .feed_all("t", 0, [("a", ""), ("b", ""), ("c", ""), ("d", "")])
        .run();
    let report = engine.drain(60 * SECOND).expect("an orderly end");
    assert_eq!((report.records, report.left_open), (3, 1));
    assert_eq!(engine.now(), SECOND, "as long as the near retry took");
}

/// Without the stop that a drain becomes near its end it fails with 60 records, and one left running.
#[test]
fn a_drain_starts_nothing_in_its_last_moments_so_that_what_runs_can_end() {
    let mut engine = engine(wish().concurrency(1).async_handler(|_: Record| async {
        tokio::time::sleep(Duration::from_millis(995)).await;
    }));
    engine.feed_all("t", 0, (0..100).map(|_| ("k", ""))).run();
    let report = engine.drain(60 * SECOND).expect("an orderly end");
    assert_eq!((report.records, report.left_running), (60, 0), "{report:?}");
    assert!(engine.now() < 60 * SECOND, "{:?}", engine.now());
}

#[test]
fn a_handler_that_stops_the_engine_is_the_reason_and_its_record_comes_first_again() {
    let healed = Arc::new(AtomicU32::new(0));
    let heals = Arc::clone(&healed);
    let mut engine = with_handler(move |record: &Record| match record.offset() {
        1 if heals.load(Atomic::Relaxed) == 0 => Outcome::Stop("the disk is full".into()),
        _ => Outcome::Done,
    });
    engine
        .feed_all("t", 0, [("k", ""), ("k", ""), ("k", "")])
        .run();
    let reason = engine.ended().expect("ended").expect_err("not asked to");
    assert_eq!(
        reason,
        StopReason::Handler {
            partition: TopicPartition::new("t", 0),
            offset: 1,
            reason: "the disk is full".into()
        }
    );
    assert_eq!(base(&engine, 0), Some(1));
    healed.store(1, Atomic::Relaxed);
    engine.restart().run();
    assert_eq!(offsets(&engine, 2), [1, 2]);
}

#[test]
fn a_lane_function_that_panics_stops_the_engine() {
    let mut engine = engine(wish().handler(|_: &Record| ()).lane_by(|record: &Record| {
        assert!(record.offset() != 1, "no lane");
    }));
    engine.feed_all("t", 0, [("k", ""), ("k", "")]).run();
    let reason = engine.ended().expect("ended").expect_err("not asked to");
    assert!(
        matches!(reason, StopReason::LaneFunction { offset: 1, .. }),
        "{reason}"
    );
}

#[test]
fn a_limit_of_records_ends_it() {
    let mut engine = engine(wish().record_limit(3).handler(|_: &Record| ()));
    engine
        .feed_all("t", 0, (0..10).map(|n| (n.to_string(), "")))
        .run();
    let report = engine.ended().expect("ended").expect("orderly");
    assert_eq!((report.records, base(&engine, 0)), (3, Some(3)));
}

#[test]
fn the_users_observer_is_told() {
    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Vec<String>>>);
    impl Told {
        fn say(&self, what: String) {
            self.0.lock().expect("lock").push(what);
        }
    }
    impl Observer for Told {
        fn started(&self, record: &Record) {
            self.say(format!("started {}", record.offset()));
        }
        fn done(&self, record: &Record) {
            self.say(format!("done {}", record.offset()));
        }
        fn assigned(&self, partition: &TopicPartition) {
            self.say(format!("assigned {partition}"));
        }
        fn revoked(&self, partition: &TopicPartition) {
            self.say(format!("revoked {partition}"));
        }
        fn committed(&self, _: &TopicPartition, offset: i64, _: &str) {
            self.say(format!("committed {offset}"));
        }
    }
    let told = Told::default();
    let mut engine = engine(wish().observer(told.clone()).handler(|_: &Record| ()));
    engine.feed("t", 0, "k", "v").run();
    engine.revoke("t", 0);
    let told = told.0.lock().expect("lock").clone();
    let ends = ["revoked t-0", "committed 1"];
    assert_eq!(told[told.len() - 2..], ends);
    for words in ["assigned t-0", "started 0", "done 0"] {
        assert!(told.iter().any(|told| told == words), "{words}: {told:?}");
    }
}

// ---- the last attempt ----

fn with_retry(exhausted: Exhausted) -> TestEngine {
    engine(
        wish()
            .retry(Retry::every(SECOND).attempts(3, exhausted))
            .handler(|record: &Record| match record.key() {
                Some(b"bad") => Outcome::Failed("bad".into()),
                _ => Outcome::Done,
            }),
    )
}

#[test]
fn a_record_that_keeps_failing_is_passed_over_after_its_last_attempt() {
    let mut engine = with_retry(Exhausted::Skip);
    engine.feed("t", 0, "bad", "v").feed("t", 0, "good", "v");
    engine.run().advance(10 * SECOND);
    assert_eq!(offsets(&engine, 0), [0, 1, 0, 0]);
    assert_eq!(base(&engine, 0), Some(2));
    // Three failures, and then what became of it.
    let outcomes = engine.outcomes();
    let of_bad: Vec<_> = outcomes.iter().filter(|(id, _)| id.offset == 0).collect();
    assert_eq!(of_bad.last().expect("outcomes").1, AttemptOutcome::Skipped);
}

/// Tried again after a while, as any failure is, it fails with an attempt each second.
#[test]
fn on_hold_it_stays_where_it_is_until_the_next_assignment() {
    let mut engine = with_retry(Exhausted::Hold);
    engine.feed("t", 0, "bad", "v").feed("t", 0, "good", "v");
    engine.run().advance(100 * SECOND);
    assert_eq!(offsets(&engine, 0), [0, 1, 0, 0]);
    assert_eq!(base(&engine, 0), Some(0));
    let so_far = engine.attempts().len();
    engine.restart().run().advance(100 * SECOND);
    assert_eq!(
        offsets(&engine, so_far),
        [0, 0, 0],
        "attempts count from 1 again"
    );
}

#[test]
fn a_last_attempt_may_stop_the_engine() {
    let mut engine = with_retry(Exhausted::Stop);
    engine.feed("t", 0, "bad", "v").run().advance(10 * SECOND);
    let reason = engine.ended().expect("ended").expect_err("a reason");
    assert!(
        matches!(
            reason,
            StopReason::Exhausted {
                offset: 0,
                attempts: 3,
                ..
            }
        ),
        "{reason}"
    );
    assert_eq!(base(&engine, 0), Some(0));
}

#[test]
fn policies_that_make_no_sense_are_refused() {
    for retry in [
        Retry::every(SECOND).attempts(0, Exhausted::Skip),
        Retry::exponential(SECOND).factor(0.5),
        Retry::exponential(SECOND).factor(f64::NAN),
        Retry::exponential(SECOND).jitter(1.5),
        Retry::exponential(SECOND).up_to(Duration::from_millis(1)),
    ] {
        let refused = wish().retry(retry).handler(|_: &Record| ()).build();
        assert!(
            matches!(refused, Err(BuildError::OutOfRange { .. })),
            "{retry:?}"
        );
    }
    let longer = Retry::exponential(Duration::from_secs(3_600));
    assert!(
        wish()
            .retry(longer)
            .handler(|_: &Record| ())
            .build()
            .is_ok()
    );
}

/// Without the alarm beside its future it fails with one attempt, and that one open.
#[test]
fn an_async_handler_that_takes_too_long_has_failed_and_is_dropped_where_it_waits() {
    let dropped = Arc::new(AtomicUsize::new(0));
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Atomic::SeqCst);
        }
    }
    let counter = Arc::clone(&dropped);
    let mut engine = engine(
        wish()
            .timeout(5 * SECOND)
            .retry(Retry::every(SECOND).attempts(2, Exhausted::Skip))
            .async_handler(move |record: Record| {
                let counted = Counted(Arc::clone(&counter));
                async move {
                    let _counted = counted;
                    let takes = if record.key() == Some(b"slow") { 60 } else { 4 };
                    tokio::time::sleep(takes * SECOND).await;
                }
            }),
    );
    engine.feed("t", 0, "slow", "v").feed("t", 0, "quick", "v");
    engine.run().advance(4 * SECOND);
    assert_eq!(dropped.load(Atomic::SeqCst), 1, "the quick one is done");
    engine.advance(SECOND);
    assert_eq!((dropped.load(Atomic::SeqCst), engine.running()), (2, 0));
    let outcomes = engine.outcomes();
    let failed = AttemptOutcome::Failed("took longer than 5s".to_owned());
    assert!(
        outcomes
            .iter()
            .any(|(id, outcome)| id.offset == 0 && *outcome == failed),
        "{outcomes:?}"
    );
    engine.advance(10 * SECOND);
    assert_eq!(base(&engine, 0), Some(2), "given up after two attempts");
    let threads = wish().timeout(SECOND).handler(|_: &Record| ()).build();
    assert_eq!(threads.expect_err("refused"), BuildError::TimeoutOfThread);
}
