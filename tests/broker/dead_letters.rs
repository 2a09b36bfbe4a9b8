//! A dead-letter topic on a real broker: missing, then made; and what its reader finds there.

use std::time::Duration;

use keyway::{
    ClientError, DeadLetters, DeniedWhat, Exhausted, Keyway, NotReady, Record, Retry, StartAt,
    Status,
};
use keyway_tests::cluster::{Cluster, Config, Record as Written};
use keyway_tests::wait;

use crate::SOON;

/// What is denied at the moment.
fn denied(status: &Status) -> Option<&ClientError> {
    status.health.not_ready.iter().find_map(|why| match why {
        NotReady::Denied { error, .. } => Some(error),
        _ => None,
    })
}

#[test]
fn a_missing_topic_blocks_the_key_visibly_and_gets_the_letter_when_it_is_made() {
    let cluster = Cluster::with(Config {
        properties: &[("auto.create.topics.enable", "false")],
        ..Config::default()
    });
    let (topic, group) = (cluster.unique("orders"), cluster.unique("g"));
    let dead = format!("{topic}.dead");
    cluster.create_topic(&topic, 1, &[]);
    let headers: [(&str, Option<&[u8]>); 5] = [
        ("trace", Some(b"1")),
        ("a", Some(b"")),
        ("trace", None),
        ("keyway.dlq.topic", Some(b"from an earlier life")),
        ("trace", Some(b"\xff\x00")),
    ];
    let bad = headers.iter().fold(
        Written::from((Some(0), Some("bad"), "no order")),
        |record, (name, value)| record.header(name, *value),
    );
    cluster.produce(&topic, [bad]);
    cluster.produce(
        &topic,
        [(Some(0), Some("good"), "1"), (Some(0), Some("bad"), "2")],
    );

    let engine = Keyway::builder(cluster.client())
        .group(&group)
        .topics([topic.clone()])
        .start_at(StartAt::Earliest)
        .commit_interval(Duration::from_millis(100))
        .handler(|record: &Record| match record.value() {
            Some(b"no order") => Err("there is no order in it"),
            _ => Ok(()),
        })
        .retry(Retry::every(Duration::from_millis(10)).attempts(2, Exhausted::DeadLetter))
        .dead_letters(DeadLetters::headers(&dead))
        .build()
        .expect("a configuration")
        .start()
        .expect("started");
    let is_blocked = |status: &Status| {
        let is_missing = matches!(
            denied(status),
            Some(ClientError::Denied { what: DeniedWhat::MissingTopic(missing), .. }) if *missing == dead
        );
        is_missing && status.dead_letters_waiting == 1 && status.completed == 1
    };
    let blocked = wait::try_until(SOON, || is_blocked(&engine.status()).then_some(()));
    assert!(blocked.is_some(), "{:?}", engine.status());
    engine.commit(SOON).expect("committed");
    let committed = &cluster.committed(&group, &topic)[0];
    assert_eq!(committed.offset, 0, "the record is incomplete");
    assert!(
        !committed.metadata.is_empty(),
        "and the one behind it is complete"
    );

    cluster.create_topic(&dead, 3, &[]);
    let healed = wait::try_until(SOON, || (engine.status().completed == 3).then_some(()));
    assert!(healed.is_some(), "{:?}", engine.status());
    wait::until("that nothing is denied", SOON, || {
        let status = engine.status();
        (denied(&status).is_none() && status.dead_letter_error.is_none()).then_some(())
    });
    engine.stop(SOON);
    assert!(engine.wait().expect("an orderly end").all_committed);
    assert_eq!(cluster.committed(&group, &topic)[0].offset, 3);

    let letters = cluster.read(&dead);
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!(letter.key.as_deref(), Some(&b"bad"[..]));
    assert_eq!(letter.value.as_deref(), Some(&b"no order"[..]));
    let own: Vec<_> = letter.headers[..5]
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_deref()))
        .collect();
    assert_eq!(own, headers, "in order, duplicates and nulls included");
    let story = |name: &str| {
        let found = letter.headers.iter().rev().find(|(found, _)| found == name);
        let value = found.and_then(|(_, value)| value.clone()).expect(name);
        String::from_utf8(value).expect("text")
    };
    assert_eq!(story("keyway.dlq.topic"), topic, "the last one counts");
    assert_eq!(story("keyway.dlq.offset"), "0");
    assert_eq!(story("keyway.dlq.attempts"), "2");
    assert_eq!(story("keyway.dlq.error"), "there is no order in it");
    assert_eq!(story("keyway.dlq.group"), group);
    assert!(!story("keyway.dlq.member").is_empty());
}
