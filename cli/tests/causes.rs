//! `keyway causes`: the contract of its JSON.

#![allow(clippy::unwrap_used)]

mod common;

use common::{answer, answers, keyway, one, output};
use serde_json::{Value, json};

const ONE: &str = "00000000000000000000000000000001";
const TWO: &str = "00000000000000000000000000000002";

/// Partition 0 at 17 and 3 at 99 of one topic, 5 at 7 of another.
const HEADER: &str = "01020000000000000000000000000000000102000000000000000011030000000000000063\
                      0000000000000000000000000000000201050000000000000007";

fn topics() -> Value {
    json!([
        {"id": ONE, "partitions": [[0, 17], [3, 99]]},
        {"id": TWO, "partitions": [[5, 7]]},
    ])
}

fn decoded(line: &Value) -> Value {
    one("causes decode", line)
}

fn refused(answer: &Value, name: &str) {
    let fault = (&answer["ok"], &answer["error"]);
    assert_eq!(fault, (&json!(false), &json!(name)), "{answer}");
    assert!(!answer["detail"].as_str().unwrap().is_empty(), "{answer}");
}

#[test]
fn a_header_decodes_to_its_topics() {
    let expected = json!({"ok": true, "present": true, "topics": topics()});
    assert_eq!(decoded(&json!({"hex": HEADER})), expected);
    let headers = json!([
        ["trace", null],
        ["parsley.causes", HEADER],
        ["parsley.cause", "ff"]
    ]);
    assert_eq!(decoded(&json!({"headers": headers})), expected);
    assert_eq!(answer(keyway("causes decode").arg(HEADER)), (0, expected));
}

#[test]
fn a_header_without_causes_is_present_and_no_header_is_not() {
    let none = json!({"ok": true, "present": true, "topics": []});
    assert_eq!(decoded(&json!({"hex": "0100"})), none);
    let absent = json!({"ok": true, "present": false, "topics": []});
    for headers in [
        json!([]),
        json!([["Parsley.causes", "ff"], ["parsley.causes ", null]]),
    ] {
        assert_eq!(decoded(&json!({"headers": headers})), absent);
    }
}

#[test]
fn what_can_t_be_read_is_refused_by_name() {
    refused(&decoded(&json!({"hex": null})), "null_value");
    refused(
        &decoded(&json!({"headers": [["parsley.causes", null]]})),
        "null_value",
    );
    let twice = json!([["parsley.causes", "0100"], ["parsley.causes", "0100"]]);
    refused(&decoded(&json!({"headers": twice})), "duplicate_header");
    for (hex, name) in [
        ("", "truncated"),
        ("02", "version"),
        ("010000", "trailing"),
        ("018000", "varint_nonminimal"),
        ("018080808008", "varint_overflow"),
    ] {
        refused(&decoded(&json!({"hex": hex})), name);
        refused(
            &decoded(&json!({"headers": [["parsley.causes", hex]]})),
            name,
        );
    }
    let (code, answer) = answer(keyway("causes decode").arg("01"));
    assert_eq!(code, 2);
    refused(&answer, "truncated");
}

/// The header values of the reference, both ways.
#[test]
fn the_vectors_of_the_reference() {
    let file: Value = serde_json::from_str(include_str!("../../causal/tests/causes.json")).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    let lines: Vec<String> = vectors
        .iter()
        .map(|vector| json!({"hex": vector["hex"]}).to_string())
        .collect();
    let answers = answers("causes decode --lines", lines.join("\n").as_bytes());
    assert_eq!(answers.len(), 54);
    for (vector, answer) in vectors.iter().zip(&answers) {
        if vector["ok"] == true {
            let pair = |pair: &Value| json!([pair["p"], pair["pos"]]);
            let topic = |topic: &Value| {
                let partitions = topic["partitions"].as_array().unwrap();
                json!({"id": topic["topic_id_hex"], "partitions": partitions.iter().map(pair).collect::<Value>()})
            };
            let topics: Value = vector["decoded"]
                .as_array()
                .unwrap()
                .iter()
                .map(topic)
                .collect();
            assert_eq!(
                answer,
                &json!({"ok": true, "present": true, "topics": topics})
            );
            let made = one("causes encode", &json!({"topics": topics}));
            assert_eq!(made, json!({"ok": true, "hex": vector["hex"]}));
        } else {
            refused(answer, vector["error"].as_str().unwrap());
        }
    }
    for case in file["header_cases"].as_array().unwrap() {
        let answer = decoded(&json!({"headers": case["headers"]}));
        match case["result"].as_str().unwrap() {
            "error" => refused(&answer, case["error"].as_str().unwrap()),
            result => assert_eq!(answer["present"], result == "decoded", "{case}"),
        }
    }
}

#[test]
fn topics_in_any_order_encode_to_the_one_header() {
    let expected = json!({"ok": true, "hex": HEADER});
    assert_eq!(one("causes encode", &json!({"topics": topics()})), expected);
    let other = json!([
        {"id": TWO, "partitions": [[5, 7]]},
        {"id": ONE, "partitions": [[3, 99], [0, 17]]},
    ]);
    assert_eq!(one("causes encode", &json!({"topics": other})), expected);
    let options = format!("causes encode --cause {ONE}:3:99 --cause {TWO}:5:7 --cause {ONE}:0:17");
    assert_eq!(answer(&mut keyway(&options)), (0, expected));
    let none = json!({"ok": true, "hex": "0100"});
    assert_eq!(one("causes encode", &json!({"topics": []})), none);
    assert_eq!(answer(&mut keyway("causes encode")), (0, none));
}

#[test]
fn what_no_header_can_name_is_bad_input() {
    for (id, partitions) in [
        (&"0".repeat(32)[..], json!([[0, 1]])),
        ("1", json!([[0, 1]])),
        (ONE, json!([])),
        (ONE, json!([[0, 1], [0, 1]])),
        (ONE, json!([[0, -1]])),
        (ONE, json!([[0, i64::MAX]])),
        (ONE, json!([[1_u64 << 31, 1]])),
        (ONE, json!([[-1, 1]])),
        (ONE, json!([[0]])),
        (ONE, json!([[0, 1.5]])),
        (ONE, json!(null)),
    ] {
        let topics = json!([{"id": id, "partitions": partitions}]);
        refused(
            &one("causes encode", &json!({"topics": topics})),
            "bad_input",
        );
    }
    let most = json!([{"id": ONE, "partitions": [[i32::MAX, i64::MAX - 1]]}]);
    assert_eq!(one("causes encode", &json!({"topics": most}))["ok"], true);
}

#[test]
fn what_is_no_request_is_bad_input() {
    for line in [
        json!({}),
        json!({"hex": 7}),
        json!({"hex": "0"}),
        json!({"hex": "zz"}),
        json!({"hex": "0100", "headers": []}),
        json!({"hex": null, "headers": []}),
        json!({"headers": null}),
        json!({"headers": [["a"]]}),
        json!({"headers": [["a", "0"]]}),
        json!(["0100"]),
        json!("0100"),
    ] {
        refused(&decoded(&line), "bad_input");
    }
    for line in [
        json!({}),
        json!({"topics": null}),
        json!({"topics": [{"id": ONE}]}),
    ] {
        refused(&one("causes encode", &line), "bad_input");
    }
}

#[test]
fn lines_are_answered_in_order_and_exit_with_0() {
    let input =
        format!("{{\"hex\":\"0100\"}}\nnonsense\n{{\"hex\":\"\"}}\n{{\"hex\":\"{HEADER}\"}}");
    let answers = answers("causes decode --lines", input.as_bytes());
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0]["topics"], json!([]));
    refused(&answers[1], "bad_input");
    refused(&answers[2], "truncated");
    assert_eq!(answers[3]["topics"], topics());
}

#[test]
fn bad_usage_exits_with_2() {
    for arguments in [
        "causes",
        "causes decode",
        "causes decode --lines 0100",
        "causes encode --lines --cause a:0:1",
        "causes encode 0100",
    ] {
        let output = output(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(output.stdout.is_empty(), "{arguments}");
    }
    for cause in [
        "a",
        "a:0",
        "a:0:1",
        "a:0:1:2",
        &format!("{ONE}:x:1"),
        &format!("{ONE}:0:-1"),
    ] {
        let (code, answer) = answer(&mut keyway(&format!("causes encode --cause {cause}")));
        assert_eq!(code, 2);
        refused(&answer, "bad_input");
    }
}
