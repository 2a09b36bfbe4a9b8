//! Metadata that another program left in the group: the engine starts, repeats, counts and says so; or stops, where
//! that is the policy.

use std::collections::BTreeMap;

use keyway::offsets::Offset;
use keyway::{BadMetadata, StopReason, metrics};
use keyway_offsets::{DEFAULT_MAX_WINDOW, HoleMap, OffsetRange};
use keyway_tests::telemetry;
use keyway_tests::world::{CLEAN, World};

/// What the engine says of a text at this offset.
fn fault(text: &[u8]) -> Option<&'static str> {
    // The broker keeps text, so what is not UTF-8 comes back as U+FFFD.
    let stored = String::from_utf8_lossy(text);
    let base = Offset::new(COMMITTED).expect("an offset");
    keyway_rider::read(base, stored.as_bytes(), DEFAULT_MAX_WINDOW)
        .map
        .err()
        .map(|error| error.name())
}

const COMMITTED: i64 = 3;

const GARBAGE: [u8; 7] = [0xff, 0xfe, 0x80, 0x02, 0xff, 0x33, 0xff];

/// Base64, without what the tests do not need of it.
fn base64(bytes: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let bits = three
            .iter()
            .fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte))
            << (8 * (3 - three.len()));
        let digit = |at: usize| match at <= three.len() {
            true => ALPHABET[(bits >> (18 - 6 * at) & 63) as usize],
            false => b'=',
        };
        [0, 1, 2, 3].map(digit)
    };
    bytes.chunks(3).flat_map(group).collect()
}

/// Every first byte with garbage behind it, as a map would be written and as bare text; text that is not UTF-8; claims of
/// 2^31 offsets.
fn texts() -> Vec<Vec<u8>> {
    let behind = |first: u8| [&[first][..], &GARBAGE].concat();
    let maps = (0..=255).map(|first| base64(&behind(first)));
    let bare = (0..=255).map(behind);
    let claims = [
        &b"e\x7f\xff\xff\xff"[..],
        b"e\x00\x00\x00\x01\x7f\xff\xff\xfe",
        b"o\x7f\xff\xff\xff\xff\x00",
        b"o\x80\x00\x00\x00\xff\x00",
    ];
    let others = [
        &b"\xff\xfe\xfd"[..],
        b"not base64 at all!",
        b"{\"json\":true}",
        b"AQAAAAA=",
    ];
    let claims = claims.into_iter().map(base64);
    maps.chain(bare)
        .chain(claims)
        .chain(others.map(<[u8]>::to_vec))
        .collect()
}

/// With a text that is asked for again until it can be read it fails with 7 of 3,640 done.
#[test]
fn whatever_another_program_committed_the_engine_starts_repeats_counts_and_says_so() {
    telemetry::keep();
    let texts = texts();
    let partitions = texts.len();
    let world = World::new(partitions as i32);
    // Ten records in each partition, of which three are below the committed offset.
    world.fill(partitions * 10, partitions);
    world.forget(|record| record.offset < COMMITTED);
    let commits: Vec<_> = (0..)
        .zip(&texts)
        .map(|(at, text)| (at, COMMITTED, &text[..]))
        .collect();
    world
        .cluster
        .commit_all_as_other_program(&world.group, &world.topic, &commits)
        .expect("the group has no members");

    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    let mut maps = Vec::new();
    for text in &texts {
        match fault(text) {
            Some(reason) => *expected.entry(reason).or_default() += 1,
            None => maps.push(text),
        }
    }
    // A byte for each offset, of which only 1 is complete: whatever the bytes, it is a map, and calls nothing complete.
    assert_eq!(maps, [&base64(&[b"L", &GARBAGE[..]].concat())]);
    for reason in ["bad_text", "unknown_magic", "kafka_streams", "too_large"] {
        assert!(
            expected.contains_key(reason),
            "the texts are about {reason}, too: {expected:?}"
        );
    }
    let counted = |reason: &str| telemetry::counted(metrics::METADATA_DISCARDED, reason);
    let before: BTreeMap<&str, u64> = expected
        .keys()
        .map(|&reason| (reason, counted(reason)))
        .collect();

    let member = world.member("m").start();
    world.until_finished(partitions * 7);
    for (reason, wanted) in &expected {
        assert_eq!(counted(reason) - before[reason], *wanted, "{reason}");
    }
    for (partition, text) in texts.iter().enumerate() {
        let Some(reason) = fault(text) else { continue };
        let reason = format!("reason=\"{reason}\"");
        let named = format!("partition={}-{partition} ", world.topic);
        let lines = telemetry::logged(&[&named, &reason, "offset=3", "is ignored"]);
        assert_eq!(
            lines.len(),
            1,
            "partition {partition}, {text:x?}, {reason}: {lines:?}"
        );
    }
    member.end();
    world.judge(&CLEAN);
    assert_eq!(world.seen(|seen| seen.started().len()), partitions * 7);
    assert_eq!(world.committed_holes(), vec![(10, 0); partitions]);
}

/// With a policy that nobody asks for it waits in vain for the end.
#[test]
fn where_the_policy_says_so_it_stops_and_names_the_reason() {
    let base = World::new(1);
    base.fill(10, 10);
    let reasons = [
        (b"AQAAAAA=".to_vec(), "kafka_streams"),
        (b"not base64!".to_vec(), "bad_text"),
        (base64(b"?garbage"), "unknown_magic"),
        (base64(b"e\x00\x00\x00\x01\x7f\xff\xff\xfe"), "too_large"),
        (map_up_to(10), "past_log_end"),
    ];
    for (text, expected) in reasons {
        let world = base.another_group();
        world
            .cluster
            .commit_as_other_program(&world.group, &world.topic, 0, COMMITTED, &text)
            .expect("the group has no members");
        let strict = |builder: keyway::Builder| builder.bad_metadata(BadMetadata::Fail);
        match world.member("m").with(strict).start().join_failed() {
            StopReason::BadMetadata {
                partition,
                offset,
                reason,
                ..
            } => {
                assert_eq!((&*partition.topic, partition.partition), (&*world.topic, 0));
                assert_eq!((offset, reason), (COMMITTED, expected));
            }
            other => panic!("{expected}: {other}"),
        }
        assert_eq!(world.seen(|seen| seen.started().len()), 0, "nothing ran");
        assert_eq!(
            world.committed()[0].metadata,
            text,
            "what was found is left as it was"
        );
    }
}

/// A map that fits the log is used under either policy.
#[test]
fn a_map_of_another_program_that_fits_is_used() {
    let world = World::new(1);
    world.fill(10, 10);
    world
        .cluster
        .commit_as_other_program(&world.group, &world.topic, 0, COMMITTED, &map_up_to(8))
        .expect("the group has no members");
    let strict = |builder: keyway::Builder| builder.bad_metadata(BadMetadata::Fail);
    let member = world.member("m").with(strict).start();
    world.until_finished(2);
    member.end();
    assert_eq!(world.seen(|seen| seen.started()), [(0, 3), (0, 9)]);
}

/// One hole at the committed offset, complete up to `highest`.
fn map_up_to(highest: i64) -> Vec<u8> {
    let base = Offset::new(COMMITTED).expect("an offset");
    let map = HoleMap::new(base, highest, [OffsetRange::single(base)]).expect("a map");
    keyway_offsets::encode(&map).text.into_bytes()
}
