//! What it costs to read a header and to decide by it whether its record may start.
//!
//! `cargo run --release -p keyway-causal --example deciding`

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use keyway_causal::{Causes, CausesView, Channel, Position, TopicId};

const TOPICS: u8 = 4;
const ENTRIES: u32 = 64;

/// Settled positions by topic and partition.
type Settled = BTreeMap<TopicId, Vec<Option<Position>>>;

fn main() {
    let (first, wide) = (entries(0), entries(200));
    let settled = settled(&first);
    for (name, entries) in [
        ("partitions below 128", first),
        ("partitions above 127", wide),
    ] {
        let causes: Causes = entries.into_iter().collect();
        let header = causes.encode();
        println!(
            "{} entries, {TOPICS} topics, {name}: {} bytes",
            causes.len(),
            header.len()
        );
        let parse = median(|| CausesView::parse(black_box(&header)).is_ok());
        let both = median(|| {
            CausesView::parse(black_box(&header))
                .is_ok_and(|view| may_start(view, black_box(&settled)))
        });
        let decode = median(|| Causes::decode(black_box(&header)).is_ok());
        let mut frontier = causes.clone();
        let merge = median(|| {
            CausesView::parse(black_box(&header)).is_ok_and(|view| frontier.merge_header(&view))
        });
        let encode = median(|| black_box(&causes).encode().len());
        println!("  check                {parse:>7.1} ns");
        println!("  check and decide     {both:>7.1} ns");
        println!("  check and merge      {merge:>7.1} ns");
        println!("  decode into a set    {decode:>7.1} ns");
        println!("  encode               {encode:>7.1} ns");
    }
}

/// Entries over the topics, from partition `first` on.
fn entries(first: u32) -> Vec<(Channel, Position)> {
    let each = |n: u32| {
        let topic = TopicId::new([1 + (n % u32::from(TOPICS)) as u8; 16])?;
        let channel = Channel::new(topic, first + n / u32::from(TOPICS))?;
        Some((channel, Position::new(1_000_000 + i64::from(n * 7919))?))
    };
    (0..ENTRIES).filter_map(each).collect()
}

/// Everything up to these positions.
fn settled(entries: &[(Channel, Position)]) -> Settled {
    let mut settled = Settled::new();
    for (channel, position) in entries {
        settled
            .entry(channel.topic())
            .or_default()
            .push(Some(*position));
    }
    settled
}

/// Whether each entry is on a channel that is not gated, or settled.
fn may_start(header: CausesView<'_>, settled: &Settled) -> bool {
    header.topics().all(|group| {
        let Some(settled) = settled.get(&group.topic()) else {
            return true;
        };
        group.entries().all(|(partition, position)| {
            let own = usize::try_from(partition)
                .ok()
                .and_then(|at| settled.get(at));
            own.is_none_or(|own| own.is_some_and(|own| own >= position))
        })
    })
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
