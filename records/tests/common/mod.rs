//! Blocks for the tests of this crate.

#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

use keyway_records::Header;

pub fn header<'a>(name: &'a str, value: &'a [u8]) -> Header<'a> {
    let value = Some(value);
    Header { name, value }
}

/// Bytes from digits with blanks between them.
pub fn bytes(digits: &str) -> Vec<u8> {
    hex::decode(digits.replace(char::is_whitespace, "")).unwrap()
}

/// The block with the checksum that it should have.
pub fn sealed(digits: &str) -> Vec<u8> {
    let mut block = bytes(digits);
    seal(&mut block);
    block
}

pub fn seal(block: &mut [u8]) {
    let crc = crc32c::crc32c(&block[4..]);
    block[..4].copy_from_slice(&crc.to_be_bytes());
}
