//! The lines between `--handler exec:CMD` and its child: a record as JSON, and what became of it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use keyway::{Outcome, Output, Record};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::units;

/// Bytes in JSON: text where they are UTF-8, and `{"hex":".."}` where they are not.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Bytes<'r> {
    Text(Cow<'r, str>),
    Hex(Hex),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hex {
    hex: String,
}

impl<'r> From<&'r [u8]> for Bytes<'r> {
    fn from(bytes: &'r [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.into()),
            Err(_) => Self::Hex(Hex {
                hex: hex::encode(bytes),
            }),
        }
    }
}

impl Bytes<'_> {
    fn read(self) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(text) => Ok(text.into_owned().into_bytes()),
            Self::Hex(Hex { hex }) => hex::decode(&hex).map_err(|error| format!("hex: {error}")),
        }
    }
}

#[derive(Serialize)]
struct Question<'r> {
    topic: &'r str,
    partition: i32,
    offset: i64,
    timestamp: Option<i64>,
    attempt: u32,
    key: Option<Bytes<'r>>,
    value: Option<Bytes<'r>>,
    headers: Vec<(Bytes<'r>, Option<Bytes<'r>>)>,
}

/// The line that asks for a record, with its end.
pub(super) fn question(record: &Record) -> Result<Vec<u8>, String> {
    let headers = record.headers().map_err(|error| error.to_string())?;
    let question = Question {
        topic: record.topic(),
        partition: record.partition(),
        offset: record.offset(),
        timestamp: record.timestamp(),
        attempt: record.attempt(),
        key: record.key().map(Bytes::from),
        value: record.value().map(Bytes::from),
        headers: headers
            .map(|header| (header.name_bytes().into(), header.value().map(Bytes::from)))
            .collect(),
    };
    let mut line = serde_json::to_vec(&question).map_err(|error| error.to_string())?;
    line.push(b'\n');
    Ok(line)
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Done,
    Retry,
    DeadLetter,
    Skip,
    Stop,
}

/// Unknown names are refused: one that is misspelled would make a failure look like an end.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    // Which record.
    topic: Option<String>,
    partition: Option<i32>,
    offset: Option<i64>,
    attempt: Option<u32>,

    // What became of it.
    outcome: Option<Word>,
    ok: Option<bool>,
    error: Option<String>,
    after: Option<String>,
    outputs: Option<Vec<Sent>>,

    // What an answer brings along that is the question with something added.
    #[serde(default, rename = "timestamp")]
    _timestamp: IgnoredAny,
    #[serde(default, rename = "key")]
    _key: IgnoredAny,
    #[serde(default, rename = "value")]
    _value: IgnoredAny,
    #[serde(default, rename = "headers")]
    _headers: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    topic: Option<String>,
    partition: Option<i32>,
    key: Option<Bytes<'static>>,
    value: Option<Bytes<'static>>,
    #[serde(default)]
    headers: Vec<(Bytes<'static>, Option<Bytes<'static>>)>,
    timestamp: Option<i64>,
}

const EXPECTED: &str = r#"expected one of the words ok, done, skip, retry and dead-letter, or a line like {"offset":7,"outcome":"done"}, with "done", "retry", "skip", "dead-letter" or "stop""#;

const NO_ERROR: &str = "the child gave no error";

/// Most characters of an answer that is shown where it was not understood.
const SHOWN_CHARS: usize = 80;

/// How an answer begins, for the reason of a failed attempt.
pub(super) fn beginning(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(&answer[..answer.len().min(4 * SHOWN_CHARS)]);
    let shown: String = text.chars().take(SHOWN_CHARS).collect();
    match shown.len() < answer.len() {
        true => format!("an answer that begins with {shown:?}"),
        false => format!("the answer {shown:?}"),
    }
}

/// The record that was asked about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Asked<'r> {
    topic: &'r str,
    partition: i32,
    offset: i64,
    attempt: u32,
}

impl<'r> From<&'r Record> for Asked<'r> {
    fn from(record: &'r Record) -> Self {
        Self {
            topic: record.topic(),
            partition: record.partition(),
            offset: record.offset(),
            attempt: record.attempt(),
        }
    }
}

impl fmt::Display for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            topic,
            partition,
            offset,
            attempt,
        } = self;
        write!(f, "{topic}/{partition}/{offset}, attempt {attempt}")
    }
}

/// What a line of the child says about the record that was asked about. `names` is whether an answer of this child has
/// named an offset. Outputs that name no topic go to `topic`.
pub(super) fn outcome(
    line: &[u8],
    asked: Asked<'_>,
    names: &mut bool,
    topic: Option<&Arc<str>>,
) -> Result<Outcome, String> {
    let answer = Answer::read(line)?;
    answer.is_about(asked)?;
    *names |= answer.offset.is_some();
    if *names && answer.offset.is_none() {
        return Err("it names no offset, and the child has named one before".to_owned());
    }
    let word = answer.word()?;
    let reason = answer.error.unwrap_or_else(|| NO_ERROR.to_owned());
    Ok(match word {
        None => Outcome::Failed(reason.into()),
        Some(Word::Done) => match answer.outputs {
            None => Outcome::Done,
            Some(outputs) => {
                let outputs = outputs.into_iter().map(|sent| output(sent, topic));
                Outcome::Send(outputs.collect::<Result<_, _>>()?)
            }
        },
        Some(Word::Retry) => {
            let after = answer.after.as_deref().map(units::duration).transpose();
            Outcome::Retry {
                after: after.map_err(|error| format!("after: {error}"))?,
            }
        }
        Some(Word::DeadLetter) => Outcome::DeadLetter(reason.into()),
        Some(Word::Skip) => Outcome::Skip,
        Some(Word::Stop) => Outcome::Stop(reason.into()),
    })
}

fn output(sent: Sent, topic: Option<&Arc<str>>) -> Result<Output, String> {
    let mut output = match (sent.topic, topic) {
        (Some(topic), _) => Output::to(topic),
        (None, Some(topic)) => Output::to(Arc::clone(topic)),
        (None, None) => return Err("an output without a topic needs --output".to_owned()),
    };
    if let Some(key) = sent.key {
        output = output.key(key.read()?);
    }
    if let Some(value) = sent.value {
        output = output.value(value.read()?);
    }
    for (name, value) in sent.headers {
        let name = name.read()?;
        output = match value {
            Some(value) => output.header(name, value.read()?),
            None => output.null_header(name),
        };
    }
    if let Some(partition) = sent.partition {
        output = output.partition(partition);
    }
    if let Some(timestamp) = sent.timestamp {
        output = output.timestamp(timestamp);
    }
    Ok(output)
}

impl Answer {
    fn read(line: &[u8]) -> Result<Self, String> {
        let outcome = match line.trim_ascii() {
            b"ok" | b"done" => Word::Done,
            b"skip" => Word::Skip,
            b"retry" => Word::Retry,
            b"dead-letter" => Word::DeadLetter,
            // A struct is read from an array too.
            json @ [b'{', ..] => {
                return serde_json::from_slice(json)
                    .map_err(|error| format!("{error}; {EXPECTED}"));
            }
            _ => return Err(EXPECTED.to_owned()),
        };
        Ok(Self {
            outcome: Some(outcome),
            ..Self::default()
        })
    }

    /// Where it names a record, it has to be this one.
    fn is_about(&self, asked: Asked<'_>) -> Result<(), String> {
        let about = Asked {
            topic: self.topic.as_deref().unwrap_or(asked.topic),
            partition: self.partition.unwrap_or(asked.partition),
            offset: self.offset.unwrap_or(asked.offset),
            attempt: self.attempt.unwrap_or(asked.attempt),
        };
        if about == asked {
            Ok(())
        } else {
            Err(format!("it is about {about}, and {asked} was handed over"))
        }
    }

    /// What it says became of the record, `None` for a failed attempt; nothing that contradicts itself.
    fn word(&self) -> Result<Option<Word>, String> {
        let word = match (self.outcome, self.ok, &self.error) {
            (Some(_), Some(_), _) => return Err(r#"either "outcome" or "ok", not both"#.to_owned()),
            (None, Some(true), Some(_)) => {
                return Err(r#""error" contradicts "ok":true"#.to_owned());
            }
            (None, Some(false), _) | (None, None, Some(_)) => None,
            (None, _, None) => Some(Word::Done),
            (Some(Word::Done | Word::Skip), None, Some(_)) => {
                return Err(r#""error" goes with "retry", "dead-letter" and "stop""#.to_owned());
            }
            (Some(Word::Retry), None, Some(_)) if self.after.is_some() => {
                return Err(r#"either "after" or "error", not both"#.to_owned());
            }
            // A reason for the log, and the policy's delay.
            (Some(Word::Retry), None, Some(_)) => None,
            (Some(word), None, _) => Some(word),
        };
        if self.after.is_some() && word != Some(Word::Retry) {
            return Err(r#""after" goes with the outcome "retry""#.to_owned());
        }
        if self.outputs.is_some() && word != Some(Word::Done) {
            return Err(r#""outputs" go with the outcome "done""#.to_owned());
        }
        Ok(word)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ASKED: Asked<'_> = Asked {
        topic: "t",
        partition: 3,
        offset: 7,
        attempt: 2,
    };

    fn said(line: &str) -> Result<Outcome, String> {
        outcome(line.as_bytes(), ASKED, &mut false, Some(&"out".into()))
    }

    #[test]
    fn each_outcome_has_its_ways_to_be_said() {
        for (line, expected) in [
            ("ok", Outcome::Done),
            ("done", Outcome::Done),
            (" skip\r", Outcome::Skip),
            ("retry", Outcome::Retry { after: None }),
            ("dead-letter", Outcome::DeadLetter(NO_ERROR.into())),
            ("{}", Outcome::Done),
            (r#"{"ok":true}"#, Outcome::Done),
            (r#"{"outcome":"done","error":null}"#, Outcome::Done),
            (r#"{"outcome":"skip"}"#, Outcome::Skip),
            (r#"{"outcome":"retry"}"#, Outcome::Retry { after: None }),
            (
                r#"{"outcome":"retry","after":"5s"}"#,
                Outcome::Retry {
                    after: Some(Duration::from_secs(5)),
                },
            ),
            (
                r#"{"outcome":"retry","error":"busy"}"#,
                Outcome::Failed("busy".into()),
            ),
            (r#"{"error":"busy"}"#, Outcome::Failed("busy".into())),
            (
                r#"{"ok":false,"error":"busy"}"#,
                Outcome::Failed("busy".into()),
            ),
            (r#"{"ok":false}"#, Outcome::Failed(NO_ERROR.into())),
            (
                r#"{"outcome":"dead-letter","error":"no order"}"#,
                Outcome::DeadLetter("no order".into()),
            ),
            (
                r#"{"outcome":"stop","error":"no key"}"#,
                Outcome::Stop("no key".into()),
            ),
        ] {
            assert_eq!(said(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn an_answer_that_names_its_record_has_to_name_the_one_that_was_asked_about() {
        let echo = r#"{"topic":"t","partition":3,"offset":7,"timestamp":1,"attempt":2,"key":{"hex":"ff"},"value":null,
            "headers":[["a",null]]}"#;
        assert_eq!(said(echo), Ok(Outcome::Done));
        for line in [
            r#"{"offset":6}"#,
            r#"{"offset":7,"topic":"u"}"#,
            r#"{"offset":7,"partition":2}"#,
            r#"{"offset":7,"attempt":1}"#,
            r#"{"offset":6,"ok":false}"#,
        ] {
            let fault = said(line).unwrap_err();
            assert!(fault.contains("t/3/7, attempt 2"), "{line}: {fault}");
        }
    }

    /// Without holding it to that it fails: "ok" is done.
    #[test]
    fn who_has_named_an_offset_names_one_in_each_answer() {
        let mut names = false;
        let mut said = |line: &[u8]| outcome(line, ASKED, &mut names, None);
        assert_eq!(said(b"ok"), Ok(Outcome::Done));
        assert_eq!(said(br#"{"offset":7}"#), Ok(Outcome::Done));
        assert!(said(b"ok").unwrap_err().contains("names no offset"));
        assert!(said(b"{}").unwrap_err().contains("names no offset"));
        assert_eq!(said(br#"{"offset":7}"#), Ok(Outcome::Done));
    }

    #[test]
    fn outputs_carry_text_bytes_and_nulls_and_go_to_the_topic_unless_they_name_one() {
        let line = r#"{"outcome":"done","outputs":[{"key":"k","value":{"hex":"00ff"},
            "headers":[["a","1"],["a",null]],"partition":3,"timestamp":7},{"topic":"t"}]}"#;
        let first = Output::to("out")
            .key("k")
            .value([0x00, 0xff])
            .header("a", "1")
            .null_header("a")
            .partition(3)
            .timestamp(7);
        assert_eq!(said(line), Ok(Outcome::Send(vec![first, Output::to("t")])));
        assert_eq!(said(r#"{"outputs":[]}"#), Ok(Outcome::Send(Vec::new())));
        let nowhere = outcome(br#"{"outputs":[{}]}"#, ASKED, &mut false, None);
        assert!(nowhere.unwrap_err().contains("--output"));
    }

    #[test]
    fn what_is_not_understood_says_what_was_expected() {
        for line in [
            "",
            "fine",
            "ok ok",
            "[]",
            "7",
            r#""ok""#,
            "{",
            r#"{"outcome":"fine"}"#,
            r#"{"outcom":"retry"}"#,
            r#"{"outcome":"done","outcome":"skip"}"#,
        ] {
            let fault = said(line).unwrap_err();
            assert!(fault.contains(EXPECTED), "{line}: {fault}");
        }
        for line in [
            r#"{"outcome":"done","after":"5s"}"#,
            r#"{"outcome":"retry","after":"5"}"#,
            r#"{"outcome":"retry","after":"5s","error":"busy"}"#,
            r#"{"outcome":"done","error":"x"}"#,
            r#"{"outcome":"done","ok":false}"#,
            r#"{"ok":true,"error":"x"}"#,
            r#"{"error":"x","outputs":[{}]}"#,
            r#"{"outcome":"skip","outputs":[{}]}"#,
            r#"{"outcome":"done","outputs":[{"key":{"hex":"0"}}]}"#,
        ] {
            assert!(said(line).is_err(), "{line}");
        }
    }

    #[test]
    fn an_answer_is_shown_by_its_beginning() {
        assert_eq!(beginning(b"a\xff\"b"), "the answer \"a\u{fffd}\\\"b\"");
        let long = beginning("\u{e9}".repeat(1_000).as_bytes());
        assert!(long.contains("begins with"), "{long}");
        assert_eq!(
            long.chars().filter(|&it| it == '\u{e9}').count(),
            SHOWN_CHARS
        );
    }
}
