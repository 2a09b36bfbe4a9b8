//! What the builder refuses, and what it says then.

use std::time::Duration;

use keyway::{BuildError, Builder, ClientConfig, Keyway, Record};

fn right() -> Builder {
    Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["t"])
        .handler(|_: &Record| ())
}

/// The message of the refusal.
#[track_caller]
fn refusal(builder: Builder) -> String {
    builder.build().expect_err("refused").to_string()
}

#[test]
fn what_is_right_is_taken() {
    assert!(right().build().is_ok());
    assert!(
        right()
            .property("enable.auto.commit", "false")
            .build()
            .is_ok()
    );
}

#[test]
fn properties_that_would_lose_records_are_refused_with_what_to_do() {
    for (property, value) in [
        ("enable.auto.commit", "true"),
        ("auto.commit.enable", "true"),
        ("enable.auto.offset.store", "true"),
        ("enable.partition.eof", "false"),
        ("isolation.level", "read_uncommitted"),
        ("auto.offset.reset", "none"),
    ] {
        let message = refusal(right().property(property, value));
        assert!(
            message.contains(property) && message.contains(value),
            "{message}"
        );
        assert!(
            message.contains("Leave it out") || message.contains("Use `"),
            "{message}"
        );
    }
}

#[test]
fn a_group_a_topic_and_a_handler_are_needed() {
    let client = ClientConfig::new;
    let no_group = Keyway::builder(client())
        .topics(["t"])
        .handler(|_: &Record| ());
    assert!(refusal(no_group).contains("group.id"));
    let no_topic = Keyway::builder(client())
        .group("g")
        .handler(|_: &Record| ());
    assert!(refusal(no_topic).contains("no topic"));
    let no_handler = Keyway::builder(client()).group("g").topics(["t"]);
    assert!(matches!(no_handler.build(), Err(BuildError::NoHandler)));
}

#[test]
fn a_pattern_has_to_be_one() {
    let builder = Keyway::builder(ClientConfig::new())
        .group("g")
        .topic_pattern("orders-(");
    let message = refusal(builder.handler(|_: &Record| ()));
    assert!(
        message.contains("orders-(") && message.contains("not a regular expression"),
        "{message}"
    );
}

#[test]
fn a_revoke_may_not_wait_for_half_of_the_poll_interval() {
    let builder = || right().property("max.poll.interval.ms", "20000");
    let message = refusal(builder().revoke_wait(Duration::from_secs(10)));
    assert!(
        message.contains("revoke_wait = 10000") && message.contains("max.poll.interval.ms"),
        "{message}"
    );
    assert!(
        builder()
            .revoke_wait(Duration::from_millis(9_999))
            .build()
            .is_ok()
    );
    // The default fits itself to what the client says.
    assert!(
        right()
            .property("max.poll.interval.ms", "6000")
            .build()
            .is_ok()
    );
}

#[test]
fn numbers_have_their_ranges() {
    for (setting, builder) in [
        ("concurrency", right().concurrency(0)),
        ("batch_max", right().batch_max(0)),
        ("memory_budget", right().memory_budget(1 << 20)),
        ("partition_buffer", right().partition_buffer(0)),
        (
            "commit_timeout",
            right().commit_timeout(Duration::from_millis(1)),
        ),
        ("metadata_threshold", right().metadata_threshold(1.5)),
        ("max_window", right().max_window(0)),
    ] {
        let error = builder.build().expect_err("refused");
        match &error {
            BuildError::OutOfRange { setting: named, .. } => assert_eq!(*named, setting),
            other => panic!("{setting}: {other}"),
        }
        assert!(error.to_string().starts_with(setting), "{error}");
    }
}

#[test]
fn a_property_that_the_client_does_not_know_fails_the_start() {
    let keyway = right()
        .property("no.such.property", "1")
        .build()
        .expect("not looked at yet");
    let error = keyway.start().expect_err("refused by the client");
    assert!(error.to_string().contains("no.such.property"), "{error}");
}
