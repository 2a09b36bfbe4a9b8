//! Sets of causes that grow.

#![allow(clippy::unwrap_used)]

mod common;

use common::{at, causes, channel, topic};
use keyway_causal::{CausalClock, Causes, CausesView, HEADER, MAX_PARTITION};

/// C8.
#[test]
fn c8_merging_takes_the_greater_position_and_says_whether_it_did() {
    let mut set = Causes::new();
    assert!(set.merge(channel(1, 0), at(7)));
    assert!(!set.merge(channel(1, 0), at(7)));
    assert!(!set.merge(channel(1, 0), at(6)));
    assert_eq!(set.get(channel(1, 0)), Some(at(7)));
    assert!(set.merge(channel(1, 0), at(8)));
    assert_eq!(set, causes(&[(1, 0, 8)]));
}

#[test]
fn c8_merging_a_set_or_a_header_takes_the_greater_of_each_channel() {
    let own = causes(&[(1, 0, 5), (1, 1, 5), (3, 7, 5)]);
    for (other, expected) in [
        (causes(&[]), own.clone()),
        (own.clone(), own.clone()),
        (causes(&[(1, 0, 4), (3, 7, 0)]), own.clone()),
        (
            causes(&[(1, 1, 6)]),
            causes(&[(1, 0, 5), (1, 1, 6), (3, 7, 5)]),
        ),
        (
            causes(&[(1, 0, 9), (1, 1, 1)]),
            causes(&[(1, 0, 9), (1, 1, 5), (3, 7, 5)]),
        ),
        (
            causes(&[(3, 6, 1), (3, 8, 1)]),
            causes(&[(1, 0, 5), (1, 1, 5), (3, 6, 1), (3, 7, 5), (3, 8, 1)]),
        ),
        (
            causes(&[(0xff, 0, 1), (2, 3, 1), (2, 0, 1), (1, 9, 1)]),
            causes(&[
                (1, 0, 5),
                (1, 1, 5),
                (1, 9, 1),
                (2, 0, 1),
                (2, 3, 1),
                (3, 7, 5),
                (0xff, 0, 1),
            ]),
        ),
    ] {
        let (mut by_set, mut by_header) = (own.clone(), own.clone());
        let value = other.encode();
        let header = CausesView::parse(&value).unwrap();
        let has_changed = expected != own;
        assert_eq!(by_set.merge_all(&other), has_changed, "{other:?}");
        assert_eq!(by_header.merge_header(&header), has_changed, "{other:?}");
        assert_eq!((&by_set, &by_header), (&expected, &expected));
    }
}

#[test]
fn an_entry_covers_all_at_or_below_it() {
    let set = causes(&[(1, 3, 7)]);
    assert!(set.covers(channel(1, 3), at(7)) && set.covers(channel(1, 3), at(0)));
    assert!(!set.covers(channel(1, 3), at(8)));
    for other in [
        channel(1, 2),
        channel(1, 4),
        channel(2, 3),
        channel(1, MAX_PARTITION),
    ] {
        assert!(!set.covers(other, at(0)), "{other}");
    }
}

/// A topic without entries would be a header that nobody reads.
#[test]
fn what_is_taken_out_leaves_no_topic_behind() {
    let mut set = causes(&[(1, 0, 1), (1, 5, 1), (2, 0, 1), (3, 0, 1), (3, 1, 1)]);
    set.remove(channel(1, 0));
    set.remove(channel(1, 1));
    set.remove(channel(9, 0));
    set.remove(channel(2, 0));
    set.remove_topic(topic(3));
    set.remove_topic(topic(4));
    assert_eq!(set, causes(&[(1, 5, 1)]));
    assert_eq!((set.len(), set.topics().len()), (1, 1));
    set.remove(channel(1, 5));
    assert!(set.is_empty());
    assert_eq!(set.encode(), [1, 0]);
    let mut set = causes(&[(1, 0, 1), (1, 5, 2), (2, 0, 1)]);
    set.retain(|_, position| position > at(1));
    assert_eq!(set, causes(&[(1, 5, 2)]));
}

#[test]
fn entries_come_by_channel_and_topics_with_their_partitions() {
    let set = causes(&[(2, 0, 4), (1, 300, 2), (1, 2, 1)]);
    let entries: Vec<_> = set.iter().collect();
    assert_eq!(
        entries,
        [
            (channel(1, 2), at(1)),
            (channel(1, 300), at(2)),
            (channel(2, 0), at(4))
        ]
    );
    let topics: Vec<_> = set.topics().collect();
    assert_eq!(
        topics,
        [
            (topic(1), &[(2, at(1)), (300, at(2))][..]),
            (topic(2), &[(0, at(4))][..])
        ]
    );
    let value = set.encode();
    let header = CausesView::parse(&value).unwrap();
    let lengths: Vec<_> = header
        .topics()
        .map(|group| (group.topic(), group.len()))
        .collect();
    assert_eq!(lengths, [(topic(1), 2), (topic(2), 1)]);
    assert!(header.iter().eq(entries));
}

/// The reference's figures: 26 bytes for a topic's first partition, 9 for each further one.
#[test]
fn c9_the_length_is_known_without_the_bytes() {
    let mut set = Causes::new();
    let mut expected = 2;
    assert_eq!(set.encoded_len(), expected);
    for partition in 0..130 {
        set.merge(channel(1, partition), at(1));
        expected += match partition {
            0 => 26,
            // The count takes a byte more.
            127 => 10,
            128.. => 10,
            _ => 9,
        };
        assert_eq!(
            (set.encoded_len(), set.encode().len()),
            (expected, expected)
        );
    }
    let mut behind = vec![0xff];
    set.encode_into(&mut behind);
    assert_eq!(behind[1..], set.encode());
}

/// A partition that says where it would be, and one that says nothing.
#[test]
fn partitions_far_apart_cost_no_room() {
    let set = causes(&[(1, 0, 1), (1, MAX_PARTITION, 2), (1, 1, 3)]);
    assert_eq!(set.get(channel(1, MAX_PARTITION)), Some(at(2)));
    assert_eq!(set.get(channel(1, 1)), Some(at(3)));
    assert_eq!(set.get(channel(1, 2)), None);
    assert_eq!(set.encoded_len(), 2 + 26 + 9 + 13);
}

#[test]
fn a_clock_stamps_what_it_received_and_what_that_was_caused_by() {
    let mut clock = CausalClock::default();
    let header = causes(&[(1, 0, 9), (2, 4, 3)]).encode();
    clock
        .observe(channel(1, 0), at(5), [(HEADER, Some(header.as_slice()))])
        .unwrap();
    clock.observe(channel(3, 1), at(0), [("a", None)]).unwrap();
    assert_eq!(
        clock.stamp(),
        causes(&[(1, 0, 9), (2, 4, 3), (3, 1, 0)]).encode()
    );
    assert_eq!(clock.stamp_len(), clock.stamp().len());
    assert_eq!(format!("{clock:?}"), "CausalClock(3 channels)");
}

/// What is stamped after such a record would say too little; the clock does not pretend to have seen it.
#[test]
fn c2_a_clock_takes_nothing_of_a_record_that_it_can_t_read() {
    let mut clock = CausalClock::default();
    for value in [
        None,
        Some(&b""[..]),
        Some(&[1, 0, 0][..]),
        Some(&[2, 0][..]),
    ] {
        assert!(
            clock
                .observe(channel(1, 0), at(5), [(HEADER, value)])
                .is_err()
        );
    }
    let empty: Option<&[u8]> = Some(&[1, 0]);
    assert!(
        clock
            .observe(channel(1, 0), at(5), [(HEADER, empty); 2])
            .is_err()
    );
    assert_eq!(clock.stamp(), [1, 0]);
}

#[test]
fn a_clock_goes_on_from_a_stamp_and_takes_in_another() {
    let stamp = causes(&[(1, 0, 9), (2, 4, 3)]).encode();
    let mut clock = CausalClock::resume(&stamp).unwrap();
    assert_eq!(clock.stamp(), stamp);
    assert!(CausalClock::resume(b"").is_err());
    clock.absorb(&CausalClock::resume(&causes(&[(1, 0, 1), (1, 1, 1)]).encode()).unwrap());
    assert_eq!(
        clock.stamp(),
        causes(&[(1, 0, 9), (1, 1, 1), (2, 4, 3)]).encode()
    );
}
