//! Completing records in a committed text.

#![allow(clippy::unwrap_used)]

mod common;

use common::{map_of_bytes, map_of_runs, offset, rider, text_of};
use keyway_offsets::{HoleMap, Limits, OffsetRange, encode};
use keyway_rider::{
    CommitMap, NotCompleted, Offer, Rider, WithComplete, read, with_complete as completed,
};

fn range(first: i64, last: i64) -> OffsetRange {
    OffsetRange::new(offset(first), offset(last)).unwrap()
}

fn with_complete(map: &HoleMap, offer: &Offer, range: OffsetRange) -> WithComplete {
    let limits = Limits::default();
    let text = CommitMap::new(map, &limits).with(offer).text;
    completed(map.base(), text.as_bytes(), range, &limits).unwrap()
}

/// The bytes that a reader finds in an offer.
fn stays(offer: &Offer) -> Rider {
    match offer {
        Offer::Nothing => Rider::None,
        Offer::Marker => Rider::Dropped,
        Offer::Rider(rider) => Rider::Present(rider.as_slice().to_vec()),
    }
}

#[test]
fn the_lowest_hole_raises_the_offset_and_whatever_rides_stays() {
    for offer in [Offer::Nothing, Offer::Marker, rider(1), rider(700)] {
        // Incomplete are 0, 5 to 7, and 20.
        let map = map_of_runs(&[1, 4, 3, 12, 1, 9]);
        let done = with_complete(&map, &offer, range(0, 0));
        assert_eq!((done.map.base(), done.newly), (offset(5), 1));
        let found = read(offset(5), done.text.as_bytes(), 1 << 20);
        assert_eq!(found.map.unwrap().map.holes(), [range(5, 7), range(20, 20)]);
        assert_eq!(
            (&found.rider, &done.rider),
            (&stays(&offer), &stays(&offer))
        );

        let all = with_complete(&map, &offer, range(0, 20));
        assert_eq!((all.map.base(), all.newly), (offset(30), 5));
        let found = read(offset(30), all.text.as_bytes(), 1 << 20);
        assert_eq!(
            (found.map.unwrap().map.span(), found.rider),
            (0, stays(&offer))
        );
    }
}

#[test]
fn a_hole_above_the_lowest_leaves_the_offset() {
    let map = map_of_runs(&[1, 4, 3, 12, 1, 9]);
    let done = with_complete(&map, &rider(7), range(6, 6));
    assert_eq!((done.map.base(), done.newly), (offset(0), 1));
    assert_eq!(
        done.map.holes(),
        [range(0, 0), range(5, 5), range(7, 7), range(20, 20)]
    );
}

#[test]
fn a_record_above_the_map_leaves_what_is_between_incomplete() {
    let caught_up = HoleMap::caught_up(offset(10));
    let done = with_complete(&caught_up, &Offer::Nothing, range(12, 13));
    assert_eq!(
        (done.map.base(), done.map.highest(), done.newly),
        (offset(10), 13, 2)
    );
    assert_eq!(done.map.holes(), [range(10, 11)]);
    let next = with_complete(&caught_up, &Offer::Nothing, range(10, 10));
    assert_eq!(
        (next.map, &*next.text),
        (HoleMap::caught_up(offset(11)), "")
    );
}

#[test]
fn what_is_complete_already_changes_nothing() {
    let map = map_of_runs(&[1, 4]);
    let done = with_complete(&map, &rider(3), range(1, 4));
    assert_eq!((done.newly, done.map), (0, map));
}

#[test]
fn a_text_that_cannot_be_read_is_left_alone() {
    for text in [
        text_of(b"X\x00\x05abc"),
        text_of(b"n\xff\xff"),
        "not base64!".to_owned(),
    ] {
        let fault = completed(offset(3), text.as_bytes(), range(3, 3), &Limits::default());
        assert!(matches!(fault, Err(NotCompleted::Unreadable(_))), "{text}");
    }
}

/// Without reading the new text again it passes, and the rider is gone.
#[test]
fn neither_map_nor_rider_is_given_up_for_room() {
    let limits = Limits::default();
    let map = map_of_bytes(0, 2_304);
    let text = CommitMap::new(&map, &limits).with(&rider(765)).text;
    // So far above the map that its form grows.
    let far = range(map.highest() + 2_000, map.highest() + 2_000);
    let fault = completed(offset(0), text.as_bytes(), far, &limits);
    assert!(matches!(
        fault,
        Err(NotCompleted::TooLong { cap: 4_096, .. })
    ));
    let alone = encode(&map).text;
    assert!(completed(offset(0), alone.as_bytes(), far, &limits).is_ok());
}
