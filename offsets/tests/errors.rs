//! Every way in which a text is refused, and the name it is refused with.

#![allow(clippy::unwrap_used)]

mod common;

use common::{WINDOW, decode_hex, map, map_of_runs, offset, range, text_of, zstd_frame};
use keyway_offsets::{
    DecodeError, HoleMap, InvalidMap, NotCanonical, Offset, OffsetRange, TextFault, TrailingData,
    ZstdFault, decode,
};

fn refused(digits: &str) -> DecodeError {
    decode_hex(digits).unwrap_err()
}

fn refused_text(text: impl AsRef<[u8]>) -> DecodeError {
    decode(offset(100), text.as_ref(), WINDOW).unwrap_err()
}

fn refused_zstd(magic: u8, frame: &[u8]) -> DecodeError {
    refused_text(text_of(magic, frame))
}

#[track_caller]
fn assert_names(name: &str, bodies: &[&str]) {
    for digits in bodies {
        let error = refused(digits);
        assert_eq!(error.name(), name, "{digits}: {error}");
    }
}

#[test]
fn what_is_not_base64_is_bad_text() {
    for text in [
        "b", "bgAA=", "bg=A", "bgA=AAAA", "====", "=", " ", "bgAA\n", "b-_A", "b\u{e9}", "bgAAA",
    ] {
        assert_eq!(refused_text(text).name(), "bad_text", "{text:?}");
    }
    assert_eq!(
        refused_text(b"bg\xFFA"),
        DecodeError::BadText(TextFault::Byte {
            position: 2,
            byte: 0xFF
        })
    );
    // Half of the padding that belongs there; and bits that belong to no byte.
    assert_eq!(refused_text("bAAAAA=").name(), "bad_text");
    assert!(matches!(
        refused_text("bAAAAB=="),
        DecodeError::BadText(TextFault::LastSymbol { .. })
    ));
}

#[test]
fn every_first_byte_is_a_form_or_a_named_error() {
    let garbage = [0xA5, 0x5A, 0xFF, 0x00, 0x28, 0xB5, 0x13];
    for magic in 0..=0xFF {
        let name = match decode(offset(100), text_of(magic, &garbage).as_bytes(), WINDOW) {
            Ok(_) => "ok",
            Err(error) => error.name(),
        };
        let expected = match magic {
            1 | 2 => "kafka_streams",
            b'l' | b'o' => "bad_length",
            b'n' => "truncated",
            b'e' => "truncated",
            b'a' | b's' | b'J' | b'p' | 0xEE => "bad_zstd",
            b'L' => "ok",
            _ => "unknown_magic",
        };
        assert_eq!(name, expected, "{magic:#04x}");
    }
}

#[test]
fn the_rider_envelope_and_streams_are_told_by_their_byte() {
    assert_eq!(
        refused("58 0000"),
        DecodeError::UnknownMagic { magic: b'X' }
    );
    assert_eq!(refused("01"), DecodeError::KafkaStreams { version: 1 });
    assert_eq!(
        refused("02 00000000"),
        DecodeError::KafkaStreams { version: 2 }
    );
    assert_eq!(refused("00"), DecodeError::UnknownMagic { magic: 0 });
    assert_eq!(refused("03"), DecodeError::UnknownMagic { magic: 3 });
}

#[test]
fn a_body_that_ends_early_is_truncated() {
    assert_names(
        "truncated",
        &["6c", "6c 00", "6c 0000", "6c 000a e603", "6c 000a"],
    );
    assert_names(
        "truncated",
        &["6f", "6f 000000", "6f 00000000", "6f 0000000a e603"],
    );
    // A partial word at the end of runs.
    assert_names(
        "truncated",
        &[
            "6e",
            "6e 00",
            "6e 0001 00",
            "65",
            "65 000000",
            "65 00000001 0000",
        ],
    );
    assert_eq!(
        refused("6c 000a e603"),
        DecodeError::Truncated {
            form: "BitSet",
            needed: 5,
            actual: 4
        }
    );
}

#[test]
fn a_body_that_goes_on_is_trailing() {
    assert_eq!(
        refused("6c 000a e603 00 0000"),
        DecodeError::Trailing {
            form: "BitSet",
            data: TrailingData::Bytes { count: 2 }
        }
    );
    assert_names(
        "trailing",
        &["6c 0000 00 00", "6f 0000000a e603 0000", "6f 00000000 0000"],
    );
}

#[test]
fn a_pad_byte_that_is_not_00_is_trailing() {
    assert_eq!(
        refused("6c 000a e603 01"),
        DecodeError::Trailing {
            form: "BitSet",
            data: TrailingData::Pad { byte: 1 }
        }
    );
    assert_names("trailing", &["6c 0000 80", "6f 0000000a e603 ff"]);
}

#[test]
fn bits_past_the_last_offset_are_trailing() {
    assert_eq!(
        refused("6c 000a e607 00"),
        DecodeError::Trailing {
            form: "BitSet",
            data: TrailingData::Bits { byte: 7 }
        }
    );
    assert_names("trailing", &["6c 0001 02 00", "6f 0000000a e683 00"]);
    assert!(
        decode_hex("6c 0008 fe 00").is_ok(),
        "a last byte that is full has no bits past it"
    );
}

#[test]
fn negative_numbers_are_named_by_what_they_count() {
    assert_eq!(
        refused("6c ffff 00"),
        DecodeError::BadLength {
            form: "BitSet",
            length: -1
        }
    );
    assert_eq!(
        refused("6f 80000000 00"),
        DecodeError::BadLength {
            form: "BitSetV2",
            length: i32::MIN
        }
    );
    assert_eq!(
        refused("6e 0001 8000"),
        DecodeError::BadRun {
            form: "RunLength",
            index: 1,
            length: i16::MIN.into()
        }
    );
    // 2^31, as an unsigned reader would see it.
    assert_eq!(
        refused("65 80000000"),
        DecodeError::BadRun {
            form: "RunLengthV2",
            index: 0,
            length: i32::MIN
        }
    );
}

/// Without the bound of `MapBuilder::extend` it fails: 2^31 - 1 bits are asked for that are not there.
#[test]
fn more_offsets_than_the_window_are_too_large() {
    assert_names(
        "too_large",
        &[
            "6f 7fffffff 00",
            "6f 10000001 00",
            "65 10000001",
            "65 00000001 10000000",
        ],
    );
    assert_names("too_large", &["65 7fffffff 7fffffff 7fffffff"]);
    assert!(
        decode_hex("65 00000001 0fffffff").is_ok(),
        "the window itself is allowed"
    );
    let at = |window, text: String| decode(offset(0), text.as_bytes(), window);
    for text in [
        text_of(b'L', &[0; 9]),
        text_of(b'n', &[0, 9]),
        text_of(b'l', &[0, 9, 0, 0, 0]),
    ] {
        assert!(at(9, text.clone()).is_ok());
        assert_eq!(
            at(8, text).unwrap_err(),
            DecodeError::TooLarge { span: 9, limit: 8 }
        );
    }
}

/// Without the last offset in its bound it fails with a map that ends past it.
#[test]
fn offsets_past_the_last_there_is_are_too_large() {
    let at = |base, digits: &str| {
        decode(
            offset(base),
            text_of(b'n', &hex::decode(digits).unwrap()).as_bytes(),
            WINDOW,
        )
    };
    let map = at(i64::MAX - 1, "00010001").unwrap().map;
    assert_eq!((map.highest(), map.holes().len()), (i64::MAX, 1));
    assert_eq!(
        at(i64::MAX - 1, "00010002").unwrap_err(),
        DecodeError::TooLarge { span: 3, limit: 2 }
    );
    assert_eq!(
        at(i64::MAX, "0001").unwrap().map.holes(),
        [range(i64::MAX, i64::MAX)]
    );
    assert!(at(i64::MAX, "0002").is_err());
}

#[test]
fn what_no_encoder_writes_is_not_canonical() {
    let zero_run = |index| DecodeError::NotCanonical(NotCanonical::ZeroRun { index });
    assert_eq!(refused("6e 0001 0000"), zero_run(1));
    assert_eq!(
        refused("65 00000001 00000001 00000000 00000001"),
        zero_run(2)
    );
    let base_complete = DecodeError::NotCanonical(NotCanonical::BaseComplete);
    for digits in [
        "6e 0000 0005",
        "6e 0000 0000",
        "6c 000a e703 00",
        "6f 00000001 01 00",
        "4c 01",
        "4c 01 00",
    ] {
        assert_eq!(refused(digits), base_complete, "{digits}");
    }
    let nested = zstd_frame(&zstd_frame(&[0, 1, 0, 2]));
    assert_eq!(
        refused_zstd(b'J', &nested),
        DecodeError::NotCanonical(NotCanonical::NestedZstd)
    );
}

#[test]
fn runs_that_begin_like_a_frame_are_runs() {
    // 10,421 incomplete and 12,285 complete: the magic number of zstd.
    let body = [0x28, 0xB5, 0x2F, 0xFD];
    let decoded = decode(
        offset(0),
        text_of(b'J', &zstd_frame(&body)).as_bytes(),
        WINDOW,
    )
    .unwrap();
    assert_eq!(decoded.map, map_of_runs(0, &[0x28B5, 0x2FFD]));
}

#[test]
fn anything_but_one_whole_frame_is_bad_zstd() {
    let body: Vec<u8> = (1..120_u16)
        .flat_map(|run| (run * 7 % 50 + 1).to_be_bytes())
        .collect();
    let frame = zstd_frame(&body);
    assert!(decode(offset(0), text_of(b'J', &frame).as_bytes(), WINDOW).is_ok());
    let fault = |frame: &[u8]| match refused_zstd(b'J', frame) {
        DecodeError::BadZstd(fault) => fault,
        other => panic!("{other}"),
    };
    assert_eq!(fault(&[]), ZstdFault::NotAFrame);
    assert_eq!(fault(&body), ZstdFault::NotAFrame);
    for cut in 4..frame.len() {
        assert_eq!(fault(&frame[..cut]), ZstdFault::Incomplete, "cut to {cut}");
    }
    let followed = |tail: &[u8]| [frame.as_slice(), tail].concat();
    assert_eq!(fault(&followed(&[0])), ZstdFault::Trailing { count: 1 });
    assert_eq!(
        fault(&followed(&frame)),
        ZstdFault::Trailing { count: frame.len() }
    );
    // A skippable frame, before and behind, holds no content but is a frame to the library.
    let skippable = [0x50, 0x2A, 0x4D, 0x18, 1, 0, 0, 0, 9];
    assert_eq!(fault(&skippable), ZstdFault::NotAFrame);
    assert_eq!(
        fault(&[&skippable[..], &frame].concat()),
        ZstdFault::NotAFrame
    );
    assert_eq!(
        fault(&followed(&skippable)),
        ZstdFault::Trailing {
            count: skippable.len()
        }
    );
}

#[test]
fn corrupt_content_is_bad_zstd() {
    let body = [0, 1, 0, 2, 0, 3, 0, 4];
    let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
    compressor.include_checksum(true).unwrap();
    let mut frame = compressor.compress(&body).unwrap();
    assert!(decode(offset(0), text_of(b'J', &frame).as_bytes(), WINDOW).is_ok());
    *frame.last_mut().unwrap() ^= 1;
    assert_eq!(
        refused_zstd(b'J', &frame),
        DecodeError::BadZstd(ZstdFault::Corrupt)
    );
}

#[test]
fn content_longer_than_any_body_is_refused_unread() {
    let bound_of = |magic, len: usize| match refused_zstd(magic, &zstd_frame(&vec![0; len])) {
        DecodeError::BadZstd(ZstdFault::TooLong { bound }) => bound,
        other => panic!("{other}"),
    };
    // A hundred million bytes in a text of few thousand characters.
    let bomb = zstd_frame(&vec![0; 100_000_000]);
    assert!(text_of(b'p', &bomb).len() < 15_000);
    for magic in [b's', b'J', b'p', 0xEE] {
        assert_eq!(bound_of(magic, 100_000_000), 1 << 20);
    }
    // Two bytes of length, 32,767 bits and a pad byte.
    assert_eq!(bound_of(b'a', 5_000), 2 + 4096 + 1);
    let small = decode(
        offset(0),
        text_of(b'J', &zstd_frame(&[0; 40])).as_bytes(),
        16,
    )
    .unwrap_err();
    assert_eq!(
        small,
        DecodeError::BadZstd(ZstdFault::TooLong { bound: 32 })
    );
}

#[test]
fn a_window_that_is_announced_is_not_allocated() {
    // A frame header that asks for a window of 3.75 TiB before one raw block of four bytes.
    let frame = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xFF, 0x21, 0, 0, 0, 1, 0, 2];
    let answer = decode(offset(0), text_of(b'J', &frame).as_bytes(), WINDOW);
    assert!(matches!(answer, Err(DecodeError::BadZstd(_))), "{answer:?}");
}

#[test]
fn parts_that_make_no_map_are_refused_by_cause() {
    let make = |base, highest, holes: &[OffsetRange]| {
        HoleMap::new(offset(base), highest, holes.iter().copied()).unwrap_err()
    };
    let (a, b) = (range(10, 12), range(20, 21));
    let reversed = OffsetRange {
        first: offset(12),
        last: offset(10),
    };
    assert_eq!(
        make(10, 30, &[reversed]),
        InvalidMap::Reversed { range: reversed }
    );
    assert_eq!(
        make(10, 30, &[b, a]),
        InvalidMap::Unsorted {
            range: a,
            previous: b
        }
    );
    let over = range(12, 14);
    assert_eq!(
        make(10, 30, &[a, over]),
        InvalidMap::Overlapping {
            range: over,
            previous: a
        }
    );
    assert!(matches!(make(11, 30, &[a]), InvalidMap::Outside { .. }));
    assert!(matches!(make(10, 20, &[a, b]), InvalidMap::Outside { .. }));
    assert!(matches!(
        make(0, -1, &[range(0, 0)]),
        InvalidMap::Outside { .. }
    ));
    assert_eq!(
        make(9, 30, &[a]),
        InvalidMap::BaseComplete { base: offset(9) }
    );
}

#[test]
fn neighbours_are_merged_and_a_low_highest_is_raised() {
    assert_eq!(map(10, 30, &[(10, 12), (13, 14)]).holes(), [range(10, 14)]);
    assert_eq!(map(105, 100, &[]), HoleMap::caught_up(offset(105)));
    let last = map(
        i64::MAX - 1,
        i64::MAX,
        &[(i64::MAX - 1, i64::MAX - 1), (i64::MAX, i64::MAX)],
    );
    assert_eq!((last.hole_count(), last.span()), (2, 2));
    assert!(!last.is_complete(Offset::MAX));
}

#[test]
fn clipping_raises_the_base_to_the_first_hole_left() {
    let map = map(100, 109, &[(100, 100), (103, 104)]);
    let clipped = |at| map.clip_below(offset(at));
    assert_eq!(clipped(100), map);
    assert_eq!(clipped(50), map);
    assert_eq!(clipped(101), common::map(103, 109, &[(103, 104)]));
    assert_eq!(clipped(104), common::map(104, 109, &[(104, 104)]));
    assert_eq!(clipped(105), HoleMap::caught_up(offset(110)));
    assert_eq!(clipped(500), HoleMap::caught_up(offset(500)));
    let at_the_end = map_of_runs(i64::MAX - 1, &[1, 1]);
    assert_eq!(
        at_the_end.clip_below(Offset::MAX),
        HoleMap::caught_up(Offset::MAX)
    );
}
