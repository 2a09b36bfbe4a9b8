//! What a reader makes of a string that may be anything.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, bytes_of, map_of_runs, offset, rider, text_of};
use keyway_offsets::{DEFAULT_MAX_WINDOW, HoleMap, Limits, encode};
use keyway_rider::{
    BadMetadata, CommitMap, EnvelopeFault, InvalidRider, MAX_RIDER_BYTES, Metadata, MetadataError,
    Offer, Rider, RiderBytes, TextFormat, decode_rider, read,
};

fn of(bytes: &[u8]) -> Metadata {
    read(offset(0), text_of(bytes).as_bytes(), DEFAULT_MAX_WINDOW)
}

fn fault(bytes: &[u8]) -> (&'static str, Rider) {
    let metadata = of(bytes);
    (metadata.map.unwrap_err().name(), metadata.rider)
}

/// One hole below one complete offset, as it stands in a text.
const INNER: [u8; 5] = [b'n', 0, 1, 0, 1];

#[test]
fn the_states_of_a_rider() {
    let inner = bytes_of(&encode(&map_of_runs(&[1, 1])).text);
    for (bytes, rider, holes) in [
        (inner.clone(), Rider::None, 1),
        ([&[b'X', 0, 0][..], &inner].concat(), Rider::Dropped, 1),
        (
            [&[b'X', 0, 2, 7, 8][..], &inner].concat(),
            Rider::Present(vec![7, 8]),
            1,
        ),
        (vec![b'X', 0, 1, 7], Rider::Present(vec![7]), 0),
        (vec![b'X', 0, 0], Rider::Dropped, 0),
    ] {
        let metadata = of(&bytes);
        assert_eq!(
            (metadata.rider, metadata.format),
            (rider, TextFormat::Base64)
        );
        assert_eq!(metadata.map.unwrap().map.holes().len(), holes);
    }
    let empty = read(offset(5), b"", DEFAULT_MAX_WINDOW);
    assert_eq!(
        (empty.rider, empty.format),
        (Rider::None, TextFormat::Empty)
    );
    assert_eq!(empty.map.unwrap().map, HoleMap::caught_up(offset(5)));
}

#[test]
fn a_bad_envelope_is_named_and_allocates_nothing_by_its_length() {
    for (bytes, expected) in [
        (&b"X"[..], EnvelopeFault::Header { bytes: 1 }),
        (b"X\x00", EnvelopeFault::Header { bytes: 2 }),
        (
            b"X\x00\x01",
            EnvelopeFault::Rider {
                announced: 1,
                present: 0,
            },
        ),
        (
            b"X\xff\xff12345",
            EnvelopeFault::Rider {
                announced: 65_535,
                present: 5,
            },
        ),
        (b"X\x00\x01rX\x00\x00", EnvelopeFault::Nested),
        (b"X\x00\x00X", EnvelopeFault::Nested),
    ] {
        let metadata = of(bytes);
        assert_eq!(metadata.map, Err(MetadataError::Envelope(expected)));
        assert_eq!(metadata.rider, Rider::Unreadable);
    }
    assert_eq!(fault(b"X\x00\x01").0, "bad_envelope");
    assert_eq!(fault(b"X\x00\x00X").0, "nested_envelope");
}

#[test]
fn a_corrupt_map_does_not_cost_the_rider() {
    for (inner, name) in [
        (&b"n\x00\x05\x00"[..], "truncated"),
        (b"Q", "unknown_magic"),
        (b"\x01abc", "kafka_streams"),
        (b"l\x00\x02\x02\x00\x09", "trailing"),
        (b"J\x00\x00", "bad_zstd"),
    ] {
        let bytes = [b"X\x00\x02hi", inner].concat();
        assert_eq!(fault(&bytes), (name, Rider::Present(b"hi".to_vec())));
        let marked = [b"X\x00\x00", inner].concat();
        assert_eq!(fault(&marked), (name, Rider::Dropped));
        let text = text_of(&bytes);
        let found = decode_rider(offset(0), text.as_bytes(), BadMetadata::Ignore);
        assert_eq!(found, Ok(Rider::Present(b"hi".to_vec())));
        let refused = decode_rider(offset(0), text.as_bytes(), BadMetadata::Fail);
        assert_eq!(refused.unwrap_err().name(), name);
    }
}

#[test]
fn what_is_no_envelope_has_no_rider() {
    for text in [&b"not base64!"[..], b"AQ==", b"\xff\xfe", b"bgABAAE="] {
        assert_eq!(
            decode_rider(offset(0), text, BadMetadata::Ignore),
            Ok(Rider::None)
        );
    }
    assert!(decode_rider(offset(0), b"not base64!", BadMetadata::Fail).is_err());
    let nested = text_of(b"X\x00\x00X");
    assert_eq!(
        decode_rider(offset(0), nested.as_bytes(), BadMetadata::Ignore),
        Ok(Rider::Unreadable)
    );
}

#[test]
fn riders_that_no_envelope_holds_are_refused_when_they_are_made() {
    assert_eq!(RiderBytes::new(vec![]), Err(InvalidRider::Empty));
    let bytes = MAX_RIDER_BYTES + 1;
    assert_eq!(
        RiderBytes::new(vec![0; bytes]),
        Err(InvalidRider::TooLong { bytes })
    );
    assert!(RiderBytes::new(vec![0; MAX_RIDER_BYTES]).is_ok());
}

/// Damaged texts; a multiple of it with `KEYWAY_FUZZ_INPUTS`.
#[test]
fn damaged_texts_are_read_or_refused() {
    let inputs: u64 = std::env::var("KEYWAY_FUZZ_INPUTS")
        .ok()
        .map_or(100_000, |inputs| inputs.parse().unwrap());
    let limits = Limits::default();
    let mut random = Random::new(1);
    let texts: Vec<Vec<u8>> = [1, 5, 300]
        .into_iter()
        .flat_map(|bytes| {
            let map = map_of_runs(&[1, 3, 2, 40]);
            let offers = [rider(bytes), Offer::Marker, Offer::Nothing];
            offers.map(|offer| bytes_of(&CommitMap::new(&map, &limits).with(&offer).text))
        })
        .collect();
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..inputs {
        let mut bytes = texts[random.below(texts.len() as u64) as usize].clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(5) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.insert(at, b'X'),
                2 => bytes[at] = random.next() as u8,
                3 => bytes[at] ^= 1 << random.below(8),
                _ => bytes[at % 3] = random.next() as u8,
            }
        }
        let found = of(&bytes);
        match found.map {
            Err(error) => names.insert(error.name()),
            Ok(decoded) => {
                // What can be read can be written and read again.
                let offer = match &found.rider {
                    Rider::Present(bytes) => Offer::Rider(RiderBytes::new(bytes.clone()).unwrap()),
                    Rider::Dropped => Offer::Marker,
                    _ => Offer::Nothing,
                };
                let again = CommitMap::new(&decoded.map, &limits).with(&offer).text;
                let again = read(offset(0), again.as_bytes(), DEFAULT_MAX_WINDOW);
                assert_eq!(
                    (again.map.unwrap().map, again.rider),
                    (decoded.map, found.rider)
                );
                names.insert("ok")
            }
        };
    }
    for name in [
        "ok",
        "nested_envelope",
        "bad_envelope",
        "unknown_magic",
        "bad_run",
    ] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
}

#[test]
fn an_envelope_of_the_greatest_length_is_read() {
    let bytes = [&[b'X', 0xff, 0xff][..], &vec![9; MAX_RIDER_BYTES], &INNER].concat();
    let metadata = of(&bytes);
    assert_eq!(metadata.rider.bytes().unwrap().len(), MAX_RIDER_BYTES);
    assert_eq!(metadata.map.unwrap().map.span(), 2);
}
