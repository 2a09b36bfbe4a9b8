//! Which rung a commit stands on, against arithmetic of its own: 4,096 characters are 3,072 bytes, an envelope has
//! 3 bytes beside its rider, and three bytes become four characters.

#![allow(clippy::unwrap_used)]

mod common;

use common::{map_of_bytes, map_of_runs, offset, rider};
use keyway_offsets::{HoleMap, Limits, ThresholdRatio, encode};
use keyway_rider::{CommitMap, CommitText, Offer, Rider, Rung, guaranteed_bytes, read};

fn text(map: &HoleMap, offer: &Offer, limits: &Limits) -> CommitText {
    CommitMap::new(map, limits).with(offer)
}

/// What stands in the string of a commit: bytes of the rider and of the map; 0 bytes of a rider are the marker.
fn expected(inner: usize, offer: Option<usize>) -> (Rung, usize) {
    let map_fits = inner <= 3_072;
    let inner = if map_fits { inner } else { 0 };
    let (rung, bytes) = match offer {
        Some(rider) if rider > 0 && 3 + rider + inner <= 3_072 => match map_fits {
            true => (Rung::RiderAndMap, 3 + rider + inner),
            false => (Rung::RiderOnly, 3 + rider),
        },
        Some(_) if 3 + inner <= 3_072 => match map_fits {
            true => (Rung::MarkerAndMap, 3 + inner),
            false => (Rung::MarkerOnly, 3),
        },
        _ if map_fits => (Rung::Map, inner),
        _ => (Rung::None, 0),
    };
    (rung, bytes.div_ceil(3) * 4)
}

#[test]
fn every_boundary_between_2200_and_3080_bytes_of_map() {
    let limits = Limits::default();
    let mut seen = std::collections::BTreeMap::new();
    for inner in 2_200..=3_080_usize {
        let map = map_of_bytes(7, inner);
        let encoded = CommitMap::new(&map, &limits);
        let inner_chars = inner.div_ceil(3) * 4;
        assert_eq!(
            encoded.inner_chars(),
            inner_chars,
            "the map of {inner} bytes"
        );
        let room = 3_069_usize.saturating_sub(if inner > 3_072 { 0 } else { inner });
        assert_eq!(encoded.max_rider_bytes(), room);
        let mut riders = vec![
            1, 2, 764, 765, 766, 767, 768, 3_068, 3_069, 3_070, 3_071, 3_072,
        ];
        riders.extend(room.saturating_sub(2).max(1)..=room + 2);
        let offers = riders.into_iter().map(Some).chain([Some(0), None]);
        for offer in offers {
            let given = match offer {
                None => Offer::Nothing,
                Some(0) => Offer::Marker,
                Some(bytes) => rider(bytes),
            };
            let text = encoded.clone().with(&given);
            let place = format!("a map of {inner} bytes and a rider of {offer:?}");
            assert_eq!(
                (text.rung, text.text.len()),
                expected(inner, offer),
                "{place}"
            );
            assert_eq!(text.inner_chars, inner_chars, "{place}");
            assert_eq!(text.blocked, inner > 2_304, "{place}");
            assert_eq!(text.stripped, inner > 3_072, "{place}");
            *seen.entry(text.rung.name()).or_insert(0) += 1;

            let found = read(offset(7), text.text.as_bytes(), limits.max_window);
            let rider = match (text.rung, &given) {
                (Rung::RiderAndMap | Rung::RiderOnly, Offer::Rider(bytes)) => {
                    Rider::Present(bytes.as_slice().to_vec())
                }
                (Rung::MarkerAndMap | Rung::MarkerOnly, _) => Rider::Dropped,
                _ => Rider::None,
            };
            assert_eq!(found.rider, rider, "{place}");
            let carried = if text.rung.has_map() {
                map.clone()
            } else {
                HoleMap::caught_up(offset(7))
            };
            assert_eq!(found.map.unwrap().map, carried, "{place}");
        }
    }
    assert_eq!(seen.len(), 6, "every rung: {seen:?}");
}

#[test]
fn a_rider_of_the_guaranteed_size_is_never_shed_under_the_threshold() {
    let limits = Limits::default();
    assert_eq!(guaranteed_bytes(&limits), 765);
    let at_threshold = map_of_bytes(0, 2_304);
    let fits = text(&at_threshold, &rider(765), &limits);
    assert_eq!(
        (fits.rung, fits.text.len(), fits.blocked),
        (Rung::RiderAndMap, 4_096, false)
    );
    assert_eq!(
        text(&at_threshold, &rider(766), &limits).rung,
        Rung::MarkerAndMap
    );
    // Three more would be 4,100 characters.
    assert_eq!((2_304_usize + 768 + 3).div_ceil(3) * 4, 4_100);
    for (cap, ratio, bytes) in [(4096, 1.0, 0), (4096, 0.0, 3_069), (8, 0.5, 0), (0, 0.5, 0)] {
        let limits = Limits::new(cap, ThresholdRatio::new(ratio).unwrap());
        assert_eq!(guaranteed_bytes(&limits), bytes, "{cap} {ratio}");
    }
    let wide = Limits::new(1 << 20, ThresholdRatio::default());
    assert_eq!(guaranteed_bytes(&wide), 65_535);
    assert_eq!(
        CommitMap::new(&map_of_runs(&[1, 1]), &wide).max_rider_bytes(),
        65_535
    );
}

#[test]
fn where_nothing_is_incomplete_the_rider_has_the_whole_string() {
    let limits = Limits::default();
    let caught_up = HoleMap::caught_up(offset(7));
    assert_eq!(CommitMap::new(&caught_up, &limits).max_rider_bytes(), 3_069);
    for (offer, rung, chars) in [
        (rider(1), Rung::RiderOnly, 8),
        (rider(3_069), Rung::RiderOnly, 4_096),
        (rider(3_070), Rung::MarkerOnly, 4),
        (Offer::Marker, Rung::MarkerOnly, 4),
        (Offer::Nothing, Rung::None, 0),
    ] {
        let text = text(&caught_up, &offer, &limits);
        assert_eq!((text.rung, text.text.len()), (rung, chars));
        assert_eq!(
            (text.blocked, text.stripped, text.inner_chars),
            (false, false, 0)
        );
        let found = read(offset(7), text.text.as_bytes(), limits.max_window);
        assert_eq!(
            found.map.unwrap().map.highest(),
            6,
            "caught up: one below the base"
        );
    }
    let nothing = Limits::new(3, ThresholdRatio::default());
    assert_eq!(text(&caught_up, &Offer::Marker, &nothing).rung, Rung::None);
}

#[test]
fn without_a_rider_the_text_is_the_maps_own_and_with_one_it_blocks_at_the_same_point() {
    for ratio in [0.25, 0.5, 0.75, 1.0] {
        let limits = Limits::new(4_096, ThresholdRatio::new(ratio).unwrap());
        for density in [2, 3, 5, 10, 30, 100, 1_000] {
            for span in (100..30_000_i64).step_by(997) {
                let mut random = common::Random::new(density);
                let runs: Vec<i64> = (0..span / density as i64)
                    .map(|_| 1 + random.below(density) as i64)
                    .collect();
                let runs = [vec![1], runs, vec![1, 2]].concat();
                let map = map_of_runs(&runs[..runs.len() / 2 * 2]);
                let bare = text(&map, &Offer::Nothing, &limits);
                let own = encode(&map).text;
                if bare.stripped {
                    assert!(own.len() > 4_096 && bare.text.is_empty());
                } else {
                    assert_eq!(bare.text, own);
                }
                assert_eq!(bare.blocked, own.len() as f64 > 4_096.0 * ratio);
                for offer in [rider(1), rider(700), rider(3_000), Offer::Marker] {
                    let beside = text(&map, &offer, &limits);
                    assert_eq!(
                        (beside.blocked, beside.stripped, beside.inner_chars),
                        (bare.blocked, bare.stripped, bare.inner_chars)
                    );
                }
            }
        }
    }
}

#[test]
fn a_map_over_the_threshold_is_written_and_blocks() {
    let map = map_of_runs(&[1, 1, 1, 40]);
    let chars = encode(&map).text.len();
    let at = |cap: usize, threshold_chars| {
        let limits = Limits {
            threshold_chars,
            ..Limits::default().lowered_to(cap)
        };
        text(&map, &Offer::Nothing, &limits)
    };
    let below = at(4096, chars);
    assert_eq!(
        (below.rung, below.blocked, below.inner_chars),
        (Rung::Map, false, chars)
    );
    let over = at(4096, chars - 1);
    assert_eq!(
        (over.rung, over.blocked, over.text.len()),
        (Rung::Map, true, chars)
    );
    assert!(!at(chars, chars).text.is_empty());
}

#[test]
fn a_map_at_the_window_blocks_and_over_it_is_stripped() {
    let at = |window| {
        text(
            &map_of_runs(&[1, 99]),
            &Offer::Nothing,
            &Limits::default().with_max_window(window),
        )
    };
    assert_eq!((at(101).rung, at(101).blocked), (Rung::Map, false));
    assert_eq!((at(100).rung, at(100).blocked), (Rung::Map, true));
    assert_eq!(
        (at(99).rung, at(99).blocked, at(99).stripped),
        (Rung::None, true, true)
    );
    let wide = map_of_runs(&[1, 1 << 31]);
    let no_form = text(&wide, &Offer::Nothing, &Limits::default());
    assert_eq!(
        (no_form.rung, no_form.blocked, no_form.stripped),
        (Rung::None, true, true)
    );
    assert_eq!(
        text(&wide, &rider(9), &Limits::default()).rung,
        Rung::RiderOnly
    );
}

#[test]
fn nothing_to_say_is_neither_blocked_nor_a_map() {
    let limits = Limits::new(0, ThresholdRatio::new(0.0).unwrap()).with_max_window(0);
    let nothing = text(&HoleMap::caught_up(offset(9)), &Offer::Nothing, &limits);
    assert_eq!(
        (nothing.rung, nothing.blocked, nothing.inner_chars),
        (Rung::None, false, 0)
    );
    assert_eq!(nothing.encoding, keyway_offsets::Encoding::None);
}
