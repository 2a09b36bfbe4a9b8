//! What a record's headers say of its causes, rule by rule.

#![allow(clippy::unwrap_used)]

mod common;

use common::{at, bytes, causes, topic};
use keyway_causal::{
    CausalClock, Causes, CausesError, CausesView, Channel, HEADER, InvalidTopicId, MAX_PARTITION,
    Part, Position, RESERVED_PREFIX, ReservedHeader, TopicId, check_names, find_causes,
    is_reserved,
};
use keyway_offsets::Offset;

type Headers<'a> = [(&'a str, Option<&'a [u8]>)];

fn find<'a>(headers: &Headers<'a>) -> Result<Option<CausesView<'a>>, CausesError> {
    find_causes(headers.iter().copied())
}

const EMPTY: &[u8] = &[1, 0];

#[test]
fn c1_a_record_without_the_header_has_no_causes() {
    assert_eq!(find(&[]), Ok(None));
    for name in [
        "",
        "parsley.cause",
        "parsley.causes2",
        "Parsley.causes",
        "parsley.",
        "causes",
    ] {
        assert_eq!(
            find(&[(name, Some(b"\xff")), (name, None)]),
            Ok(None),
            "{name}"
        );
    }
}

#[test]
fn c2_what_is_there_and_can_t_be_read_is_not_absent() {
    let null = find(&[("a", Some(EMPTY)), (HEADER, None)]).unwrap_err();
    assert_eq!((null, null.name()), (CausesError::NullValue, "null_value"));
    let empty = find(&[(HEADER, Some(b""))]).unwrap_err();
    assert_eq!(empty.name(), "truncated");
    assert!(find(&[(HEADER, Some(b"01 00"))]).is_err());
}

/// Also where both say the same, or one of them can't be read.
#[test]
fn c2_more_than_one_header_is_not_read_whatever_they_say() {
    for second in [Some(EMPTY), Some(&b"nonsense"[..]), None] {
        for headers in [
            [(HEADER, Some(EMPTY)), (HEADER, second)],
            [(HEADER, second), (HEADER, Some(EMPTY))],
        ] {
            let fault = find(&headers).unwrap_err();
            assert_eq!(
                (fault, fault.name()),
                (CausesError::DuplicateHeader, "duplicate_header")
            );
        }
    }
}

#[test]
fn names_may_be_bytes() {
    let headers = [
        (&b"\xff"[..], Some(EMPTY)),
        (HEADER.as_bytes(), Some(EMPTY)),
    ];
    assert_eq!(find_causes(headers).unwrap().unwrap().as_bytes(), EMPTY);
}

#[test]
fn c3_no_causes_are_a_header_as_well() {
    assert_eq!(Causes::default().encode(), EMPTY);
    assert_eq!(CausalClock::new().stamp(), EMPTY);
    let view = find(&[(HEADER, Some(EMPTY))]).unwrap().unwrap();
    assert!(view.is_empty() && view.topics().next().is_none() && view.iter().next().is_none());
}

#[test]
fn c3_a_stamp_replaces_nothing_and_is_never_the_second_one() {
    let mut clock = CausalClock::new();
    clock
        .observe(common::channel(1, 0), at(7), [("a", None)])
        .unwrap();
    let mut headers: Vec<(String, Option<Vec<u8>>)> = vec![("a".into(), None)];
    clock.stamp_onto(&mut headers).unwrap();
    assert_eq!(headers[1], (HEADER.to_owned(), Some(clock.stamp())));
    let before = headers.clone();
    let name = HEADER.to_owned();
    assert_eq!(clock.stamp_onto(&mut headers), Err(ReservedHeader { name }));
    assert_eq!(headers, before);
}

#[test]
fn c4_the_prefix_is_reserved_whole() {
    for name in [
        HEADER,
        RESERVED_PREFIX,
        "parsley.anything",
        "parsley.causes ",
    ] {
        assert!(is_reserved(name), "{name}");
        let fault = check_names(["a", name]).unwrap_err();
        assert_eq!(fault.name, name);
        let mut headers = vec![(name, Vec::new())];
        assert!(CausalClock::new().stamp_onto(&mut headers).is_err());
    }
    for name in [
        "",
        "parsley",
        "Parsley.causes",
        " parsley.causes",
        "x.parsley.causes",
    ] {
        assert!(!is_reserved(name), "{name}");
    }
    assert!(is_reserved(&b"parsley.\xff"[..]));
    assert_eq!(check_names::<&str>([]), Ok(()));
}

#[test]
fn c5_equal_sets_have_equal_bytes_however_they_came_about() {
    let entries = [(2, 9, 4), (1, 300, 1), (1, 0, 7), (2, 0, 0), (255, 7, 7)];
    let expected = causes(&entries).encode();
    for turn in 0..entries.len() {
        let mut other = entries;
        other.rotate_left(turn);
        let mut one_by_one = Causes::new();
        for &(topic, partition, position) in &other {
            // What is lower was there before, or comes again.
            for lower in [0, position, position / 2] {
                one_by_one.merge(common::channel(topic, partition), at(lower));
            }
        }
        assert_eq!(one_by_one.encode(), expected);
        assert_eq!(causes(&other).encode(), expected);
        let mut merged = causes(&other[..2]);
        merged.merge_all(&causes(&other[1..]));
        assert_eq!(merged.encode(), expected);
    }
}

#[test]
fn c6_another_version_is_not_read() {
    for version in (0..=u8::MAX).filter(|&version| version != 1) {
        let value = [version, 0];
        let fault = CausesView::parse(&value).unwrap_err();
        assert_eq!(
            (fault, fault.name()),
            (CausesError::Version { version }, "version")
        );
    }
}

/// Each fault says where it is.
#[test]
fn faults_name_their_place() {
    let topic = "00000000000000000000000000000001";
    let pair = "00 0000000000000001";
    for (value, expected) in [
        (
            "".into(),
            CausesError::Truncated {
                offset: 0,
                part: Part::Version,
            },
        ),
        (
            "01".into(),
            CausesError::Truncated {
                offset: 1,
                part: Part::TopicCount,
            },
        ),
        (
            "01 01 00".into(),
            CausesError::Truncated {
                offset: 2,
                part: Part::TopicId,
            },
        ),
        (
            format!("01 01 {topic}"),
            CausesError::Truncated {
                offset: 18,
                part: Part::PartitionCount,
            },
        ),
        (
            format!("01 01 {topic} 01"),
            CausesError::Truncated {
                offset: 19,
                part: Part::Partition,
            },
        ),
        (
            format!("01 01 {topic} 01 80"),
            CausesError::Truncated {
                offset: 19,
                part: Part::Partition,
            },
        ),
        (
            format!("01 01 {topic} 01 00 00"),
            CausesError::Truncated {
                offset: 20,
                part: Part::Position,
            },
        ),
        (
            format!("01 01 {topic} 00"),
            CausesError::PartitionCountZero { offset: 18 },
        ),
        (
            format!("01 01 {topic} 01 {pair} 0000"),
            CausesError::Trailing {
                offset: 28,
                bytes: 2,
            },
        ),
        (
            format!("01 02 {topic} 01 {pair} {topic}"),
            CausesError::TopicOrder { offset: 28 },
        ),
        (
            format!("01 02 {topic} 01 {pair} {}", "00".repeat(16)),
            CausesError::TopicZero { offset: 28 },
        ),
        (
            format!("01 01 {topic} 02 8001 0000000000000001 7f 0000000000000001"),
            CausesError::PartitionOrder {
                offset: 29,
                partition: 127,
            },
        ),
        (
            format!("01 01 {topic} 02 {pair} {pair}"),
            CausesError::PartitionOrder {
                offset: 28,
                partition: 0,
            },
        ),
        (
            format!("01 01 {topic} 01 00 fffffffffffffffe"),
            CausesError::PositionNegative {
                offset: 20,
                position: -2,
            },
        ),
        (
            format!("01 01 {topic} 01 00 7fffffffffffffff"),
            CausesError::PositionReserved { offset: 20 },
        ),
        (
            "01 8100".into(),
            CausesError::VarintNonminimal {
                offset: 1,
                part: Part::TopicCount,
            },
        ),
        (
            format!("01 01 {topic} 01 8080808008"),
            CausesError::VarintOverflow {
                offset: 19,
                part: Part::Partition,
            },
        ),
    ] {
        let value = bytes(&value);
        assert_eq!(CausesView::parse(&value), Err(expected), "{value:02x?}");
        assert!(!expected.to_string().is_empty());
    }
}

#[test]
fn a_topic_id_is_not_zero_and_is_written_as_32_digits() {
    assert_eq!(TopicId::new([0; 16]), None);
    let digits = "0123456789abcdef0123456789abcdef";
    let id: TopicId = digits.to_uppercase().parse().unwrap();
    assert_eq!(
        (id.to_string().as_str(), id.bytes()[..2].to_vec()),
        (digits, vec![0x01, 0x23])
    );
    assert_eq!(topic(1).to_string(), "00000000000000000000000000000001");
    assert_eq!("0".repeat(32).parse::<TopicId>(), Err(InvalidTopicId::Zero));
    for digits in [
        "",
        "1",
        &digits[1..],
        "+123456789abcdef0123456789abcdef",
        "é123456789abcdef0123456789abcde",
        "01234567-9abcdef0123456789abcdef0",
    ] {
        assert_eq!(
            digits.parse::<TopicId>(),
            Err(InvalidTopicId::Digits),
            "{digits}"
        );
    }
}

#[test]
fn channels_ascend_as_their_bytes_do() {
    let high = TopicId::new([0x80; 16]).unwrap();
    let low = TopicId::new([0x7f; 16]).unwrap();
    let channel = |topic, partition| Channel::new(topic, partition).unwrap();
    assert!(channel(low, MAX_PARTITION) < channel(high, 0));
    assert!(channel(high, 129) < channel(high, 256));
    assert_eq!(Channel::new(high, MAX_PARTITION + 1), None);
    assert_eq!(
        (channel(low, 3).topic(), channel(low, 3).partition()),
        (low, 3)
    );
}

#[test]
fn a_position_has_an_offset_after_it() {
    assert_eq!(Position::new(-1), None);
    assert_eq!(Position::new(i64::MAX), None);
    assert_eq!(Position::MAX.next(), Offset::MAX);
    assert_eq!(
        (at(7).get(), at(7).next().get(), at(7).offset().get()),
        (7, 8, 7)
    );
    assert_eq!(Position::try_from(Offset::ZERO), Ok(Position::ZERO));
    assert!(Position::try_from(Offset::MAX).is_err());
    assert_eq!(Position::before(Offset::ZERO), None);
    assert_eq!(Position::before(Offset::MAX), Some(Position::MAX));
}
