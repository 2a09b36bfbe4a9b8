//! Blocks that were damaged in every way, pushed through the decoders on the stable toolchain.
//!
//! The check takes 200,000. `KEYWAY_FUZZ_INPUTS=10000000 cargo test --release -p keyway-records --test mutations --
//! --nocapture` makes the long run; `KEYWAY_FUZZ_SEED` another one.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{header, seal};
use fastrand::Rng;
use keyway_records::{
    DecodeError, Header, ReadError, Record, RecordReader, decode_headers, decode_record,
    encode_headers, encode_record,
};

const CHECK_INPUTS: u64 = 200_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Valid blocks of every kind.
fn records() -> Vec<Vec<u8>> {
    let names = ["", "a", "trace", "ключ"];
    let values: [Option<&[u8]>; 4] = [None, Some(b""), Some(b"1"), Some(&[0xff; 40])];
    let mut blocks = Vec::new();
    for count in [0, 1, 2, 7, 8, 9, 33] {
        for key in values {
            for value in values {
                let headers = (0..count).map(|n| Header {
                    name: names[n % names.len()],
                    value: values[(n / 2) % values.len()],
                });
                let record = Record {
                    key,
                    value,
                    timestamp: 1_764_547_200_000,
                    headers: headers.collect(),
                };
                blocks.push(encode_record(&record).unwrap());
            }
        }
    }
    blocks
}

fn damage(block: &mut Vec<u8>, random: &mut Rng) {
    const EDGES: [u8; 8] = [0x00, 0x01, 0x02, 0x10, 0x7F, 0x80, 0xFE, 0xFF];
    if block.is_empty() {
        block.push(random.u8(..));
        return;
    }
    // Most of what can be said wrongly stands at the front.
    let most = if random.bool() {
        block.len()
    } else {
        block.len().min(40)
    };
    let at = random.usize(..most);
    match random.u8(..8) {
        0 => block.truncate(at),
        1 => block.extend((0..random.usize(1..9)).map(|_| random.u8(..))),
        2 => drop(block.remove(at)),
        3 => block.insert(at, *random.choice(&EDGES).unwrap()),
        4 => block[at] = *random.choice(&EDGES).unwrap(),
        5 => block[at] = random.u8(..),
        6 if block.len() >= at + 4 => {
            let number: u32 = *random.choice(&[u32::MAX, 1 << 31, 1, 2, 0, 255]).unwrap();
            block[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        _ => block[at] ^= 1 << random.u8(..8),
    }
}

/// What has to hold for a record block, right or wrong: its name, and whether a file of it and a good block says
/// the same.
fn record(block: &[u8], good: &[u8]) -> &'static str {
    let answer = decode_record(block);
    if let Ok(record) = &answer {
        assert_eq!(encode_record(record).unwrap(), block, "one form");
    }
    let file = [block, good].concat();
    let mut blocks = RecordReader::new(&file[..]);
    match (&answer, blocks.read()) {
        (Ok(record), read) => {
            assert_eq!(read.unwrap().as_ref(), Some(record));
            assert!(blocks.read().unwrap().is_some());
        }
        (Err(fault), Err(ReadError::Corrupt { fault: found, .. })) => {
            // With other bytes behind it a block that ends early is another one.
            let early = matches!(
                fault,
                DecodeError::Truncated { .. } | DecodeError::Trailing { .. }
            );
            assert!(early || found == *fault, "{fault:?}, {found:?}");
        }
        (
            Err(DecodeError::Truncated { .. }),
            Err(ReadError::Torn { .. } | ReadError::TooLong { .. }),
        ) => {}
        // A whole block with something behind it; or nothing, and the good one.
        (Err(DecodeError::Trailing { .. }), Ok(Some(_))) => {}
        (Err(DecodeError::Truncated { .. }), Ok(Some(_))) if block.is_empty() => {}
        (fault, read) => panic!("{fault:?}, {read:?}: {}", hex::encode(block)),
    }
    answer.as_ref().map_or_else(DecodeError::name, |_| "ok")
}

#[test]
fn damaged_blocks_are_read_or_refused_by_name() {
    let inputs = setting("KEYWAY_FUZZ_INPUTS", CHECK_INPUTS);
    let seed = setting("KEYWAY_FUZZ_SEED", 1);
    let mut random = Rng::with_seed(seed);
    let blocks = records();
    let good = blocks[0].clone();
    let mut answers: BTreeMap<&str, u64> = BTreeMap::new();
    for _ in 0..inputs {
        let mut block = random.choice(&blocks).unwrap().clone();
        for _ in 0..=random.u8(..3) {
            damage(&mut block, &mut random);
        }
        // A checksum that is right lets the damage through to what is behind it.
        if block.len() >= 4 && random.u8(..8) != 0 {
            seal(&mut block);
        }
        *answers.entry(record(&block, &good)).or_default() += 1;
    }
    println!("{inputs} inputs of seed {seed}: {answers:?}");
    for name in [
        "ok",
        "truncated",
        "trailing",
        "bad_name",
        "unknown_attrs",
        "unknown_presence",
        "bad_crc",
        "length_of_null",
        "no_headers",
        "null_with_value",
        "spare_bits",
    ] {
        assert!(
            answers.contains_key(name),
            "{name} was never provoked: {answers:?}"
        );
    }
}

#[test]
fn damaged_header_blocks_are_read_or_refused_by_name() {
    let inputs = setting("KEYWAY_FUZZ_INPUTS", CHECK_INPUTS);
    let mut random = Rng::with_seed(setting("KEYWAY_FUZZ_SEED", 1));
    let names = ["", "a", "trace", "ключ"];
    let lists = [0, 1, 2, 9, 40].map(|count| {
        let headers = (0..count).map(|n| header(names[n % 4], &b"0123456789"[..n % 11]));
        encode_headers(&headers.collect::<Vec<_>>()).unwrap()
    });
    let mut answers: BTreeMap<&str, u64> = BTreeMap::new();
    for _ in 0..inputs {
        let mut block = random.choice(&lists).unwrap().clone();
        for _ in 0..=random.u8(..3) {
            damage(&mut block, &mut random);
        }
        let answer = decode_headers(&block);
        if let Ok(headers) = &answer {
            assert_eq!(encode_headers(headers).unwrap(), block);
        }
        *answers
            .entry(answer.as_ref().map_or_else(DecodeError::name, |_| "ok"))
            .or_default() += 1;
    }
    println!("{inputs} inputs: {answers:?}");
    for name in ["ok", "truncated", "trailing", "bad_name"] {
        assert!(
            answers.contains_key(name),
            "{name} was never provoked: {answers:?}"
        );
    }
}
