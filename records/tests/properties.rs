//! What holds for every record, and for any bytes.

#![allow(clippy::unwrap_used)]

mod common;

use common::{header, seal};
use keyway_records::{
    Header, Record, RecordReader, append_record, decode_headers, decode_record, encode_headers,
    encode_record,
};
use proptest::collection::vec;
use proptest::prelude::*;

type Owned = (
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    i64,
    Vec<(String, Option<Vec<u8>>)>,
);

fn maybe() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(vec(any::<u8>(), 0..40))
}

/// Records with few names, so that they come twice.
fn records() -> impl Strategy<Value = Owned> {
    let name = prop_oneof![Just(String::new()), "[ab]", "\\PC{0,9}"];
    (maybe(), maybe(), any::<i64>(), vec((name, maybe()), 0..20))
}

fn borrowed((key, value, timestamp, headers): &Owned) -> Record<'_> {
    let headers = headers.iter();
    Record {
        key: key.as_deref(),
        value: value.as_deref(),
        timestamp: *timestamp,
        headers: headers
            .map(|(name, value)| Header {
                name,
                value: value.as_deref(),
            })
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_record_is_read_back(owned in records()) {
        let record = borrowed(&owned);
        let block = encode_record(&record).unwrap();
        prop_assert_eq!(decode_record(&block).unwrap(), record);
    }

    #[test]
    fn headers_are_read_back_but_for_their_nulls(owned in records()) {
        let headers = borrowed(&owned).headers;
        let block = encode_headers(&headers).unwrap();
        let without: Vec<_> = headers.iter().map(|each| header(each.name, each.value.unwrap_or_default())).collect();
        prop_assert_eq!(decode_headers(&block).unwrap(), without);
    }

    #[test]
    fn headers_are_all_that_a_record_with_headers_has_more(owned in records()) {
        let with = encode_record(&borrowed(&owned)).unwrap();
        let without = encode_record(&Record { headers: Vec::new(), ..borrowed(&owned) }).unwrap();
        if owned.3.is_empty() {
            prop_assert_eq!(with, without);
        } else {
            let more = 4 + encode_headers(&borrowed(&owned).headers).unwrap().len() + owned.3.len().div_ceil(8);
            prop_assert_eq!((with.len(), with[4], without[4]), (without.len() + more, 0x10, 0));
            prop_assert_eq!(&with[5..22], &without[5..22]);
            prop_assert!(with.ends_with(&without[22..]));
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..80)) {
        if let Ok(headers) = decode_headers(&bytes) {
            prop_assert_eq!(encode_headers(&headers).unwrap(), bytes.clone());
        }
        if let Ok(record) = decode_record(&bytes) {
            prop_assert_eq!(encode_record(&record).unwrap(), bytes);
        }
    }

    /// Small numbers and a right checksum, so that they get far.
    #[test]
    fn any_block_under_a_right_checksum_has_one_form(
        mut block in vec(prop_oneof![4 => Just(0_u8), 2 => 1..9_u8, 1 => any::<u8>()], 22..70), headers: bool, presence in 0..5_u8,
    ) {
        block[4] = if headers { 0x10 } else { 0 };
        block[5] = presence;
        for length in [14, 18, 22] {
            if block.len() > length + 3 {
                block[length..length + 3].fill(0);
            }
        }
        seal(&mut block);
        if let Ok(record) = decode_record(&block) {
            prop_assert_eq!(encode_record(&record).unwrap(), block);
        }
    }

    #[test]
    fn a_file_is_read_back_however_it_comes(owned in vec(records(), 0..6), piece in 1..50_usize) {
        let mut file = Vec::new();
        for each in &owned {
            append_record(&borrowed(each), &mut file).unwrap();
        }
        let mut blocks = RecordReader::new(Pieces { rest: &file, piece });
        for each in &owned {
            let record = blocks.read().unwrap();
            prop_assert_eq!(record, Some(borrowed(each)));
        }
        prop_assert_eq!(blocks.read().unwrap(), None);
        prop_assert_eq!(blocks.offset(), file.len() as u64);
    }
}

/// Gives at most `piece` bytes at a time.
struct Pieces<'a> {
    rest: &'a [u8],
    piece: usize,
}

impl std::io::Read for Pieces<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let most = self.piece.min(to.len());
        std::io::Read::read(&mut self.rest, &mut to[..most])
    }
}
