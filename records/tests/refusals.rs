//! Every way in which bytes are no block, and a record fits none.

#![allow(clippy::unwrap_used)]

mod common;

use common::{bytes, header, sealed};
use keyway_records::{
    DecodeError, EncodeError, MAX_HEADERS, MAX_NAME_BYTES, Part, Record, decode_headers,
    decode_record, encode_headers, encode_record,
};

fn truncated(offset: usize, part: Part, needed: u64, present: u64) -> DecodeError {
    DecodeError::Truncated {
        offset,
        part,
        needed,
        present,
    }
}

fn refuses_headers(digits: &str, fault: DecodeError) {
    assert_eq!(decode_headers(&bytes(digits)), Err(fault), "{digits}");
}

fn refuses_record(block: &[u8], fault: DecodeError) {
    assert_eq!(decode_record(block), Err(fault), "{}", hex::encode(block));
}

#[test]
fn a_header_block_that_ends_early() {
    refuses_headers("", truncated(0, Part::HeaderCount, 2, 0));
    refuses_headers("00", truncated(0, Part::HeaderCount, 2, 1));
    refuses_headers("0001", truncated(2, Part::NameLength, 2, 0));
    refuses_headers("0001 0002 61", truncated(4, Part::Name, 2, 1));
    refuses_headers(
        "0001 0001 61 0000",
        truncated(5, Part::HeaderValueLength, 4, 2),
    );
    refuses_headers(
        "0001 0001 61 00000002 ff",
        truncated(9, Part::HeaderValue, 2, 1),
    );
    refuses_headers(
        "0002 0001 61 00000000",
        truncated(9, Part::NameLength, 2, 0),
    );
}

#[test]
fn announced_lengths_are_believed_when_the_bytes_are_there() {
    refuses_headers("ffff", truncated(2, Part::NameLength, 2, 0));
    refuses_headers(
        "0001 0000 ffffffff 00",
        truncated(8, Part::HeaderValue, u32::MAX.into(), 1),
    );
    let lengths = "00 03 0000000000000000 ffffffff ffffffff";
    let all = 2 * u64::from(u32::MAX);
    refuses_record(
        &sealed(&format!("00000000 {lengths}")),
        truncated(22, Part::Payload, all, 0),
    );
}

#[test]
fn a_header_block_with_something_behind_it() {
    refuses_headers(
        "0000 00",
        DecodeError::Trailing {
            offset: 2,
            bytes: 1,
        },
    );
    refuses_headers(
        "0001 0001 61 00000000 0102",
        DecodeError::Trailing {
            offset: 9,
            bytes: 2,
        },
    );
}

#[test]
fn a_name_that_is_no_text() {
    let fault = |index, offset| DecodeError::BadName { index, offset };
    refuses_headers("0001 0002 61ff 00000000", fault(0, 5));
    // A surrogate, an overlong form, a character that is cut off.
    refuses_headers("0001 0003 eda080 00000000", fault(0, 4));
    refuses_headers("0002 0000 00000000 0002 c080 00000000", fault(1, 10));
    refuses_headers("0001 0002 61c3 00000000", fault(0, 5));
}

/// A record with the key `k`, the value `v` and the header `a` = `b`.
const WITH_HEADERS: &str =
    "00000000 10 03 0000000000000001 00000001 00000001 0000000b 0001 0001 61 00000001 62 00 6b 76";

#[test]
fn a_record_is_told_from_its_beginnings_and_from_more() {
    let block = sealed(WITH_HEADERS);
    let record = decode_record(&block).unwrap();
    assert_eq!(
        (record.key, record.value),
        (Some(&b"k"[..]), Some(&b"v"[..]))
    );
    for end in 0..block.len() {
        let fault = decode_record(&block[..end]).unwrap_err();
        assert_eq!(fault.name(), "truncated", "{end}");
    }
    refuses_record(&block[..3], truncated(0, Part::RecordHeader, 4, 3));
    refuses_record(&block[..21], truncated(18, Part::RecordHeader, 4, 3));
    refuses_record(&block[..25], truncated(22, Part::RecordHeader, 4, 3));
    refuses_record(&block[..30], truncated(26, Part::Payload, 13, 4));
    let more = [&block[..], &[0, 0]].concat();
    refuses_record(
        &more,
        DecodeError::Trailing {
            offset: 39,
            bytes: 2,
        },
    );
}

/// Without the checksum 127 of the 312 are read as another record.
#[test]
fn no_single_bit_may_differ() {
    let block = sealed(WITH_HEADERS);
    for bit in 0..block.len() * 8 {
        let mut damaged = block.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(decode_record(&damaged).is_err(), "{bit}");
    }
    let mut damaged = block.clone();
    damaged[38] = b'w';
    let stored = u32::from_be_bytes(*block.first_chunk().unwrap());
    let fault = decode_record(&damaged).unwrap_err();
    assert!(
        matches!(fault, DecodeError::BadCrc { offset: 0, stored: is, computed } if is == stored && computed != stored),
        "{fault:?}"
    );
}

#[test]
fn bits_of_a_later_version() {
    for bit in [0x01, 0x02, 0x04, 0x08, 0x20, 0x40, 0x80] {
        for with in [0, 0x10] {
            let attrs: u8 = bit | with;
            let block = sealed(&format!(
                "00000000 {attrs:02x} 00 0000000000000000 00000000 00000000"
            ));
            refuses_record(&block, DecodeError::UnknownAttrs { offset: 4, attrs });
        }
    }
    for bit in [0x04, 0x08, 0x10, 0x20, 0x40, 0x80] {
        let presence: u8 = bit | 0x03;
        let block = sealed(&format!(
            "00000000 00 {presence:02x} 0000000000000000 00000000 00000000"
        ));
        refuses_record(
            &block,
            DecodeError::UnknownPresence {
                offset: 5,
                presence,
            },
        );
    }
}

#[test]
fn a_length_of_what_is_null() {
    let fault = |offset, part| DecodeError::LengthOfNull {
        offset,
        part,
        bytes: 1,
    };
    let key = sealed("00000000 00 02 0000000000000000 00000001 00000000 6b");
    refuses_record(&key, fault(14, Part::Key));
    let value = sealed("00000000 00 01 0000000000000000 00000000 00000001 76");
    refuses_record(&value, fault(18, Part::Value));
}

#[test]
fn the_flag_without_headers() {
    let none = sealed("00000000 10 00 0000000000000000 00000000 00000000 00000002 0000");
    refuses_record(&none, DecodeError::NoHeaders { offset: 26 });
    let nothing = sealed("00000000 10 00 0000000000000000 00000000 00000000 00000000");
    refuses_record(&nothing, truncated(26, Part::HeaderCount, 2, 0));
}

/// The headers of a record that has nothing else.
fn of_headers(headers: &str) -> Vec<u8> {
    let length = bytes(headers).len();
    sealed(&format!(
        "00000000 10 00 0000000000000000 00000000 00000000 {length:08x} {headers}"
    ))
}

#[test]
fn headers_of_another_length_than_is_said() {
    refuses_record(
        &of_headers("0001 0001 61 00000000"),
        truncated(35, Part::NullBitmap, 1, 0),
    );
    let trailing = DecodeError::Trailing {
        offset: 36,
        bytes: 1,
    };
    refuses_record(&of_headers("0001 0001 61 00000000 00 00"), trailing);
    // A header's length must not reach into the key.
    let into_key = sealed(
        "00000000 10 01 0000000000000000 00000001 00000000 0000000a 0001 0001 61 00000002 00 6b",
    );
    refuses_record(&into_key, truncated(35, Part::HeaderValue, 2, 1));
    refuses_record(
        &of_headers("0001 0001 ff 00000000 00"),
        DecodeError::BadName {
            index: 0,
            offset: 30,
        },
    );
}

#[test]
fn a_bitmap_that_contradicts_the_headers() {
    assert_eq!(
        decode_record(&of_headers("0001 0001 61 00000000 01"))
            .unwrap()
            .headers[0]
            .value,
        None
    );
    for bitmap in [0x02, 0x03, 0x80] {
        let block = of_headers(&format!("0001 0001 61 00000000 {bitmap:02x}"));
        refuses_record(&block, DecodeError::SpareBits { offset: 35, bitmap });
    }
    let eight = format!("0008 {}", "0000 00000000".repeat(8));
    assert!(
        decode_record(&of_headers(&format!("{eight} ff"))).is_ok(),
        "no bit to spare"
    );
    refuses_record(
        &of_headers("0002 0000 00000000 0001 61 00000002 0102 02"),
        DecodeError::NullWithValue {
            offset: 43,
            index: 1,
            bytes: 2,
        },
    );
}

fn record(headers: Vec<keyway_records::Header<'_>>) -> Record<'_> {
    Record {
        key: None,
        value: None,
        timestamp: 0,
        headers,
    }
}

#[test]
fn limits_of_number_and_names() {
    let most = vec![header("", b""); MAX_HEADERS];
    assert_eq!(
        decode_headers(&encode_headers(&most).unwrap()).unwrap(),
        most
    );
    let block = encode_record(&record(most.clone())).unwrap();
    assert_eq!(decode_record(&block).unwrap().headers, most);

    let count = MAX_HEADERS + 1;
    let more = vec![header("", b""); count];
    assert_eq!(
        encode_headers(&more),
        Err(EncodeError::TooManyHeaders { count })
    );
    assert_eq!(
        encode_record(&record(more)),
        Err(EncodeError::TooManyHeaders { count })
    );

    let name = "n".repeat(MAX_NAME_BYTES + 1);
    let longest = [header(&name[1..], b"v")];
    assert_eq!(
        decode_headers(&encode_headers(&longest).unwrap()).unwrap(),
        longest
    );
    let fault = EncodeError::NameTooLong {
        index: 1,
        bytes: MAX_NAME_BYTES + 1,
    };
    let longer = vec![header("", b""), header(&name, b"")];
    assert_eq!(encode_headers(&longer), Err(fault.clone()));
    assert_eq!(encode_record(&record(longer)), Err(fault));
}

/// Four gigabytes that are asked for and never touched, so that no memory stands behind them.
#[cfg(target_pointer_width = "64")]
#[test]
fn limits_of_lengths() {
    let more = vec![0; 1_usize << 32];
    let most = &more[1..];
    let too_long = |part, bytes| EncodeError::TooLong { part, bytes };
    let mut kept = b"kept".to_vec();
    for (record, fault) in [
        (
            Record {
                key: Some(&more),
                ..record(Vec::new())
            },
            too_long(Part::Key, 1 << 32),
        ),
        (
            Record {
                value: Some(&more),
                ..record(Vec::new())
            },
            too_long(Part::Value, 1 << 32),
        ),
        (
            record(vec![header("", &more)]),
            too_long(Part::HeaderValue, 1 << 32),
        ),
        // Each by itself would do: 2 of the count, 6 of the header, 1 of the bitmap.
        (
            record(vec![header("", most)]),
            too_long(Part::Headers, (1 << 32) + 8),
        ),
    ] {
        assert_eq!(
            keyway_records::append_record(&record, &mut kept),
            Err(fault)
        );
    }
    assert_eq!(kept, b"kept");
}

#[test]
fn each_error_has_a_name_and_says_where() {
    let faults = [
        (truncated(7, Part::Name, 2, 1), "truncated"),
        (
            DecodeError::Trailing {
                offset: 7,
                bytes: 1,
            },
            "trailing",
        ),
        (
            DecodeError::BadName {
                index: 0,
                offset: 7,
            },
            "bad_name",
        ),
        (
            DecodeError::UnknownAttrs {
                offset: 7,
                attrs: 1,
            },
            "unknown_attrs",
        ),
        (
            DecodeError::BadCrc {
                offset: 7,
                stored: 1,
                computed: 2,
            },
            "bad_crc",
        ),
        (
            DecodeError::UnknownPresence {
                offset: 7,
                presence: 4,
            },
            "unknown_presence",
        ),
        (
            DecodeError::LengthOfNull {
                offset: 7,
                part: Part::Key,
                bytes: 1,
            },
            "length_of_null",
        ),
        (DecodeError::NoHeaders { offset: 7 }, "no_headers"),
        (
            DecodeError::NullWithValue {
                offset: 7,
                index: 0,
                bytes: 1,
            },
            "null_with_value",
        ),
        (
            DecodeError::SpareBits {
                offset: 7,
                bitmap: 2,
            },
            "spare_bits",
        ),
    ];
    for (fault, name) in faults {
        assert_eq!(fault.name(), name);
        assert!(fault.to_string().contains("byte 7"), "{fault}");
    }
    for (fault, name) in [
        (
            EncodeError::TooManyHeaders { count: 65_536 },
            "too_many_headers",
        ),
        (
            EncodeError::NameTooLong {
                index: 3,
                bytes: 65_536,
            },
            "name_too_long",
        ),
        (
            EncodeError::TooLong {
                part: Part::Key,
                bytes: 1 << 32,
            },
            "too_long",
        ),
    ] {
        assert_eq!(fault.name(), name);
    }
}
