//! The shard: lossless, one form a content, dense (C40).

#![allow(clippy::unwrap_used)]

mod common;

use common::{at, bytes, causes, offset, topic};
use fastrand::Rng;
use keyway_causal::{Causes, Channel, MAX_PARTITION, Part, Shard, ShardError, TopicId};

/// What a rider is sure of beside a hole map: `keyway_rider::guaranteed_bytes`.
const GUARANTEED_BYTES: usize = 765;

const CHANNELS: u32 = 130;
const TOPICS: u32 = 4;

fn shard(learned: Causes) -> Shard {
    Shard {
        topic: topic(0xee),
        baseline: offset(0),
        highest_complete: None,
        learned,
        is_lossy: false,
    }
}

/// Four topics whose ids have nothing in common.
fn topics() -> Vec<TopicId> {
    let mut random = Rng::with_seed(7);
    let ids = (0..TOPICS).map(|_| TopicId::new(random.u128(..).to_be_bytes()).unwrap());
    ids.collect()
}

/// `channels` channels of four topics, with positions that lie within 2^`bits` of each other in each topic.
fn learned(channels: u32, bits: u32, partition: impl Fn(u32) -> u32) -> Causes {
    let mut random = Rng::with_seed(bits.into());
    let topics = topics();
    let entries = (0..channels).map(|n| {
        let topic = topics[(n % TOPICS) as usize];
        let channel = Channel::new(topic, partition(n / TOPICS)).unwrap();
        // Above a base that takes as many bytes as a base can.
        let base = if bits < 63 { 1 << 62 } else { 0 };
        (channel, at(base + random.i64(0..(1 << bits.min(62)))))
    });
    entries.collect()
}

/// With numbers of its own that are as long as any.
fn longest(learned: Causes) -> Shard {
    Shard {
        topic: topics()[0],
        baseline: offset(i64::MAX),
        highest_complete: Some(at(i64::MAX - 1)),
        learned,
        is_lossy: false,
    }
}

/// The most channels that fit.
fn most(bits: u32, partition: impl Fn(u32) -> u32 + Copy) -> u32 {
    let fits = |channels: &u32| {
        longest(learned(*channels, bits, partition)).encoded_len() <= GUARANTEED_BYTES
    };
    (1..2_000).take_while(fits).last().unwrap()
}

fn assert_read_back(shard: &Shard) {
    let rider = shard.encode();
    assert_eq!(rider.len(), shard.encoded_len());
    assert!(Shard::is_shard(&rider));
    assert_eq!(Shard::decode(&rider).as_ref(), Ok(shard));
}

/// C40. Whatever its own numbers are, and with positions that differ by up to 2^32 in a topic.
#[test]
fn c40_130_channels_of_four_topics_fit_in_what_a_rider_is_sure_of() {
    for bits in [0, 1, 16, 24, 32] {
        let shard = longest(learned(CHANNELS, bits, |n| n));
        assert!(
            shard.encoded_len() <= GUARANTEED_BYTES,
            "{bits}: {}",
            shard.encoded_len()
        );
        assert_read_back(&shard);
    }
}

/// Members learn of every other, or every third partition when others hold the rest.
#[test]
fn c40_130_channels_fit_also_when_they_are_no_neighbours() {
    let mut random = Rng::with_seed(3);
    let mut some: Vec<u32> = (0..100).collect();
    random.shuffle(&mut some);
    some.truncate(40);
    some.sort_unstable();
    for partition in [
        &(|n: u32| 2 * n) as &dyn Fn(u32) -> u32,
        &|n: u32| 3 * n,
        &|n| some[n as usize],
    ] {
        let shard = longest(learned(CHANNELS, 32, partition));
        assert!(
            shard.encoded_len() <= GUARANTEED_BYTES,
            "{}",
            shard.encoded_len()
        );
        assert_read_back(&shard);
    }
}

/// The figures of the README.
#[test]
fn c40_it_holds_more_than_the_headers_grammar() {
    let header = (1..200).take_while(|&n| learned(n, 32, |n| n).encoded_len() <= GUARANTEED_BYTES);
    assert_eq!(header.last(), Some(77));
    let figures = [
        (16, 305),
        (24, 203),
        (32, 152),
        (37, CHANNELS),
        (48, 102),
        (62, 80),
    ];
    for (bits, channels) in figures {
        let most = most(bits, |n| n);
        assert!(most >= channels, "{bits}: {most}");
    }
}

/// A hot key, or a topic's young partitions.
#[test]
fn c40_one_partition_far_ahead_costs_its_topic_a_bit_each() {
    let even = longest(learned(CHANNELS, 20, |n| n));
    let mut uneven = even.clone();
    for topic in topics() {
        let ahead = Channel::new(topic, 0).unwrap();
        uneven.learned.merge(ahead, at(i64::MAX - 1));
    }
    let more = uneven.encoded_len() - even.encoded_len();
    let most = CHANNELS.div_ceil(8) + TOPICS * 9;
    assert!(more <= most as usize, "{more}");
    assert!(uneven.encoded_len() <= GUARANTEED_BYTES);
    assert_read_back(&uneven);
}

/// What a caught-up partition commits (C38).
#[test]
fn c38_a_shard_of_nothing_learned_says_topic_and_baseline() {
    let shard = shard(causes(&[]));
    let expected = bytes(&format!("ca05 01 {} 00 00 00", shard.topic));
    assert_eq!(shard.encode(), expected);
    assert_read_back(&shard);
    assert_read_back(&longest(causes(&[])));
}

/// The example of the README.
#[test]
fn the_bytes_of_a_shard() {
    let shard = Shard {
        topic: topic(0xee),
        baseline: offset(100),
        highest_complete: Some(at(299)),
        learned: causes(&[
            (1, 0, 1_000),
            (1, 1, 1_007),
            (1, 2, 1_002),
            (2, 0, 5),
            (2, 2, 5),
            (2, 4, 5),
            (2, 6, 300),
            (3, 9, 7),
        ]),
        is_lossy: false,
    };
    let expected = "ca0501 000000000000000000000000000000ee 64 ac02 03
        00000000000000000000000000000001 03    01 00 02 e807 1d00
        00000000000000000000000000000002 c9 00 00 01 2a 05   1938
        00000000000000000000000000000003 40    09 00    07";
    assert_eq!(hex::encode(shard.encode()), hex::encode(bytes(expected)));
    assert_read_back(&shard);
}

/// A rider with these topics, and nothing complete.
fn rider(topics: &str) -> Vec<u8> {
    bytes(&format!("ca0501 {} 00 00 {topics}", topic(0xee)))
}

#[test]
fn c40_no_other_spelling_is_read() {
    let one = topic(1);
    let two = topic(2);
    for (topics, what) in [
        (
            format!("02 {two} 40 00 00 07 {one} 40 00 00 07"),
            "topics that descend",
        ),
        (
            format!("02 {one} 40 00 00 07 {one} 40 01 00 07"),
            "a topic twice",
        ),
        (
            format!("01 {one} 00 01 00 00 07"),
            "runs where the bitmap is shorter",
        ),
        (
            format!("01 {one} 41 00 01 01 07 40"),
            "a bitmap where the runs are as long",
        ),
        (
            format!("01 {one} 01 02 00 00 00 00 07 40"),
            "runs that touch",
        ),
        (
            format!("01 {one} 41 00 02 2a 00 07 00"),
            "a bitmap with a byte too many",
        ),
        (format!("01 {one} 02 01 00 01 07 10"), "wider than needed"),
        (
            format!("01 {one} 01 01 00 01 07 c0"),
            "a base that is not the lowest",
        ),
        (
            format!("01 {one} 01 01 00 01 07 41"),
            "bits behind the last",
        ),
        (
            format!("01 {one} 81 00 01 00 01 07 60"),
            "two widths where one is as short",
        ),
        (
            format!("01 {one} 41 00 00 07 00"),
            "a width for a single one",
        ),
    ] {
        let rider = rider(&topics);
        let fault = Shard::decode(&rider).unwrap_err();
        assert!(
            matches!(fault, ShardError::NotCanonical { .. }),
            "{what}: {fault:?}"
        );
    }
    let right = rider(&format!("01 {one} 01 01 00 01 07 40"));
    assert_eq!(
        Shard::decode(&right),
        Ok(shard(causes(&[(1, 0, 7), (1, 1, 8)])))
    );
}

#[test]
fn faults_name_their_place() {
    let one = topic(1);
    let bad = |offset, part| ShardError::BadNumber { offset, part };
    let cut = |offset, part| ShardError::Truncated { offset, part };
    for (rider, expected) in [
        (vec![], ShardError::NotAShard),
        (b"hello".to_vec(), ShardError::NotAShard),
        (bytes("ca"), ShardError::NotAShard),
        (bytes("ca05"), cut(2, Part::Version)),
        (bytes("ca0502"), ShardError::Version { version: 2 }),
        (bytes("ca0501 00"), cut(3, Part::TopicId)),
        (
            bytes(&format!("ca0501 {}", "00".repeat(16))),
            ShardError::TopicZero { offset: 3 },
        ),
        (bytes(&format!("ca0501 {one}")), cut(19, Part::Baseline)),
        (
            bytes(&format!("ca0501 {one} 8000")),
            bad(19, Part::Baseline),
        ),
        (
            bytes(&format!("ca0501 {one} 00 ffffffffffffffffff01")),
            bad(20, Part::HighestComplete),
        ),
        (
            rider("00 00"),
            ShardError::Trailing {
                offset: 22,
                bytes: 1,
            },
        ),
        (rider("01"), cut(22, Part::TopicId)),
        (rider(&format!("01 {one}")), cut(38, Part::Form)),
        (rider(&format!("01 {one} 81")), cut(39, Part::Form)),
        (
            rider(&format!("01 {one} 01")),
            cut(39, Part::PartitionCount),
        ),
        (
            rider(&format!("01 {one} 01 00")),
            bad(39, Part::PartitionCount),
        ),
        (
            rider(&format!("01 {one} 41 00 05 01")),
            cut(41, Part::Partition),
        ),
        (
            rider(&format!("01 {one} 40 ffffffff0f")),
            bad(39, Part::Partition),
        ),
        (
            rider(&format!("01 {one} 41 ffffffff07 01 01 07 40")),
            bad(45, Part::Partition),
        ),
        (
            rider(&format!("01 {one} 01 01 00 ffffffff07")),
            cut(46, Part::Base),
        ),
        (
            rider(&format!("01 {one} 01 01 01 ffffffff07")),
            bad(40, Part::Partition),
        ),
        (
            rider(&format!("01 {one} 00 01 00 01 07")),
            bad(43, Part::Form),
        ),
        (
            rider(&format!("01 {one} 81 01 01 00 01 07 40")),
            bad(44, Part::Form),
        ),
        (
            rider(&format!("01 {one} 01 01 00 07 07")),
            cut(43, Part::Positions),
        ),
        (
            rider(&format!("01 {one} 40 00 00 ffffffffffffffff7f")),
            bad(50, Part::Positions),
        ),
    ] {
        let fault = Shard::decode(&rider).unwrap_err();
        assert_eq!(fault, expected, "{rider:02x?}");
        assert!(!fault.to_string().is_empty() && !fault.name().is_empty());
    }
}

#[test]
fn only_what_begins_as_a_shard_of_this_version_is_one() {
    assert!(Shard::is_shard(&[0xca, 0x05, 1]));
    for rider in [
        &b""[..],
        b"hello",
        &[0xca],
        &[0xca, 0x05],
        &[0xca, 0x05, 2],
        &[1, 0],
    ] {
        assert!(!Shard::is_shard(rider), "{rider:02x?}");
    }
}

/// A run of 2^31 partitions takes seven bytes, and no position.
#[test]
fn what_is_announced_is_not_made_room_for() {
    let all = "01 00 ffffffff07";
    for form in ["00", "01", "80 00", "81 00", "bf 00"] {
        let zeros = "00".repeat(700);
        let rider = rider(&format!("01 {} {form} {all} 00 {zeros}", topic(1)));
        assert!(Shard::decode(&rider).is_err());
    }
    let far = shard(causes(&[(1, 0, 1), (1, MAX_PARTITION, i64::MAX - 1)]));
    assert!(far.encoded_len() < 70);
    assert_read_back(&far);
}

/// The loss is said by a bit of the version, so that it costs nothing.
#[test]
fn c38_a_loss_is_written_down() {
    let whole = longest(learned(CHANNELS, 32, |n| n));
    let lossy = Shard {
        is_lossy: true,
        ..whole.clone()
    };
    assert_eq!(lossy.encoded_len(), whole.encoded_len());
    assert_ne!(lossy.encode(), whole.encode());
    assert_read_back(&lossy);
}
