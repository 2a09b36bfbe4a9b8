//! `keyway headers` and `keyway record`: the contract of their JSON.

#![allow(clippy::unwrap_used)]

mod common;

use common::{answer, answers, keyway, one, output};
use serde_json::{Value, json};

/// Two headers of one name, as `records/README.md` has them.
const HEADERS: &str = "0002000574726163650000000201ff0005747261636500000000";

/// The record of `records/README.md`, whose second header is null.
const RECORD: &str = "46021ea510010000019ad735840000000002000000000000001b0002000574726163650000000201ff0005747261636500000000026b31";

fn record() -> Value {
    json!({
        "key": "6b31", "value": null, "timestamp": 1_764_547_200_000_i64,
        "headers": [["trace", "01ff"], ["trace", null]],
    })
}

fn refused(answer: &Value, name: &str) {
    let fault = (&answer["ok"], &answer["error"]);
    assert_eq!(fault, (&json!(false), &json!(name)), "{answer}");
    assert!(!answer["detail"].as_str().unwrap().is_empty(), "{answer}");
}

#[test]
fn a_header_block_decodes_to_its_headers_in_order() {
    let expected = json!({"ok": true, "headers": [["trace", "01ff"], ["trace", ""]]});
    assert_eq!(one("headers decode", &json!({"hex": HEADERS})), expected);
    let single = answer(keyway("headers decode").arg(HEADERS));
    assert_eq!(single, (0, expected));
    let none = one("headers decode", &json!({"hex": "0000"}));
    assert_eq!(none, json!({"ok": true, "headers": []}));
}

#[test]
fn headers_encode_to_their_block() {
    let expected = json!({"ok": true, "hex": HEADERS});
    // The block can't say null.
    for last in [json!(""), json!(null)] {
        let headers = json!({"headers": [["trace", "01FF"], ["trace", last]]});
        assert_eq!(one("headers encode", &headers), expected);
    }
    let options = "headers encode --header trace=01ff --header trace=";
    assert_eq!(answer(&mut keyway(options)), (0, expected));
    let none = json!({"ok": true, "hex": "0000"});
    assert_eq!(answer(&mut keyway("headers encode")), (0, none));
}

#[test]
fn a_record_block_decodes_to_its_record() {
    let mut expected = record();
    expected["ok"] = json!(true);
    assert_eq!(one("record decode", &json!({"hex": RECORD})), expected);
    assert_eq!(answer(keyway("record decode").arg(RECORD)), (0, expected));
    let null = one(
        "record decode",
        &json!({"hex": "a035e2930000ffffffffffffffff0000000000000000"}),
    );
    let expected = json!({"ok": true, "key": null, "value": null, "timestamp": -1, "headers": []});
    assert_eq!(null, expected);
}

#[test]
fn a_record_encodes_to_its_block() {
    let expected = json!({"ok": true, "hex": RECORD});
    assert_eq!(one("record encode", &record()), expected);
    let options =
        "record encode --key-hex 6b31 --timestamp 1764547200000 --header trace=01ff --header trace";
    assert_eq!(answer(&mut keyway(options)), (0, expected));
    let empty = json!({"key": "", "value": null, "timestamp": 1000, "headers": []});
    let expected = json!({"ok": true, "hex": "eb19022a000100000000000003e80000000000000000"});
    assert_eq!(one("record encode", &empty), expected);
    let options = "record encode --key-hex= --timestamp 1000";
    assert_eq!(answer(&mut keyway(options)), (0, expected));
}

#[test]
fn a_header_option_may_have_an_equals_sign_in_its_name() {
    let (code, made) = answer(&mut keyway(
        "record encode --timestamp -1 --header a=b=00 --header =01",
    ));
    assert_eq!(code, 0);
    let read = one("record decode", &json!({"hex": made["hex"]}));
    assert_eq!(read["headers"], json!([["a=b", "00"], ["", "01"]]));
}

#[test]
fn what_is_no_block_is_refused_by_name() {
    for (hex, name) in [
        ("", "truncated"),
        ("0001", "truncated"),
        ("000000", "trailing"),
        ("00010001ff00000000", "bad_name"),
        ("0", "bad_input"),
        ("zz", "bad_input"),
    ] {
        refused(&one("headers decode", &json!({"hex": hex})), name);
    }
    let damaged = RECORD.replace("6b31", "6b32");
    for (hex, name) in [
        ("", "truncated"),
        (&RECORD[..RECORD.len() - 2], "truncated"),
        (&format!("{RECORD}00"), "trailing"),
        (&damaged, "bad_crc"),
        ("000000002000", "unknown_attrs"),
        ("a035e29", "bad_input"),
    ] {
        refused(&one("record decode", &json!({"hex": hex})), name);
    }
    let (code, answer) = answer(keyway("record decode").arg(damaged));
    assert_eq!(code, 2);
    refused(&answer, "bad_crc");
    assert!(
        answer["detail"].as_str().unwrap().contains("byte 0"),
        "{answer}"
    );
}

#[test]
fn what_no_block_holds_is_refused_by_name() {
    let name = "n".repeat(65_536);
    let headers = json!([[name, ""]]);
    refused(
        &one("headers encode", &json!({"headers": headers})),
        "name_too_long",
    );
    let many = vec![json!(["", ""]); 65_536];
    let mut record = record();
    record["headers"] = json!(many);
    refused(&one("record encode", &record), "too_many_headers");
    refused(
        &one("headers encode", &json!({"headers": many})),
        "too_many_headers",
    );
}

#[test]
fn what_is_no_request_is_bad_input() {
    for line in [
        json!({}),
        json!({"hex": null}),
        json!({"hex": 7}),
        json!(["0000"]),
        json!("0000"),
    ] {
        refused(&one("headers decode", &line), "bad_input");
        refused(&one("record decode", &line), "bad_input");
    }
    for headers in [
        json!(null),
        json!({"a": "00"}),
        json!([["a"]]),
        json!([["a", "00", "00"]]),
        json!([[null, "00"]]),
        json!([["a", "0"]]),
        json!([["a", 7]]),
    ] {
        refused(
            &one("headers encode", &json!({"headers": headers})),
            "bad_input",
        );
        let mut record = record();
        record["headers"] = headers;
        refused(&one("record encode", &record), "bad_input");
    }
    for field in ["key", "value", "timestamp", "headers"] {
        let mut record = record();
        record.as_object_mut().unwrap().remove(field);
        refused(&one("record encode", &record), "bad_input");
    }
    for (field, value) in [
        ("key", json!("6")),
        ("value", json!(7)),
        ("timestamp", json!(null)),
        ("timestamp", json!(1.5)),
    ] {
        let mut record = record();
        record[field] = value;
        refused(&one("record encode", &record), "bad_input");
    }
}

#[test]
fn lines_are_answered_in_order_and_exit_with_0() {
    let input =
        format!("{{\"hex\":\"{RECORD}\"}}\nnonsense\n{{\"hex\":\"00\"}}\n{{\"hex\":\"{RECORD}\"}}");
    let answers = answers("record decode --lines", input.as_bytes());
    assert_eq!(answers.len(), 4);
    refused(&answers[1], "bad_input");
    refused(&answers[2], "truncated");
    assert_eq!(
        (&answers[0], &answers[0]["ok"]),
        (&answers[3], &json!(true))
    );
}

#[test]
fn bad_usage_exits_with_2() {
    for arguments in [
        "headers",
        "headers decode",
        "headers decode --lines 0000",
        "headers encode --lines --header a=00",
        "record encode",
        "record encode --lines --timestamp 0",
        "record encode --timestamp soon",
        "record decode",
    ] {
        let output = output(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(output.stdout.is_empty(), "{arguments}");
    }
    let (code, answer) = answer(&mut keyway("headers encode --header a=0"));
    assert_eq!(code, 2);
    refused(&answer, "bad_input");
}
