//! What one run is like: everything that a seed decides before the first step.
//!
//! Buffers, windows and caps are tiny on purpose, so that every bound is met within a few hundred steps.

use std::num::NonZeroU32;
use std::time::Duration;

use keyway_core::{
    BatchConfig, BufferConfig, CircuitPolicy, CommitConfig, CoreConfig, Exhausted, Ordering,
    RetryPolicy, RiderSource, RouteConfig, RouteId, Shape,
};
use keyway_offsets::{DEFAULT_CAP_CHARS, Limits, ThresholdRatio};

use crate::pace::Intervals;
use crate::rng::Rng;

/// How often, in a thousand, an attempt or an answer goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) fail: u32,
    pub(crate) skip: u32,
    pub(crate) panic: u32,
    pub(crate) stop: u32,
    pub(crate) dead_letter: u32,
    pub(crate) give_up: u32,
    pub(crate) outputs: u32,
    /// Outputs that can't be sent.
    pub(crate) send_fails: u32,
    /// Dead letters that can't be written.
    pub(crate) letter_fails: u32,
    /// Outputs and dead letters that are written though their writer says that they failed.
    pub(crate) letter_ambiguous: u32,
    pub(crate) batch_fails_whole: u32,
    pub(crate) commit_repeat: u32,
    pub(crate) commit_denied: u32,
    pub(crate) answer_lost: u32,
    pub(crate) slow: u32,
}

/// How likely a kind of step is to be drawn, beside the others that are enabled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) revoke: u32,
    pub(crate) kick: u32,
    pub(crate) crash: u32,
    pub(crate) stop: u32,
    pub(crate) compact: u32,
    pub(crate) retain: u32,
    pub(crate) marker: u32,
    pub(crate) take_back: u32,
    pub(crate) pause: u32,
    pub(crate) resize: u32,
}

/// The parameters of one run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) members: usize,
    pub(crate) partitions: usize,
    pub(crate) ordering: Ordering,
    pub(crate) core: CoreConfig,
    /// Characters that the broker takes; may be below what the core starts with.
    pub(crate) broker_cap: usize,
    /// Distinct keys; few, so that lanes fill up.
    pub(crate) keys: usize,
    pub(crate) null_keys: u32,
    /// Most records of one fetch.
    pub(crate) fetch_max: usize,
    /// Records produced in all.
    pub(crate) records: usize,
    /// Where the logs begin.
    pub(crate) first_offset: i64,
    /// Whether the source tells how far it has read, beside handing over records.
    pub(crate) position_reports: bool,
    /// A group without a commit begins at the end of the log.
    pub(crate) start_latest: bool,
    /// Records, in a thousand, that the gate holds for a while.
    pub(crate) held: u32,
    /// Records, in a thousand, that fail every batch of more than one.
    pub(crate) poison: u32,
    /// Members that stop after a number of starts, in a thousand.
    pub(crate) limited: u32,
    /// How fast records may start.
    pub(crate) pace: Intervals,
    pub(crate) revoke_wait: Duration,
    pub(crate) rates: Rates,
    pub(crate) weights: Weights,
}

impl Scenario {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let partitions = rng.between(1, 3);
        let limits = draw_limits(rng);
        let with_batches = rng.chance(450);
        Self {
            members: if rng.chance(600) { 2 } else { 1 },
            partitions,
            ordering: rng.pick(&[
                Ordering::Key,
                Ordering::Key,
                Ordering::Key,
                Ordering::Partition,
                Ordering::Unordered,
            ]),
            broker_cap: if rng.chance(300) {
                limits.cap_chars / 2
            } else {
                limits.cap_chars
            },
            core: CoreConfig {
                routes: (0..rng.between(1, 2))
                    .map(|_| draw_route(rng, with_batches))
                    .collect(),
                limits,
                // A refresh comes for ever, so that nothing would ever come to rest: it has tests of its own.
                riders: rng.pick(&[
                    RiderSource::None,
                    RiderSource::State,
                    RiderSource::State,
                    RiderSource::Supplier { refresh: None },
                ]),
                buffers: draw_buffers(rng),
                commit: CommitConfig {
                    interval: Duration::from_micros(rng.pick(&[0, 500, 5_000, 50_000])),
                    backoff: Duration::from_micros(rng.pick(&[100, 2_000, 10_000])),
                    transactional: rng.chance(350),
                },
            },
            keys: rng.between(1, 6),
            null_keys: rng.pick(&[0, 0, 200]),
            fetch_max: rng.between(1, 8),
            records: rng.between(40, 400),
            first_offset: rng.pick(&[0, 0, 1, 5, 1_000, 1 << 40]),
            position_reports: rng.chance(700),
            start_latest: rng.chance(100),
            held: rng.pick(&[0, 0, 0, 60]),
            poison: if with_batches { rng.pick(&[0, 40]) } else { 0 },
            limited: rng.pick(&[0, 0, 0, 500]),
            pace: draw_pace(rng),
            revoke_wait: Duration::from_micros(rng.pick(&[200, 5_000])),
            rates: draw_rates(rng),
            weights: draw_weights(rng),
        }
    }

    /// Whether outputs and offsets are committed together.
    pub(crate) fn transactional(&self) -> bool {
        self.core.commit.transactional
    }

    /// The route of a partition's records.
    pub(crate) fn route(&self, partition: usize) -> RouteId {
        RouteId((partition % self.core.routes.len()) as u16)
    }
}

fn draw_limits(rng: &mut Rng) -> Limits {
    let cap = if rng.chance(600) {
        rng.between(8, 40)
    } else {
        DEFAULT_CAP_CHARS
    };
    let ratio = ThresholdRatio::new(rng.pick(&[0.5, 0.75, 1.0])).expect("between 0 and 1");
    let limits = Limits::new(cap, ratio);
    if rng.chance(300) {
        limits.with_max_window(rng.between(4, 40) as u64)
    } else {
        limits
    }
}

fn draw_route(rng: &mut Rng, with_batches: bool) -> RouteConfig {
    let shape = if rng.chance(600) {
        Shape::Pinned {
            workers: rng.between(1, 3) as u32,
        }
    } else {
        Shape::Pool {
            concurrency: rng.between(1, 4) as u32,
        }
    };
    let batch = (with_batches && rng.chance(800)).then(|| BatchConfig {
        max_records: rng.between(1, 8),
        max_bytes: rng.pick(&[6, 20, 1 << 20]),
        wait: Duration::from_micros(rng.pick(&[0, 0, 3_000])),
        same_lane: rng.chance(500),
    });
    RouteConfig {
        shape,
        batch,
        retry: draw_retry(rng),
        circuit: draw_circuit(rng),
        dead_letters: true,
    }
}

fn draw_retry(rng: &mut Rng) -> RetryPolicy {
    let initial = Duration::from_micros(rng.pick(&[0, 300, 20_000]));
    RetryPolicy {
        initial,
        factor: rng.pick(&[1.0, 2.0]),
        max: initial * 4,
        jitter: rng.pick(&[0.0, 0.5]),
        attempts: NonZeroU32::new(rng.pick(&[0, 0, 1, 2, 3])),
        // What is on hold never gets done: that has tests of its own.
        exhausted: rng.pick(&[
            Exhausted::Skip,
            Exhausted::DeadLetter,
            Exhausted::DeadLetter,
            Exhausted::Stop,
        ]),
    }
}

fn draw_circuit(rng: &mut Rng) -> Option<CircuitPolicy> {
    if rng.chance(700) {
        return None;
    }
    let open_for = Duration::from_micros(rng.pick(&[200, 5_000]));
    let of_last = rng.between(2, 10) as u32;
    Some(CircuitPolicy {
        share: rng.pick(&[0.2, 0.5, 1.0]),
        of_last,
        at_least: rng.between(1, of_last as usize) as u32,
        window: Duration::from_millis(rng.pick(&[1, 100])),
        open_for,
        longest: open_for * 4,
        probes: rng.between(1, 2) as u32,
    })
}

fn draw_buffers(rng: &mut Rng) -> BufferConfig {
    let wide = rng.chance(300);
    let total = if wide { 10_000 } else { rng.between(4, 40) };
    BufferConfig {
        partition_records: if wide { 10_000 } else { rng.between(2, 20) },
        partition_bytes: if rng.chance(300) { 40 } else { 1 << 20 },
        total_records: total,
        total_bytes: if rng.chance(200) { 100 } else { 1 << 20 },
        output_bytes: rng.pick(&[25, 60, 1 << 20]),
    }
}

fn draw_pace(rng: &mut Rng) -> Intervals {
    if rng.chance(700) {
        return Intervals::default();
    }
    let mut draw = || {
        let micros = rng.pick(&[0, 50, 1_000, 20_000]);
        (micros > 0).then(|| Duration::from_micros(micros))
    };
    Intervals {
        third: draw(),
        partition: draw(),
        member: draw(),
    }
}

fn draw_rates(rng: &mut Rng) -> Rates {
    Rates {
        fail: rng.pick(&[0, 50, 300]),
        skip: rng.pick(&[0, 50]),
        panic: rng.pick(&[0, 20]),
        stop: rng.pick(&[0, 0, 5]),
        dead_letter: rng.pick(&[0, 0, 30]),
        give_up: rng.pick(&[0, 0, 30]),
        outputs: rng.pick(&[0, 0, 300, 900]),
        send_fails: rng.pick(&[0, 100, 400]),
        letter_fails: rng.pick(&[0, 200, 600]),
        letter_ambiguous: rng.pick(&[0, 200]),
        batch_fails_whole: rng.pick(&[0, 100, 400]),
        commit_repeat: rng.pick(&[0, 100]),
        commit_denied: rng.pick(&[0, 0, 100]),
        answer_lost: rng.pick(&[0, 100, 400]),
        slow: rng.pick(&[0, 20, 800]),
    }
}

fn draw_weights(rng: &mut Rng) -> Weights {
    Weights {
        revoke: rng.pick(&[0, 2, 8]),
        kick: rng.pick(&[0, 0, 2]),
        crash: rng.pick(&[0, 1, 3]),
        stop: rng.pick(&[0, 1]),
        compact: rng.pick(&[0, 3, 10]),
        retain: rng.pick(&[0, 0, 3]),
        marker: rng.pick(&[0, 2, 8]),
        take_back: rng.pick(&[0, 3, 10]),
        pause: rng.pick(&[0, 0, 3]),
        resize: rng.pick(&[0, 0, 0, 2]),
    }
}
