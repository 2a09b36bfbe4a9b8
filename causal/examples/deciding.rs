//! What it costs to read a header and to decide by it whether its record may start.
//!
//! `cargo run --release -p keyway-causal --example deciding`
//!
//! The gate is the engine's own, of a group that consumes all topics of the header. The frontier knows all that the header
//! says, as it does for most records: what is new costs more, and each position is new once.

use std::hint::black_box;
use std::time::Instant;

use keyway_causal::{
    CarriesCauses, CausalConfig, CausalGate, Causes, CausesError, CausesView, Channel, Position,
    Reading, TopicId,
};
use keyway_core::{Admission, Gate, PartitionSlot};
use keyway_offsets::Offset;

const TOPICS: u8 = 4;

/// The record's own partition, whose topic is none of those in the header.
const OWN: PartitionSlot = PartitionSlot(0);

/// A record with this header.
struct Carrier(Vec<u8>);

impl CarriesCauses for Carrier {
    fn causes(&self) -> Result<Option<CausesView<'_>>, CausesError> {
        CausesView::parse(&self.0).map(Some)
    }
}

fn main() {
    for (name, channels, first) in [
        ("8 entries", 8, 0),
        ("64 entries", 64, 0),
        ("64 entries, partitions above 127", 64, 200),
        ("64 entries, partitions on both sides of 127", 64, 120),
    ] {
        let causes: Causes = entries(channels, first).into_iter().collect();
        let mut record = Carrier(causes.encode());
        let header = record.0.clone();
        println!("{name}, {TOPICS} topics: {} bytes", header.len());
        let mut settled = gate(&causes, true);
        let mut frontier = causes.clone();
        print("check", || CausesView::parse(black_box(&header)).is_ok());
        print("check and merge", || {
            CausesView::parse(black_box(&header)).is_ok_and(|view| frontier.merge_header(&view))
        });
        print("check, merge and decide: ready", || {
            let admitted = settled.admit(OWN, Offset::ZERO, black_box(&mut record));
            assert_eq!(admitted, Admission::Ready);
        });
        let mut open = gate(&causes, false);
        print("check, merge and decide: held, and forgotten", || {
            let admitted = open.admit(OWN, Offset::ZERO, black_box(&mut record));
            assert_eq!(admitted, Admission::Held);
            Gate::<Carrier>::ended(&mut open, OWN);
        });
        print("decode into a set", || {
            Causes::decode(black_box(&header)).is_ok()
        });
        print("encode", || black_box(&causes).encode().len());
    }
}

/// Entries over the topics, from partition `first` on.
fn entries(channels: u32, first: u32) -> Vec<(Channel, Position)> {
    let each = |n: u32| {
        let topic = TopicId::new([1 + (n % u32::from(TOPICS)) as u8; 16])?;
        let channel = Channel::new(topic, first + n / u32::from(TOPICS))?;
        Some((channel, Position::new(1_000_000 + i64::from(n * 7919))?))
    };
    (0..channels).filter_map(each).collect()
}

/// A gate of a group that consumes all topics of the header, and has done what it names, or nothing.
fn gate(causes: &Causes, is_done: bool) -> CausalGate {
    let mut gate = CausalGate::new(CausalConfig::default());
    for number in 1..=TOPICS + 1 {
        let id = TopicId::new([number; 16]).expect("an id");
        gate.add_topic(&format!("topic-{number}"), id, 256);
        if number > TOPICS {
            gate.bind(OWN, Channel::new(id, 0).expect("a partition"));
        }
    }
    gate.read_group(&[]);
    for (channel, position) in causes.iter().filter(|_| is_done) {
        gate.foreign_committed(channel, Some(position.next()), Reading::First);
    }
    gate
}

fn print<T>(what: &str, work: impl FnMut() -> T) {
    println!("  {what:<46} {:>7.1} ns", median(work));
}

/// Nanoseconds of one, the median of rounds of many.
fn median<T>(mut work: impl FnMut() -> T) -> f64 {
    const MANY: u32 = 2_000;
    const ROUNDS: usize = 301;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..MANY {
                black_box(work());
            }
            started.elapsed().as_nanos() as f64 / f64::from(MANY)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}
