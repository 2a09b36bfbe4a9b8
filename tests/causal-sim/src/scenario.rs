//! What a run is about, drawn from its seed: topics, members, bounds, and how often what goes wrong.

use std::time::Duration;

use keyway_core::{
    BufferConfig, CommitConfig, CoreConfig, RetryPolicy, RiderSource, RouteConfig, Shape,
};
use keyway_offsets::Limits;
use keyway_sim::rng::Rng;

/// Of a thousand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) fails: u32,
    pub(crate) outputs: u32,
    pub(crate) output_is_gated: u32,
    pub(crate) send_fails: u32,
    pub(crate) repeat: u32,
    pub(crate) answer_lost: u32,
    pub(crate) strip: u32,
    pub(crate) no_header: u32,
}

/// Weights of the steps that are faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) crash: u32,
    pub(crate) kick: u32,
    pub(crate) revoke: u32,
    pub(crate) compact: u32,
    pub(crate) marker: u32,
    pub(crate) lose_shard: u32,
    pub(crate) malformed: u32,
    /// Of the slow steps: the higher, the sooner handlers end.
    pub(crate) finish: u32,
    /// How soon commits go through.
    pub(crate) commit: u32,
}

/// Everything that a seed decides before the first step.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Partitions of the topics that the group consumes.
    pub(crate) gated: Vec<u32>,
    /// Partitions of the others.
    pub(crate) ungated: Vec<u32>,
    pub(crate) members: usize,
    pub(crate) lanes: usize,
    /// Records that producers write, at most.
    pub(crate) records: usize,
    /// Records that are there before the group begins, and whether it begins behind them.
    pub(crate) before: usize,
    pub(crate) starts_latest: bool,
    /// The operator has accepted in advance that what is known may be lost.
    pub(crate) accepts_loss: bool,
    pub(crate) core: CoreConfig,
    pub(crate) rates: Rates,
    pub(crate) weights: Weights,
}

impl Scenario {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let gated_topics = rng.between(1, 3);
        let ungated_topics = rng.between(1, 2);
        let gated = (0..gated_topics).map(|_| rng.between(1, 3) as u32);
        let gated: Vec<u32> = gated.collect();
        let ungated = (0..ungated_topics).map(|_| rng.between(1, 2) as u32);
        let ungated: Vec<u32> = ungated.collect();
        let lossy = rng.chance(250);
        Self {
            gated,
            ungated,
            members: rng.between(2, 3),
            lanes: rng.pick(&[1, 3, 8]),
            records: rng.between(20, 90),
            before: rng.pick(&[0, 0, 6]),
            starts_latest: rng.chance(300),
            accepts_loss: lossy && rng.chance(500),
            core: draw_core(rng),
            rates: Rates {
                fails: rng.pick(&[0, 50, 200]),
                outputs: rng.pick(&[100, 400, 800]),
                output_is_gated: rng.pick(&[0, 300, 700]),
                send_fails: rng.pick(&[0, 100]),
                repeat: rng.pick(&[0, 100, 300]),
                answer_lost: rng.pick(&[0, 50, 200]),
                strip: rng.pick(&[0, 0, 300]),
                no_header: rng.pick(&[0, 200]),
            },
            weights: Weights {
                crash: rng.pick(&[0, 1, 3]),
                kick: rng.pick(&[0, 0, 1]),
                revoke: rng.pick(&[0, 3, 8]),
                compact: rng.pick(&[0, 0, 3]),
                marker: rng.pick(&[0, 3, 8]),
                lose_shard: if lossy { 2 } else { 0 },
                malformed: if rng.chance(80) { 1 } else { 0 },
                finish: rng.pick(&[6, 20, 60]),
                commit: rng.pick(&[4, 20, 60]),
            },
        }
    }
}

fn draw_core(rng: &mut Rng) -> CoreConfig {
    let total = rng.pick(&[1, 3, 6, 20, 10_000]);
    CoreConfig {
        routes: vec![RouteConfig {
            shape: Shape::Pool {
                concurrency: rng.pick(&[1, 2, 4, 8]),
            },
            batch: None,
            retry: RetryPolicy::fixed(Duration::from_micros(200)),
            circuit: None,
            dead_letters: false,
        }],
        limits: Limits::default(),
        buffers: BufferConfig {
            partition_records: rng.pick(&[1, 4, 10_000]),
            partition_bytes: 1 << 20,
            total_records: total,
            total_bytes: 1 << 20,
            output_bytes: 1 << 20,
        },
        commit: CommitConfig {
            interval: Duration::from_micros(rng.pick(&[0, 100, 2_000])),
            backoff: Duration::from_micros(rng.pick(&[10, 1_000])),
            transactional: false,
        },
        riders: RiderSource::None,
    }
}
