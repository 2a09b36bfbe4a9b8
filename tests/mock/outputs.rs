//! Outputs through the engine's own producer: acknowledged, refused, and out of reach.

use std::collections::HashMap;
use std::time::Duration;

use keyway::testing::{MockFault, MockRequest};
use keyway::{
    Builder, ClientError, DeadLetters, DeniedWhat, Exhausted, NotReady, Outcome, Output, Record,
    Retry, Status,
};
use keyway_tests::cluster::{Received, read_topic};

use crate::world::World;

const OUT: &str = "out";

/// Sends the record on, with its offset.
fn echo(record: &Record) -> Output {
    Output::copy_of(record, OUT)
        .expect("readable headers")
        .header("offset", record.offset().to_string())
}

fn echoing(builder: Builder) -> Builder {
    builder
        .handler(echo)
        .retry(Retry::every(Duration::from_millis(20)))
}

/// One partition of so many records with as many keys, and a topic for outputs.
fn world(records: u64, keys: u64) -> World {
    let world = World::of(1);
    world.broker.create_topic(OUT, 1).expect("a topic");
    world.produce(records, keys);
    world
}

fn sent(world: &World) -> Vec<Received> {
    read_topic(world.client(), OUT, 1)
}

fn offset(output: &Received) -> i64 {
    let (_, value) = output.headers.last().expect("a header");
    let text = String::from_utf8(value.clone().expect("a value")).expect("text");
    text.parse().expect("a number")
}

fn offsets(outputs: &[Received]) -> Vec<i64> {
    outputs.iter().map(offset).collect()
}

/// Each of so many records has one output, and those of a key are in the order of its records.
#[track_caller]
fn assert_once_and_in_order(outputs: &[Received], records: i64) {
    let mut last = HashMap::new();
    for output in outputs {
        let offset = offset(output);
        let before = last.insert(output.key.clone(), offset);
        assert!(
            before.is_none_or(|before| before < offset),
            "{offset} after {before:?}"
        );
    }
    let mut all = offsets(outputs);
    all.sort_unstable();
    assert_eq!(all, (0..records).collect::<Vec<i64>>());
}

fn is_denied(status: &Status, what: &DeniedWhat) -> bool {
    let is_it = |error: &ClientError| matches!(error, ClientError::Denied { what: found, .. } if found == what);
    let health = status.health.not_ready.iter();
    let mut denied = health.filter_map(|why| match why {
        NotReady::Denied { error, .. } => Some(error),
        _ => None,
    });
    denied.any(is_it) && status.send_error.as_ref().is_some_and(is_it)
}

#[test]
fn each_record_has_its_output_before_it_is_committed_and_keys_keep_their_order() {
    for wish in [
        |builder: Builder| builder.handler(echo),
        |builder: Builder| builder.async_handler(|record: Record| async move { echo(&record) }),
        |builder: Builder| {
            builder
                .batch_handler(|records: Vec<Record>| -> Vec<Outcome> {
                    records.iter().map(|record| echo(record).into()).collect()
                })
                .batch_same_lane(true)
        },
    ] {
        let world = world(3_000, 50);
        let run = world.start(wish);
        world.until_committed(3_000);
        run.seen.assert_each_done_once(3_000);
        run.until_status("that nothing is under way", |status| {
            (status.sent, status.sending, status.output_bytes) == (3_000, 0, 0)
        });
        let report = run.stop();
        assert_eq!((report.records, report.failed), (3_000, 0));
        assert_once_and_in_order(&sent(&world), 3_000);
    }
}

// Without the wait for the acknowledgement it fails with a commit of 1.
#[test]
fn a_record_is_not_committed_while_its_outputs_are_on_their_way() {
    let world = world(1, 1);
    world
        .broker
        .set_round_trip(1, Duration::from_millis(700))
        .expect("a broker");
    let run = world.start(echoing);
    run.until_status("outputs on their way", |status| status.sending == 1);
    let status = run.status();
    assert_eq!((status.partitions[0].base, status.completed), (0, 0));
    // A stop waits for them.
    let report = run.stop();
    assert_eq!((report.left_open, report.all_committed), (0, true));
    assert_eq!(sent(&world).len(), 1);
    world.until_committed(1);
}

#[test]
fn a_refused_output_is_a_failed_attempt_that_shows_until_the_topic_heals() {
    let world = world(4, 2);
    let faults = [MockFault::TopicDenied; 3];
    world.broker.fail_requests(MockRequest::Produce, &faults);
    let run = world.start(|builder| echoing(builder).retry(Retry::every(Duration::from_secs(1))));
    run.until_status("the refusal", |status| {
        is_denied(status, &DeniedWhat::Topic(OUT.to_owned())) && status.sends_failed > 0
    });
    assert!(
        run.seen.failures()[0].contains(OUT),
        "{:?}",
        run.seen.failures()
    );
    world.until_committed(4);
    run.until_status("that it is over", |status| {
        status.send_error.is_none() && status.health.not_ready.is_empty()
    });
    run.seen.assert_key_order();
    run.stop();
    assert_once_and_in_order(&sent(&world), 4);
}

#[test]
fn an_output_that_is_too_large_ends_as_its_policy_says_and_holds_up_no_other_key() {
    let world = world(6, 3);
    world.broker.create_topic("t.dead", 1).expect("a topic");
    world
        .broker
        .fail_requests(MockRequest::Produce, &[MockFault::MessageTooLarge]);
    let run = world.start(|builder| {
        echoing(builder)
            .retry(Retry::every(Duration::ZERO).attempts(1, Exhausted::DeadLetter))
            .dead_letters(DeadLetters::headers("t.dead"))
    });
    world.until_committed(6);
    run.stop();
    let dead = read_topic(world.client(), "t.dead", 1);
    assert!(!dead.is_empty(), "one refusal, of a whole request");
    assert_eq!(sent(&world).len() + dead.len(), 6);
}

#[test]
fn of_several_outputs_one_that_fails_is_sent_again_with_the_others() {
    let world = world(1, 1);
    world.broker.create_topic("good", 1).expect("a topic");
    let run = world.start(|builder| {
        echoing(builder).handler(|record: &Record| {
            // The mock has no partition 7 of it, at first.
            let partition = match record.attempt() {
                1 => 7,
                _ => 0,
            };
            vec![
                Output::to("good").value("whole"),
                echo(record).partition(partition),
            ]
        })
    });
    world.until_committed(1);
    run.stop();
    assert_eq!(
        read_topic(world.client(), "good", 1).len(),
        2,
        "at least once"
    );
    assert_eq!(sent(&world).len(), 1);
}

#[test]
fn without_a_broker_outputs_wait_and_a_stop_is_within_its_bound_and_loses_nothing() {
    let world = world(20, 20);
    let door = crate::world::Door::default();
    let passed = door.clone();
    let run = world.start(|builder| {
        echoing(builder).handler(move |record: &Record| {
            passed.pass();
            echo(record)
        })
    });
    run.until_status("records at workers", |status| status.running > 0);
    world.broker.broker_down(1).expect("a broker");
    door.open();
    run.until_status("outputs on their way", |status| status.sending > 0);
    let begun = std::time::Instant::now();
    run.engine.stop(Duration::from_secs(2));
    let report = run.engine.wait().expect("an orderly end");
    // The bound, the last commit, and what leaving the group may take.
    assert!(
        begun.elapsed() < Duration::from_secs(2 + 10 + 8),
        "{:?}",
        begun.elapsed()
    );
    assert!(report.left_open > 0, "incomplete");
    world.broker.broker_up(1).expect("a broker");
    let again = world.start(echoing);
    world.until_committed(20);
    again.stop();
    let mut all = offsets(&sent(&world));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 20, "nothing is lost");
}

// Without the bound it fails with all 400 outputs under way at once.
#[test]
fn what_is_under_way_is_bounded_and_shows_when_the_bound_holds_records_back() {
    let world = world(400, 400);
    world
        .broker
        .set_round_trip(1, Duration::from_millis(300))
        .expect("a broker");
    let big = vec![b'x'; 100_000];
    let run = world.start(move |builder| {
        echoing(builder)
            .memory_budget(16 << 20)
            .handler(move |record: &Record| echo(record).value(big.clone()))
    });
    run.until_status("the bound", |status| status.outputs_full);
    let most = run.status().output_bytes;
    // A sixteenth of the budget, and what was at the workers before it was known that there are outputs.
    assert!(most < 8 << 20, "{most} of 40 MB");
    world
        .broker
        .set_round_trip(1, Duration::ZERO)
        .expect("a broker");
    world.until_committed(400);
    // The mock keeps only the last few megabytes of a log.
    run.until_status("all of them", |status| status.sent == 400);
    run.stop();
}

#[test]
fn an_engine_without_outputs_opens_no_producer() {
    let world = world(10, 10);
    // Would be asked for by any idempotent producer, and refused for good.
    let faults = [MockFault::ClusterDenied; 10];
    world
        .broker
        .fail_requests(MockRequest::InitProducerId, &faults);
    let run = world.start(|builder| builder.handler(|_: &Record| ()));
    world.until_committed(10);
    let report = run.drain();
    assert_eq!(report.records, 10);
}

/// With the error kept under no topic's name it shows for five minutes more.
#[test]
fn what_a_producer_had_that_is_replaced_shows_until_its_topics_take_outputs_again() {
    let world = world(10, 10);
    world
        .broker
        .fail_requests(MockRequest::InitProducerId, &[MockFault::ClusterDenied]);
    let run = world.start(echoing);
    run.until_status("all sent", |status| status.sent == 10);
    assert!(run.status().sends_failed > 0, "the first producer met it");
    run.until_status("no error left", |status| {
        status.send_error.is_none() && status.health.is_ready()
    });
    run.stop();
}
