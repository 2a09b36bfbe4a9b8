//! What holds for every map.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Random, map_of_runs, offset};
use keyway_offsets::{HoleMap, Offset, OffsetRange, decode, encode, plain_text_len};
use proptest::prelude::*;

/// Maps of runs that are short, regular, or as long as they get.
fn maps() -> impl Strategy<Value = HoleMap> {
    let run = prop_oneof![
        8 => 1..5_i64,
        4 => 1..300_i64,
        2 => 32_000..33_500_i64,
        1 => 1..(1_i64 << 24),
    ];
    let base = prop_oneof![Just(0), 0..1_000_000_i64, (1_i64 << 60)..(1 << 61)];
    let irregular = proptest::collection::vec(run.clone(), 1..120);
    let regular = (proptest::collection::vec(run, 1..5), 1..60_usize)
        .prop_map(|(runs, times)| runs.repeat(times));
    (base, prop_oneof![irregular, regular]).prop_map(|(base, runs)| map_of_runs(base, &runs))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(map in maps()) {
        let encoded = encode(&map);
        let decoded = decode(map.base(), encoded.text.as_bytes(), u64::MAX).unwrap();
        prop_assert_eq!(&decoded.map, &map);
        prop_assert_eq!(decoded.encoding, encoded.encoding);
        prop_assert_eq!(encode(&map), encoded, "the same text again");
    }

    #[test]
    fn the_plain_length_is_never_exceeded(map in maps()) {
        prop_assert!(encode(&map).text.len() <= plain_text_len(&map));
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(committed in 0..i64::MAX, text in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(decoded) = decode(offset(committed), &text, 1 << 20) {
            let again = encode(&decoded.map).text;
            prop_assert_eq!(decode(offset(committed), again.as_bytes(), 1 << 20).unwrap().map, decoded.map);
        }
    }

    #[test]
    fn clipping_agrees_with_every_offset(runs in proptest::collection::vec(1..6_i64, 1..20), at in 0..120_i64) {
        let map = map_of_runs(10, &runs);
        let clipped = map.clip_below(offset(at));
        prop_assert!(clipped.base() >= map.base().max(offset(at)) );
        for near in 0..140 {
            let near = offset(near);
            let expected = near < offset(at) || map.is_complete(near);
            prop_assert_eq!(clipped.is_complete(near), expected, "{}", near);
        }
        prop_assert!(clipped.is_caught_up() || !clipped.is_complete(clipped.base()));
    }

    #[test]
    fn completing_a_range_agrees_with_every_offset(
        runs in proptest::collection::vec(1..6_i64, 0..20), first in 0..120_i64, length in 1..30_i64,
    ) {
        let map = if runs.is_empty() { HoleMap::caught_up(offset(10)) } else { map_of_runs(10, &runs) };
        let range = common::range(first, first + length - 1);
        let more = map.with_complete(range);
        for near in 0..160 {
            let near = offset(near);
            let expected = map.is_complete(near) || range.contains(near);
            prop_assert_eq!(more.is_complete(near), expected, "{}", near);
        }
        prop_assert!(more.is_caught_up() || !more.is_complete(more.base()));
        prop_assert_eq!(more.highest(), map.highest().max(range.last.get()).max(more.base().get() - 1));
    }

    #[test]
    fn distances_never_overflow(a in any::<i64>(), b in any::<i64>(), count in any::<u64>()) {
        let (Some(a), Some(b)) = (Offset::new(a), Offset::new(b)) else {
            prop_assert!(a < 0 || b < 0);
            return Ok(());
        };
        prop_assert_eq!(a.distance_from(b).is_some(), a >= b);
        if let Some(sum) = a.checked_add(count) {
            prop_assert_eq!(sum.distance_from(a), Some(count));
        }
        prop_assert!(a.next() >= a);
        prop_assert_eq!(OffsetRange::new(a, b).map(|range| range.len() > 0), (a <= b).then_some(true));
    }
}

#[test]
fn ranges_and_offsets_show_as_people_write_them() {
    assert_eq!(common::range(3, 9).to_string(), "3-9");
    assert_eq!(OffsetRange::single(offset(3)).to_string(), "3");
    assert_eq!(Offset::new(-1), None);
    assert_eq!(Offset::MAX.next(), Offset::MAX);
    assert!(Random::new(1).next() != Random::new(2).next());
}
