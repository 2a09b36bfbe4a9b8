//! Tokens for OAUTHBEARER, of which only a librdkafka with SSL knows.

use super::*;
use crate::kafka::OauthToken;

fn token(lifetime_ms: i64) -> OauthToken {
    OauthToken {
        value: "abc".to_owned(),
        principal: "orders".to_owned(),
        lifetime_ms,
        extensions: vec![("cluster".to_owned(), "one".to_owned())],
    }
}

fn member(broker: &MockBroker) -> Member {
    let mut config = properties(broker);
    config
        .set("security.protocol", "SASL_PLAINTEXT")
        .set("sasl.mechanism", "OAUTHBEARER");
    Member::open_with(&config, |config| config.token_refresh = true)
}

#[test]
fn a_token_is_asked_for_and_taken() {
    let broker = broker(1);
    let mut member = member(&broker);
    member.until("a request", |member| {
        member.events.contains(&SourceEvent::TokenRefresh)
    });
    assert_eq!(member.group.set_token(&token(i64::MAX)), Ok(()));
    assert_eq!(member.group.set_token_failure("nul \0 byte"), Ok(()));
}

#[test]
fn a_token_that_breaks_the_rules_is_refused() {
    let broker = broker(1);
    let member = member(&broker);
    for lifetime_ms in [i64::MIN, 0, 1] {
        let refusal = member.group.set_token(&token(lifetime_ms));
        let text = refusal.expect_err("expired").to_string();
        assert!(text.contains("unexpired"), "{text}");
    }
    let mut bad = token(i64::MAX);
    bad.extensions[0].0 = "not a name".to_owned();
    assert!(member.group.set_token(&bad).is_err());
}
