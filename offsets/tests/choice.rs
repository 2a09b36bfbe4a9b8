//! The text that is written is the shortest of all eight forms.
//!
//! The encoder leaves out compressing what can't win. Here everything is compressed, by encoders that
//! share nothing with the crate's, and the choice has to be the same.

#![allow(clippy::unwrap_used)]

mod common;

use common::{PATTERNS, Random, bytes_of, pattern, runs_of};
use keyway_offsets::{HoleMap, encode};

/// The bodies of the four plain forms in the order of preference, `None` where integers don't fit.
fn bodies(map: &HoleMap) -> [(u8, u8, Option<Vec<u8>>); 4] {
    let runs = runs_of(map);
    let short_runs = runs.iter().all(|&run| run <= 32_767);
    let mut bits = vec![0; map.span().div_ceil(8) as usize + 1];
    let mut at = 0;
    for (index, &run) in runs.iter().enumerate() {
        for bit in (at..at + run).filter(|_| index % 2 == 1) {
            bits[(bit / 8) as usize] |= 1 << (bit % 8);
        }
        at += run;
    }
    let span = map.span() as u32;
    let headed = |header: &[u8]| [header, &bits].concat();
    [
        (
            b'n',
            b'J',
            short_runs.then(|| {
                runs.iter()
                    .flat_map(|&run| (run as u16).to_be_bytes())
                    .collect()
            }),
        ),
        (
            b'l',
            b'a',
            (span <= 32_767).then(|| headed(&(span as u16).to_be_bytes())),
        ),
        (
            b'e',
            b'p',
            Some(
                runs.iter()
                    .flat_map(|&run| (run as u32).to_be_bytes())
                    .collect(),
            ),
        ),
        (b'o', b's', Some(headed(&span.to_be_bytes()))),
    ]
}

/// The magic byte and body that come first among the shortest.
fn shortest(map: &HoleMap) -> (u8, Vec<u8>) {
    let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
    compressor
        .set_parameter(zstd::zstd_safe::CParameter::ContentSizeFlag(false))
        .unwrap();
    let bodies = bodies(map);
    let plain = bodies
        .iter()
        .filter_map(|(magic, _, body)| Some((*magic, body.clone()?)));
    let compressed = bodies.iter().filter_map(|(_, magic, body)| {
        let body = body.as_ref().filter(|body| body.len() <= 1 << 20)?;
        Some((*magic, compressor.compress(body).unwrap()))
    });
    let all: Vec<_> = plain.chain(compressed).collect();
    all.into_iter().min_by_key(|(_, body)| body.len()).unwrap()
}

#[test]
fn no_form_is_shorter_than_the_one_written() {
    let mut random = Random::new(2024);
    let mut compressed = 0;
    let mut judged = 0;
    for span in [40, 300, 1_000, 3_000, 10_000, 32_000, 130_000, 600_000] {
        for kind in PATTERNS {
            for share in [0.0003, 0.001, 0.003, 0.01, 0.03, 0.05, 0.1, 0.2, 0.5] {
                let map = pattern(kind, 100, span, share, &mut random);
                let bytes = bytes_of(&encode(&map).text);
                let (magic, body) = shortest(&map);
                // The wide form of bits is left out where the narrow one fits; chance may give it a
                // byte or two.
                let slack = if magic == b's' && span <= 32_767 {
                    2
                } else {
                    0
                };
                let what = format!("{kind}, {span} offsets, share {share}");
                assert!(bytes.len() <= 1 + body.len() + slack, "{what}");
                if slack == 0 {
                    assert_eq!(bytes, [&[magic], &body[..]].concat(), "{what}");
                }
                compressed += usize::from(b"Japs".contains(&magic));
                judged += 1;
            }
        }
    }
    assert!(
        compressed > judged / 3 && compressed < judged,
        "{compressed} of {judged} were compressed"
    );
}
