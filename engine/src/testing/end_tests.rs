//! How an engine ends, and what the next one begins with.

use std::sync::atomic::{AtomicU32, Ordering as Atomic};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::world::{Gate, SECOND, base, engine, offsets, wish, with_handler};
use crate::{Observer, Outcome, Record, StopReason, TopicPartition};

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
