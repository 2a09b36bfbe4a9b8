//! Properties: what is refused, what is set, what wins.

use super::*;
use crate::kafka::{ConfigError, Prepared, StartWish};

fn with(properties: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("group.id", "g");
    for (property, value) in properties {
        config.set(*property, *value);
    }
    config
}

fn prepared(config: &ClientConfig) -> Result<Prepared, ConfigError> {
    prepare(config, Prefetch::default())
}

#[test]
fn what_would_break_the_engine_is_refused_with_its_reason() {
    for (property, value) in [
        ("enable.auto.commit", "true"),
        ("enable.auto.commit", "1"),
        ("auto.commit.enable", "t"),
        ("enable.auto.offset.store", "true"),
        ("enable.partition.eof", "false"),
        ("offset.store.method", "file"),
        ("log.queue", "true"),
        ("isolation.level", "read_uncommitted"),
        ("auto.offset.reset", "sometimes"),
    ] {
        match prepared(&with(&[(property, value)])) {
            Err(ConfigError::Refused {
                property: named,
                value: given,
                ..
            }) => {
                assert_eq!((named, given.as_str()), (property, value));
            }
            other => panic!("{property}={value}: {other:?}"),
        }
    }
    assert!(matches!(
        prepared(&ClientConfig::new()),
        Err(ConfigError::Missing {
            property: "group.id",
            ..
        })
    ));
}

#[test]
fn what_says_the_same_as_the_engine_is_accepted() {
    let said = [
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "0"),
        ("enable.partition.eof", "true"),
    ];
    assert!(prepared(&with(&said)).is_ok());
}

#[test]
fn the_reset_policy_is_read_as_a_wish_and_set_to_error() {
    for (value, wish) in [
        (Some("earliest"), Some(StartWish::Earliest)),
        (Some("Smallest"), Some(StartWish::Earliest)),
        (Some("end"), Some(StartWish::Latest)),
        (Some("error"), None),
        (None, None),
    ] {
        let config = with(
            &value
                .map(|value| ("auto.offset.reset", value))
                .into_iter()
                .collect::<Vec<_>>(),
        );
        let prepared = prepared(&config).expect("good");
        assert_eq!(prepared.start, wish, "{value:?}");
        assert_eq!(prepared.client.get("auto.offset.reset"), Some("error"));
    }
}

#[test]
fn prefetch_is_set_unless_the_application_did() {
    let config = with(&[
        ("queued.min.messages", "5"),
        ("max.partition.fetch.bytes", "77777"),
    ]);
    let client = prepared(&config).expect("good").client;
    assert_eq!(client.get("queued.min.messages"), Some("5"));
    assert_eq!(client.get("fetch.queue.backoff.ms"), Some("0"));
    assert_eq!(client.get("fetch.message.max.bytes"), None);
    assert!(client.get("queued.max.messages.kbytes").is_some());
    for (property, value) in [
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("enable.partition.eof", "true"),
    ] {
        assert_eq!(client.get(property), Some(value));
    }
}
