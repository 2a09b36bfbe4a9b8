//! What becomes of attempts that fail, up to the last.

use std::sync::atomic::{AtomicUsize, Ordering as Atomic};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use keyway_core::Ordering;

use super::world::{SECOND, base, engine, offsets, wish, with_handler};
use super::{AttemptOutcome, TestEngine};
use crate::{BatchOutcome, BuildError, Exhausted, Outcome, Record, Retry, StopReason};

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
