//! What is written and read, rule by rule of the format.

#![allow(clippy::unwrap_used)]

mod common;

use common::{WINDOW, bytes_of, decode_hex, map, map_of_runs, offset, range, text_of, zstd_frame};
use keyway_offsets::{
    Encoding, HoleMap, Limits, Offset, ThresholdRatio, decode, encode, plain_text_len,
};

#[test]
fn the_examples_of_the_format_come_out() {
    let holes = map(100, 109, &[(100, 100), (103, 104)]);
    assert_eq!(encode(&holes).text, "bAAK5gMA");
    assert_eq!(decode_hex("6e0001000200020005").unwrap().map, holes);
    let wide = encode(&map(5, 50_000, &[(5, 5)]));
    assert_eq!(
        (wide.text.as_str(), wide.encoding),
        ("ZQAAAAEAAMNL", Encoding::RunLengthV2)
    );
    assert_eq!(
        decode(offset(101), b"bgAA", WINDOW).unwrap().map,
        HoleMap::caught_up(offset(101))
    );
}

#[test]
fn nothing_incomplete_is_the_empty_string() {
    let encoded = encode(&HoleMap::caught_up(offset(7)));
    assert_eq!(
        (encoded.text.as_str(), encoded.encoding),
        ("", Encoding::None)
    );
    let decoded = decode(offset(7), b"", WINDOW).unwrap();
    assert_eq!(
        (decoded.map, decoded.encoding),
        (HoleMap::caught_up(offset(7)), Encoding::None)
    );
}

#[test]
fn every_form_of_no_offsets_is_read() {
    for digits in [
        "6c 0000 00",
        "6f 00000000 00",
        "6e 0000",
        "65 00000000",
        "4c",
    ] {
        let decoded = decode_hex(digits).unwrap();
        assert_eq!(decoded.map, HoleMap::caught_up(offset(100)), "{digits}");
        assert_eq!(decoded.map.highest(), 99);
    }
}

#[test]
fn a_base_of_0_has_minus_1_below_it() {
    let map = HoleMap::caught_up(Offset::ZERO);
    assert_eq!(
        (map.highest(), map.highest_complete(), map.span()),
        (-1, -1, 0)
    );
    assert_eq!(encode(&map_of_runs(0, &[1, 1])).text, "bgABAAE=");
}

#[test]
fn an_incomplete_last_offset_is_read_and_written() {
    let map = decode(offset(630_826), b"bgAB", WINDOW).unwrap().map;
    assert_eq!(map.holes(), [range(630_826, 630_826)]);
    assert_eq!((map.highest(), map.highest_complete()), (630_826, 630_825));
    assert_eq!(encode(&map).text, "bgAB");
}

#[test]
fn bytes_are_read_one_an_offset() {
    let decoded = decode_hex("4c 00 01 01 00 00 01").unwrap();
    assert_eq!(decoded.encoding, Encoding::ByteArray);
    assert_eq!(decoded.map, map(100, 105, &[(100, 100), (103, 104)]));
    let text = text_of(0xEE, &zstd_frame(&[0, 1, 1, 0, 0, 1]));
    let compressed = decode(offset(100), text.as_bytes(), WINDOW).unwrap();
    assert_eq!(compressed.encoding, Encoding::ByteArrayCompressed);
    assert_eq!(compressed.map, decoded.map);
}

/// Without the bound of a run it fails with the short form for 32,768, without the bound of the bits with a length that
/// is cut off.
#[test]
fn short_forms_end_at_32_767() {
    // Bits: only the shortest form where the holes are many.
    let bits = |span: i64| {
        let mut random = common::Random::new(9);
        common::pattern("random", 0, span as usize, 0.5, &mut random)
    };
    assert_eq!(encode(&bits(32_766)).encoding, Encoding::BitSet);
    assert_eq!(encode(&bits(32_767)).encoding, Encoding::BitSet);
    assert_eq!(encode(&bits(32_768)).encoding, Encoding::BitSetV2);
    // Runs: by the longest one.
    let runs = |complete| encode(&map_of_runs(40, &[1, complete])).encoding;
    assert_eq!(runs(32_766), Encoding::RunLength);
    assert_eq!(runs(32_767), Encoding::RunLength);
    assert_eq!(runs(32_768), Encoding::RunLengthV2);
    assert_eq!(
        encode(&map_of_runs(40, &[32_767, 1])).encoding,
        Encoding::RunLength
    );
    assert_eq!(
        encode(&map_of_runs(40, &[32_768, 1])).encoding,
        Encoding::RunLengthV2
    );
}

/// Without the bound of a run it fails with a run of -32,768 that is refused when it is read.
#[test]
fn spans_at_every_edge_come_back() {
    let wide = i64::from(i32::MAX);
    for span in [
        1,
        2,
        7,
        8,
        9,
        63,
        64,
        65,
        32_766,
        32_767,
        32_768,
        65_535,
        65_536,
        65_537,
        wide,
        wide + 1,
    ] {
        for base in [0, 1, 7, 1 << 40, i64::MAX - span, i64::MAX - span + 1] {
            let shapes = [
                map_of_runs(base, &[span]),
                map_of_runs(base, &[span - span / 2, span / 2]),
            ];
            for map in shapes.into_iter().take(if span > 1 { 2 } else { 1 }) {
                // A single run of 2^31 is the first that no integer holds.
                if plain_text_len(&map) == usize::MAX {
                    assert_eq!((span, map.holes().len()), (wide + 1, 1));
                    assert_eq!(encode(&map).text, "");
                    continue;
                }
                let encoded = encode(&map);
                let decoded = decode(map.base(), encoded.text.as_bytes(), u64::MAX).unwrap();
                assert_eq!(decoded.map, map, "span {span} at {base}");
            }
        }
    }
}

#[test]
fn equal_lengths_go_by_the_fixed_order() {
    // Four runs of two bytes, and two bytes, five of bits and a pad: eight bytes each.
    let tie = map_of_runs(0, &[10, 10, 10, 8]);
    let encoded = encode(&tie);
    assert_eq!(
        (encoded.encoding, bytes_of(&encoded.text).len()),
        (Encoding::RunLength, 1 + 8)
    );
    // One byte of bits fewer, and they win.
    let bits = encode(&map_of_runs(0, &[10, 10, 10, 2]));
    assert_eq!(
        (bits.encoding, bytes_of(&bits.text).len()),
        (Encoding::BitSet, 1 + 7)
    );
}

#[test]
fn the_same_map_gives_the_same_text_whatever_came_before() {
    let mut random = common::Random::new(1);
    let maps: Vec<_> = (0..60)
        .map(|i| common::pattern(common::PATTERNS[i % 5], 3, 200 * (i + 1), 0.02, &mut random))
        .collect();
    let forward: Vec<_> = maps.iter().map(encode).collect();
    let backward: Vec<_> = maps.iter().rev().map(encode).collect();
    assert!(forward.iter().eq(backward.iter().rev()));
    let elsewhere: Vec<_> = maps
        .iter()
        .map(|map| std::thread::scope(|scope| scope.spawn(|| encode(map)).join().unwrap()))
        .collect();
    assert_eq!(
        forward, elsewhere,
        "a compressor that is new gives what a used one gives"
    );
}

#[test]
fn every_map_of_the_span_that_always_fits_does() {
    for cap in [8, 9, 12, 40, 400, 4096, 5_600, 40_000] {
        let limits = Limits::new(cap, ThresholdRatio::default());
        let span = limits.span_that_always_fits();
        // One hole and one complete offset in turn: no form but the bitmap is short.
        let worst = |span: u64| map_of_runs(0, &vec![1; span as usize]);
        assert!(plain_text_len(&worst(span / 2 * 2)) <= cap, "{cap}");
        let bits = |span: u64| {
            plain_text_len(&map_of_runs(0, &[vec![1; span as usize], vec![2]].concat()))
        };
        assert!(cap < 12 || bits(span + 7) > cap, "{cap}");
    }
    assert_eq!(Limits::default().span_that_always_fits(), 24_544);
    assert_eq!(
        Limits::new(0, ThresholdRatio::default()).span_that_always_fits(),
        1
    );
    assert_eq!(
        Limits::default()
            .with_max_window(10)
            .span_that_always_fits(),
        10
    );
}

#[test]
fn the_threshold_is_a_share_of_the_cap() {
    let limits = Limits::default();
    assert_eq!(
        (limits.cap_chars, limits.threshold_chars, limits.max_window),
        (4096, 3072, 1 << 28)
    );
    let lowered = limits.lowered_to(1000);
    assert_eq!((lowered.cap_chars, lowered.threshold_chars), (1000, 750));
    assert_eq!(lowered.lowered_to(4096), lowered);
    assert_eq!(lowered.lowered_to(0).lowered_to(0).threshold_chars, 0);
    for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert!(ThresholdRatio::new(wrong).is_err(), "{wrong}");
    }
}
