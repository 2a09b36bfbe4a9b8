//! A handler and how its records are run.

use std::fmt;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use keyway_core::{BatchConfig, Ordering, RouteConfig};

use crate::circuit::Circuit;
use crate::dead_letters::DeadLetters;
use crate::handler::Handler;
use crate::limits::{MOST_CALLS, MOST_THREADS, Rate, TopicRates};
use crate::outcome::{BatchOutcome, Outcome};
use crate::record::Record;
use crate::retry::Retry;

/// Records inside handlers at once, unless the route says otherwise.
pub(crate) const DEFAULT_CONCURRENCY: u32 = 16;

pub(crate) type LaneFn = dyn Fn(&Record) -> u64 + Send + Sync;

/// How records are put into lanes.
#[derive(Clone)]
pub(crate) enum LaneRule {
    Ordering(Ordering),
    Chosen(Arc<LaneFn>),
}

/// A handler with its ordering, concurrency, rates, batches and retries.
///
/// One route serves all topics without one of their own; [`Builder::topic`](crate::Builder::topic) gives a
/// topic its own, with its own workers.
#[derive(Clone)]
#[must_use]
pub struct Route {
    pub(crate) handler: Handler,
    pub(crate) lanes: LaneRule,
    pub(crate) concurrency: u32,
    pub(crate) batch: BatchConfig,
    pub(crate) retry: Retry,
    pub(crate) timeout: Option<Duration>,
    pub(crate) circuit: Option<Circuit>,
    pub(crate) rates: TopicRates,
    pub(crate) stuck_after: Duration,
    pub(crate) replace_stuck: u32,
    pub(crate) dead_letters: Option<DeadLetters>,
}

/// How long a call may take before it counts as stuck, unless the route says otherwise: longer than the timeouts that
/// sensible handlers have of their own, and as long as Kafka's clients give a consumer between two polls.
const DEFAULT_STUCK_AFTER: Duration = Duration::from_secs(300);

/// Stuck calls whose place is taken by others, unless the route says otherwise: with the default concurrency a route
/// keeps all of its capacity until as many calls hang, and a thread that hangs costs little but its stack.
const DEFAULT_REPLACE_STUCK: u32 = 16;

impl Route {
    fn new(handler: Handler) -> Self {
        let concurrency = match handler {
            Handler::Cpu(_) => cores(),
            Handler::Threads(_) | Handler::Async(_) => DEFAULT_CONCURRENCY,
        };
        Self {
            handler,
            lanes: LaneRule::Ordering(Ordering::Key),
            concurrency,
            batch: BatchConfig::default(),
            retry: Retry::default(),
            timeout: None,
            circuit: None,
            rates: TopicRates::default(),
            stuck_after: DEFAULT_STUCK_AFTER,
            replace_stuck: DEFAULT_REPLACE_STUCK,
            dead_letters: None,
        }
    }

    /// A function that may wait; runs on a pool of threads, started as they are needed.
    pub fn handler<O: Into<Outcome>>(
        handler: impl Fn(&Record) -> O + Send + Sync + 'static,
    ) -> Self {
        Self::new(Handler::threads(handler))
    }

    /// A function that computes; runs on a rayon pool of the route's own.
    pub fn cpu_handler<O: Into<Outcome>>(
        handler: impl Fn(&Record) -> O + Send + Sync + 'static,
    ) -> Self {
        Self::new(Handler::cpu(handler))
    }

    /// An async function; runs on the tokio runtime in which the engine was started, or on one of its own.
    pub fn async_handler<O, F>(handler: impl Fn(Record) -> F + Send + Sync + 'static) -> Self
    where
        O: Into<Outcome>,
        F: Future<Output = O> + Send + 'static,
    {
        Self::new(Handler::asynchronous(handler))
    }

    /// A function of several records that may wait; see [`Route::handler`].
    pub fn batch_handler<O: Into<BatchOutcome>>(
        handler: impl Fn(Vec<Record>) -> O + Send + Sync + 'static,
    ) -> Self {
        Self::new(Handler::threads_batch(handler))
    }

    /// A function of several records that computes; see [`Route::cpu_handler`].
    pub fn cpu_batch_handler<O: Into<BatchOutcome>>(
        handler: impl Fn(Vec<Record>) -> O + Send + Sync + 'static,
    ) -> Self {
        Self::new(Handler::cpu_batch(handler))
    }

    /// An async function of several records; see [`Route::async_handler`].
    pub fn async_batch_handler<O, F>(
        handler: impl Fn(Vec<Record>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        O: Into<BatchOutcome>,
        F: Future<Output = O> + Send + 'static,
    {
        Self::new(Handler::asynchronous_batch(handler))
    }

    /// Which records run one after another. Default: those with equal keys.
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.lanes = LaneRule::Ordering(ordering);
        self
    }

    /// Records of a partition for which `lane` gives equal values run one after another, in place of an
    /// [`Ordering`]. Called on the poll thread for each record, so it must be fast; a panic in it stops the
    /// engine, since the order would be lost.
    pub fn lane_by<K: Hash>(mut self, lane: impl Fn(&Record) -> K + Send + Sync + 'static) -> Self {
        self.lanes = LaneRule::Chosen(Arc::new(move |record| {
            let mut hasher = DefaultHasher::new();
            lane(record).hash(&mut hasher);
            hasher.finish()
        }));
        self
    }

    /// Calls of the handler at once; of a handler of single records that is the records inside handlers.
    /// Default: 16, for [`Route::cpu_handler`] the number of cores. A handler that waits on a thread takes one
    /// thread for each; an async one may have tens of thousands. Can be changed while the engine runs:
    /// [`Limits::set_concurrency`](crate::Limits::set_concurrency).
    pub fn concurrency(mut self, calls: u32) -> Self {
        self.concurrency = calls;
        self
    }

    /// At most so many records of each topic of this route start in a second. Default: as many as can. Can be changed
    /// while the engine runs: [`Limits::set_topic_rate`](crate::Limits::set_topic_rate).
    pub fn topic_rate(mut self, rate: Rate) -> Self {
        self.rates.topic = Some(rate);
        self
    }

    /// At most so many records of each key of a topic start in a second. Default: as many as can. Records without a
    /// key have no such limit. Can be changed while the engine runs:
    /// [`Limits::set_key_rate`](crate::Limits::set_key_rate).
    pub fn key_rate(mut self, rate: Rate) -> Self {
        self.rates.key = Some(rate);
        self
    }

    /// Most records of one call of a batch handler. Default: 100.
    pub fn batch_max(mut self, records: usize) -> Self {
        self.batch.max_records = records;
        self
    }

    /// Most bytes of one call of a batch handler; a single larger record goes alone. Default: 1 MiB.
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.batch.max_bytes = bytes;
        self
    }

    /// How long a record may wait for others to fill its batch. Default: zero, so that a batch is what is
    /// there when a call is free.
    pub fn batch_wait(mut self, wait: Duration) -> Self {
        self.batch.wait = wait;
        self
    }

    /// Whether one batch may hold several records of a lane, which then start together. Default: no.
    pub fn batch_same_lane(mut self, allowed: bool) -> Self {
        self.batch.same_lane = allowed;
        self
    }

    /// What follows a failed attempt. Default: [`Retry::default`], from 1 s on and without a limit.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Holds the route while its attempts fail, without spending any. Default: it is never held.
    pub fn circuit(mut self, circuit: Circuit) -> Self {
        self.circuit = Some(circuit);
        self
    }

    /// Where records go that are to be dead letters, by the [`Retry`] policy after their last attempt
    /// ([`Exhausted::DeadLetter`](crate::Exhausted::DeadLetter)) or at once by the handler's choice
    /// ([`Outcome::DeadLetter`]). Default: nowhere.
    ///
    /// While a letter is written its lane waits and no worker is held. Where it can't be written (the topic is missing,
    /// refuses it, or no broker answers) the record stays incomplete, its lane waits, and the letter is tried again
    /// for ever, after half a second at first and half a minute in the end; the
    /// [`Status`](crate::Status) shows it.
    pub fn dead_letters(mut self, letters: DeadLetters) -> Self {
        self.dead_letters = Some(letters);
        self
    }

    /// How long a call of an async handler may take: after that its future is dropped, where it waits, and the
    /// attempt has failed. Default: no limit. For async handlers only, since a call on a thread can't be broken off;
    /// the tokio runtime needs its time enabled.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// How long a call may take before it counts as stuck: [`Health`](crate::Health) names its record, and another call
    /// may be made in its place. The call itself goes on, and its record runs nowhere else in this member. Default:
    /// 5 min.
    pub fn stuck_after(mut self, time: Duration) -> Self {
        self.stuck_after = time;
        self
    }

    /// In place of so many stuck calls others are made, beyond [`Route::concurrency`], until they return: a thread more
    /// for each, or a place more for async handlers. Past that a stuck call costs its place, which
    /// [`Health::unreplaced`](crate::Health::unreplaced) counts. Default: 16. [`Route::cpu_handler`] has none: what
    /// computes for ever takes its core with it.
    pub fn replace_stuck(mut self, calls: u32) -> Self {
        self.replace_stuck = calls;
        self
    }

    /// The same delay before each further attempt, without a limit: [`Retry::every`].
    pub fn retry_delay(self, delay: Duration) -> Self {
        self.retry(Retry::every(delay))
    }

    /// How far its concurrency may be raised.
    pub(crate) fn most_calls(&self) -> u32 {
        match self.handler {
            Handler::Threads(_) => MOST_THREADS,
            Handler::Cpu(_) | Handler::Async(_) => MOST_CALLS,
        }
    }

    pub(crate) fn config(&self) -> RouteConfig {
        RouteConfig {
            shape: self.handler.shape(self.concurrency),
            batch: self.handler.is_batch().then_some(self.batch),
            retry: self.retry.policy(),
            circuit: self.circuit.map(|circuit| circuit.policy()),
            dead_letters: self.dead_letters.is_some(),
        }
    }
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lanes = match &self.lanes {
            LaneRule::Ordering(ordering) => format!("{ordering:?}"),
            LaneRule::Chosen(_) => "chosen".to_owned(),
        };
        f.debug_struct("Route")
            .field("handler", &self.handler)
            .field("lanes", &lanes)
            .field("concurrency", &self.concurrency)
            .field("batch", &self.batch)
            .field("retry", &self.retry)
            .field("timeout", &self.timeout)
            .field("circuit", &self.circuit)
            .field("rates", &self.rates)
            .field("stuck_after", &self.stuck_after)
            .field("replace_stuck", &self.replace_stuck)
            .field("dead_letters", &self.dead_letters)
            .finish()
    }
}
