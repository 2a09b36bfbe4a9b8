//! Any bytes as a metadata string, and as what is inside one.
//!
//! The first eight bytes are the committed offset. Whatever is read has to come back as the same map.

#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keyway_offsets::{Offset, decode, encode, plain_text_len};
use libfuzzer_sys::fuzz_target;

const WINDOW: u64 = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_first_chunk() else { return };
    let Some(committed) = Offset::new(i64::from_be_bytes(*head)) else { return };
    check(committed, rest);
    check(committed, STANDARD.encode(rest).as_bytes());
});

fn check(committed: Offset, text: &[u8]) {
    let Ok(decoded) = decode(committed, text, WINDOW) else { return };
    let map = decoded.map;
    assert!(map.span() <= WINDOW && map.base() == committed);
    let encoded = encode(&map);
    assert!(encoded.text.len() <= plain_text_len(&map));
    let again = decode(committed, encoded.text.as_bytes(), WINDOW).expect("what is written is read");
    assert_eq!(again.map, map);
    assert_eq!(again.encoding, encoded.encoding);
}
