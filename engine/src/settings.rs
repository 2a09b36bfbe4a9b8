//! A checked configuration, and the choices it holds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use keyway_core::{BufferConfig, CommitConfig, Core, CoreConfig, Leases, RouteId};
use keyway_offsets::Limits;
use keyway_rider::BadMetadata;

use crate::causal::{CausalSettings, EngineGate};
use crate::kafka::Prepared;
use crate::limits::{Rate, Rates, TopicRates};
use crate::observer::Observer;
use crate::poll::{Slots, TokenProvider};
use crate::record::Message;
use crate::riders::RiderSettings;
use crate::route::Route;

/// Where a partition without a committed offset starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartAt {
    /// At the first record of the log.
    Earliest,
    /// Behind the last record of the log at the time of the first assignment.
    Latest,
    /// At the first record whose timestamp is this or later, in milliseconds since 1970; behind the last
    /// record when there is none.
    Timestamp(i64),
}

/// What to do with a map whose commit carries no leader epoch: Java's engine writes such ones, and so do tools
/// that copy a group to another cluster, where every hole has shifted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapsWithoutEpoch {
    /// Use it; one warning.
    #[default]
    Accept,
    /// Discard it as [`BadMetadata`] says: for groups that were mirrored.
    Discard,
}

/// When finished work is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitMode {
    /// At this interval, and at every revoke, drain and stop.
    Periodic(Duration),
    /// As soon as something completed and the commit before is answered: the fewest repeats after a crash, at
    /// the price of one request after another.
    Synchronous,
    /// Exactly once: outputs and dead letters of finished records and the offsets that say so are stored together, in one
    /// transaction at this interval, and at every revoke, drain and stop. Who reads the outputs with
    /// `isolation.level=read_committed` sees each once.
    ///
    /// Handlers hold no transaction: what they return waits, bounded like all that is buffered, and a transaction is made
    /// sooner where the bounds come near. The longer the interval, the later the outputs are seen and the less each costs.
    /// A record whose outputs a broker refuses runs again as after any failed attempt, and with it those records of its
    /// key with outputs that had finished after it.
    ///
    /// The `transactional.id` is the one of the client's configuration, which must be no other member's; without one it is
    /// made of the group and the `group.instance.id`, or a random part.
    Transactional(Duration),
}

impl Default for CommitMode {
    fn default() -> Self {
        CommitMode::Periodic(Duration::from_secs(1))
    }
}

/// A checked configuration.
pub(crate) struct Settings {
    pub(crate) client: Prepared,
    pub(crate) subscription: Vec<String>,
    /// Route 0 serves the topics without one of their own, when there are such.
    pub(crate) routes: Vec<Route>,
    /// Index into `routes` by topic.
    pub(crate) topic_routes: Vec<(String, usize)>,
    pub(crate) default_route: Option<usize>,
    pub(crate) start: StartAt,
    pub(crate) bad_metadata: BadMetadata,
    pub(crate) maps_without_epoch: MapsWithoutEpoch,
    pub(crate) limits: Limits,
    pub(crate) buffers: BufferConfig,
    pub(crate) commit: CommitConfig,
    /// Where commits are transactional.
    pub(crate) transactional_id: Option<String>,
    pub(crate) commit_timeout: Duration,
    pub(crate) revoke_wait: Duration,
    pub(crate) record_limit: Option<u64>,
    pub(crate) rate: Option<Rate>,
    pub(crate) riders: RiderSettings,
    pub(crate) causal: Option<CausalSettings>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) token_provider: Option<TokenProvider>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("subscription", &self.subscription)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

/// Whether a topic is among those subscribed to, by its name or by a pattern.
pub(crate) fn subscribes(subscription: &[String], topic: &str) -> bool {
    subscription.iter().any(|wanted| {
        let matches = || regex::Regex::new(wanted).is_ok_and(|pattern| pattern.is_match(topic));
        wanted == topic || (wanted.starts_with('^') && matches())
    })
}

impl Settings {
    /// The state machine for these settings.
    pub(crate) fn core(&self, leases: Arc<Leases>) -> Core<Message, EngineGate> {
        let gate = self
            .causal
            .as_ref()
            .map(|causal| causal.gate(&self.limits, self.observer.is_some()));
        let mut core = Core::with_gate(
            CoreConfig {
                routes: self.routes.iter().map(Route::config).collect(),
                limits: self.limits,
                buffers: self.buffers,
                commit: self.commit,
                riders: self.riders.source(),
            },
            leases,
            gate.unwrap_or_default(),
        );
        if let Some(limit) = self.record_limit {
            core.limit_starts(limit);
        }
        core
    }

    /// The rates that these settings begin with; `seed` is that of the keys' hashes.
    pub(crate) fn rates(&self, seed: u64) -> Rates {
        let of_route = |route: usize| self.routes[route].rates;
        let by_route = self
            .topic_routes
            .iter()
            .map(|(topic, route)| (topic.clone(), of_route(*route)))
            .collect();
        let otherwise = self.default_route.map_or(TopicRates::default(), of_route);
        Rates::new(self.rate, by_route, otherwise, seed)
    }

    /// Whether a topic's records come to this engine.
    pub(crate) fn subscribes(&self, topic: &str) -> bool {
        subscribes(&self.subscription, topic)
    }

    /// Whether any route has dead letters.
    pub(crate) fn has_dead_letters(&self) -> bool {
        self.routes.iter().any(|route| route.dead_letters.is_some())
    }

    /// The table of partitions for these settings; `seed` is that of the lanes' hashes.
    pub(crate) fn slots(&self, seed: u64) -> Slots {
        let by_topic = self
            .topic_routes
            .iter()
            .map(|(topic, route)| (topic.clone(), RouteId(*route as u16)))
            .collect();
        Slots::new(
            self.routes
                .iter()
                .map(|route| route.lanes.clone())
                .collect(),
            self.routes
                .iter()
                .map(|route| route.dead_letters.clone())
                .collect(),
            by_topic,
            self.default_route.map(|route| RouteId(route as u16)),
            seed,
        )
    }
}
