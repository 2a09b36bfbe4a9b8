//! Commits, and partitions that come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering as Atomic};
use std::time::Duration;

use keyway_core::Ordering;

use super::TestRecord;
use super::world::{Gate, SECOND, base, engine, offsets, wish, with_handler};
use crate::{CommitMode, Outcome, Record, StartAt};

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
