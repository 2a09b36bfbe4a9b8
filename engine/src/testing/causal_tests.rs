//! Causal delivery through the whole engine: what waits for what, what stamps say, and what outlives a restart.

use keyway_causal::{CausalStop, Causes, Channel, HEADER, Position, StampError};

use super::world::{SECOND, engine};
use super::{TestEngine, TestRecord, topic_id};
use crate::{
    BuildError, Builder, Causal, ClientConfig, DeadLetters, Exhausted, Keyway, Outcome, Output,
    Record, Retry, StartAt, StopReason,
};

fn wish() -> Builder {
    Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["answers", "questions"])
        .causal(Causal::default())
        .retry(Retry::every(SECOND))
}

/// Fails what is called `stuck`, sends what is called `send`.
fn handle(record: &Record) -> Outcome {
    match record.value() {
        Some(b"stuck") => Outcome::Failed("not yet".into()),
        Some(b"send") => Outcome::Send(vec![Output::to("out").value("x")]),
        _ => Outcome::Done,
    }
}

/// One entry for each (topic, partition, position).
fn causes(entries: &[(&str, u32, i64)]) -> Vec<u8> {
    let mut causes = Causes::default();
    for (topic, partition, position) in entries {
        let channel = Channel::new(topic_id(topic), *partition).expect("a partition");
        causes.merge(channel, Position::new(*position).expect("a position"));
    }
    causes.encode()
}

fn record(topic: &str, key: &str, value: &str, entries: &[(&str, u32, i64)]) -> TestRecord {
    TestRecord::new(topic, 0)
        .key(key)
        .value(value)
        .header(HEADER, causes(entries))
}

fn started(engine: &TestEngine) -> Vec<(String, i64)> {
    let attempts = engine.attempts();
    attempts
        .iter()
        .map(|attempt| (attempt.id.topic.clone(), attempt.id.offset))
        .collect()
}

/// The stamp of the last output: what it says of a channel, -1 for nothing.
fn stamped(engine: &TestEngine, topic: &str) -> i64 {
    let output = engine.outputs().last().expect("an output");
    let mut headers = output.headers.iter();
    let its = headers.find(|(name, _)| name == HEADER.as_bytes());
    let value = its.expect("a stamp").1.as_deref().expect("a value");
    let causes = Causes::decode(value).expect("a stamp that can be read");
    let channel = Channel::new(topic_id(topic), 0).expect("a partition");
    causes.get(channel).map_or(-1, Position::get)
}

#[test]
fn an_answer_waits_for_its_question_and_other_answers_do_not() {
    let mut engine = engine(wish().handler(handle));
    engine.feed("questions", 0, "q", "stuck");
    engine.feed_record(record("answers", "a", "yes", &[("questions", 0, 0)]));
    engine.feed_record(record("answers", "b", "no", &[]));
    engine.feed("answers", 0, "c", "without a header");
    engine.run();
    let first: Vec<_> = started(&engine);
    assert!(!first.contains(&("answers".to_owned(), 0)), "{first:?}");
    for offset in [1, 2] {
        assert!(first.contains(&("answers".to_owned(), offset)), "{first:?}");
    }
    // The question never gets done, so that the answer never runs: no time lets it go.
    engine.advance(3_600 * SECOND);
    assert!(!started(&engine).contains(&("answers".to_owned(), 0)));
    assert_eq!(engine.buffered(), 2);
}

#[test]
fn a_held_record_runs_once_all_up_to_its_cause_is_done() {
    let mut engine = engine(wish().handler(|record: &Record| match record.value() {
        Some(b"slow") if record.attempt() < 3 => Outcome::Failed("not yet".into()),
        _ => Outcome::Done,
    }));
    // The cause is offset 1, and what is below it may be one too.
    engine.feed("questions", 0, "p", "slow");
    engine.feed("questions", 0, "q", "quick");
    engine.feed_record(record("answers", "a", "yes", &[("questions", 0, 1)]));
    engine.run();
    assert!(!started(&engine).contains(&("answers".to_owned(), 0)));
    engine.advance(5 * SECOND);
    assert_eq!(started(&engine).last(), Some(&("answers".to_owned(), 0)));
}

#[test]
fn a_cause_in_the_same_partition_is_waited_for_and_later_records_are_not() {
    let mut engine = engine(wish().handler(handle));
    engine.feed("answers", 0, "a", "stuck");
    // It names itself and more, which can't be: what comes after it is no cause of it.
    engine.feed_record(record("answers", "b", "x", &[("answers", 0, 7)]));
    engine.run();
    assert!(!started(&engine).contains(&("answers".to_owned(), 1)));
    let mut engine = self::engine(wish().handler(handle));
    engine.feed("answers", 0, "a", "done");
    engine.feed_record(record("answers", "b", "x", &[("answers", 0, 7)]));
    engine.run();
    assert!(started(&engine).contains(&("answers".to_owned(), 1)));
}

#[test]
fn a_stamp_names_what_was_started_what_was_received_and_what_headers_said() {
    let mut engine = engine(wish().handler(handle));
    engine.feed("questions", 0, "q", "stuck");
    engine.feed_record(record(
        "answers",
        "h",
        "held",
        &[("questions", 0, 0), ("far", 0, 41)],
    ));
    engine.feed_record(record("answers", "s", "send", &[("other", 0, 5)]));
    engine.run();
    assert_eq!(engine.outputs().len(), 1);
    assert_eq!(stamped(&engine, "questions"), 0, "it runs, and is not done");
    assert_eq!(stamped(&engine, "answers"), 1, "the record itself");
    assert_eq!(stamped(&engine, "other"), 5);
    assert_eq!(stamped(&engine, "far"), 41, "of a record that is held");
}

#[test]
fn what_was_learned_outlives_a_crash() {
    let mut engine = engine(wish().handler(handle));
    engine.feed_record(record("answers", "a", "x", &[("other", 0, 5)]));
    engine.run();
    engine.advance(2 * SECOND);
    engine.crash();
    engine.feed("questions", 0, "q", "send");
    engine.run();
    assert_eq!(stamped(&engine, "other"), 5);
    assert_eq!(stamped(&engine, "answers"), 0, "complete before");
}

#[test]
fn what_was_learned_moves_with_its_partition_and_is_not_forgotten_by_others() {
    let mut engine = engine(wish().handler(handle));
    engine.feed_record(record("answers", "a", "x", &[("other", 0, 5)]));
    engine.feed("questions", 0, "q", "x");
    engine.run();
    engine.revoke("answers", 0);
    engine.run();
    engine.crash();
    engine.assign("questions", 0);
    engine.feed("questions", 0, "q", "send");
    engine.run();
    assert_eq!(stamped(&engine, "other"), 5, "read from another's commit");
}

#[test]
fn a_group_that_committed_without_causes_sends_nothing_until_that_is_accepted() {
    let plain = Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["answers", "questions"])
        .handler(handle);
    let mut engine = engine(plain);
    engine.feed("answers", 0, "a", "x").run();
    engine.advance(2 * SECOND);
    engine.stop(SECOND).expect("an orderly end");
    engine.restart_as(wish().handler(handle)).expect("right");
    engine.feed("answers", 0, "a", "x");
    engine.feed("answers", 0, "a", "send").run();
    assert!(
        matches!(
            engine.ended(),
            Some(Err(StopReason::SendingRefused(
                StampError::FrontierLost { .. }
            )))
        ),
        "{:?}",
        engine.ended()
    );
    assert!(engine.outputs().is_empty());
    // The commits that it made meanwhile do not hide the loss.
    engine.restart_as(wish().handler(handle)).expect("right");
    engine.run();
    assert!(matches!(
        engine.ended(),
        Some(Err(StopReason::SendingRefused(_)))
    ));
    let accepted = wish().causal(Causal::default().accept_lost_frontier());
    engine.restart_as(accepted.handler(handle)).expect("right");
    engine.run();
    assert_eq!(engine.outputs().len(), 1);
    engine.advance(2 * SECOND);
    engine.stop(SECOND).expect("an orderly end");
    engine.restart_as(wish().handler(handle)).expect("right");
    engine.feed("answers", 0, "a", "send").run();
    assert_eq!(engine.outputs().len(), 2, "once is enough");
}

#[test]
fn a_header_that_cannot_be_read_stops_the_member_until_that_record_is_accepted() {
    let mut engine = engine(wish().handler(handle));
    let broken = TestRecord::new("answers", 0)
        .key("a")
        .value("send")
        .header(HEADER, b"\x02");
    engine.feed_record(broken).run();
    assert!(
        matches!(engine.ended(), Some(Err(StopReason::Causal(_)))),
        "{:?}",
        engine.ended()
    );
    assert!(engine.attempts().is_empty());
    let accepting = |causal: Causal| {
        let causal = causal.accept_undecodable("answers", 0, 0);
        wish().causal(causal).handler(handle)
    };
    engine
        .restart_as(accepting(Causal::default()))
        .expect("right");
    engine.run();
    assert!(
        matches!(engine.ended(), Some(Err(StopReason::SendingRefused(_)))),
        "what it would name is not known: {:?}",
        engine.ended()
    );
    engine
        .restart_as(accepting(Causal::default().accept_lost_frontier()))
        .expect("right");
    engine.run();
    assert_eq!(engine.outputs().len(), 1);
}

#[test]
fn two_headers_are_one_that_cannot_be_read() {
    let mut engine = engine(wish().handler(handle));
    let twice = record("answers", "a", "x", &[]).header(HEADER, causes(&[]));
    engine.feed_record(twice).run();
    assert!(matches!(engine.ended(), Some(Err(StopReason::Causal(_)))));
}

#[test]
fn a_copied_header_and_that_of_a_dead_letter_are_replaced_by_the_stamp() {
    let route = |builder: Builder| {
        builder
            .handler(|record: &Record| match record.value() {
                Some(b"copy") => Outcome::Send(vec![
                    Output::copy_of(record, "out").expect("readable headers"),
                ]),
                _ => Outcome::Failed("never".into()),
            })
            .retry(Retry::every(SECOND).attempts(1, Exhausted::DeadLetter))
            .dead_letters(DeadLetters::headers("dead"))
    };
    let causal = Causal::default().dead_letters_settle();
    let mut engine = engine(route(wish().causal(causal)));
    engine.feed_record(record("answers", "a", "copy", &[("other", 0, 5)]));
    engine.feed_record(record("answers", "a", "bad", &[("other", 0, 6)]));
    engine.run();
    // The next of its key may be at the worker already.
    assert!(stamped(&engine, "answers") >= 0);
    let letter = &engine.dead_letters()[0];
    let stamps = letter.headers.iter();
    let stamps: Vec<_> = stamps
        .filter(|(name, _)| name == HEADER.as_bytes())
        .collect();
    let [(_, Some(stamp))] = stamps[..] else {
        panic!("{stamps:?}");
    };
    let causes = Causes::decode(stamp).expect("readable");
    let at = |topic| causes.get(Channel::new(topic_id(topic), 0).expect("a partition"));
    assert_eq!(at("other").map(Position::get), Some(6), "what caused it");
    assert_eq!(at("answers").map(Position::get), Some(1), "and itself");
    assert!(matches!(
        route(wish()).build(),
        Err(BuildError::NotWithCausal {
            setting: "dead_letters",
            ..
        })
    ));
}

#[test]
fn a_topic_that_joins_after_its_effects_is_refused_or_read_behind_them() {
    let narrow = || {
        Keyway::builder(ClientConfig::new())
            .group("g")
            .topics(["answers"])
            .causal(Causal::default())
            .handler(handle)
    };
    let mut engine = engine(narrow());
    engine.feed_record(record("answers", "a", "x", &[("questions", 0, 1)]));
    engine.run();
    engine.advance(2 * SECOND);
    engine.restart_as(wish().handler(handle)).expect("right");
    engine.feed_all("questions", 0, [("q", "0"), ("q", "1"), ("q", "2")]);
    engine.run();
    assert!(
        matches!(
            engine.ended(),
            Some(Err(StopReason::Causal(CausalStop::ChannelJoined { .. })))
        ),
        "{:?}",
        engine.ended()
    );
    let skipping = wish().causal(Causal::default().skip_joined());
    let skipping = skipping.start_at(StartAt::Earliest);
    engine.restart_as(skipping.handler(handle)).expect("right");
    engine.assign("questions", 0);
    engine.run();
    assert_eq!(engine.order_of("q"), [2]);
}

#[test]
fn what_causal_delivery_cannot_be_had_with_is_refused() {
    for (builder, refused) in [
        (wish().topic_pattern("^a.*"), "topic_pattern"),
        (wish().rider(|_| None), "rider"),
        (
            wish().property("auto.offset.reset", "latest"),
            "auto.offset.reset",
        ),
    ] {
        match builder.handler(handle).build() {
            Err(BuildError::NotWithCausal { setting, .. }) => assert_eq!(setting, refused),
            other => panic!("{refused}: {other:?}"),
        }
    }
}
