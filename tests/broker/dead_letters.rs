//! A dead-letter topic on a real broker: missing, then made; and what its reader finds there.

use std::time::Duration;

use keyway::{
    ClientError, DeadLetters, DeniedWhat, Exhausted, Keyway, NotReady, Outcome, Record, Retry,
    StartAt, Status,
};
use keyway_tests::cluster::{Cluster, Config, Record as Written};
use keyway_tests::command::{self, Answered, Running, answer};
use keyway_tests::wait;
use serde_json::{Value, json};

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

/// Every record of `topic` becomes a letter in `dead`.
fn bury_all(cluster: &Cluster, topic: &str, dead: DeadLetters, records: u64) {
    let engine = Keyway::builder(cluster.client())
        .group(&cluster.unique("g"))
        .topics([topic.to_owned()])
        .start_at(StartAt::Earliest)
        .handler(|_: &Record| Outcome::DeadLetter("it is bad".into()))
        .dead_letters(dead)
        .build()
        .expect("a configuration")
        .start()
        .expect("started");
    let buried = wait::try_until(SOON, || {
        (engine.status().completed == records).then_some(())
    });
    assert!(buried.is_some(), "{:?}", engine.status());
    engine.stop(SOON);
    engine.wait().expect("an orderly end");
}

fn dead_letters(cluster: &Cluster, verb: &str, topic: &str, more: &[&str]) -> Answered {
    let mut arguments = vec!["dead-letters", verb, "--brokers", cluster.bootstrap()];
    arguments.extend(["--topic", topic]);
    arguments.extend(more);
    answer(&arguments)
}

#[test]
fn letters_are_listed_shown_and_sent_back_as_they_were() {
    for form in [DeadLetters::headers, DeadLetters::envelope] {
        listed_shown_and_sent_back(form);
    }
}

fn listed_shown_and_sent_back(form: fn(String) -> DeadLetters) {
    let cluster = Cluster::start();
    let topic = cluster.unique("orders");
    let dead = format!("{topic}.dead");
    cluster.create_topic(&topic, 2, &[]);
    cluster.create_topic(&dead, 2, &[]);
    let headers: [(&str, Option<&[u8]>); 4] = [
        ("trace", Some(b"1")),
        ("trace", None),
        ("a", Some(b"")),
        ("trace", Some(b"\xff\x00")),
    ];
    let bad = headers.iter().fold(
        Written::from((Some(1), Some("key"), "no order")),
        |record, (name, value)| record.header(name, *value),
    );
    cluster.produce(&topic, [bad]);
    cluster.produce(
        &topic,
        [(Some(0), Some("k2"), "2"), (Some(0), Some("k2"), "3")],
    );
    bury_all(cluster, &topic, form(dead.clone()), 3);
    cluster.produce(&dead, [(Some(0), Some("stranger"), "no letter")]);

    let listed = dead_letters(cluster, "list", &dead, &[]);
    assert_eq!(listed.code, 0, "{listed:?}");
    let letters = listed.json["letters"].as_array().expect("letters");
    assert_eq!((letters.len(), &listed.json["more"]), (3, &json!(false)));
    assert_eq!(listed.json["others"].as_array().map(Vec::len), Some(1));
    let is_bad = |letter: &&Value| letter["key"] == json!("6b6579");
    let letter = letters.iter().find(is_bad).expect("its letter");
    let record = json!({"topic": topic, "partition": 1, "offset": 0});
    assert_eq!(
        (&letter["record"], &letter["error"]),
        (&record, &json!("it is bad"))
    );
    let few = dead_letters(cluster, "list", &dead, &["--limit", "2"]);
    assert_eq!(few.json["more"], json!(true));

    let place = |name: &str| letter[name].to_string();
    let (partition, offset) = (place("partition"), place("offset"));
    let at = [
        "--partition",
        partition.as_str(),
        "--offset",
        offset.as_str(),
    ];
    let shown = dead_letters(cluster, "show", &dead, &at);
    let own = json!([
        ["trace", "31"],
        ["trace", null],
        ["a", ""],
        ["trace", "ff00"]
    ]);
    assert_eq!(
        shown.json["headers"], own,
        "in order, duplicates and nulls included"
    );
    assert_eq!(shown.json["value"], json!("6e6f206f72646572"));
    let nowhere = ["--partition", "0", "--offset", "99"];
    assert_eq!(dead_letters(cluster, "show", &dead, &nowhere).code, 1);

    let dry = dead_letters(cluster, "replay", &dead, &[]);
    assert_eq!((dry.code, &dry.json["letters"]), (0, &json!(3)));
    assert_eq!(cluster.read(&topic).len(), 3, "a dry run sends nothing");
    let replayed = dead_letters(cluster, "replay", &dead, &["--yes"]);
    assert_eq!(
        (replayed.code, &replayed.json["replayed"]),
        (0, &json!(3)),
        "{replayed:?}"
    );
    let all = cluster.read(&topic);
    let (mut before, mut after): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|record| record.offset < if record.partition == 1 { 1 } else { 2 });
    for record in before.iter_mut().chain(&mut after) {
        record.offset = 0;
    }
    assert_eq!(
        after, before,
        "to the same partitions, in order, nothing added"
    );
    let again = dead_letters(cluster, "replay", &dead, &["--yes"]);
    assert_eq!(
        (&again.json["letters"], &again.json["replayed"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(cluster.read(&topic).len(), 6);
    let missing = dead_letters(cluster, "list", "no-such-topic", &[]);
    assert_eq!(
        (missing.code, &missing.json["error"]["name"]),
        (1, &json!("no_such_topic"))
    );
}

// Replayed without the group's commits, the second time sends all of it again.
#[test]
fn a_replay_that_was_killed_goes_on_where_it_was() {
    const LETTERS: u64 = 30_000;
    let cluster = Cluster::start();
    let topic = cluster.unique("orders");
    let dead = format!("{topic}.dead");
    cluster.create_topic(&topic, 2, &[]);
    cluster.create_topic(&dead, 2, &[]);
    let keys: Vec<String> = (0..LETTERS)
        .map(|number| (number % 100).to_string())
        .collect();
    let values: Vec<String> = (0..LETTERS).map(|number| number.to_string()).collect();
    let records = keys.iter().zip(&values);
    cluster.produce(
        &topic,
        records.map(|(key, value)| (None, Some(key.as_str()), value.as_str())),
    );
    bury_all(cluster, &topic, DeadLetters::headers(&dead), LETTERS);

    let group = format!("keyway-replay.{dead}");
    // So that the one that was killed is not waited for long.
    let short = ["--yes", "-X", "session.timeout.ms=6000"];
    command::keyway();
    let mut arguments = vec!["dead-letters", "replay", "--brokers", cluster.bootstrap()];
    arguments.extend(["--topic", &dead]);
    arguments.extend(short);
    let replay = Running::start(&arguments);
    let committed = || -> i64 {
        cluster
            .committed(&group, &dead)
            .iter()
            .map(|at| at.offset)
            .sum()
    };
    wait::until("a commit in the middle", SOON, || {
        (committed() > 0).then_some(())
    });
    replay.kill();
    let sent_before = committed();
    assert!(sent_before < LETTERS as i64, "it was killed in the middle");

    let again = dead_letters(cluster, "replay", &dead, &short);
    let replayed = again.json["replayed"].as_i64().expect("a number");
    assert_eq!(again.code, 0, "{again:?}");
    assert!(
        replayed < LETTERS as i64,
        "{replayed} of {LETTERS}, {sent_before} were committed"
    );
    // At least once, and those of a key in order: what is there twice is a stretch that was not committed.
    let mut seen = std::collections::HashSet::new();
    for record in cluster.read(&topic) {
        seen.insert(record.value);
    }
    assert_eq!(seen.len(), LETTERS as usize);
    let all = cluster.read(&topic).len() as i64;
    assert!(all >= 2 * LETTERS as i64 && all <= 2 * LETTERS as i64 + LETTERS as i64 - sent_before);
}
