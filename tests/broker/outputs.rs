//! Outputs on a real broker: what their reader finds, and a topic that is missing, then made.

use std::time::Duration;

use keyway::{ClientError, DeniedWhat, Keyway, NotReady, Output, Record, Retry, StartAt, Status};
use keyway_tests::cluster::{Cluster, Config, Record as Written, read_topic};
use keyway_tests::wait;

use crate::SOON;

fn is_denied(status: &Status, topic: &str) -> bool {
    let is_it = |error: &ClientError| matches!(error, ClientError::Denied { what: DeniedWhat::MissingTopic(name), .. } if name == topic);
    let mut not_ready = status.health.not_ready.iter();
    not_ready.any(|why| matches!(why, NotReady::Denied { error, .. } if is_it(error)))
        && status.send_error.as_ref().is_some_and(is_it)
}

#[test]
fn a_missing_topic_holds_the_key_up_visibly_and_gets_the_outputs_when_it_is_made() {
    let cluster = Cluster::with(Config {
        properties: &[("auto.create.topics.enable", "false")],
        ..Config::default()
    });
    let (topic, group) = (cluster.unique("orders"), cluster.unique("g"));
    let out = format!("{topic}.out");
    cluster.create_topic(&topic, 1, &[]);
    let headers: [(&str, Option<&[u8]>); 4] = [
        ("trace", Some(b"1")),
        ("a", Some(b"")),
        ("trace", None),
        ("trace", Some(b"\xff\x00")),
    ];
    let record = |value| {
        headers.iter().fold(
            Written::from((Some(0), Some("key"), value)),
            |record, (name, value)| record.header(name, *value),
        )
    };
    cluster.produce(&topic, [record("0"), record("1")]);

    let to = out.clone();
    let engine = Keyway::builder(cluster.client())
        .group(&group)
        .topics([topic])
        .start_at(StartAt::Earliest)
        .commit_interval(Duration::from_millis(100))
        .property("topic.metadata.propagation.max.ms", "500")
        .retry(Retry::every(Duration::from_millis(100)))
        .handler(move |record: &Record| {
            Output::copy_of(record, to.as_str()).map(|copy| vec![copy.timestamp(1_700_000_000_000)])
        })
        .build()
        .expect("a configuration")
        .start()
        .expect("started");
    wait::until("the missing topic", SOON, || {
        is_denied(&engine.status(), &out).then_some(())
    });
    assert_eq!(engine.status().completed, 0, "its key waits");
    cluster.create_topic(&out, 3, &[]);
    wait::until("both outputs", SOON, || {
        let status = engine.status();
        (status.sent == 2 && status.send_error.is_none()).then_some(())
    });
    engine.drain(Duration::from_secs(10));
    engine.wait().expect("an orderly end");

    let outputs = read_topic(cluster.client(), &out, 3);
    let values: Vec<_> = outputs.iter().map(|output| output.value.clone()).collect();
    assert_eq!(values, [Some(b"0".to_vec()), Some(b"1".to_vec())]);
    for output in &outputs {
        assert_eq!(output.key.as_deref(), Some(b"key".as_slice()));
        assert_eq!(output.timestamp, Some(1_700_000_000_000));
        let found: Vec<(&str, Option<&[u8]>)> = output
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_deref()))
            .collect();
        assert_eq!(found, headers);
    }
}
