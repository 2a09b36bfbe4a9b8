//! Worlds in one line: maps, texts and random numbers for the tests of this crate.

#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keyway_offsets::{DecodeError, Decoded, HoleMap, Offset, OffsetRange, decode};

pub const WINDOW: u64 = keyway_offsets::DEFAULT_MAX_WINDOW;

pub fn offset(value: i64) -> Offset {
    Offset::new(value).unwrap()
}

pub fn range(first: i64, last: i64) -> OffsetRange {
    OffsetRange::new(offset(first), offset(last)).unwrap()
}

/// The map with the incomplete ranges `holes`.
pub fn map(base: i64, highest: i64, holes: &[(i64, i64)]) -> HoleMap {
    HoleMap::new(
        offset(base),
        highest,
        holes.iter().map(|&(a, b)| range(a, b)),
    )
    .unwrap()
}

/// The map from `base` whose runs, incomplete and complete in turn, have these lengths.
pub fn map_of_runs(base: i64, runs: &[i64]) -> HoleMap {
    let mut holes = Vec::new();
    let mut at = base;
    for (index, run) in runs.iter().enumerate() {
        if index % 2 == 0 {
            holes.push(range(at, at.wrapping_add(*run).wrapping_sub(1)));
        }
        // May end one past the last offset there is.
        at = at.wrapping_add(*run);
    }
    HoleMap::new(offset(base), at.wrapping_sub(1), holes).unwrap()
}

/// The lengths of a map's runs, told apart from how the crate does it: offset by offset where it is
/// small, hole by hole else.
pub fn runs_of(map: &HoleMap) -> Vec<u64> {
    let mut runs = Vec::new();
    let mut at = map.base().get();
    for hole in map.holes() {
        if hole.first.get() > at {
            runs.push((hole.first.get() - at) as u64);
        }
        runs.push(hole.len());
        at = hole.last.get() + 1;
    }
    if map.highest() >= at {
        runs.push((map.highest() - at + 1) as u64);
    }
    runs
}

pub fn bytes_of(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

/// The text of a magic byte and a body.
pub fn text_of(magic: u8, body: &[u8]) -> String {
    let mut bytes = vec![magic];
    bytes.extend_from_slice(body);
    STANDARD.encode(bytes)
}

/// Decodes a magic byte and a body written as hexadecimal digits, committed at 100.
pub fn decode_hex(digits: &str) -> Result<Decoded, DecodeError> {
    let bytes = hex::decode(digits.replace(' ', "")).unwrap();
    decode(offset(100), STANDARD.encode(bytes).as_bytes(), WINDOW)
}

pub fn zstd_frame(content: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(content, 3).unwrap()
}

/// A generator that gives the same numbers for the same seed, everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    pub fn chance(&mut self, share: f64) -> bool {
        (self.below(1 << 30) as f64) < share * f64::from(1 << 30)
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }
}

/// The kinds of windows that real partitions show.
pub const PATTERNS: [&str; 5] = [
    "random",
    "bursts of 8",
    "periodic",
    "nearly periodic",
    "bursts of 100",
];

/// A window of `span` offsets with about `share` of them incomplete.
pub fn pattern(kind: &str, base: i64, span: usize, share: f64, random: &mut Random) -> HoleMap {
    let mut incomplete = vec![false; span];
    let bursts = |mean: u64, incomplete: &mut Vec<bool>, random: &mut Random| {
        for start in 0..span {
            if random.chance(share / mean as f64) {
                let len = 1 + random.below(2 * mean - 1) as usize;
                incomplete[start..(start + len).min(span)].fill(true);
            }
        }
    };
    let period = ((1.0 / share) as usize).max(2);
    match kind {
        "random" => incomplete
            .iter_mut()
            .for_each(|i| *i = random.chance(share)),
        "bursts of 8" => bursts(8, &mut incomplete, random),
        "bursts of 100" => bursts(100, &mut incomplete, random),
        "periodic" => incomplete
            .iter_mut()
            .step_by(period)
            .for_each(|i| *i = true),
        "nearly periodic" => {
            incomplete
                .iter_mut()
                .step_by(period)
                .for_each(|i| *i = !random.chance(0.02));
        }
        other => panic!("no pattern {other}"),
    }
    incomplete[0] = true;
    incomplete[span - 1] = false;
    let holes = (0..span)
        .filter(|&i| incomplete[i])
        .map(|i| OffsetRange::single(offset(base + i as i64)));
    HoleMap::new(offset(base), base + span as i64 - 1, holes).unwrap()
}
