//! The shard: lossless, one form a content, dense (C40).

#![allow(clippy::unwrap_used)]

mod common;

use common::{at, bytes, causes, channel, offset, topic};
use fastrand::Rng;
use keyway_causal::{Causes, Shard, ShardError, TopicId};

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
        let channel = keyway_causal::Channel::new(topic, partition(n / TOPICS)).unwrap();
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
    let figures = [16, 20, 24, 28, 32, 36, 40, 48].map(|bits| (bits, most(bits, |n| n)));
    println!("{figures:?}");
    let furthest = (32..63)
        .take_while(|&bits| most(bits, |n| n) >= CHANNELS)
        .last();
    println!("130 channels up to 2^{furthest:?}");
    // Not even without anything in common it holds less.
    assert!(most(62, |n| n) >= 75);
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
