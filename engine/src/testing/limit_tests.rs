//! Rates and concurrency, under a clock that moves by hand.

use std::time::Duration;

use super::TestEngine;
use crate::{
    BuildError, Builder, ClientConfig, Keyway, LimitError, Outcome, Rate, Record, Retry, Route,
};

const SECOND: Duration = Duration::from_secs(1);

fn wish() -> Builder {
    Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["t", "u"])
        .handler(|_: &Record| ())
}

fn engine(builder: Builder) -> TestEngine {
    TestEngine::new(builder).expect("a configuration that is right")
}

/// Feeds a hundred records to a partition, of ten keys.
fn feed(engine: &mut TestEngine, topic: &str, partition: i32) {
    for number in 0..100 {
        engine.feed(topic, partition, format!("key {}", number % 10), "");
    }
}

/// Starts of a topic so far.
fn started(engine: &TestEngine, topic: &str) -> usize {
    let attempts = engine.attempts();
    attempts
        .iter()
        .filter(|attempt| attempt.id.topic == topic)
        .count()
}

// ---- rates ----

#[test]
fn the_whole_engine_keeps_its_rate_over_topics_and_partitions() {
    let mut engine = engine(wish().rate(Rate::per_second(20)));
    feed(&mut engine, "t", 0);
    feed(&mut engine, "t", 1);
    feed(&mut engine, "u", 0);
    engine.run();
    assert_eq!(engine.attempts().len(), 2, "a tenth of a second's worth");
    engine.advance(2 * SECOND);
    assert_eq!(engine.attempts().len(), 42);
    engine.advance(13 * SECOND);
    assert_eq!(engine.attempts().len(), 300);
    // Partitions take turns: after two seconds nobody had been left out.
    let early = &engine.attempts()[..42];
    for (topic, partition) in [("t", 0), ("t", 1), ("u", 0)] {
        let its = early
            .iter()
            .filter(|attempt| (&*attempt.id.topic, attempt.id.partition) == (topic, partition));
        assert!(its.count() >= 10, "{topic}/{partition}");
    }
}

#[test]
fn a_topic_keeps_its_rate_and_holds_up_no_other() {
    let own = Route::handler(|_: &Record| ()).topic_rate(Rate::per_second(10));
    let mut engine = engine(wish().topic("v", own));
    feed(&mut engine, "t", 0);
    feed(&mut engine, "v", 0);
    feed(&mut engine, "v", 1);
    engine.run();
    assert_eq!((started(&engine, "t"), started(&engine, "v")), (100, 1));
    engine.advance(5 * SECOND);
    assert_eq!(started(&engine, "v"), 51);
}

#[test]
fn a_key_keeps_its_rate_and_its_order_and_holds_up_no_other() {
    let mut engine = engine(wish().key_rate(Rate::per_second(1)));
    engine.feed_all("t", 0, [("hot", ""); 5]);
    engine.feed_all("t", 0, [("other", ""); 1]);
    // The same key of another partition is the same key; that of another topic is not.
    engine.feed("t", 1, "hot", "");
    engine.feed("u", 0, "hot", "");
    engine.run();
    assert_eq!(started(&engine, "t"), 2);
    assert_eq!(started(&engine, "u"), 1);
    engine.advance(5 * SECOND);
    assert_eq!(started(&engine, "t"), 7);
    let of_first = engine.attempts();
    let of_first: Vec<_> = of_first
        .iter()
        .filter(|attempt| attempt.id.partition == 0 && attempt.id.topic == "t")
        .filter(|attempt| attempt.id.offset < 5)
        .map(|attempt| attempt.id.offset)
        .collect();
    assert_eq!(of_first, [0, 1, 2, 3, 4]);
}

#[test]
fn a_further_attempt_is_a_start_like_the_first() {
    let mut engine = engine(
        Keyway::builder(ClientConfig::new())
            .group("g")
            .topics(["t"])
            .handler(|_: &Record| Outcome::Failed("down".into()))
            .retry(Retry::every(Duration::from_millis(10)))
            .rate(Rate::per_second(5)),
    );
    engine.feed("t", 0, "k", "");
    engine.advance(4 * SECOND);
    assert_eq!(engine.attempts().len(), 21);
}

#[test]
fn rates_change_while_it_runs() {
    let mut engine = engine(wish());
    let limits = engine.limits();
    feed(&mut engine, "t", 0);
    limits
        .set_rate(Rate::per_second(10))
        .expect("a rate within its range");
    engine.advance(2 * SECOND);
    assert_eq!(started(&engine, "t"), 21);
    limits.set_rate(None).expect("no rate is a rate");
    limits
        .set_topic_rate("t", Rate::per_second(10))
        .expect("a rate within its range");
    engine.advance(2 * SECOND);
    let so_far = started(&engine, "t");
    assert!((40..=43).contains(&so_far), "{so_far}");
    limits.set_topic_rate("t", None).expect("no rate is a rate");
    engine.advance(SECOND);
    assert_eq!(started(&engine, "t"), 100, "within a second of the change");
    // After a restart the configuration holds again.
    limits
        .set_rate(Rate::per_second(1))
        .expect("a rate within its range");
    engine.restart();
    feed(&mut engine, "t", 0);
    engine.run();
    assert_eq!(started(&engine, "t"), 200);
}

#[test]
fn a_drain_ends_at_its_bound_with_what_its_rate_leaves() {
    let mut engine = engine(wish().rate(Rate::per_second(10)));
    feed(&mut engine, "t", 0);
    engine.run();
    let report = engine.drain(3 * SECOND).expect("an orderly end");
    // Nothing starts in the last tenth of a drain.
    assert_eq!((report.records, report.left_open), (28, 72));
    let commit = engine.committed("t", 0).expect("a commit");
    let complete = commit.offset as u64 + commit.map.holes().len() as u64;
    assert!(report.all_committed && complete > 0);
}

// ---- concurrency ----

/// Async calls that end after a second.
fn slow() -> Builder {
    Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["t"])
        .async_handler(|_: Record| async { tokio::time::sleep(SECOND).await })
        .concurrency(2)
}

#[test]
fn more_calls_run_at_once_and_fewer_when_those_have_returned() {
    let mut engine = engine(slow());
    let limits = engine.limits();
    for number in 0..100 {
        engine.feed("t", 0, number.to_string(), "");
    }
    engine.run();
    assert_eq!(engine.running(), 2);
    limits.set_concurrency(10).expect("a number in its range");
    engine.run();
    assert_eq!(engine.running(), 10);
    limits.set_concurrency(1).expect("a number in its range");
    engine.run();
    assert_eq!(engine.running(), 10, "nothing is killed");
    engine.advance(SECOND);
    assert_eq!(engine.running(), 1);
}

#[test]
fn a_handler_on_threads_is_raised_and_lowered_without_a_record_lost() {
    let mut engine = engine(wish().concurrency(2));
    let limits = engine.limits();
    for calls in [5, 1, 3, 1, 16] {
        limits
            .set_concurrency(calls)
            .expect("a number in its range");
        feed(&mut engine, "t", 0);
        engine.run();
    }
    assert_eq!(engine.attempts().len(), 500);
    let of_key: Vec<_> = engine.order_of("key 3");
    assert!(of_key.is_sorted() && of_key.len() == 50);
}

// ---- what is refused ----

#[test]
fn numbers_outside_their_range_are_refused_with_what_they_should_be() {
    let refused = |builder: Builder, setting: &str| match TestEngine::new(builder) {
        Err(BuildError::OutOfRange { setting: its, .. }) => assert_eq!(its, setting),
        other => panic!("{setting}: {other:?}"),
    };
    refused(wish().rate(Rate::per_second(0)), "rate");
    refused(wish().rate(Rate::per_second(u32::MAX)), "rate");
    refused(wish().topic_rate(Rate::per_second(0)), "topic_rate");
    refused(wish().key_rate(Rate::per_second(0)), "key_rate");
    refused(wish().concurrency(0), "concurrency");
    refused(wish().concurrency(5_000), "concurrency");
    let engine = engine(wish());
    let limits = engine.limits();
    for result in [
        limits.set_rate(Rate::per_second(0)),
        limits.set_topic_rate("t", Rate::per_second(0)),
        limits.set_key_rate("t", Rate::per_second(u32::MAX)),
        limits.set_concurrency(0),
        limits.set_concurrency(u32::MAX),
    ] {
        assert!(
            matches!(result, Err(LimitError::OutOfRange(_))),
            "{result:?}"
        );
    }
    let no_route = limits.set_topic_concurrency("t", 3);
    assert!(matches!(no_route, Err(LimitError::NoRoute { .. })));
}
