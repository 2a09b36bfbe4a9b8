//! The header values of the reference, right and wrong.

#![allow(clippy::unwrap_used)]

mod common;

use common::at;
use keyway_causal::{Causes, CausesError, CausesView, Channel, TopicId, find_causes};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct File {
    vectors: Vec<Vector>,
    header_cases: Vec<HeaderCase>,
}

#[derive(Debug, Deserialize)]
struct Vector {
    name: String,
    hex: Option<String>,
    ok: bool,
    error: Option<String>,
    decoded: Option<Vec<Topic>>,
    len: Option<usize>,
}

#[derive(Debug, Deserialize)]
struct HeaderCase {
    name: String,
    headers: Vec<(String, Option<String>)>,
    result: String,
    error: Option<String>,
    decoded: Option<Vec<Topic>>,
}

#[derive(Debug, Deserialize)]
struct Topic {
    topic_id_hex: String,
    partitions: Vec<Pair>,
}

#[derive(Debug, Deserialize)]
struct Pair {
    p: u32,
    pos: i64,
}

fn file() -> File {
    serde_json::from_str(include_str!("causes.json")).unwrap()
}

fn causes(topics: &[Topic]) -> Causes {
    let entries = topics.iter().flat_map(|topic| {
        let id: TopicId = topic.topic_id_hex.parse().unwrap();
        let channel = move |p| Channel::new(id, p).unwrap();
        topic
            .partitions
            .iter()
            .map(move |&Pair { p, pos }| (channel(p), at(pos)))
    });
    entries.collect()
}

/// As a header of this value among others is read.
fn read(value: Option<&[u8]>) -> Result<CausesView<'_>, CausesError> {
    let headers = [("a", None), (keyway_causal::HEADER, value), ("b", value)];
    find_causes(headers).map(Option::unwrap)
}

#[test]
fn all_vectors_are_there() {
    let file = file();
    assert_eq!((file.vectors.len(), file.header_cases.len()), (54, 6));
}

#[test]
fn what_the_reference_reads_is_read_and_written_to_the_byte() {
    let mut right = 0;
    for vector in file().vectors.iter().filter(|vector| vector.ok) {
        let value = hex::decode(vector.hex.as_ref().unwrap()).unwrap();
        let expected = causes(vector.decoded.as_ref().unwrap());
        let view = read(Some(&value)).unwrap();
        assert_eq!(Causes::decode(&value).unwrap(), expected, "{}", vector.name);
        assert!(view.iter().eq(expected.iter()), "{}", vector.name);
        assert_eq!(expected.encode(), value, "{}", vector.name);
        assert_eq!(expected.encoded_len(), value.len(), "{}", vector.name);
        assert_eq!(vector.len.unwrap(), value.len(), "{}", vector.name);
        right += 1;
    }
    assert_eq!(right, 12);
}

#[test]
fn what_the_reference_refuses_is_refused_by_its_name() {
    for vector in file().vectors.iter().filter(|vector| !vector.ok) {
        let value = vector
            .hex
            .as_ref()
            .map(|digits| hex::decode(digits).unwrap());
        let fault = read(value.as_deref()).unwrap_err();
        assert_eq!(
            fault.name(),
            vector.error.as_ref().unwrap(),
            "{}",
            vector.name
        );
        if let Some(value) = value {
            assert_eq!(Causes::decode(&value), Err(fault), "{}", vector.name);
        }
    }
}

#[test]
fn headers_are_found_as_the_reference_finds_them() {
    for case in file().header_cases {
        let headers: Vec<(String, Option<Vec<u8>>)> = case
            .headers
            .into_iter()
            .map(|(name, value)| (name, value.map(|digits| hex::decode(digits).unwrap())))
            .collect();
        let headers = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_deref()));
        let found = find_causes(headers);
        match case.result.as_str() {
            "absent" => assert_eq!(found, Ok(None), "{}", case.name),
            "decoded" => {
                let expected = causes(&case.decoded.unwrap());
                let found = found.unwrap().map(Causes::from);
                assert_eq!(found, Some(expected), "{}", case.name);
            }
            "error" => assert_eq!(
                found.unwrap_err().name(),
                case.error.unwrap(),
                "{}",
                case.name
            ),
            other => panic!("{other}"),
        }
    }
}
