//! What runs, when, and in which order.

use std::sync::atomic::{AtomicUsize, Ordering as Atomic};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::world::{Gate, SECOND, base, engine, offsets, wish, with_handler};
use super::{AttemptOutcome, TestEngine, TestRecord};
use crate::{Builder, ClientConfig, Keyway, Outcome, Record, Route};

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
