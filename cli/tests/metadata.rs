//! `keyway metadata`: the contract of its JSON.

#![allow(clippy::unwrap_used)]

mod common;

use common::{answer, answers, keyway, output};
use serde_json::{Value, json};

const VECTORS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../offsets/tests/vectors/offset-maps.jsonl"
);

#[test]
fn a_map_decodes_to_its_fields() {
    let (code, answer) = answer(&mut keyway("metadata decode --committed 100 bAAK5gMA"));
    assert_eq!(code, 0);
    let expected = json!({
        "ok": true, "committed": 100, "text_format": "base64", "encoding": "BitSet", "highest_seen": 109,
        "incomplete": [[100, 100], [103, 104]], "rider": {"state": "none"},
    });
    assert_eq!(answer, expected);
}

#[test]
fn an_empty_text_speaks_of_nothing() {
    for line in [
        json!({"committed": 0, "text": ""}),
        json!({"committed": 0, "text": null}),
    ] {
        let answer = one("decode", &line);
        let expected = json!({
            "ok": true, "committed": 0, "text_format": "empty", "encoding": "None", "highest_seen": -1,
            "incomplete": [], "rider": {"state": "none"},
        });
        assert_eq!(answer, expected);
    }
    let (code, answer) = answer(&mut keyway("metadata decode --committed 7"));
    assert_eq!((code, &answer["highest_seen"]), (0, &json!(6)));
}

#[test]
fn every_map_that_java_wrote_decodes_to_what_java_reads() {
    let vectors = std::fs::read(VECTORS).unwrap();
    let answers = answers("metadata decode --lines", &vectors);
    let lines = String::from_utf8(vectors).unwrap();
    assert_eq!(answers.len(), lines.lines().count());
    for (line, answer) in lines.lines().zip(answers) {
        let vector: Value = serde_json::from_str(line).unwrap();
        assert_eq!(answer["ok"], true, "{line}");
        for field in ["committed", "encoding", "highest_seen", "incomplete"] {
            assert_eq!(answer[field], vector[field], "{field} of {line}");
        }
    }
}

#[test]
fn every_such_map_is_encoded_so_that_it_decodes_to_itself() {
    let vectors = std::fs::read_to_string(VECTORS).unwrap();
    let encoded = answers("metadata encode --lines", vectors.as_bytes());
    let mut again = String::new();
    for (line, answer) in vectors.lines().zip(&encoded) {
        let vector: Value = serde_json::from_str(line).unwrap();
        assert_eq!(answer["ok"], true, "{line}");
        assert_eq!(
            answer["chars"],
            answer["text"].as_str().unwrap().len(),
            "{line}"
        );
        let request = json!({"committed": vector["committed"], "text": answer["text"]});
        again += &format!("{request}\n");
    }
    let decoded = answers("metadata decode --lines", again.as_bytes());
    for ((line, encoded), decoded) in vectors.lines().zip(&encoded).zip(&decoded) {
        let vector: Value = serde_json::from_str(line).unwrap();
        if encoded["rung"] == "map" {
            assert_eq!(decoded["incomplete"], vector["incomplete"], "{line}");
        }
    }
}

#[test]
fn a_fault_of_the_text_has_its_name_and_exit_code_2() {
    for (text, error) in [
        ("b", "bad_text"),
        ("~~~~", "bad_text"),
        ("//8=", "unknown_magic"),
        ("AQ==", "kafka_streams"),
        ("Ag==", "kafka_streams"),
        ("bA==", "truncated"),
        ("bAAK5gMAAA==", "trailing"),
        ("b////w==", "truncated"),
        ("bP//AA==", "bad_length"),
        ("bgAB//8=", "bad_run"),
        ("YQAA", "bad_zstd"),
        ("ZX////8=", "too_large"),
        ("bgAAAAE=", "not_canonical"),
    ] {
        let (code, answer) = answer(keyway("metadata decode --committed 100").arg(text));
        assert_eq!(code, 2, "{text}");
        assert_eq!(
            (&answer["ok"], &answer["error"]),
            (&json!(false), &json!(error)),
            "{text}: {answer}"
        );
        assert!(answer["detail"].is_string());
        assert_eq!(
            one("decode", &json!({"committed": 100, "text": text})),
            answer
        );
    }
}

#[test]
fn what_is_no_request_is_bad_input_in_its_place() {
    let lines = [
        "",
        "nonsense",
        "{",
        "[100,\"\"]",
        "\"x\"",
        "null",
        "1",
        "{}",
        r#"{"committed":1}"#,
        r#"{"text":""}"#,
        r#"{"committed":"1","text":""}"#,
        r#"{"committed":1.0,"text":""}"#,
        r#"{"committed":-1,"text":""}"#,
        r#"{"committed":9223372036854775808,"text":""}"#,
        r#"{"committed":1e2,"text":""}"#,
        r#"{"committed":null,"text":""}"#,
        r#"{"committed":1,"text":5}"#,
        r#"{"committed":1,"text":"\ud800"}"#,
        r#"{"committed":1,"committed":1,"text":""}"#,
        r#"{"committed":1,"text":""} x"#,
    ];
    let good = r#"{"committed":100,"text":"bAAK5gMA","more":{"fields":[1]}}"#;
    let input = lines
        .iter()
        .map(|line| format!("{line}\n{good}\n"))
        .collect::<String>();
    let answers = answers("metadata decode --lines", input.as_bytes());
    assert_eq!(answers.len(), 2 * lines.len());
    for (line, pair) in lines.iter().zip(answers.chunks(2)) {
        assert_eq!(pair[0]["error"], "bad_input", "{line}: {}", pair[0]);
        assert_eq!(pair[0]["ok"], false);
        assert_eq!(pair[1]["ok"], true, "after {line}");
    }
}

#[test]
fn the_highest_offsets_there_are_decode() {
    let last = i64::MAX;
    let answer = one("decode", &json!({"committed": last, "text": ""}));
    assert_eq!(answer["highest_seen"], last - 1);
    let answer = one("decode", &json!({"committed": last, "text": "bgAB"}));
    assert_eq!(
        (&answer["ok"], &answer["incomplete"]),
        (&json!(true), &json!([[last, last]]))
    );
    assert_eq!(
        one("decode", &json!({"committed": last, "text": "bgABAAE="}))["error"],
        "too_large"
    );
}

#[test]
fn a_map_is_encoded_with_what_it_costs() {
    let (code, answer) = answer(&mut keyway(
        "metadata encode --committed 100 --highest 109 --incomplete 100,103-104",
    ));
    assert_eq!(code, 0);
    let expected = json!({
        "ok": true, "text": "bAAK5gMA", "chars": 8, "encoding": "BitSet", "rung": "map", "blocked": false,
        "inner_chars": 8,
    });
    assert_eq!(answer, expected);
    let line = json!({"committed": 100, "highest": 109, "incomplete": [[100, 100], [103, 104]]});
    assert_eq!(one("encode", &line), expected);
    let line = json!({
        "committed": 100, "highest": 109, "incomplete": [[100, 100], [103, 103], [104, 104]],
        "limit": null, "threshold": null, "format": "java", "rider_hex": null,
    });
    assert_eq!(one("encode", &line), expected, "neighbours are one hole");
}

#[test]
fn nothing_incomplete_is_the_empty_text() {
    let expected = json!({
        "ok": true, "text": "", "chars": 0, "encoding": "None", "rung": "none", "blocked": false, "inner_chars": 0,
    });
    for (committed, highest) in [
        (0, -1),
        (0, 0),
        (101, 100),
        (105, 100),
        (5, 500),
        (i64::MAX, i64::MAX),
    ] {
        let line = json!({"committed": committed, "highest": highest, "incomplete": []});
        assert_eq!(one("encode", &line), expected, "{line}");
    }
    let mut command = keyway("metadata encode --committed 5 --highest 9 --incomplete");
    assert_eq!(answer(command.arg("")), (0, expected));
}

#[test]
fn a_map_over_the_limit_is_left_out_and_one_over_the_threshold_blocks() {
    let with = |limit: u64, threshold: f64| {
        let line = json!({
            "committed": 100, "highest": 109, "incomplete": [[100, 100], [103, 104]],
            "limit": limit, "threshold": threshold,
        });
        let answer = one("encode", &line);
        (
            answer["rung"].as_str().unwrap().to_owned(),
            answer["blocked"].as_bool().unwrap(),
            answer["chars"].clone(),
        )
    };
    assert_eq!(with(8, 1.0), ("map".to_owned(), false, json!(8)));
    assert_eq!(with(8, 0.99), ("map".to_owned(), true, json!(8)));
    assert_eq!(with(7, 1.0), ("none".to_owned(), true, json!(0)));
    assert_eq!(with(0, 0.0), ("none".to_owned(), true, json!(0)));
    let (code, answer) = answer(&mut keyway(
        "metadata encode --committed 100 --highest 109 --incomplete 100,103-104 --limit 10 --threshold 0.8",
    ));
    assert_eq!(
        (code, &answer["blocked"], &answer["inner_chars"]),
        (0, &json!(false), &json!(8))
    );
}

#[test]
fn what_is_no_map_is_bad_input() {
    let request = |committed: Value, highest: Value, incomplete: Value| json!({"committed": committed, "highest": highest, "incomplete": incomplete});
    let whole = |incomplete: Value| request(json!(100), json!(109), incomplete);
    for line in [
        whole(json!([[103, 104], [100, 100]])),
        whole(json!([[100, 103], [103, 104]])),
        whole(json!([[100, 100], [100, 100]])),
        whole(json!([[100, 100], [104, 103]])),
        whole(json!([[99, 100]])),
        whole(json!([[100, 110]])),
        whole(json!([[101, 102]])),
        whole(json!([[-1, 100]])),
        whole(json!([[100]])),
        whole(json!([[100, 100, 100]])),
        whole(json!([100])),
        whole(json!("100")),
        whole(json!(null)),
        whole(json!([[100, 9_223_372_036_854_775_808_u64]])),
        request(json!(-1), json!(109), json!([])),
        request(json!(0), json!(-2), json!([])),
        request(json!(100), json!(99), json!([[100, 100]])),
        request(json!(100), json!(null), json!([])),
        json!({"committed": 100, "highest": 109}),
        json!({"committed": 100, "incomplete": []}),
        json!({"highest": 100, "incomplete": []}),
    ] {
        let answer = one("encode", &line);
        assert_eq!(answer["error"], "bad_input", "{line}: {answer}");
    }
    for (field, value) in [
        ("limit", json!(-1)),
        ("limit", json!(1.5)),
        ("threshold", json!(1.1)),
        ("threshold", json!(-0.1)),
        ("threshold", json!("0.5")),
        ("format", json!("compact")),
        ("format", json!("")),
        ("rider_hex", json!("")),
        ("rider_hex", json!("6")),
        ("rider_hex", json!("zz")),
        ("rider_hex", json!(68)),
    ] {
        let mut line = whole(json!([[100, 100]]));
        line[field] = value;
        assert_eq!(one("encode", &line)["error"], "bad_input", "{line}");
    }
}

#[test]
fn a_bad_option_is_exit_code_2() {
    for arguments in [
        "metadata",
        "metadata decode",
        "metadata decode --committed x",
        "metadata decode --lines --committed 1",
        "metadata encode --committed 1",
        "metadata encode --committed 1 --highest 1 --incomplete 1 --format compact",
    ] {
        assert_eq!(output(arguments).status.code(), Some(2), "{arguments}");
    }
    for arguments in [
        "metadata encode --committed 1 --highest 1 --incomplete 1 --rider-hex 0",
        "metadata decode --committed -1",
        "metadata encode --committed 1 --highest 1 --incomplete x",
        "metadata encode --committed 1 --highest 1 --incomplete 2",
        "metadata encode --committed 1 --highest 1 --incomplete -1",
        "metadata encode --committed 1 --highest 1 --incomplete 1 --threshold 2",
    ] {
        let (code, answer) = answer(&mut keyway(arguments));
        assert_eq!(
            (code, &answer["error"]),
            (2, &json!("bad_input")),
            "{arguments}"
        );
    }
}

#[test]
fn a_questioner_gets_each_answer_before_the_next_question() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;

    let mut child = keyway("metadata decode --lines")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut questions = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for committed in 1..4 {
        writeln!(questions, r#"{{"committed":{committed},"text":""}}"#).unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["committed"], committed);
    }
    drop(questions);
    assert!(answers.next().is_none());
    assert!(child.wait().unwrap().success());
}

/// The answer to one line.
fn one(command: &str, line: &Value) -> Value {
    common::one(&format!("metadata {command}"), line)
}

#[test]
fn a_rider_goes_in_and_comes_out() {
    let request = json!({
        "committed": 100, "highest": 109, "incomplete": [[100, 100], [103, 104]], "rider_hex": "68656c6c6f",
    });
    let answer = one("encode", &request);
    assert_eq!(
        (&answer["rung"], &answer["inner_chars"], &answer["chars"]),
        (&json!("rider_and_map"), &json!(8), &json!(20)),
    );
    let decoded = one("decode", &json!({"committed": 100, "text": answer["text"]}));
    assert_eq!(
        decoded["rider"],
        json!({"state": "present", "hex": "68656c6c6f"})
    );
    assert_eq!(decoded["incomplete"], json!([[100, 100], [103, 104]]));

    let mut alone = request.clone();
    (alone["incomplete"], alone["highest"]) = (json!([]), json!(99));
    let answer = one("encode", &alone);
    assert_eq!(
        (&answer["rung"], &answer["encoding"]),
        (&json!("rider_only"), &json!("None"))
    );
    let decoded = one("decode", &json!({"committed": 100, "text": answer["text"]}));
    assert_eq!(
        (&decoded["highest_seen"], &decoded["encoding"]),
        (&json!(99), &json!("None"))
    );

    for (limit, rung) in [
        (20, "rider_and_map"),
        (19, "marker_and_map"),
        (11, "map"),
        (7, "marker_only"),
        (3, "none"),
    ] {
        let mut narrow = request.clone();
        narrow["limit"] = json!(limit);
        assert_eq!(one("encode", &narrow)["rung"], rung, "{limit}");
    }
    let marker = one("decode", &json!({"committed": 5, "text": "WAAA"}));
    assert_eq!(marker["rider"], json!({"state": "dropped"}));
}

#[test]
fn what_can_be_read_of_a_rider_is_answered_with_the_fault() {
    for (text, error, rider) in [
        (
            "WAACaGlR",
            "unknown_magic",
            json!({"state": "present", "hex": "6869"}),
        ),
        ("WAAAUQ==", "unknown_magic", json!({"state": "dropped"})),
        ("WAAAWAAA", "nested_envelope", json!(null)),
        ("AQ==", "kafka_streams", json!(null)),
        ("not base64", "bad_text", json!(null)),
        ("WAAF", "bad_envelope", json!(null)),
        ("WA==", "bad_envelope", json!(null)),
    ] {
        let answer = one("decode", &json!({"committed": 5, "text": text}));
        assert_eq!(
            (&answer["ok"], &answer["error"]),
            (&json!(false), &json!(error)),
            "{text}"
        );
        assert_eq!(answer["rider"], rider, "{text}");
    }
}
