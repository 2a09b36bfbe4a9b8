//! Any bytes as a header block, as a record block under its own checksum and under the right one, and as a file.
//!
//! Whatever is read has to be written back to the byte.

#![no_main]

use keyway_records::{RecordReader, decode_headers, decode_record, encode_headers, encode_record};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(headers) = decode_headers(data) {
        assert_eq!(encode_headers(&headers).expect("what was read can be written"), data);
    }
    check(data);
    if data.len() >= 4 {
        let crc = crc32c::crc32c(&data[4..]).to_be_bytes();
        check(&[&crc, &data[4..]].concat());
    }
});

fn check(block: &[u8]) {
    if let Ok(record) = decode_record(block) {
        assert_eq!(encode_record(&record).expect("what was read can be written"), block);
    }
    let mut blocks = RecordReader::new(block);
    let mut at = 0;
    while let Ok(Some(record)) = blocks.read() {
        let written = encode_record(&record).expect("what was read can be written");
        assert!(block[at..].starts_with(&written));
        at += written.len();
        assert_eq!(blocks.offset(), at as u64);
    }
}
