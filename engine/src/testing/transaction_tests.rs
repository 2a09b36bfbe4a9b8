//! Exactly once: outputs are there when the offset is, and not before.

use std::time::Duration;

use super::TestEngine;
use crate::{
    Assigned, Builder, ClientConfig, CommitMode, DeadLetters, Exhausted, Keyway, Outcome, Output,
    Record, Retry, Rider, RiderState, Update,
};

const SECOND: Duration = Duration::from_secs(1);

fn wish() -> Builder {
    Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["t"])
        .commit_mode(CommitMode::Transactional(SECOND))
        .retry(Retry::every(SECOND))
}

fn engine(builder: Builder) -> TestEngine {
    TestEngine::new(builder).expect("a configuration that is right")
}

fn echo(record: &Record) -> Output {
    Output::copy_of(record, "out").expect("readable headers")
}

fn base(engine: &TestEngine) -> Option<i64> {
    engine.committed("t", 0).map(|commit| commit.offset)
}

fn values(engine: &TestEngine) -> Vec<&str> {
    let outputs = engine.outputs().iter();
    outputs
        .map(|output| std::str::from_utf8(output.value.as_deref().expect("a value")).expect("text"))
        .collect()
}

/// Without the stage (each record sent as at least once) "1" waits for the acknowledgement of "0", and both are sent before
/// a second is over.
#[test]
fn outputs_hold_up_no_record_and_are_seen_with_their_offset() {
    let mut engine = engine(wish().handler(echo));
    engine.run();
    engine.feed("t", 0, "k", "0").feed("t", 0, "k", "1");
    engine.run();
    assert_eq!(engine.order_of("k"), [0, 1]);
    assert_eq!((values(&engine), base(&engine)), (vec![], Some(0)));
    engine.advance(SECOND);
    assert_eq!((values(&engine), base(&engine)), (vec!["0", "1"], Some(2)));
}

#[test]
fn what_was_staged_when_a_member_died_is_written_by_the_next() {
    let mut engine = engine(wish().handler(echo));
    engine.run();
    engine.feed("t", 0, "k", "0").run();
    engine.crash();
    engine.advance(SECOND);
    assert_eq!(values(&engine), ["0"]);
    assert_eq!(engine.order_of("k"), [0, 0], "its handler ran twice");
    assert_eq!(base(&engine), Some(1));
}

/// Without sending back what has finished behind it, the outputs come as "b", "a".
#[test]
fn a_refused_output_is_a_failed_attempt_and_later_ones_of_its_key_are_made_anew() {
    let mut engine = engine(wish().handler(echo));
    engine.run();
    engine.feed("t", 0, "k", "a").feed("t", 0, "k", "b");
    engine.refuse_outputs(true);
    engine.advance(SECOND);
    assert_eq!(values(&engine), Vec::<&str>::new());
    engine.refuse_outputs(false);
    engine.advance(3 * SECOND);
    assert_eq!(values(&engine), ["a", "b"]);
    assert_eq!(engine.order_of("k"), [0, 1, 0, 1]);
    assert_eq!(base(&engine), Some(2));
}

/// A letter that can't be written holds up its key and nothing else.
#[test]
fn dead_letters_go_with_the_offset_of_their_record() {
    let mut engine = engine(
        wish()
            .dead_letters(DeadLetters::headers("dead"))
            .retry(Retry::every(SECOND).attempts(1, Exhausted::DeadLetter))
            .handler(|record: &Record| match record.value() {
                Some(b"bad") => Outcome::Failed("bad".into()),
                _ => Outcome::Send(vec![echo(record)]),
            }),
    );
    engine.run();
    engine.refuse_dead_letters(true);
    engine.feed("t", 0, "k", "bad").feed("t", 0, "k", "0");
    engine.feed("t", 0, "other", "1");
    engine.advance(2 * SECOND);
    assert_eq!(
        (engine.dead_letters().len(), values(&engine)),
        (0, vec!["1"])
    );
    assert_eq!(base(&engine), Some(0));
    engine.refuse_dead_letters(false);
    engine.advance(60 * SECOND);
    assert_eq!(
        (engine.dead_letters().len(), values(&engine)),
        (1, vec!["1", "0"])
    );
    assert_eq!(base(&engine), Some(3));
}

#[derive(Clone)]
struct Count(u8);

impl RiderState for Count {
    type Update = u8;

    fn apply(&mut self, update: &u8) {
        self.0 += update;
    }

    fn encode(&self, _: usize) -> Option<Vec<u8>> {
        Some(vec![self.0])
    }
}

/// With updates that are applied when a handler returns, the aborted transaction's are counted twice: 3.
#[test]
fn a_state_counts_what_its_transaction_carries_and_no_more() {
    let restore = |assigned: &Assigned| Count(assigned.rider.bytes().map_or(0, |bytes| bytes[0]));
    let mut engine = engine(
        wish()
            .rider_state(restore)
            .handler(|record: &Record| Outcome::SendWith(vec![echo(record)], Update::new(1_u8))),
    );
    engine.run();
    engine.feed("t", 0, "k", "0").feed("t", 0, "l", "1");
    engine.refuse_outputs(true);
    engine.advance(SECOND);
    engine.refuse_outputs(false);
    engine.advance(3 * SECOND);
    let rider = engine.committed("t", 0).map(|commit| commit.rider);
    assert_eq!(rider, Some(Rider::Present(vec![2])));
}
