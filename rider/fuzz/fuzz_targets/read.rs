//! Any bytes as a whole metadata string, and as what is inside one.
//!
//! The first eight bytes are the committed offset. Whatever is read has to come back as the same map and rider, and
//! without its rider as the same map.

#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keyway_offsets::{Limits, Offset, ThresholdRatio};
use keyway_rider::{CommitMap, Offer, Rider, RiderBytes, read, without_rider};
use libfuzzer_sys::fuzz_target;

const WINDOW: u64 = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_first_chunk() else { return };
    let Some(committed) = Offset::new(i64::from_be_bytes(*head)) else { return };
    check(committed, rest);
    check(committed, STANDARD.encode(rest).as_bytes());
});

fn check(committed: Offset, text: &[u8]) {
    let found = read(committed, text, WINDOW);
    if let Ok(Some(bare)) = without_rider(committed, text, WINDOW) {
        assert_eq!(bare.rider, found.rider);
        let again = read(committed, bare.text.as_bytes(), WINDOW);
        assert_eq!((again.rider, &again.map), (Rider::None, &found.map));
    }
    let Ok(decoded) = found.map else { return };
    let offer = match &found.rider {
        Rider::Present(bytes) => Offer::Rider(RiderBytes::new(bytes.clone()).expect("what was read can be written")),
        Rider::Dropped => Offer::Marker,
        _ => Offer::Nothing,
    };
    let limits = Limits::new(1 << 24, ThresholdRatio::default()).with_max_window(WINDOW);
    let text = CommitMap::new(&decoded.map, &limits).with(&offer).text;
    let again = read(committed, text.as_bytes(), WINDOW);
    assert_eq!(again.rider, found.rider);
    assert_eq!(again.map.expect("what is written is read").map, decoded.map);
}
