//! Maps and texts for the tests of this crate.

#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keyway_offsets::{HoleMap, Offset, OffsetRange};
use keyway_rider::{Offer, RiderBytes};

pub fn offset(value: i64) -> Offset {
    Offset::new(value).unwrap()
}

/// The map from 0 whose runs, incomplete and complete in turn, have these lengths.
pub fn map_of_runs(runs: &[i64]) -> HoleMap {
    let mut holes = Vec::new();
    let mut at = 0;
    for (index, run) in runs.iter().enumerate() {
        if index % 2 == 0 {
            holes.push(OffsetRange::new(offset(at), offset(at + run - 1)).unwrap());
        }
        at += run;
    }
    HoleMap::new(offset(0), at - 1, holes).unwrap()
}

/// Numbers without a pattern.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A map at `base` whose shortest payload has exactly `bytes` bytes: bits without a pattern, which nothing
/// compresses, under a magic byte, a length of two bytes and a byte of padding.
pub fn map_of_bytes(base: i64, bytes: usize) -> HoleMap {
    let offsets = (bytes as i64 - 4) * 8;
    let mut random = Random::new(bytes as u64);
    let last = base + offsets - 1;
    let holes = (base..last)
        .filter(|&at| at == base || random.next() & 1 == 0)
        .map(|at| OffsetRange::single(offset(at)));
    HoleMap::new(offset(base), last, holes).unwrap()
}

pub fn rider(bytes: usize) -> Offer {
    Offer::Rider(RiderBytes::new((0..bytes).map(|n| n as u8).collect()).unwrap())
}

pub fn bytes_of(text: &str) -> Vec<u8> {
    STANDARD.decode(text).unwrap()
}

pub fn text_of(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
