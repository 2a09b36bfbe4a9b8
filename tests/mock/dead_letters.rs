//! Dead letters through the engine's own producer: acknowledged, refused, and out of reach.

use std::time::Duration;

use keyway::ClientError;
use keyway::testing::{MockFault, MockRequest};
use keyway::{
    Builder, DeadLetters, DeniedWhat, Engine, Exhausted, NotReady, Outcome, Record, Retry, Status,
};
use keyway_tests::cluster::{Received, read_topic};
use keyway_tests::wait;

use crate::world::{Event, LONG, Run, World};

const DEAD: &str = "t.dead";

/// Fails records whose key is `bad` or begins with it.
fn picky(record: &Record) -> Result<(), String> {
    match record.key() {
        Some(key) if key.starts_with(b"bad") => Err("it is bad".to_owned()),
        _ => Ok(()),
    }
}

fn letters(builder: Builder) -> Builder {
    builder
        .handler(picky)
        .retry(Retry::every(Duration::from_millis(20)).attempts(2, Exhausted::DeadLetter))
        .dead_letters(DeadLetters::headers(DEAD))
}

/// One partition of records with these keys, and a dead-letter topic.
fn world(keys: &[&str]) -> World {
    let world = World::of(1);
    world.broker.create_topic(DEAD, 1).expect("a topic");
    let records = keys.iter().zip(0..);
    world.produce_to(
        "t",
        records.map(|(key, number): (&&str, u64)| (0, Some((*key).to_owned()), number.to_string())),
    );
    world
}

fn dead(world: &World) -> Vec<Received> {
    read_topic(world.client(), DEAD, 1)
}

fn buried(run: &Run) -> usize {
    run.seen.count(|event| matches!(event, Event::Dead(_)))
}

fn header(letter: &Received, name: &str) -> String {
    let value = letter.headers.iter().rev().find(|(found, _)| found == name);
    let value = value.and_then(|(_, value)| value.clone());
    String::from_utf8(value.expect("a header")).expect("text")
}

/// What is denied at the moment.
fn denied(status: &Status) -> Option<&ClientError> {
    status.health.not_ready.iter().find_map(|why| match why {
        NotReady::Denied { error, .. } => Some(error),
        _ => None,
    })
}

/// Complete with the order to write (`LetterNotAwaited`) it waits in vain for the count.
#[test]
fn after_its_last_attempt_a_record_is_in_the_dead_letter_topic_and_its_key_goes_on() {
    let world = world(&["bad", "good", "bad", "good"]);
    let run = world.start(letters);
    world.until_committed(4);
    assert_eq!(buried(&run), 2);
    run.seen.assert_key_order();
    let status = run.status();
    assert_eq!((denied(&status), &status.dead_letter_error), (None, &None));
    run.until_status("the count", |status| status.dead_letters == 2);
    let report = run.stop();
    assert_eq!((report.records, report.failed, report.left_open), (4, 4, 0));
    let letters = dead(&world);
    assert_eq!(letters.len(), 2);
    for (letter, offset) in letters.iter().zip(["0", "2"]) {
        assert_eq!(letter.key.as_deref(), Some(&b"bad"[..]));
        assert_eq!(letter.value.as_deref(), Some(offset.as_bytes()));
        assert_eq!(header(letter, "keyway.dlq.offset"), offset);
        assert_eq!(header(letter, "keyway.dlq.attempts"), "2");
        assert_eq!(header(letter, "keyway.dlq.group"), "g");
        assert!(
            header(letter, "keyway.dlq.member").len() > 8,
            "librdkafka's id of the member"
        );
        let time = |name| header(letter, name).parse::<i64>().expect("a time");
        let (first, last) = (
            time("keyway.dlq.first_failure"),
            time("keyway.dlq.last_failure"),
        );
        assert!(
            first > 1_700_000_000_000 && last >= first + 20,
            "{first} {last}"
        );
    }
}

/// Complete with the order to write (`LetterNotAwaited`), or with a letter that could not be written let go
/// (`FailedLetterForgotten`), it waits in vain for the refusal: all four are committed.
#[test]
fn a_refused_letter_blocks_its_key_visibly_and_is_written_once_when_the_topic_heals() {
    let world = world(&["bad", "good", "bad", "other"]);
    let faults = [MockFault::TopicDenied; 3];
    world.broker.fail_requests(MockRequest::Produce, &faults);
    let run = world.start(letters);
    let is_denied = |status: &Status| {
        let is_topic = matches!(
            denied(status),
            Some(ClientError::Denied { what: DeniedWhat::Topic(topic), .. }) if topic == DEAD
        );
        is_topic && status.dead_letter_error.is_some() && status.dead_letters_waiting == 1
    };
    run.until_status("the refusal", is_denied);
    let status = run.status();
    assert_eq!(
        (status.partitions[0].base, status.partitions[0].dead_letters),
        (0, 1)
    );
    assert!(!run.seen.done_offsets().contains(&2), "its key waits");
    world.until_committed(4);
    run.until_status("that it is over", |status| {
        denied(status).is_none() && status.dead_letter_error.is_none()
    });
    run.stop();
    let offsets: Vec<_> = dead(&world)
        .iter()
        .map(|letter| header(letter, "keyway.dlq.offset"))
        .collect();
    assert_eq!(offsets, ["0", "2"]);
}

#[test]
fn a_letter_that_is_too_large_blocks_nothing_but_its_key() {
    let world = world(&["bad", "good", "bad-too", "good"]);
    world
        .broker
        .fail_requests(MockRequest::Produce, &[MockFault::MessageTooLarge]);
    let run = world.start(letters);
    run.until_done(2);
    world.until_committed(4);
    run.stop();
    assert_eq!(dead(&world).len(), 2);
}

#[test]
fn a_stop_waits_for_a_letter_that_is_on_its_way() {
    let world = world(&["bad"]);
    world
        .broker
        .set_round_trip(1, Duration::from_millis(700))
        .expect("a broker");
    let run = world.start(letters);
    run.until_status("a letter on its way", |status| {
        status.dead_letters_being_written == 1
    });
    let report = run.stop();
    assert_eq!((report.left_open, report.all_committed), (0, true));
    assert_eq!(dead(&world).len(), 1);
    world.until_committed(1);
}

#[test]
fn without_a_broker_the_letter_waits_and_a_stop_is_within_its_bound() {
    let world = world(&["bad", "good"]);
    let gate = crate::world::Door::default();
    let passed = gate.clone();
    let run = world.start(|builder| {
        letters(builder).handler(move |record: &Record| {
            passed.pass();
            picky(record)
        })
    });
    run.until_status("records at workers", |status| status.running > 0);
    world.broker.broker_down(1).expect("a broker");
    gate.open();
    run.until_status("a letter on its way", |status| {
        status.dead_letters_being_written == 1
    });
    let begun = std::time::Instant::now();
    run.engine.stop(Duration::from_secs(2));
    let report = run.end().expect("an orderly end");
    // The bound, as long again for the last commit, and what leaving the group may take.
    assert!(
        begun.elapsed() < Duration::from_secs(2 + 10 + 8),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(report.left_open, 1, "the record is incomplete");
    world.broker.broker_up(1).expect("a broker");
    let again = world.start(letters);
    world.until_committed(2);
    again.stop();
    assert!(!dead(&world).is_empty(), "nothing is lost");
}

#[test]
fn an_engine_that_is_broken_off_frees_what_its_letters_hold() {
    let world = world(&["bad"]);
    world
        .broker
        .fail_requests(MockRequest::Produce, &[MockFault::TopicDenied; 100]);
    let run = world.start(letters);
    run.until_status("the refusal", |status| status.dead_letter_error.is_some());
    run.engine.abandon();
    assert!(run.end().is_err());
    world.broker.clear_faults(MockRequest::Produce);
    let again = world.start(letters);
    world.until_committed(1);
    again.stop();
    assert_eq!(dead(&world).len(), 1);
}

#[test]
fn thousands_of_letters_are_written_in_the_order_of_their_keys() {
    let world = World::of(1);
    world.broker.create_topic(DEAD, 1).expect("a topic");
    world.produce(5_000, 50);
    let run = world.start(|builder| {
        letters(builder).handler(|_: &Record| Outcome::DeadLetter("all of them".into()))
    });
    world.until_committed(5_000);
    run.stop();
    let letters = dead(&world);
    assert_eq!(letters.len(), 5_000);
    let mut last = std::collections::HashMap::new();
    for letter in &letters {
        let offset: i64 = header(letter, "keyway.dlq.offset")
            .parse()
            .expect("a number");
        let before = last.insert(letter.key.clone(), offset);
        assert!(
            before.is_none_or(|before| before < offset),
            "{before:?} before {offset}"
        );
    }
}

#[test]
fn a_producer_that_met_a_fatal_error_is_replaced_and_the_error_shows_until_then() {
    let world = world(&["bad", "bad"]);
    let faults = [MockFault::ClusterDenied; 2];
    world
        .broker
        .fail_requests(MockRequest::InitProducerId, &faults);
    let run = world.start(letters);
    run.until_status("the refusal", |status| {
        matches!(
            &status.dead_letter_error,
            Some(ClientError::Denied {
                what: DeniedWhat::Cluster,
                ..
            })
        ) && denied(status).is_some()
    });
    world.until_committed(2);
    run.stop();
    assert_eq!(dead(&world).len(), 2);
}

#[test]
fn an_engine_in_which_nothing_dies_opens_a_producer_and_ends_it() {
    let world = world(&["good"]);
    let run = world.start(letters);
    world.until_committed(1);
    let engine: &Engine = &run.engine;
    engine.stop(Duration::from_secs(10));
    assert!(wait::try_until(LONG, || engine.ended()).is_some());
}
