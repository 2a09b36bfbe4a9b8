//! Dead letters and undecodable records, as the tests of an application see them.

use std::num::ParseIntError;
use std::time::Duration;

use super::{AttemptOutcome, TestEngine, TestLetter, TestRecord};
use crate::decode::{self, Decode, OrNull, Utf8};
use crate::{
    BatchOutcome, BuildError, Builder, ClientConfig, DeadLetters, Exhausted, Keyway, Outcome,
    Reason, Record, Retry,
};

const SECOND: Duration = Duration::from_secs(1);

fn wish() -> Builder {
    Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["t"])
}

fn with_letters(builder: Builder, attempts: u32) -> TestEngine {
    let builder = builder
        .retry(Retry::every(SECOND).attempts(attempts, Exhausted::DeadLetter))
        .dead_letters(DeadLetters::headers("t.dead"));
    TestEngine::new(builder).expect("a configuration that is right")
}

/// Fails the records whose value is `bad`.
fn picky(record: &Record) -> Result<(), &'static str> {
    match record.value() {
        Some(b"bad") => Err("it is bad"),
        _ => Ok(()),
    }
}

fn base(engine: &TestEngine) -> Option<i64> {
    engine.committed("t", 0).map(|commit| commit.offset)
}

fn names(letter: &TestLetter) -> Vec<&str> {
    let text = |(name, _): &'_ (Vec<u8>, _)| std::str::from_utf8(name).expect("text").to_owned();
    let names: Vec<String> = letter.headers.iter().map(text).collect();
    let of = |name: &String| {
        letter
            .headers
            .iter()
            .find(|(found, _)| found == name.as_bytes())
            .and_then(|(found, _)| std::str::from_utf8(found).ok())
            .expect("it is there")
    };
    names.iter().map(of).collect()
}

#[test]
fn a_letter_is_the_record_as_it_was_with_its_story_behind_it() {
    let mut engine = with_letters(wish().handler(picky), 3);
    let record = TestRecord::new("t", 0)
        .key("k")
        .value("bad")
        .header("b", "1")
        .header("a", "2")
        .null_header("b")
        .header(b"\xff", "no text")
        .header("keyway.dlq.topic", "from an earlier life")
        .timestamp(1_700_000_000_000);
    engine.feed_record(record).feed("t", 0, "k", "good");
    engine.run().advance(SECOND).advance(SECOND);
    let [letter] = engine.dead_letters() else {
        panic!("{:?}", engine.dead_letters());
    };
    assert_eq!(
        (letter.topic.as_str(), letter.key.as_deref()),
        ("t.dead", Some(&b"k"[..]))
    );
    assert_eq!(letter.value.as_deref(), Some(&b"bad"[..]));
    let own: Vec<_> = letter.headers[..5].to_vec();
    let bytes = |name: &[u8], value: Option<&str>| {
        (name.to_vec(), value.map(|value| value.as_bytes().to_vec()))
    };
    assert_eq!(
        own,
        [
            bytes(b"b", Some("1")),
            bytes(b"a", Some("2")),
            bytes(b"b", None),
            bytes(b"\xff", Some("no text")),
            bytes(b"keyway.dlq.topic", Some("from an earlier life")),
        ]
    );
    for (name, value) in [
        ("keyway.dlq.topic", "t"),
        ("keyway.dlq.partition", "0"),
        ("keyway.dlq.offset", "0"),
        ("keyway.dlq.timestamp", "1700000000000"),
        ("keyway.dlq.attempts", "3"),
        // On the test's clock, which begins at 1 ms.
        ("keyway.dlq.first_failure", "1"),
        ("keyway.dlq.last_failure", "2001"),
        ("keyway.dlq.error", "it is bad"),
        ("keyway.dlq.group", "g"),
        ("keyway.dlq.member", "test"),
    ] {
        assert_eq!(letter.header(name), Some(value), "{name}");
    }
    assert_eq!(letter.headers.len(), 15);
    assert_eq!(
        engine.order_of("k"),
        [0, 0, 0, 1],
        "its key goes on behind the letter"
    );
    engine.advance(SECOND);
    assert_eq!(base(&engine), Some(2));
    let ends: Vec<_> = engine.outcomes().into_iter().map(|(_, end)| end).collect();
    assert_eq!(
        ends[2..],
        [
            AttemptOutcome::Failed("it is bad".to_owned()),
            AttemptOutcome::DeadLetter,
            AttemptOutcome::Done,
        ]
    );
}

#[test]
fn what_a_record_does_not_have_its_letter_does_not_invent() {
    let mut engine = with_letters(wish().handler(|_: &Record| Err::<(), _>("no")), 1);
    engine.feed_record(TestRecord::new("t", 0)).run();
    let letter = &engine.dead_letters()[0];
    assert_eq!((&letter.key, &letter.value), (&None, &None));
    assert_eq!(
        names(letter),
        [
            "keyway.dlq.topic",
            "keyway.dlq.partition",
            "keyway.dlq.offset",
            "keyway.dlq.attempts",
            "keyway.dlq.first_failure",
            "keyway.dlq.last_failure",
            "keyway.dlq.error",
            "keyway.dlq.group",
            "keyway.dlq.member",
        ]
    );
}

#[test]
fn while_letters_are_refused_the_record_is_incomplete_and_its_key_waits() {
    let mut engine = with_letters(wish().handler(picky), 1);
    engine.refuse_dead_letters(true);
    engine.feed("t", 0, "k", "bad").feed("t", 0, "k", "good");
    engine.feed("t", 0, "other", "good");
    engine.run().advance(3_600 * SECOND);
    assert_eq!(engine.order_of("k"), [0]);
    assert_eq!(engine.order_of("other"), [2]);
    assert_eq!((base(&engine), engine.buffered()), (Some(0), 2));
    engine.refuse_dead_letters(false).advance(30 * SECOND);
    assert_eq!(engine.dead_letters().len(), 1);
    assert_eq!(engine.order_of("k"), [0, 1]);
    assert_eq!(base(&engine), Some(3));
}

/// With a letter that waits for its next try in `is_all_quiet` the stop takes its whole hour.
#[test]
fn a_stop_does_not_hang_on_a_letter_that_cant_be_written_and_the_next_start_begins_anew() {
    let mut engine = with_letters(wish().handler(picky), 2);
    engine.refuse_dead_letters(true);
    engine.feed("t", 0, "k", "bad");
    engine.run().advance(10 * SECOND);
    let before = engine.now();
    let report = engine.stop(3_600 * SECOND).expect("an orderly end");
    assert_eq!(engine.now(), before, "at once");
    assert_eq!(report.left_open, 1);
    let so_far = engine.attempts().len();
    engine.refuse_dead_letters(false).restart();
    engine.run().advance(10 * SECOND);
    let again: Vec<u32> = engine.attempts()[so_far..]
        .iter()
        .map(|attempt| attempt.number)
        .collect();
    assert_eq!(again, [1, 2], "attempts count from 1 again");
    assert_eq!(
        engine.dead_letters()[0].header("keyway.dlq.attempts"),
        Some("2")
    );
}

#[test]
fn a_handler_chooses_the_letter_at_once_or_that_no_further_attempt_is_made() {
    let choose = |record: &Record| match record.value() {
        Some(b"letter") => Outcome::DeadLetter("wrong country".into()),
        Some(b"give up") => Outcome::GiveUp("wrong shape".into()),
        _ => Outcome::Done,
    };
    let mut engine = with_letters(wish().handler(choose), 100);
    engine
        .feed("t", 0, "a", "letter")
        .feed("t", 0, "b", "give up")
        .run();
    let errors: Vec<_> = engine
        .dead_letters()
        .iter()
        .map(|letter| letter.header("keyway.dlq.error"))
        .collect();
    assert_eq!(errors, [Some("wrong country"), Some("wrong shape")]);
    // Given up is what the policy makes of it; a letter without a topic is nobody's to pass over.
    let skip = wish()
        .handler(choose)
        .retry(Retry::every(SECOND).then(Exhausted::Skip));
    let mut engine = TestEngine::new(skip).expect("right");
    engine
        .feed("t", 0, "a", "give up")
        .feed("t", 0, "b", "letter")
        .run();
    engine.advance(SECOND);
    assert_eq!((base(&engine), engine.buffered()), (Some(1), 1));
}

/// Without `catch_unwind` around the handler it fails with the panic; without the alarm beside its future there is no
/// letter.
#[test]
fn a_panic_and_a_timeout_are_failed_attempts_of_which_the_letter_tells() {
    let mut engine = with_letters(
        wish().handler(|_: &Record| -> Outcome { panic!("no such country") }),
        2,
    );
    engine.feed("t", 0, "k", "v").run().advance(SECOND);
    assert_eq!(
        engine.dead_letters()[0].header("keyway.dlq.error"),
        Some("panicked: no such country")
    );
    let never = wish()
        .async_handler(|_: Record| std::future::pending::<()>())
        .timeout(SECOND);
    let mut engine = with_letters(never, 2);
    engine.feed("t", 0, "k", "v").run().advance(5 * SECOND);
    let error = engine.dead_letters()[0]
        .header("keyway.dlq.error")
        .expect("an error");
    assert!(error.contains("1s"), "{error}");
}

#[test]
fn of_a_batch_each_record_has_its_own_letter() {
    let batches = wish().batch_handler(|records: Vec<Record>| {
        let judge = |record: &Record| match record.value() {
            Some(b"bad") => Outcome::DeadLetter("it is bad".into()),
            _ => Outcome::Done,
        };
        BatchOutcome::Each(records.iter().map(judge).collect())
    });
    let mut engine = with_letters(batches, 3);
    engine
        .feed_all("t", 0, [("a", "bad"), ("b", "good"), ("c", "bad")])
        .run();
    let offsets: Vec<_> = engine
        .dead_letters()
        .iter()
        .map(|letter| letter.header("keyway.dlq.offset"))
        .collect();
    assert_eq!(offsets, [Some("0"), Some("2")]);
    engine.advance(SECOND);
    assert_eq!(base(&engine), Some(3));
}

#[test]
fn an_error_is_kept_in_part_and_cut_between_characters() {
    let endless = |_: &Record| Err::<(), _>("ä".repeat(100_000));
    let mut engine = with_letters(wish().handler(endless), 1);
    engine.feed("t", 0, "k", "v").run();
    let error = engine.dead_letters()[0]
        .header("keyway.dlq.error")
        .expect("text");
    assert_eq!(error, "ä".repeat(2_048));
}

#[test]
fn dead_letters_that_make_no_sense_are_refused() {
    let build = |builder: Builder| TestEngine::new(builder.handler(picky)).map(drop);
    let last = Retry::every(SECOND).attempts(3, Exhausted::DeadLetter);
    assert_eq!(
        build(wish().retry(last)),
        Err(BuildError::NoDeadLetterTopic)
    );
    let to = |topic: &str| DeadLetters::headers(topic);
    let consumed = BuildError::DeadLettersConsumed {
        topic: "t".to_owned(),
    };
    assert_eq!(build(wish().dead_letters(to("t"))), Err(consumed));
    let consumed = BuildError::DeadLettersConsumed {
        topic: "t.dead".to_owned(),
    };
    assert_eq!(
        build(wish().topic_pattern("t[.].*").dead_letters(to("t.dead"))),
        Err(consumed)
    );
    assert_eq!(
        build(wish().topic_pattern("t[.].*").dead_letters(to("dead.t"))),
        Ok(())
    );
    for name in ["", ".", "a b", "ä", &"x".repeat(250)] {
        let refused = build(wish().dead_letters(to(name)));
        assert!(
            matches!(
                refused,
                Err(BuildError::OutOfRange {
                    setting: "dead_letters",
                    ..
                })
            ),
            "{name}"
        );
    }
}

// ---- decoding ----

fn number(bytes: &[u8]) -> Result<u64, ParseIntError> {
    String::from_utf8_lossy(bytes).parse()
}

/// As a failure like others (`Outcome::Failed`) it fails: there is no letter before a hundredth attempt.
#[test]
fn an_undecodable_record_goes_where_the_policy_says_without_a_further_attempt() {
    let read = || decode::value(number, |_: &Record, _: u64| ());
    let mut engine = with_letters(wish().handler(read()), 100);
    engine
        .feed_all("t", 0, [("a", "12"), ("b", "twelve"), ("c", "13")])
        .run();
    let letter = &engine.dead_letters()[0];
    assert_eq!(letter.header("keyway.dlq.attempts"), Some("1"));
    assert_eq!(
        letter.header("keyway.dlq.error"),
        Some("the value can't be decoded: invalid digit found in string")
    );
    // Without a word of the user nothing is lost, nobody else waits, and nothing is tried for ever.
    let mut engine = TestEngine::new(wish().handler(read())).expect("right");
    engine
        .feed_all("t", 0, [("a", "12"), ("b", "twelve"), ("c", "13")])
        .run();
    engine.advance(3_600 * SECOND);
    assert_eq!(engine.attempts().len(), 3);
    assert_eq!(base(&engine), Some(1));
}

#[test]
fn keys_and_values_are_typed_in_every_kind_of_handler() {
    fn seen(engine: &mut TestEngine) -> Vec<String> {
        engine
            .feed("t", 0, "ann", "1")
            .feed("t", 0, b"\xff", "2")
            .feed("t", 0, "bob", "two");
        engine.run();
        let errors = engine
            .dead_letters()
            .iter()
            .map(|letter| letter.header("keyway.dlq.error"));
        errors
            .map(|error| error.expect("a reason").to_owned())
            .collect()
    }
    let check = |_: &Record, key: String, value: u64| assert_eq!((key.as_str(), value), ("ann", 1));
    let check_async = |record: Record, key: String, value: u64| async move {
        assert_eq!((record.offset(), key.as_str(), value), (0, "ann", 1));
    };
    for builder in [
        wish().handler(decode::typed(Utf8, number, check)),
        wish().cpu_handler(decode::typed(Utf8, number, check)),
        wish().async_handler(decode::typed_async(Utf8, number, check_async)),
    ] {
        let errors = seen(&mut with_letters(builder, 1));
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(
            errors[0].starts_with("the key can't be decoded: invalid utf-8"),
            "{errors:?}"
        );
        assert!(
            errors[1].starts_with("the value can't be decoded: "),
            "{errors:?}"
        );
    }
}

#[test]
fn null_is_not_empty_and_has_an_answer_only_where_it_is_asked_for() {
    let mut engine = with_letters(
        wish().handler(decode::value(Utf8, |_: &Record, _: String| ())),
        1,
    );
    engine
        .feed_record(TestRecord::new("t", 0).key("k"))
        .feed("t", 0, "k", "")
        .run();
    let [letter] = engine.dead_letters() else {
        panic!("the empty one is text")
    };
    assert_eq!(
        letter.header("keyway.dlq.error"),
        Some("the value can't be decoded: it is null")
    );
    let tombstones = decode::value(OrNull(Utf8), |record: &Record, value: Option<String>| {
        assert_eq!(value.is_none(), record.offset() == 0);
    });
    let mut engine = with_letters(wish().handler(tombstones), 1);
    engine
        .feed_record(TestRecord::new("t", 0).key("k"))
        .feed("t", 0, "k", "")
        .run();
    assert!(engine.dead_letters().is_empty());
}

struct Bomb;

impl Decode for Bomb {
    type Output = ();

    fn decode(&self, _: &[u8]) -> Result<(), Reason> {
        panic!("a length of 2^60")
    }
}

/// As a failure like others (`Outcome::Failed`) it fails without a letter.
#[test]
fn a_codec_that_panics_has_not_decoded() {
    let mut engine = with_letters(
        wish().handler(decode::value(Bomb, |_: &Record, ()| ())),
        100,
    );
    engine.feed("t", 0, "k", "v").run();
    assert_eq!(
        engine.dead_letters()[0].header("keyway.dlq.error"),
        Some("the value can't be decoded: its codec panicked: a length of 2^60")
    );
}

#[cfg(feature = "json")]
#[test]
fn json_is_read_by_serde_and_its_fault_is_named() {
    #[derive(serde::Deserialize)]
    struct Order {
        total: u64,
    }
    let sum = |_: &Record, order: Order| assert_eq!(order.total, 7);
    let mut engine = with_letters(wish().handler(decode::value(decode::json(), sum)), 1);
    engine
        .feed("t", 0, "k", r#"{"total":7}"#)
        .feed("t", 0, "k", r#"{"total":"#)
        .run();
    let error = engine.dead_letters()[0]
        .header("keyway.dlq.error")
        .expect("a reason");
    assert!(
        error.contains("EOF while parsing") && error.contains("line 1"),
        "{error}"
    );
}
