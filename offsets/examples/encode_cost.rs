//! What encoding, decoding, restoring and completing cost, over the patterns of the README's table.
//!
//! `cargo run --release -p keyway-offsets --example encode_cost`

use std::hint::black_box;
use std::time::{Duration, Instant};

use keyway_offsets::{
    DEFAULT_MAX_WINDOW, HoleMap, Offset, OffsetRange, Tracker, decode, encode, plain_text_len,
};

/// A window and the holes in it, by a generator that needs no crate.
struct Pattern {
    name: &'static str,
    map: HoleMap,
}

fn main() {
    println!(
        "{:<34} {:>9} {:>22} {:>9} {:>10} {:>10} {:>10} {:>10}",
        "pattern", "holes", "encoding", "chars", "encode", "decode", "restore", "snapshot"
    );
    for Pattern { name, map } in patterns() {
        let encoded = encode(&map);
        let text = encoded.text.as_bytes();
        let tracker = Tracker::restore(&map);
        println!(
            "{:<34} {:>9} {:>22} {:>9} {:>10} {:>10} {:>10} {:>10}",
            name,
            map.hole_count(),
            encoded.encoding.name(),
            encoded.text.len(),
            micros(median(|| encode(black_box(&map)).text.len())),
            micros(median(|| decode(
                map.base(),
                black_box(text),
                DEFAULT_MAX_WINDOW
            )
            .is_ok())),
            micros(median(|| Tracker::restore(black_box(&map)).span())),
            micros(median(|| black_box(&tracker).snapshot().span())),
        );
        black_box(plain_text_len(&map));
    }
    println!(
        "\nreceive and complete, in order: {:.1} ns a record",
        complete_in_order()
    );
}

fn patterns() -> Vec<Pattern> {
    let random = |name, span, share: f64| {
        let mut state = 42;
        Pattern {
            name,
            map: map_where(span, |_| fraction(&mut state) < share),
        }
    };
    vec![
        random("1,000,000, 100 random", 1_000_000, 1e-4),
        random("1,000,000, 10,000 random (1 %)", 1_000_000, 1e-2),
        random("1,000,000, 10 % random", 1_000_000, 0.1),
        random("1,000,000, 50 % random", 1_000_000, 0.5),
        Pattern {
            name: "1,000,000, every 100th",
            map: map_where(1_000_000, |i| i % 100 == 0),
        },
        Pattern {
            name: "1,000,000, one",
            map: map_where(1_000_000, |_| false),
        },
        random("10,000, 10 random", 10_000, 1e-3),
        random("10,000, 1 % random", 10_000, 1e-2),
        random("10,000, 10 % random", 10_000, 0.1),
        random("10,000, 50 % random", 10_000, 0.5),
        random("1,000, 1 % random", 1_000, 0.01),
        Pattern {
            name: "100,000,000, one",
            map: map_where(100_000_000, |_| false),
        },
    ]
}

/// A map from offset 0 whose first offset is incomplete, whose last is complete, and between them those
/// for which `incomplete` says so.
fn map_where(span: i64, mut incomplete: impl FnMut(i64) -> bool) -> HoleMap {
    let holes = (0..span)
        .filter(|&i| i == 0 || (i < span - 1 && incomplete(i)))
        .filter_map(Offset::new)
        .map(OffsetRange::single);
    HoleMap::new(Offset::ZERO, span - 1, holes).expect("holes ascend within the span")
}

/// The next number of a xorshift generator, from 0 to 1.
fn fraction(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

fn complete_in_order() -> f64 {
    const RECORDS: i64 = 10_000_000;
    const IN_FLIGHT: i64 = 10_000;
    let mut tracker = Tracker::new(Offset::ZERO);
    let started = Instant::now();
    for at in 0..RECORDS + IN_FLIGHT {
        if let Some(offset) = Offset::new(at) {
            tracker.receive(offset);
        }
        if let Some(offset) = Offset::new(at - IN_FLIGHT) {
            tracker.complete(offset);
        }
    }
    black_box(tracker.span());
    started.elapsed().as_nanos() as f64 / RECORDS as f64
}

/// The median of enough rounds to be worth one.
fn median<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut rounds: Vec<Duration> = Vec::new();
    let begun = Instant::now();
    while rounds.len() < 15 || (rounds.len() < 1001 && begun.elapsed() < Duration::from_millis(200))
    {
        let started = Instant::now();
        black_box(work());
        rounds.push(started.elapsed());
    }
    rounds.sort_unstable();
    rounds[rounds.len() / 2]
}

fn micros(time: Duration) -> String {
    format!("{:.1} us", time.as_nanos() as f64 / 1000.0)
}
