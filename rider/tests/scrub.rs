//! Taking the rider out of a text.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, bytes_of, map_of_bytes, map_of_runs, offset, rider, text_of};
use keyway_offsets::{DEFAULT_MAX_WINDOW, HoleMap, Limits, encode};
use keyway_rider::{
    CommitMap, EnvelopeFault, Offer, Rider, WithoutRider, read, without_rider as taken,
};

fn without_rider(text: &str) -> Result<Option<WithoutRider>, EnvelopeFault> {
    taken(offset(0), text.as_bytes(), DEFAULT_MAX_WINDOW)
}

#[test]
fn the_map_stays_to_the_byte() {
    let limits = Limits::default();
    for map in [
        map_of_runs(&[1, 1]),
        map_of_runs(&[3, 900, 1, 7]),
        map_of_bytes(0, 2_000),
    ] {
        for offer in [rider(1), rider(700), Offer::Marker] {
            let text = CommitMap::new(&map, &limits).with(&offer).text;
            let scrubbed = without_rider(&text).unwrap().unwrap();
            assert_eq!(scrubbed.text, encode(&map).text);
            assert_eq!(scrubbed.map.unwrap().map, map);
            let found = read(offset(0), text.as_bytes(), DEFAULT_MAX_WINDOW).rider;
            assert_eq!(scrubbed.rider, found);
        }
    }
}

#[test]
fn a_rider_alone_leaves_the_empty_text() {
    for bytes in [&[b'X', 0, 1, 7][..], &[b'X', 0, 0]] {
        let scrubbed = without_rider(&text_of(bytes)).unwrap().unwrap();
        assert_eq!(scrubbed.text, "");
        assert_eq!(scrubbed.map.unwrap().map, HoleMap::caught_up(offset(0)));
    }
}

#[test]
fn a_text_without_an_envelope_is_left_alone() {
    let map = encode(&map_of_runs(&[1, 1])).text;
    for text in [
        &map[..],
        "",
        "not base64 at all!",
        &text_of(b"?unknown"),
        "AQAAAAA=",
    ] {
        assert_eq!(without_rider(text), Ok(None), "{text}");
    }
    assert_eq!(taken(offset(0), b"\xff\xfe", DEFAULT_MAX_WINDOW), Ok(None));
}

#[test]
fn a_corrupt_map_is_kept_and_named() {
    let inner = [b'n', 0xff, 0xff];
    let scrubbed = without_rider(&text_of(&[&[b'X', 0, 2, 7, 8], &inner[..]].concat()))
        .unwrap()
        .unwrap();
    assert_eq!(bytes_of(&scrubbed.text), inner);
    assert_eq!(scrubbed.rider, Rider::Present(vec![7, 8]));
    let fault = scrubbed.map.unwrap_err();
    let again = read(offset(0), scrubbed.text.as_bytes(), DEFAULT_MAX_WINDOW);
    assert_eq!(again.map, Err(fault), "the new text says so as well");
}

#[test]
fn an_envelope_that_cannot_be_parsed_keeps_its_text() {
    for (bytes, fault) in [
        (&b"X"[..], EnvelopeFault::Header { bytes: 1 }),
        (
            b"X\x00\x05abc",
            EnvelopeFault::Rider {
                announced: 5,
                present: 3,
            },
        ),
        (b"X\x00\x01aX\x00\x00", EnvelopeFault::Nested),
    ] {
        assert_eq!(without_rider(&text_of(bytes)), Err(fault));
    }
}

#[test]
fn whatever_stands_there_no_envelope_is_left_and_twice_is_once() {
    let mut random = Random::new(7);
    for _ in 0..5_000 {
        let length = random.below(40) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        // Most of them envelopes, with a length that may fit.
        if length > 3 && random.below(4) > 0 {
            bytes[..3].copy_from_slice(&[b'X', 0, random.below(40) as u8]);
        }
        if let Ok(Some(scrubbed)) = without_rider(&text_of(&bytes)) {
            assert_eq!(without_rider(&scrubbed.text), Ok(None), "{bytes:x?}");
            assert!(scrubbed.text.len() < text_of(&bytes).len());
        }
    }
}
