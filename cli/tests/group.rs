//! `keyway group` without a broker: options, and somebody who does not answer. Over a real broker it runs in
//! `tests/broker/group.rs`.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use common::{answer, keyway, output};
use serde_json::Value;

/// What the command refused, by name.
fn name(answer: &Value) -> &str {
    answer["error"]["name"].as_str().unwrap()
}

/// A port that takes connections and says nothing.
fn silent() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

#[test]
fn what_cannot_be_asked_is_bad_input() {
    for (arguments, expected) in [
        ("group inspect --group g", "bad_input"),
        ("group scrub --brokers localhost:1", "bad_input"),
        (
            "group inspect --brokers localhost:1 --group g --config /nowhere/at/all",
            "bad_input",
        ),
        (
            "group inspect --brokers localhost:1 --group g -X no.such.property=1",
            "bad_config",
        ),
        (
            "group scrub --brokers localhost:1 --group g -X enable.auto.commit=true",
            "bad_config",
        ),
    ] {
        let (code, answer) = answer(&mut keyway(arguments));
        assert_eq!((code, name(&answer)), (2, expected), "{arguments}");
    }
    for arguments in [
        "group",
        "group inspect --brokers localhost:1 --group g --timeout 0s",
        "group inspect --brokers localhost:1 --group g --timeout 2h",
        "group scrub --brokers localhost:1 --group g --limit 4096",
        "group inspect --brokers localhost:1 --group g --yes",
        "group complete --brokers localhost:1 --group g --topic t --partition 0",
        "group complete --brokers localhost:1 --group g --topic t --partition 0 --offset 9-3",
        "group complete --brokers localhost:1 --group g --topic t --partition -1 --offset 3",
    ] {
        assert_eq!(output(arguments).status.code(), Some(2), "{arguments}");
    }
}

#[test]
fn a_port_that_says_nothing_is_told_in_time() {
    let port = silent();
    let address = port.local_addr().unwrap();
    for verb in [
        "inspect",
        "scrub --yes",
        "complete --topic t --partition 0 --offset 1 --yes",
    ] {
        let begun = Instant::now();
        let (code, answer) = answer(&mut keyway(&format!(
            "group {verb} --brokers {address} --group g --timeout 500ms"
        )));
        assert_eq!((code, name(&answer)), (1, "no_answer"), "{answer}");
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "{:?}",
            begun.elapsed()
        );
    }
}

#[test]
fn a_refused_connection_is_named() {
    let address = silent().local_addr().unwrap();
    let (code, answer) = answer(&mut keyway(&format!(
        "group inspect --brokers {address} --group g --timeout 500ms"
    )));
    assert_eq!((code, name(&answer)), (1, "no_answer"), "{answer}");
    let detail = answer["error"]["detail"].as_str().unwrap();
    assert!(detail.contains("Connection refused"), "{detail}");
}

#[test]
fn properties_of_a_member_can_stay_in_the_file() {
    let address = silent().local_addr().unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(
        file,
        "# all of it\nbootstrap.servers={address}\ngroup.id=g\ngroup.protocol=consumer\ngroup.instance.id=one"
    )
    .unwrap();
    let config = file.path().to_str().unwrap();
    let (code, answer) = answer(keyway("group inspect --timeout 500ms --config").arg(config));
    assert_eq!((code, name(&answer)), (1, "no_answer"), "{answer}");
}
