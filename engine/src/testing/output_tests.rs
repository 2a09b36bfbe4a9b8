//! What handlers send: complete when it is acknowledged, in the order of their records.

use std::time::Duration;

use super::{AttemptOutcome, TestEngine};
use crate::{
    Assigned, Builder, ClientConfig, DeadLetters, Exhausted, Keyway, Outcome, Output, Record,
    Retry, Rider, RiderState, Update,
};

const SECOND: Duration = Duration::from_secs(1);

fn wish() -> Builder {
    Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["t"])
        .retry(Retry::every(SECOND))
}

fn engine(builder: Builder) -> TestEngine {
    TestEngine::new(builder).expect("a configuration that is right")
}

/// Sends the record on, under its key.
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

#[test]
fn an_output_has_what_its_handler_gave_it() {
    let mut engine = engine(wish().handler(|record: &Record| {
        let copy = echo(record).header("copied", "yes");
        let own = Output::to("other")
            .partition(3)
            .timestamp(42)
            .null_header("n");
        vec![copy, own]
    }));
    engine.feed("t", 0, "k", "v");
    engine.run();
    let [copy, own] = engine.outputs() else {
        panic!("{:?}", engine.outputs());
    };
    assert_eq!((copy.topic.as_str(), copy.partition), ("out", None));
    assert_eq!(copy.key.as_deref(), Some(b"k".as_slice()));
    assert_eq!(copy.value.as_deref(), Some(b"v".as_slice()));
    assert_eq!(copy.header("copied"), Some("yes"));
    assert_eq!((own.topic.as_str(), own.partition), ("other", Some(3)));
    assert_eq!(
        (&own.key, &own.value, own.timestamp),
        (&None, &None, Some(42))
    );
    assert_eq!(own.headers, [(b"n".to_vec(), None)]);
}

#[test]
fn outputs_of_a_key_follow_its_records_and_one_that_fails_holds_up_its_key_alone() {
    let mut engine = engine(wish().handler(echo));
    engine.refuse_outputs(true);
    engine.feed("t", 0, "a", "a0").feed("t", 0, "a", "a1");
    engine.run();
    assert_eq!(engine.outputs(), []);
    assert_eq!(engine.order_of("a"), [0], "its lane waits");
    assert_eq!(base(&engine).unwrap_or(0), 0, "nothing is complete");
    assert!(matches!(
        engine.attempts()[0].outcome,
        Some(AttemptOutcome::Failed(_))
    ));
    engine.refuse_outputs(false).feed("t", 0, "b", "b0");
    engine.run();
    assert_eq!(values(&engine), ["b0"]);
    engine.advance(SECOND);
    assert_eq!(values(&engine), ["b0", "a0", "a1"]);
    engine.advance(SECOND);
    assert_eq!(base(&engine), Some(3));
}

#[test]
fn a_send_that_fails_is_an_attempt_and_the_last_one_ends_as_the_policy_says() {
    let mut engine = engine(
        wish()
            .handler(echo)
            .retry(Retry::every(SECOND).attempts(2, Exhausted::DeadLetter))
            .dead_letters(DeadLetters::headers("t.dead")),
    );
    engine.refuse_outputs(true).feed("t", 0, "a", "bad");
    engine.run();
    assert_eq!(engine.dead_letters().len(), 0);
    engine.advance(SECOND);
    let [letter] = engine.dead_letters() else {
        panic!("{:?}", engine.dead_letters());
    };
    assert_eq!(letter.header("keyway.dlq.attempts"), Some("2"));
    assert_eq!(letter.value.as_deref(), Some(b"bad".as_slice()));
}

/// The numbers that complete records brought, one byte each.
#[derive(Clone, Debug, Default)]
struct Brought(Vec<u8>);

impl RiderState for Brought {
    type Update = u8;

    fn apply(&mut self, update: &u8) {
        self.0.push(*update);
    }

    fn encode(&self, _max_bytes: usize) -> Option<Vec<u8>> {
        Some(self.0.clone())
    }
}

// Applied with the handler's end, the state would know of a record that its own commit calls incomplete.
#[test]
fn the_state_follows_a_record_when_its_outputs_are_acknowledged() {
    let builder = wish()
        .rider_state(|_: &Assigned| Brought::default())
        .handler(|record: &Record| {
            let update = Update::new(record.value().map_or(0, |value| value[0]));
            Outcome::SendWith(vec![echo(record)], update)
        });
    let mut engine = engine(builder);
    engine.feed("t", 0, "a", "1");
    engine.run().refuse_outputs(true);
    engine.feed("t", 0, "b", "2");
    engine.advance(SECOND);
    let commit = engine.committed("t", 0).expect("a commit");
    assert_eq!(
        (commit.offset, commit.rider),
        (1, Rider::Present(b"1".to_vec()))
    );
    engine.refuse_outputs(false).advance(2 * SECOND);
    let commit = engine.committed("t", 0).expect("a commit");
    assert_eq!(
        (commit.offset, commit.rider),
        (2, Rider::Present(b"12".to_vec()))
    );
}

#[test]
fn outputs_go_with_every_kind_of_handler_and_an_empty_list_is_done() {
    let each = |records: Vec<Record>| -> Vec<Outcome> {
        records.iter().map(|record| echo(record).into()).collect()
    };
    for builder in [
        wish().handler(|record: &Record| Ok::<_, String>(echo(record))),
        wish().async_handler(|record: Record| async move { vec![echo(&record)] }),
        wish().batch_handler(each),
    ] {
        let mut engine = engine(builder);
        engine.feed("t", 0, "a", "1").feed("t", 0, "b", "2");
        engine.run().advance(SECOND);
        let mut values = values(&engine);
        values.sort_unstable();
        assert_eq!(values, ["1", "2"]);
        assert_eq!(base(&engine), Some(2));
    }
    let mut engine = engine(wish().handler(|_: &Record| Vec::<Output>::new()));
    engine.feed("t", 0, "a", "1");
    engine.run().advance(SECOND);
    assert_eq!((engine.outputs().len(), base(&engine)), (0, Some(1)));
}

#[test]
fn a_crash_repeats_what_was_not_committed_and_sends_it_again() {
    let mut engine = engine(wish().handler(echo));
    engine.feed("t", 0, "a", "1");
    engine.run().advance(SECOND);
    engine.feed("t", 0, "a", "2");
    engine.run().crash().run();
    assert_eq!(values(&engine), ["1", "2", "2"]);
}
