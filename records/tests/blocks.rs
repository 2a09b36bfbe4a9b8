//! Both blocks as the format says them. The bytes were put together by hand from the layout, their checksums by a
//! bitwise CRC-32C in another language; none of it comes from this encoder.

#![allow(clippy::unwrap_used)]

mod common;

use common::{bytes, header};
use keyway_records::{
    Header, Record, decode_headers, decode_record, encode_headers, encode_record,
};

fn is_block(record: &Record<'_>, digits: &str) {
    let block = bytes(digits);
    assert_eq!(
        hex::encode(encode_record(record).unwrap()),
        hex::encode(&block)
    );
    assert_eq!(&decode_record(&block).unwrap(), record);
}

#[test]
fn no_headers_are_a_count_of_zero() {
    assert_eq!(encode_headers(&[]).unwrap(), [0, 0]);
    assert_eq!(decode_headers(&[0, 0]).unwrap(), []);
}

#[test]
fn headers_keep_their_order_and_their_duplicates() {
    let headers = [
        header("b", b"1"),
        header("a", b""),
        header("b", b"\x00\xff"),
        header("", b"x"),
    ];
    let block = bytes(
        "0004  0001 62 00000001 31  0001 61 00000000  0001 62 00000002 00ff  0000 00000001 78",
    );
    assert_eq!(encode_headers(&headers).unwrap(), block);
    assert_eq!(decode_headers(&block).unwrap(), headers);
}

#[test]
fn a_name_is_utf_8() {
    let headers = [header("ключ", b"v")];
    let block = bytes("0001 0008 d0bad0bbd18ed187 00000001 76");
    assert_eq!(encode_headers(&headers).unwrap(), block);
    assert_eq!(decode_headers(&block).unwrap(), headers);
}

#[test]
fn the_header_block_writes_null_as_empty() {
    let headers = [Header {
        name: "a",
        value: None,
    }];
    let block = encode_headers(&headers).unwrap();
    assert_eq!(block, bytes("0001 0001 61 00000000"));
    assert_eq!(decode_headers(&block).unwrap(), [header("a", b"")]);
}

#[test]
fn a_record_without_headers_has_the_layout_from_before_headers() {
    let record = Record {
        key: Some(b"k1"),
        value: Some(b"hello"),
        timestamp: 1_000,
        headers: Vec::new(),
    };
    is_block(
        &record,
        "b46da86a 00 03 00000000000003e8 00000002 00000005 6b31 68656c6c6f",
    );
}

#[test]
fn null_is_not_empty() {
    let null = Record {
        key: None,
        value: None,
        timestamp: -1,
        headers: Vec::new(),
    };
    is_block(&null, "a035e293 00 00 ffffffffffffffff 00000000 00000000");
    let empty_key = Record {
        key: Some(b""),
        timestamp: 1_000,
        ..null
    };
    is_block(
        &empty_key,
        "eb19022a 00 01 00000000000003e8 00000000 00000000",
    );
}

#[test]
fn the_bitmap_has_a_bit_for_each_header_the_least_significant_first() {
    let mut headers = vec![header("", b""); 9];
    headers[0].value = None;
    headers[8].value = None;
    let record = Record {
        key: None,
        value: Some(b""),
        timestamp: 0,
        headers,
    };
    let block = format!(
        "c7016d38 10 02 0000000000000000 00000000 00000000 0000003a 0009 {} 0101",
        "0000 00000000".repeat(9)
    );
    is_block(&record, &block);
}

/// The README's own bytes: the left column of its example.
#[test]
fn the_documented_example_is_what_is_written() {
    let readme = include_str!("../README.md");
    let (_, example) = readme.split_once("The block of the example:").unwrap();
    let example = example
        .split("```")
        .nth(1)
        .unwrap()
        .strip_prefix("text\n")
        .unwrap();
    let column: String = example
        .lines()
        .map(|line| line.split("  ").next().unwrap())
        .collect();
    let record = Record {
        key: Some(b"k1"),
        value: None,
        timestamp: 1_764_547_200_000,
        headers: vec![
            header("trace", &[1, 255]),
            Header {
                name: "trace",
                value: None,
            },
        ],
    };
    is_block(&record, &column);
    is_block(
        &record,
        "46021ea5 10 01 0000019ad7358400 00000002 00000000 0000001b \
         0002 0005 7472616365 00000002 01ff 0005 7472616365 00000000 02 6b31",
    );
}
