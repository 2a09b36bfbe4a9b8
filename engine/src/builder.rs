//! From wishes to a configuration: what can be wished for, with the defaults. `check` judges it.

mod check;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use keyway_core::Ordering;
use keyway_offsets::{DEFAULT_CAP_CHARS, DEFAULT_MAX_WINDOW};
use keyway_rider::{BadMetadata, RiderState};
use rdkafka::ClientConfig;

pub use self::check::BuildError;
pub(crate) use self::check::in_range;
use crate::budget::DEFAULT_MEMORY_BUDGET;
use crate::causal::Causal;
use crate::circuit::Circuit;
use crate::dead_letters::DeadLetters;
use crate::engine::{Engine, StartError};
use crate::kafka::OauthToken;
use crate::limits::Rate;
use crate::observer::Observer;
use crate::outcome::{BatchOutcome, Outcome};
use crate::poll::{TokenProvider, token_provider};
use crate::record::Record;
use crate::retry::Retry;
use crate::riders::{Assigned, RiderContext, RiderSettings, Riders, state_maker};
use crate::route::Route;
use crate::settings::{CommitMode, MapsWithoutEpoch, Settings, StartAt};

/// Where to begin: [`Keyway::builder`].
#[derive(Debug)]
#[must_use]
pub struct Keyway {
    pub(crate) settings: Settings,
}

impl Keyway {
    /// Begins a configuration. `client` holds librdkafka's properties, `bootstrap.servers` among them.
    pub fn builder(client: ClientConfig) -> Builder {
        Builder {
            client,
            topics: Vec::new(),
            route: None,
            topic_routes: Vec::new(),
            changes: Vec::new(),
            start: None,
            bad_metadata: None,
            maps_without_epoch: MapsWithoutEpoch::default(),
            metadata_limit: DEFAULT_CAP_CHARS,
            metadata_threshold: 0.75,
            max_window: DEFAULT_MAX_WINDOW,
            memory_budget: DEFAULT_MEMORY_BUDGET,
            partition_records: None,
            commit: CommitMode::default(),
            commit_timeout: Duration::from_secs(10),
            revoke_wait: None,
            record_limit: None,
            rate: None,
            riders: RiderSettings::default(),
            rider_refresh: None,
            two_riders: false,
            causal: None,
            observer: None,
            token_provider: None,
        }
    }

    /// Opens the client and starts the engine on threads of its own. Returns at once: what goes wrong later
    /// is told by [`Engine::wait`].
    ///
    /// # Errors
    /// When librdkafka refuses the configuration.
    pub fn start(self) -> Result<Engine, StartError> {
        Engine::start(self.settings)
    }
}

/// Collects a configuration; every method has a default unless it says otherwise.
#[must_use]
pub struct Builder {
    client: ClientConfig,
    topics: Vec<String>,
    route: Option<Route>,
    topic_routes: Vec<(String, Route)>,
    /// Settings of the default route, which may be given before its handler.
    changes: Vec<Box<dyn FnOnce(Route) -> Route>>,
    start: Option<StartAt>,
    bad_metadata: Option<BadMetadata>,
    maps_without_epoch: MapsWithoutEpoch,
    metadata_limit: usize,
    metadata_threshold: f64,
    max_window: u64,
    memory_budget: usize,
    partition_records: Option<usize>,
    commit: CommitMode,
    commit_timeout: Duration,
    revoke_wait: Option<Duration>,
    record_limit: Option<u64>,
    rate: Option<Rate>,
    riders: RiderSettings,
    rider_refresh: Option<Duration>,
    /// A source of riders was given over another.
    two_riders: bool,
    causal: Option<Causal>,
    observer: Option<Arc<dyn Observer>>,
    token_provider: Option<TokenProvider>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("topics", &self.topics)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// The consumer group. Required here or as `group.id`.
    pub fn group(self, group: &str) -> Self {
        self.property("group.id", group)
    }

    /// Sets a property of librdkafka. Those that would break the engine are refused by [`Builder::build`].
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.client.set(name, value);
        self
    }

    /// Topics to consume with the default route.
    pub fn topics<T: Into<String>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.topics.extend(topics.into_iter().map(Into::into));
        self
    }

    /// Topics whose whole name matches a regular expression, picked up as they appear, with the default route.
    pub fn topic_pattern(mut self, pattern: &str) -> Self {
        let anchored = format!(
            "^{}$",
            pattern.trim_start_matches('^').trim_end_matches('$')
        );
        self.topics.push(anchored);
        self
    }

    /// A topic with a route of its own.
    pub fn topic(mut self, topic: impl Into<String>, route: Route) -> Self {
        self.topic_routes.push((topic.into(), route));
        self
    }

    /// The default route, whole.
    pub fn route(mut self, route: Route) -> Self {
        self.route = Some(route);
        self
    }

    /// The default route's handler; see [`Route::handler`].
    pub fn handler<O: Into<Outcome>>(
        self,
        handler: impl Fn(&Record) -> O + Send + Sync + 'static,
    ) -> Self {
        self.route(Route::handler(handler))
    }

    /// The default route's handler; see [`Route::cpu_handler`].
    pub fn cpu_handler<O: Into<Outcome>>(
        self,
        handler: impl Fn(&Record) -> O + Send + Sync + 'static,
    ) -> Self {
        self.route(Route::cpu_handler(handler))
    }

    /// The default route's handler; see [`Route::async_handler`].
    pub fn async_handler<O, F>(self, handler: impl Fn(Record) -> F + Send + Sync + 'static) -> Self
    where
        O: Into<Outcome>,
        F: Future<Output = O> + Send + 'static,
    {
        self.route(Route::async_handler(handler))
    }

    /// The default route's handler; see [`Route::batch_handler`].
    pub fn batch_handler<O: Into<BatchOutcome>>(
        self,
        handler: impl Fn(Vec<Record>) -> O + Send + Sync + 'static,
    ) -> Self {
        self.route(Route::batch_handler(handler))
    }

    /// The default route's handler; see [`Route::async_batch_handler`].
    pub fn async_batch_handler<O, F>(
        self,
        handler: impl Fn(Vec<Record>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        O: Into<BatchOutcome>,
        F: Future<Output = O> + Send + 'static,
    {
        self.route(Route::async_batch_handler(handler))
    }

    fn change(mut self, change: impl FnOnce(Route) -> Route + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// The default route's ordering; see [`Route::ordering`].
    pub fn ordering(self, ordering: Ordering) -> Self {
        self.change(move |route| route.ordering(ordering))
    }

    /// The default route's lanes; see [`Route::lane_by`].
    pub fn lane_by<K: std::hash::Hash>(
        self,
        lane: impl Fn(&Record) -> K + Send + Sync + 'static,
    ) -> Self {
        self.change(move |route| route.lane_by(lane))
    }

    /// The default route's concurrency; see [`Route::concurrency`].
    pub fn concurrency(self, calls: u32) -> Self {
        self.change(move |route| route.concurrency(calls))
    }

    /// The rate of each topic of the default route; see [`Route::topic_rate`].
    pub fn topic_rate(self, rate: Rate) -> Self {
        self.change(move |route| route.topic_rate(rate))
    }

    /// The rate of each key of the default route's topics; see [`Route::key_rate`].
    pub fn key_rate(self, rate: Rate) -> Self {
        self.change(move |route| route.key_rate(rate))
    }

    /// How long a call of the default route's async handler may take; see [`Route::timeout`].
    pub fn timeout(self, limit: Duration) -> Self {
        self.change(move |route| route.timeout(limit))
    }

    /// How long a call of the default route may take before it counts as stuck; see [`Route::stuck_after`].
    pub fn stuck_after(self, time: Duration) -> Self {
        self.change(move |route| route.stuck_after(time))
    }

    /// Stuck calls of the default route in whose place others are made; see [`Route::replace_stuck`].
    pub fn replace_stuck(self, calls: u32) -> Self {
        self.change(move |route| route.replace_stuck(calls))
    }

    /// The default route's dead letters; see [`Route::dead_letters`].
    pub fn dead_letters(self, letters: DeadLetters) -> Self {
        self.change(move |route| route.dead_letters(letters))
    }

    /// What follows a failed attempt in the default route; see [`Route::retry`].
    pub fn retry(self, retry: Retry) -> Self {
        self.change(move |route| route.retry(retry))
    }

    /// What holds the default route while its attempts fail; see [`Route::circuit`].
    pub fn circuit(self, circuit: Circuit) -> Self {
        self.change(move |route| route.circuit(circuit))
    }

    /// The default route's retry delay; see [`Route::retry_delay`].
    pub fn retry_delay(self, delay: Duration) -> Self {
        self.change(move |route| route.retry_delay(delay))
    }

    /// The default route's largest batch; see [`Route::batch_max`].
    pub fn batch_max(self, records: usize) -> Self {
        self.change(move |route| route.batch_max(records))
    }

    /// The default route's largest batch in bytes; see [`Route::batch_bytes`].
    pub fn batch_bytes(self, bytes: usize) -> Self {
        self.change(move |route| route.batch_bytes(bytes))
    }

    /// The default route's wait for a batch to fill; see [`Route::batch_wait`].
    pub fn batch_wait(self, wait: Duration) -> Self {
        self.change(move |route| route.batch_wait(wait))
    }

    /// Whether one call of the default route's batch handler may hold several records of one lane; see
    /// [`Route::batch_same_lane`].
    pub fn batch_same_lane(self, allowed: bool) -> Self {
        self.change(move |route| route.batch_same_lane(allowed))
    }

    /// Where a partition without a committed offset starts. Default: what `auto.offset.reset` says, else
    /// [`StartAt::Latest`], as Kafka's own clients do.
    pub fn start_at(mut self, start: StartAt) -> Self {
        self.start = Some(start);
        self
    }

    /// What to do with metadata that can't be used. Default: ignore it; in transactions, fail.
    pub fn bad_metadata(mut self, policy: BadMetadata) -> Self {
        self.bad_metadata = Some(policy);
        self
    }

    /// What to do with maps whose commit carries no leader epoch. Default: accept them.
    pub fn maps_without_epoch(mut self, policy: MapsWithoutEpoch) -> Self {
        self.maps_without_epoch = policy;
        self
    }

    /// When to commit. Default: every second.
    pub fn commit_mode(mut self, mode: CommitMode) -> Self {
        self.commit = mode;
        self
    }

    /// Commit at this interval. Default: 1 s.
    pub fn commit_interval(self, interval: Duration) -> Self {
        self.commit_mode(CommitMode::Periodic(interval))
    }

    /// How long a commit may stay without an answer before it counts as ambiguous. Default: 10 s.
    pub fn commit_timeout(mut self, timeout: Duration) -> Self {
        self.commit_timeout = timeout;
        self
    }

    /// The broker's `offset.metadata.max.bytes`, in UTF-16 units. Default: 4096, the broker's own. A lower cap
    /// of the broker is learned from its answers.
    pub fn metadata_limit(mut self, chars: usize) -> Self {
        self.metadata_limit = chars;
        self
    }

    /// Share of the limit from which on records above the highest complete one wait for the hole map to
    /// shrink. Default: 0.75.
    pub fn metadata_threshold(mut self, share: f64) -> Self {
        self.metadata_threshold = share;
        self
    }

    /// Most offsets between the lowest incomplete one and the highest complete one. Default: 2^28.
    pub fn max_window(mut self, offsets: u64) -> Self {
        self.max_window = offsets;
        self
    }

    /// Memory for everything that holds records: librdkafka's prefetch, the buffers, what running records
    /// pin. Default: 256 MiB; at least 16 MiB.
    pub fn memory_budget(mut self, bytes: usize) -> Self {
        self.memory_budget = bytes;
        self
    }

    /// Most records of one partition in the buffers; above, it is paused. Default: 100,000, or less where the
    /// memory budget is small.
    pub fn partition_buffer(mut self, records: usize) -> Self {
        self.partition_records = Some(records);
        self
    }

    /// How long a revoke waits for running handlers. Default: 10 s, or less when `max.poll.interval.ms` is
    /// short; must be below half of that.
    pub fn revoke_wait(mut self, wait: Duration) -> Self {
        self.revoke_wait = Some(wait);
        self
    }

    /// Start no record past this many (all partitions together) and drain when they are complete. Default: no
    /// limit.
    pub fn record_limit(mut self, records: u64) -> Self {
        self.record_limit = Some(records);
        self
    }

    /// At most so many records of the whole engine start in a second. Default: as many as can. Can be changed while
    /// the engine runs: [`Limits::set_rate`](crate::Limits::set_rate).
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Who gives the rider of each commit: a few bytes of the application's own, for each partition, that move with
    /// the committed offset and are read back by [`Builder::on_assigned`]. Default: nobody.
    ///
    /// Asked once for each partition of a commit, on a thread of its own, with the offset that the commit carries.
    /// `None` means that there is no rider this time. The application's state moves on while it is asked, so what it
    /// says may be *ahead* of the commit's offset and map, and has to bear that records are applied again: merged by
    /// maximum, say, or keyed by offset. Where that is not enough there is [`Builder::rider_state`].
    ///
    /// A panic, an empty value, more than [`max_bytes`](crate::RiderContext::max_bytes), or an answer that takes
    /// longer than [`Builder::supplier_timeout`] costs this rider and nothing else: the commit goes on with a marker,
    /// and the next reader finds [`Rider::Dropped`](crate::Rider::Dropped). The rider never costs the hole map.
    ///
    /// Every member of the group has to know riders. Java's Parallel Consumer does not.
    pub fn rider(
        self,
        supplier: impl Fn(&RiderContext) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        self.set_riders(Riders::Supplier {
            supplier: Arc::new(supplier),
            refresh: None,
        })
    }

    /// A state for each partition that moves with its records and rides beside each commit, so that offset, hole map
    /// and state are always of one moment: each record's update is in the state exactly when the commit says that the
    /// record is done. Default: none.
    ///
    /// `make` gives the state that a partition begins with, from the rider of the commit before; it is called before
    /// any record of the partition, on the engine's own thread, and must not wait. Where the map beside that rider was
    /// discarded ([`Assigned::map_discarded`]) the state has records already that run again. Where a map has to be left
    /// out of a commit the state stays with it, and the next reader finds
    /// [`Rider::Dropped`](crate::Rider::Dropped). Handlers change the state by what
    /// they return, [`Outcome::done_with`].
    ///
    /// ```
    /// use keyway::{Assigned, Outcome, Record, RiderState};
    ///
    /// /// The bytes that a partition's records had, each counted once as far as commits reach.
    /// #[derive(Clone)]
    /// struct Total(u64);
    ///
    /// impl RiderState for Total {
    ///     type Update = u64;
    ///     fn apply(&mut self, bytes: &u64) {
    ///         self.0 += bytes;
    ///     }
    ///     fn encode(&self, _max_bytes: usize) -> Option<Vec<u8>> {
    ///         Some(self.0.to_be_bytes().to_vec())
    ///     }
    /// }
    ///
    /// let restore = |assigned: &Assigned| {
    ///     let bytes = assigned.rider.bytes().and_then(|bytes| bytes.try_into().ok());
    ///     Total(bytes.map_or(0, u64::from_be_bytes))
    /// };
    /// let handler = |record: &Record| Outcome::done_with(record.value().map_or(0, <[u8]>::len) as u64);
    /// # let _ = keyway::Keyway::builder(keyway::ClientConfig::new()).group("g").topics(["t"])
    /// // Keyway::builder(..)
    ///     .handler(handler)
    ///     .rider_state(restore)
    /// #   ;
    /// ```
    pub fn rider_state<S: RiderState>(
        self,
        make: impl Fn(&Assigned) -> S + Send + Sync + 'static,
    ) -> Self {
        self.set_riders(Riders::State(state_maker(make)))
    }

    fn set_riders(mut self, riders: Riders) -> Self {
        self.two_riders |= !matches!(self.riders.riders, Riders::None);
        self.riders.riders = riders;
        self
    }

    /// How often partitions that have nothing to commit are asked for their rider, which is committed at the same
    /// offset when it has changed. Default: never.
    pub fn rider_refresh(mut self, interval: Duration) -> Self {
        self.rider_refresh = Some(interval);
        self
    }

    /// How long the riders of one commit may take, all its partitions together. Default: 1 s; at most half of
    /// [`Builder::revoke_wait`].
    pub fn supplier_timeout(mut self, timeout: Duration) -> Self {
        self.riders.timeout = timeout;
        self
    }

    /// Who is told of each partition that is assigned, with the rider of the commit before, ahead of any record of
    /// it. Called on the engine's own thread: it must not wait. Default: nobody.
    pub fn on_assigned(mut self, on_assigned: impl Fn(&Assigned) + Send + Sync + 'static) -> Self {
        self.riders.on_assigned = Some(Arc::new(on_assigned));
        self
    }

    /// Causal delivery: a record starts only when everything that caused it is done, and every record that is sent names
    /// what caused it. All topics are named, and nothing else rides beside the offsets. Default: without.
    pub fn causal(mut self, causal: Causal) -> Self {
        self.causal = Some(causal);
        self
    }

    /// Somebody who is told what happens as it happens. Default: nobody.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Who gives tokens for `sasl.mechanism=OAUTHBEARER`. Default: nobody, so that librdkafka's own ways apply
    /// (`sasl.oauthbearer.method=oidc`, for one).
    ///
    /// The provider is called when the client starts and again when 80 % of a token's time are over. It runs on
    /// the tokio runtime in which the engine was started, whose time must be enabled, or else on a thread of its
    /// own with a runtime; it must not block. An error, a panic, a token that has expired, or an answer that
    /// takes longer than 30 s is logged, and the provider is called again 10 s later; the old token serves as
    /// long as it is good.
    ///
    /// OAUTHBEARER needs this crate's feature `ssl` or `ssl-vendored`, also without TLS. Otherwise
    /// [`Keyway::start`] answers a [`StartError::Client`] in which librdkafka says so.
    ///
    /// ```no_run
    /// use keyway::{ClientConfig, Keyway, OauthToken, Outcome};
    ///
    /// # async fn fetch() -> Result<(String, i64), std::io::Error> { Ok((String::new(), 0)) }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Keyway::builder(ClientConfig::new())
    ///     .property("security.protocol", "SASL_SSL")
    ///     .property("sasl.mechanism", "OAUTHBEARER")
    ///     .oauth_token(|| async {
    ///         let (value, lifetime_ms) = fetch().await?;
    ///         Ok::<_, std::io::Error>(OauthToken {
    ///             value,
    ///             principal: "orders".to_owned(),
    ///             lifetime_ms,
    ///             extensions: Vec::new(),
    ///         })
    ///     })
    /// #   .group("orders").topics(["orders"]).handler(|_| Outcome::Done)
    ///     // ..
    ///     .build()?
    ///     .start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn oauth_token<F, E>(mut self, provider: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<OauthToken, E>> + Send + 'static,
        E: fmt::Display,
    {
        self.token_provider = Some(token_provider(provider));
        self
    }
}
