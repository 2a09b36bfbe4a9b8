//! The maps that Java's Parallel Consumer 0.5.3.3 wrote, and what it reads back.

#![allow(clippy::unwrap_used)]

mod common;

use common::{WINDOW, map, offset};
use keyway_offsets::{decode, encode};
use serde::Deserialize;

/// Another build of zstd may choose other matches.
const ZSTD_SLACK_CHARS: usize = 8;

#[derive(Debug, Deserialize)]
struct Vector {
    committed: i64,
    encoding: String,
    smallest: bool,
    text: String,
    highest_seen: i64,
    incomplete: Vec<(i64, i64)>,
}

fn vectors() -> Vec<Vector> {
    let lines = include_str!("vectors/offset-maps.jsonl");
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn all_vectors_are_there() {
    assert_eq!(vectors().len(), 383);
    assert!(
        vectors()
            .iter()
            .filter(|vector| vector.encoding.ends_with("Compressed"))
            .count()
            >= 16
    );
}

#[test]
fn what_java_wrote_is_read_as_java_reads_it() {
    for vector in vectors() {
        let decoded = decode(offset(vector.committed), vector.text.as_bytes(), WINDOW).unwrap();
        assert_eq!(decoded.encoding.name(), vector.encoding, "{vector:?}");
        assert_eq!(decoded.map.base().get(), vector.committed, "{vector:?}");
        assert_eq!(decoded.map.highest(), vector.highest_seen, "{vector:?}");
        let holes: Vec<_> = decoded
            .map
            .holes()
            .iter()
            .map(|hole| (hole.first.get(), hole.last.get()))
            .collect();
        assert_eq!(holes, vector.incomplete, "{vector:?}");
    }
}

#[test]
fn padding_may_be_absent() {
    for vector in vectors() {
        let bare = vector.text.trim_end_matches('=');
        let at = offset(vector.committed);
        assert_eq!(
            decode(at, bare.as_bytes(), WINDOW),
            decode(at, vector.text.as_bytes(), WINDOW)
        );
    }
}

#[test]
fn what_is_written_is_no_longer_than_what_java_writes() {
    let mut plain_ties = 0;
    for vector in vectors().into_iter().filter(|vector| vector.smallest) {
        let map = map(vector.committed, vector.highest_seen, &vector.incomplete);
        let encoded = encode(&map);
        let slack = if vector.encoding.ends_with("Compressed") {
            ZSTD_SLACK_CHARS
        } else {
            0
        };
        assert!(
            encoded.text.len() <= vector.text.len() + slack,
            "{encoded:?} for {vector:?}"
        );
        let decoded = decode(map.base(), encoded.text.as_bytes(), WINDOW).unwrap();
        assert_eq!(decoded.map, map, "{vector:?}");
        assert_eq!(decoded.encoding, encoded.encoding, "{vector:?}");
        if encoded.encoding.name() == vector.encoding && slack == 0 {
            assert_eq!(encoded.text, vector.text);
            plain_ties += 1;
        }
    }
    assert!(plain_ties > 50, "only {plain_ties} texts are Java's");
}
