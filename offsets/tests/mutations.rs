//! Texts that were damaged in every way, pushed through the decoder on the stable toolchain.
//!
//! The check takes 200,000. `KEYWAY_FUZZ_INPUTS=10000000 cargo test --release -p keyway-offsets --test
//! mutations` makes the long run; `KEYWAY_FUZZ_SEED` another one.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{PATTERNS, Random, bytes_of, map_of_runs, offset, pattern, text_of, zstd_frame};
use keyway_offsets::{DecodeError, HoleMap, Offset, decode, encode};

const CHECK_INPUTS: u64 = 200_000;
const WINDOW: u64 = 1 << 20;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Valid texts of every form.
fn seeds(random: &mut Random) -> Vec<String> {
    let mut texts = vec![
        String::new(),
        text_of(b'L', &[0, 1, 1, 0, 1]),
        text_of(0xEE, &zstd_frame(&[0; 99])),
    ];
    for kind in PATTERNS {
        for (span, share) in [(20, 0.2), (300, 0.1), (3_000, 0.02), (40_000, 0.001)] {
            let map = pattern(kind, 0, span, share, random);
            texts.push(encode(&map).text);
            let runs: Vec<u64> = common::runs_of(&map);
            let short: Vec<u8> = runs
                .iter()
                .flat_map(|&run| (run as u16).to_be_bytes())
                .collect();
            let wide: Vec<u8> = runs
                .iter()
                .flat_map(|&run| (run as u32).to_be_bytes())
                .collect();
            texts.push(text_of(b'e', &wide));
            texts.push(text_of(b'n', &short));
            texts.push(text_of(b'p', &zstd_frame(&wide)));
            texts.push(text_of(b'J', &zstd_frame(&short)));
        }
    }
    let bits = [
        &40_u32.to_be_bytes()[..],
        &[0xFE, 0xFF, 0xA4, 0x31, 0x8F, 0],
    ]
    .concat();
    texts.extend([text_of(b'o', &bits), text_of(b's', &zstd_frame(&bits))]);
    texts.extend([
        text_of(b'l', &bits[2..]),
        text_of(b'a', &zstd_frame(&bits[2..])),
    ]);
    texts.push(encode(&map_of_runs(0, &[1, 1 << 19])).text);
    texts
}

fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    const EDGES: [u8; 8] = [0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF, 0x28, b'J'];
    let len = bytes.len() as u64;
    let at = random.below(len.max(1)) as usize;
    match random.below(9) {
        0 => bytes.truncate(at),
        1 => bytes.extend((0..=random.below(9)).map(|_| random.next() as u8)),
        2 if len > 0 => {
            bytes.remove(at);
        }
        3 => bytes.insert(at.min(bytes.len()), *random.pick(&EDGES)),
        4 if len > 0 => bytes[at] = *random.pick(&EDGES),
        5 if len > 0 => bytes[at] = random.next() as u8,
        6 if len > 0 => bytes[0] = *random.pick(b"lonaJespL\xEEX\x01\x02"),
        7 if len >= 5 => bytes[1..5].copy_from_slice(
            random
                .pick(&[i32::MAX, i32::MIN, -1, 0, 1 << 20])
                .to_be_bytes()
                .as_slice(),
        ),
        _ if len > 0 => bytes[at] ^= 1 << random.below(8),
        _ => {}
    }
}

/// Damages the text, what is in it, or what is compressed in that.
fn mutate(text: &str, random: &mut Random) -> Vec<u8> {
    let times = 1 + random.below(3);
    if random.below(4) == 0 {
        let mut text = text.as_bytes().to_vec();
        (0..times).for_each(|_| damage(&mut text, random));
        return text;
    }
    let mut bytes = bytes_of(text);
    if bytes
        .first()
        .is_some_and(|magic| b"asJp\xEE".contains(magic))
        && random.below(2) == 0
    {
        if let Ok(mut body) = zstd::bulk::decompress(&bytes[1..], 1 << 20) {
            (0..times).for_each(|_| damage(&mut body, random));
            bytes.truncate(1);
            bytes.extend(zstd_frame(&body));
        }
    } else {
        (0..times).for_each(|_| damage(&mut bytes, random));
    }
    STANDARD.encode(bytes).into_bytes()
}

/// What has to hold for whatever was read.
fn check(map: &HoleMap, committed: Offset) {
    assert_eq!(map.base(), committed);
    assert!(map.span() <= WINDOW);
    assert_eq!(map.is_caught_up(), map.span() == 0);
    let text = encode(map).text;
    assert_eq!(
        &decode(committed, text.as_bytes(), WINDOW).unwrap().map,
        map
    );
}

#[test]
fn damaged_texts_are_read_or_refused_by_name() {
    let inputs = setting("KEYWAY_FUZZ_INPUTS", CHECK_INPUTS);
    let seed = setting("KEYWAY_FUZZ_SEED", 1);
    let mut random = Random::new(seed);
    let texts = seeds(&mut random);
    let mut answers: BTreeMap<&str, u64> = BTreeMap::new();
    for _ in 0..inputs {
        let text = mutate(random.pick(&texts).as_str(), &mut random);
        let committed = match random.below(4) {
            0 => 0,
            1 => i64::MAX - random.below(2_000) as i64,
            _ => random.below(1 << 40) as i64,
        };
        let committed = offset(committed);
        let answer = decode(committed, &text, WINDOW);
        *answers
            .entry(answer.as_ref().map_or_else(DecodeError::name, |_| "ok"))
            .or_default() += 1;
        if let Ok(decoded) = answer {
            check(&decoded.map, committed);
        }
    }
    println!("{inputs} inputs of seed {seed}: {answers:?}");
    // A run that provokes less than this damages nothing that matters.
    for name in [
        "ok",
        "bad_text",
        "unknown_magic",
        "kafka_streams",
        "truncated",
        "trailing",
        "bad_length",
        "bad_run",
        "bad_zstd",
        "too_large",
        "not_canonical",
    ] {
        assert!(
            answers
                .get(name)
                .is_some_and(|&count| count > inputs / 10_000),
            "{name}: {answers:?}"
        );
    }
}
