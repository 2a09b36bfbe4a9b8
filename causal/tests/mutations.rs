//! Header values and shards that were damaged in every way, pushed through the decoders on the stable toolchain.
//!
//! The check takes 300,000 of each. `KEYWAY_FUZZ_INPUTS=10000000 cargo test --release -p keyway-causal --test mutations --
//! --nocapture` makes the long run; `KEYWAY_FUZZ_SEED` another one.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use common::{at, offset, setting, topic};
use fastrand::Rng;
use keyway_causal::{Causes, CausesView, Channel, MAX_PARTITION, Shard, TopicId};

const CHECK_INPUTS: u64 = 300_000;

type Damage = fn(&mut Vec<u8>, &mut Rng);

/// Sets of many shapes.
fn sets(random: &mut Rng) -> Vec<Causes> {
    let mut sets = vec![Causes::new()];
    for topics in [1, 2, 3, 5] {
        for partitions in [1, 2, 5, 17, 130] {
            for spread in [1, 100, 1 << 31, i64::MAX - 1] {
                let mut set = Causes::new();
                let far = random.u8(..4) == 0;
                for n in 0..topics {
                    let id = match n {
                        0 => topic(1),
                        n if random.bool() => topic(n),
                        _ => TopicId::new(random.u128(1..).to_be_bytes()).unwrap(),
                    };
                    for partition in 0..partitions {
                        let partition = match random.u8(..8) {
                            0 if far => random.u32(..=MAX_PARTITION),
                            1 => partition + random.u32(..300),
                            _ => partition,
                        };
                        let channel = Channel::new(id, partition).unwrap();
                        set.merge(channel, at(random.i64(0..spread)));
                    }
                }
                sets.push(set);
            }
        }
    }
    sets
}

/// Damages a few bytes anywhere, most often near the front.
fn damage(value: &mut Vec<u8>, random: &mut Rng) {
    const EDGES: [u8; 10] = [0x00, 0x01, 0x02, 0x07, 0x08, 0x10, 0x7f, 0x80, 0xfe, 0xff];
    let len = value.len();
    if len == 0 {
        value.push(random.u8(..));
        return;
    }
    let most = if random.bool() { len } else { len.min(60) };
    let at = random.usize(..most);
    match random.u8(..11) {
        0 => value.truncate(at),
        1 => value.extend((0..random.usize(1..9)).map(|_| random.u8(..))),
        2 => drop(value.remove(at)),
        3 => value.insert(at, *random.choice(&EDGES).unwrap()),
        4 => value[at] = *random.choice(&EDGES).unwrap(),
        5 => value[at] = random.u8(..),
        // A longer spelling of a number, which for most is as right a number.
        6 if value[at] < 0x80 => {
            value[at] |= 0x80;
            value.insert(at + 1, 0);
        }
        // What a count, a partition or a position could wrongly be.
        7 if len >= at + 8 => {
            let number = *random
                .choice(&[-1, i64::MIN, i64::MAX, i64::MAX - 1, 0])
                .unwrap();
            value[at..at + 8].copy_from_slice(&number.to_be_bytes());
        }
        8 if len >= at + 16 => value[at..at + 16].fill(0),
        // A part twice, or two in the wrong order.
        9 => {
            let bytes = random.usize(1..=40).min(len - at);
            let part = value[at..at + bytes].to_vec();
            let to = random.usize(..=len);
            value.splice(to..to, part);
        }
        _ => value[at] ^= 1 << random.u8(..8),
    }
}

/// Damages by what the bytes mean: pairs are swapped or repeated, counts changed.
fn damage_header(value: &mut Vec<u8>, random: &mut Rng) {
    let pairs_at = 19;
    if value.len() < pairs_at + 18 {
        return damage(value, random);
    }
    match random.u8(..4) {
        0 => {
            let pair: Vec<u8> = value[pairs_at..pairs_at + 9].to_vec();
            value.splice(pairs_at..pairs_at, pair);
            value[18] = value[18].wrapping_add(1);
        }
        1 => value[pairs_at..pairs_at + 18].rotate_left(9),
        2 => value[1] = random.u8(..6),
        _ => value[18] = random.u8(..20),
    }
}

/// Damages by what the bytes mean: the form of the first topic, and what stands behind it.
fn damage_shard(rider: &mut [u8], random: &mut Rng) {
    let at = random.usize(19..50).min(rider.len() - 1);
    match random.u8(..3) {
        0 => rider[at] ^= *random.choice(&[0x40, 0x80, 0x01, 0x20]).unwrap(),
        1 => rider[at] = random.u8(..64),
        _ => *rider.last_mut().unwrap() ^= 1 << random.u8(..8),
    }
}

/// How often each answer was given to so many inputs that were damaged.
fn run(
    seeds: &[Vec<u8>],
    by_meaning: Damage,
    mut answer: impl FnMut(&[u8]) -> &'static str,
) -> BTreeMap<&'static str, u64> {
    let inputs = setting("KEYWAY_FUZZ_INPUTS", CHECK_INPUTS);
    let seed = setting("KEYWAY_FUZZ_SEED", 1);
    let mut random = Rng::with_seed(seed);
    let mut answers = BTreeMap::new();
    let mut input = Vec::new();
    for _ in 0..inputs {
        input.clear();
        input.extend_from_slice(random.choice(seeds).unwrap());
        let is_by_meaning = random.u8(..3) == 0;
        if is_by_meaning {
            by_meaning(&mut input, &mut random);
        }
        for _ in 0..random.u8(..3).max(u8::from(!is_by_meaning)) {
            damage(&mut input, &mut random);
        }
        *answers.entry(answer(&input)).or_default() += 1;
    }
    println!("{inputs} inputs of seed {seed}: {answers:?}");
    answers
}

fn assert_provoked(answers: &BTreeMap<&str, u64>, names: &[&str]) {
    for name in names {
        assert!(
            answers.contains_key(name),
            "{name} was never provoked: {answers:?}"
        );
    }
}

/// C2 and C5: no panic, and nothing is read that would be written otherwise.
#[test]
fn damaged_headers_are_read_or_refused_by_name() {
    let sets = sets(&mut Rng::with_seed(1));
    let values: Vec<_> = sets.iter().map(Causes::encode).collect();
    let mut written = Vec::new();
    let answers = run(&values, damage_header, |value| {
        let view = CausesView::parse(value);
        let causes = Causes::decode(value);
        assert_eq!(view.as_ref().err(), causes.as_ref().err());
        match causes {
            Ok(causes) => {
                written.clear();
                causes.encode_into(&mut written);
                assert_eq!(written, value);
                assert!(view.unwrap().iter().eq(causes.iter()));
                "ok"
            }
            Err(fault) => fault.name(),
        }
    });
    assert_provoked(
        &answers,
        &[
            "ok",
            "version",
            "truncated",
            "trailing",
            "varint_nonminimal",
            "varint_overflow",
            "topic_order",
            "topic_zero",
            "partition_count_zero",
            "partition_order",
            "position_negative",
            "position_reserved",
        ],
    );
}

/// C40: no panic, and nothing is read that would be written otherwise.
#[test]
fn c40_damaged_shards_are_read_or_refused_by_name() {
    let mut random = Rng::with_seed(2);
    let sets = sets(&mut random);
    let riders: Vec<_> = sets
        .into_iter()
        .map(|learned| {
            let baseline = random.i64(0..1 << 40);
            let highest = random.bool().then(|| at(baseline + random.i64(0..1_000)));
            let shard = Shard {
                topic: topic(9),
                baseline: offset(baseline),
                highest_complete: highest,
                learned,
                is_lossy: random.bool(),
            };
            shard.encode()
        })
        .collect();
    let answers = run(
        &riders,
        |rider, random| damage_shard(rider, random),
        |rider| match Shard::decode(rider) {
            Ok(shard) => {
                assert_eq!(shard.encode(), rider);
                assert!(Shard::is_shard(rider));
                "ok"
            }
            Err(fault) => fault.name(),
        },
    );
    assert_provoked(
        &answers,
        &[
            "ok",
            "not_a_shard",
            "version",
            "truncated",
            "trailing",
            "bad_number",
            "topic_zero",
            "not_canonical",
        ],
    );
}
