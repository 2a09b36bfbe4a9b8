//! The forum: its services and timelines in the engine without a broker. The whole is run on a real cluster by the
//! workspace's `tests/broker`.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use keyway::causality::{CausalClock, Causes, Channel, HEADER, Position};
use keyway::testing::{TestEngine, TestOutput, TestRecord, topic_id};
use keyway::{Builder, ClientConfig, Record};

use crate::forum::{Delivery, Topics, Wall, answering, moderating, timeline};

#[path = "../forum.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod forum;

fn topics() -> Topics {
    Topics {
        questions: "questions".into(),
        answers: "answers".into(),
        moderation: "moderation".into(),
    }
}

fn client() -> ClientConfig {
    let mut client = ClientConfig::new();
    client.set("group.id", "g");
    client
}

fn started(builder: Builder) -> TestEngine {
    let mut engine = TestEngine::new(builder).unwrap();
    engine.run();
    engine
}

/// A timeline, and what it shows.
fn watched(delivery: Delivery) -> (TestEngine, Arc<Wall>) {
    let wall = Arc::default();
    let at_once = |_: &Record| Duration::ZERO;
    let engine = started(timeline(client(), &topics(), delivery, at_once, &wall));
    (engine, wall)
}

/// An answer of somebody who has read the first question.
fn answer() -> TestRecord {
    let mut clock = CausalClock::new();
    let question = Channel::new(topic_id("questions"), 0).unwrap();
    let none: [(&str, Option<&[u8]>); 0] = [];
    clock
        .observe(question, Position::new(0).unwrap(), none)
        .unwrap();
    TestRecord::new("answers", 0)
        .key("#1")
        .value("because")
        .header(HEADER, clock.stamp())
}

fn lines(wall: &Wall) -> Vec<String> {
    wall.posts().iter().map(ToString::to_string).collect()
}

fn causes(output: &TestOutput) -> Causes {
    let mut headers = output.headers.iter();
    let (_, stamp) = headers
        .find(|(name, _)| name == HEADER.as_bytes())
        .expect("a stamp");
    Causes::decode(stamp.as_deref().unwrap()).unwrap()
}

#[test]
fn the_plain_timeline_shows_an_answer_that_came_first() {
    let (mut engine, wall) = watched(Delivery::Plain);
    engine.feed_record(answer());
    engine.run();
    engine.feed("questions", 0, "#1", "why?");
    engine.run();
    assert_eq!(
        lines(&wall),
        ["  answer #1  <- which question?", "question #1"]
    );
}

#[test]
fn the_causal_timeline_shows_it_behind_its_question_and_others_at_once() {
    let (mut engine, wall) = watched(Delivery::Causal);
    engine.feed_record(answer());
    engine.feed("moderation", 0, "#0", "of somebody who says nothing");
    engine.run();
    assert_eq!(lines(&wall), ["    verdict #0  <- which answer?"]);
    engine.feed("questions", 0, "#1", "why?");
    engine.run();
    assert_eq!(lines(&wall)[1..], ["question #1", "  answer #1"]);
}

#[test]
fn the_services_name_what_they_have_read() {
    let mut engine = started(answering(client(), &topics()));
    engine.feed("questions", 0, "#1", "why?");
    engine.run();
    let [answer] = engine.outputs() else {
        panic!("{:?}", engine.outputs());
    };
    assert_eq!(
        (&*answer.topic, answer.key.as_deref()),
        ("answers", Some(&b"#1"[..]))
    );
    let question = Channel::new(topic_id("questions"), 0).unwrap();
    assert_eq!(causes(answer).get(question).map(Position::get), Some(0));

    let mut engine = started(moderating(client(), &topics()));
    engine.feed("questions", 0, "#1", "why?");
    engine.feed_record(self::answer());
    engine.run();
    let [verdict] = engine.outputs() else {
        panic!("{:?}", engine.outputs());
    };
    assert_eq!(&*verdict.topic, "moderation");
    assert_eq!(causes(verdict).get(question).map(Position::get), Some(0));
}

#[test]
fn a_post_without_its_thread_has_no_reply_and_holds_nobody_up() {
    let mut engine = started(answering(client(), &topics()));
    engine.feed_record(TestRecord::new("questions", 0).value("why?"));
    engine.feed("questions", 0, "#1", "why?");
    engine.run();
    assert_eq!(engine.outputs().len(), 1);
}
