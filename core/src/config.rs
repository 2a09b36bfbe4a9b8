//! Every number that the core works with, with its unit and the reason for its default.

use std::time::Duration;

use keyway_offsets::Limits;

use crate::circuit::CircuitPolicy;
use crate::retry::RetryPolicy;
use crate::rider::RiderSource;

/// How the records of a route get to its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each worker has a queue, and a lane stays with the worker that holds its records: for handlers that
    /// occupy a thread.
    Pinned {
        /// Number of workers, each inside at most one call at a time.
        workers: u32,
    },
    /// Any number of runs at once, each of one lane, up to a bound: for async handlers and for pools that
    /// balance by themselves.
    Pool {
        /// Runs, hence calls, at once.
        concurrency: u32,
    },
}

/// When a batch handler is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchConfig {
    /// Most records of one call.
    pub max_records: usize,
    /// Most bytes of one call, as the buffers count them; a single larger record goes alone.
    pub max_bytes: usize,
    /// How long a record may wait for others to fill its batch.
    pub wait: Duration,
    /// Whether one call may hold several records of one lane.
    pub same_lane: bool,
}

impl Default for BatchConfig {
    fn default() -> Self {
        Self {
            max_records: 100,
            max_bytes: 1 << 20,
            wait: Duration::ZERO,
            same_lane: false,
        }
    }
}

/// How the records of one handler are run.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteConfig {
    /// How they get to workers.
    pub shape: Shape,
    /// `Some` for a batch handler.
    pub batch: Option<BatchConfig>,
    /// What follows a failed attempt.
    pub retry: RetryPolicy,
    /// What holds it while its attempts fail, if anything does.
    pub circuit: Option<CircuitPolicy>,
    /// Whether there is a dead-letter topic. What is to go there and has none is on hold.
    pub dead_letters: bool,
}

/// Bounds of what is buffered between the fetch and the end of a record's handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferConfig {
    /// Records of one partition; above, the partition is paused. 100,000: twenty prefetches of librdkafka, so
    /// that what a pause throws away stays small beside what was used.
    pub partition_records: usize,
    /// Bytes of one partition.
    pub partition_bytes: usize,
    /// Records of all partitions. From three fifths on nothing more is fetched; the rest is for those that hold little
    /// while others do not get done.
    pub total_records: usize,
    /// Bytes of all partitions, likewise.
    pub total_bytes: usize,
    /// Bytes of outputs that are being sent or wait for their transaction, and that the records at workers are likely to
    /// add; above, no record starts until some are acknowledged. 16 MiB: more than brokers take in a moment.
    pub output_bytes: usize,
}

impl Default for BufferConfig {
    fn default() -> Self {
        Self {
            partition_records: 100_000,
            partition_bytes: 64 << 20,
            total_records: 500_000,
            total_bytes: 128 << 20,
            output_bytes: 16 << 20,
        }
    }
}

/// When commits are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitConfig {
    /// Time between two commits; zero commits whenever something changed and no commit is under way.
    pub interval: Duration,
    /// Delay before a commit that was refused for a passing reason is made again.
    pub backoff: Duration,
    /// Whether outputs and offsets are committed together, in one transaction at each interval.
    pub transactional: bool,
}

impl Default for CommitConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            backoff: Duration::from_millis(100),
            transactional: false,
        }
    }
}

/// The configuration of a [`Core`](crate::Core).
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// The routes; a [`RouteId`](crate::RouteId) is an index into them.
    pub routes: Vec<RouteConfig>,
    /// Limits of the metadata text and of the window.
    pub limits: Limits,
    /// Bounds of the buffers.
    pub buffers: BufferConfig,
    /// When to commit.
    pub commit: CommitConfig,
    /// Where the riders of commits come from.
    pub riders: RiderSource,
}
