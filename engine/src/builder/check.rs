//! The check of a configuration: each number within its range, each wish beside the others, librdkafka's properties.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::RangeInclusive;
use std::time::Duration;

use keyway_core::{CommitConfig, Exhausted};
use keyway_offsets::{Limits, ThresholdRatio};
use keyway_rider::BadMetadata;
use rdkafka::ClientConfig;

use super::{Builder, Keyway};
use crate::budget::{MIN_MEMORY_BUDGET, MemoryBudget};
use crate::causal::{Causal, CausalSettings};
use crate::handler::Handler;
use crate::kafka::{ConfigError, StartWish, prepare, transaction_timeout};
use crate::limits::check_calls;
use crate::riders::{RiderSettings, Riders};
use crate::route::Route;
use crate::settings::{CommitMode, Settings, StartAt, subscribes};

/// With causal delivery, since partitions wait for each other and are paused meanwhile: with librdkafka's own 500 a backlog of
/// two topics that name each other was read four times slower beside a third one without new records. An idle member asks
/// each broker 20 times a second.
const CAUSAL_FETCH_WAIT_MS: u32 = 50;

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A property of librdkafka that the engine can't work with.
    #[error(transparent)]
    Property(#[from] ConfigError),
    /// No handler was given.
    #[error(
        "no handler: give one with `handler`, `async_handler`, `route` or, for each topic, `topic`"
    )]
    NoHandler,
    /// No topic was given.
    #[error("no topic: name at least one with `topics`, `topic_pattern` or `topic`")]
    NoTopic,
    /// The pattern is no regular expression.
    #[error("the topic pattern `{pattern}` is not a regular expression: {fault}")]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        fault: String,
    },
    /// A handler that is no future was given a timeout.
    #[error("`timeout` needs an async handler: a call on a thread can't be broken off")]
    TimeoutOfThread,
    /// Records are to be dead letters after their last attempt, and there is no topic for them.
    #[error(
        "`Exhausted::DeadLetter` without a dead-letter topic: name one with `dead_letters(DeadLetters::headers(..))`"
    )]
    NoDeadLetterTopic,
    /// The dead-letter topic is consumed by the same engine, so each letter would come back as a record.
    #[error(
        "the dead-letter topic `{topic}` is among the topics to consume: name another one, or a pattern that leaves it out"
    )]
    DeadLettersConsumed {
        /// The topic.
        topic: String,
    },
    /// Two sources of riders were given.
    #[error("two sources of riders: give one of `rider` and `rider_state`")]
    TwoRiders,
    /// There is nobody whose rider could change without a record.
    #[error(
        "`rider_refresh` without `rider`: a state changes with records only, and these are committed anyway"
    )]
    RefreshWithoutSupplier,
    /// Something that causal delivery can't be had with.
    #[error("`{setting}` can't be had with causal delivery: {why}")]
    NotWithCausal {
        /// Name of the builder's method or of the property.
        setting: &'static str,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A number is outside its range.
    #[error("{setting} = {value}: {expected}")]
    OutOfRange {
        /// Name of the builder's method.
        setting: &'static str,
        /// The value that was given.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
}

/// A transaction is as long as its messages take, a second at most where brokers are well; below this it would be taken
/// for one that is dead. The upper bound is the brokers' default of `transaction.max.timeout.ms`.
const TRANSACTION_TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(900);

fn check_transactions(client: &ClientConfig, interval: Duration) -> Result<(), BuildError> {
    in_range(
        "commit_mode",
        interval.as_millis(),
        interval >= Duration::from_millis(1),
        "a transaction each millisecond at most",
    )?;
    let timeout = transaction_timeout(client);
    in_range(
        "transaction.timeout.ms",
        timeout.as_millis(),
        TRANSACTION_TIMEOUTS.contains(&timeout),
        "1 s to 15 min: what a member that died had open, its partitions' next owner waits for so long",
    )
}

/// The id that a member's transactions have: the same after a restart where the member is the same.
fn transactional_id(client: &ClientConfig) -> String {
    if let Some(id) = client.get("transactional.id") {
        return id.to_owned();
    }
    let group = client.get("group.id").unwrap_or_default();
    match client.get("group.instance.id") {
        Some(instance) => format!("{group}-{instance}"),
        None => format!("{group}-{:016x}", RandomState::new().hash_one(0_u8)),
    }
}

/// librdkafka's default of `max.poll.interval.ms`.
const DEFAULT_MAX_POLL_INTERVAL: Duration = Duration::from_secs(300);

/// How long a revoke waits for running handlers, unless `max.poll.interval.ms` is too short for it: long enough
/// for a request that is under way, short enough that the group does not stand still.
const DEFAULT_REVOKE_WAIT: Duration = Duration::from_secs(10);

impl Builder {
    /// Checks the configuration. Nothing is opened yet.
    ///
    /// # Errors
    /// The first thing that is wrong, with what to do about it.
    pub fn build(mut self) -> Result<Keyway, BuildError> {
        let (routes, topic_routes, default_route) = self.take_routes()?;
        let subscription = self.subscription(&topic_routes)?;
        check_dead_letters(&routes, &subscription)?;
        let budget = self.checked_budget()?;
        let mut buffers = budget.buffers();
        if let Some(records) = self.partition_records {
            in_range(
                "partition_buffer",
                records,
                records > 0,
                "at least 1 record",
            )?;
            buffers.partition_records = records;
            // A partition is paused when it holds as much as is free.
            buffers.total_records = buffers.total_records.max(records.saturating_mul(2));
        }
        let revoke_wait = self.checked_revoke_wait()?;
        let limits = self.checked_limits()?;
        let riders = self.checked_riders(revoke_wait)?;
        if let Some(causal) = &self.causal {
            self.check_causal(causal, &routes, &subscription, &riders)?;
        }
        let mut prefetch = budget.prefetch();
        if self.causal.is_some() {
            prefetch.fetch_wait_max_ms = CAUSAL_FETCH_WAIT_MS;
        }
        let client = prepare(&self.client, prefetch)?;
        let start = self.start.unwrap_or(match client.start {
            Some(StartWish::Earliest) => StartAt::Earliest,
            Some(StartWish::Latest) | None => StartAt::Latest,
        });
        in_range(
            "commit_timeout",
            self.commit_timeout.as_millis(),
            self.commit_timeout >= Duration::from_millis(100),
            "at least 100 ms, or answers would be taken for lost",
        )?;
        if let Some(rate) = self.rate {
            rate.check("rate")?;
        }
        let interval = match self.commit {
            CommitMode::Periodic(interval) => interval,
            CommitMode::Transactional(interval) => interval,
            CommitMode::Synchronous => Duration::ZERO,
        };
        let transactional = matches!(self.commit, CommitMode::Transactional(_));
        if transactional {
            check_transactions(&client.client, interval)?;
        }
        let bad_metadata = self.bad_metadata.unwrap_or(match transactional {
            // What a map that can't be read said was done would be written again.
            true => BadMetadata::Fail,
            false => BadMetadata::Ignore,
        });
        let causal = self.causal.map(|causal| CausalSettings {
            causal,
            client: self.client.clone(),
        });
        Ok(Keyway {
            settings: Settings {
                client,
                subscription,
                routes,
                topic_routes,
                default_route,
                start,
                bad_metadata,
                maps_without_epoch: self.maps_without_epoch,
                limits,
                buffers,
                commit: CommitConfig {
                    interval,
                    transactional,
                    ..CommitConfig::default()
                },
                transactional_id: transactional.then(|| transactional_id(&self.client)),
                commit_timeout: self.commit_timeout,
                revoke_wait,
                record_limit: self.record_limit,
                rate: self.rate,
                riders,
                causal,
                observer: self.observer,
                token_provider: self.token_provider,
            },
        })
    }

    #[allow(
        clippy::type_complexity,
        reason = "three parts of one thing, used once"
    )]
    fn take_routes(
        &mut self,
    ) -> Result<(Vec<Route>, Vec<(String, usize)>, Option<usize>), BuildError> {
        let mut routes = Vec::new();
        let mut default_route = None;
        if let Some(mut route) = self.route.take() {
            for change in self.changes.drain(..) {
                route = change(route);
            }
            default_route = Some(routes.len());
            routes.push(route);
        } else if !self.topics.is_empty() || self.topic_routes.is_empty() {
            return Err(BuildError::NoHandler);
        }
        let mut topic_routes = Vec::new();
        for (topic, route) in self.topic_routes.drain(..) {
            topic_routes.push((topic, routes.len()));
            routes.push(route);
        }
        for route in &routes {
            check_calls(route.concurrency, route.most_calls())?;
            route.rates.check()?;
            if let Some(circuit) = &route.circuit {
                circuit.check()?;
            }
            route.retry.check()?;
            in_range(
                "stuck_after",
                route.stuck_after.as_millis(),
                route.stuck_after >= Duration::from_millis(100),
                "at least 100 ms, since calls are looked at four times a second",
            )?;
            if let Some(limit) = route.timeout {
                in_range(
                    "timeout",
                    limit.as_micros(),
                    !limit.is_zero(),
                    "more than nothing",
                )?;
                if !matches!(route.handler, Handler::Async(_)) {
                    return Err(BuildError::TimeoutOfThread);
                }
            }
            in_range(
                "batch_max",
                route.batch.max_records,
                route.batch.max_records > 0,
                "at least 1 record",
            )?;
        }
        in_range(
            "topic",
            routes.len(),
            routes.len() <= 1024,
            "at most 1,024 topics with routes of their own",
        )?;
        Ok((routes, topic_routes, default_route))
    }

    fn subscription(&self, topic_routes: &[(String, usize)]) -> Result<Vec<String>, BuildError> {
        let mut subscription: Vec<String> = Vec::new();
        for topic in self
            .topics
            .iter()
            .chain(topic_routes.iter().map(|(topic, _)| topic))
        {
            if topic.starts_with('^') {
                regex::Regex::new(topic).map_err(|error| BuildError::BadPattern {
                    pattern: topic.clone(),
                    fault: error.to_string(),
                })?;
            }
            if !subscription.contains(topic) {
                subscription.push(topic.clone());
            }
        }
        if subscription.is_empty() {
            Err(BuildError::NoTopic)
        } else {
            Ok(subscription)
        }
    }

    fn checked_budget(&self) -> Result<MemoryBudget, BuildError> {
        in_range(
            "memory_budget",
            self.memory_budget,
            self.memory_budget >= MIN_MEMORY_BUDGET,
            "at least 16 MiB, since less does not hold one fetch",
        )?;
        Ok(MemoryBudget(self.memory_budget))
    }

    fn checked_revoke_wait(&self) -> Result<Duration, BuildError> {
        let interval = self
            .client
            .get("max.poll.interval.ms")
            .and_then(|millis| millis.parse().ok())
            .map_or(DEFAULT_MAX_POLL_INTERVAL, Duration::from_millis);
        let Some(wait) = self.revoke_wait else {
            return Ok(DEFAULT_REVOKE_WAIT.min(interval / 3));
        };
        in_range(
            "revoke_wait",
            wait.as_millis(),
            wait < interval / 2,
            "below half of `max.poll.interval.ms`, or the member would be thrown out while it waits",
        )?;
        Ok(wait)
    }

    fn checked_riders(&mut self, revoke_wait: Duration) -> Result<RiderSettings, BuildError> {
        if self.two_riders {
            return Err(BuildError::TwoRiders);
        }
        let mut riders = std::mem::take(&mut self.riders);
        in_range(
            "supplier_timeout",
            riders.timeout.as_micros(),
            !riders.timeout.is_zero(),
            "more than nothing",
        )?;
        // The commit of a revoke has as long as that for everything.
        riders.timeout = riders.timeout.min(revoke_wait / 2);
        if let Some(interval) = self.rider_refresh {
            in_range(
                "rider_refresh",
                interval.as_millis(),
                interval >= Duration::from_millis(10),
                "at least 10 ms",
            )?;
            match &mut riders.riders {
                Riders::Supplier { refresh, .. } => *refresh = Some(interval),
                Riders::None | Riders::State(_) => return Err(BuildError::RefreshWithoutSupplier),
            }
        }
        Ok(riders)
    }

    /// What causal delivery can't be had with.
    fn check_causal(
        &self,
        causal: &Causal,
        routes: &[Route],
        subscription: &[String],
        riders: &RiderSettings,
    ) -> Result<(), BuildError> {
        let refused = |setting, why| Err(BuildError::NotWithCausal { setting, why });
        if !matches!(riders.riders, Riders::None) {
            return refused("rider", "the causal shard rides beside the offsets");
        }
        if subscription.iter().any(|topic| topic.starts_with('^')) {
            return refused(
                "topic_pattern",
                "the group's topics must be known by name, since all of them are gated",
            );
        }
        if self.client.get("auto.offset.reset").is_some() {
            return refused(
                "auto.offset.reset",
                "where a group begins is said with `start_at`, and written down at once",
            );
        }
        let isolation = self.client.get("isolation.level");
        if isolation.is_some_and(|level| level != "read_committed") {
            return refused(
                "isolation.level",
                "a record of an aborted transaction is nobody's cause: leave it at read_committed",
            );
        }
        let has_letters = routes.iter().any(|route| route.dead_letters.is_some());
        if has_letters && !causal.dead_letters_settle {
            return refused(
                "dead_letters",
                "what depends on a record that was given up would run: say so with `Causal::dead_letters_settle`",
            );
        }
        Ok(())
    }

    fn checked_limits(&self) -> Result<Limits, BuildError> {
        let ratio =
            ThresholdRatio::new(self.metadata_threshold).map_err(|_| BuildError::OutOfRange {
                setting: "metadata_threshold",
                value: self.metadata_threshold.to_string(),
                expected: "above 0 and at most 1",
            })?;
        in_range(
            "max_window",
            self.max_window,
            self.max_window > 0,
            "at least 1 offset",
        )?;
        Ok(Limits::new(self.metadata_limit, ratio).with_max_window(self.max_window))
    }
}

fn check_dead_letters(routes: &[Route], subscription: &[String]) -> Result<(), BuildError> {
    for route in routes {
        let Some(letters) = &route.dead_letters else {
            if route.retry.policy().exhausted == Exhausted::DeadLetter {
                return Err(BuildError::NoDeadLetterTopic);
            }
            continue;
        };
        let topic = letters.topic();
        in_range(
            "dead_letters",
            topic,
            is_topic_name(topic),
            "a topic's name: 1 to 249 of a-z, A-Z, 0-9, `.`, `_` and `-`",
        )?;
        if subscribes(subscription, topic) {
            return Err(BuildError::DeadLettersConsumed {
                topic: topic.to_owned(),
            });
        }
    }
    Ok(())
}

/// What brokers take for a topic's name.
fn is_topic_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(fits)
}

pub(crate) fn in_range(
    setting: &'static str,
    value: impl fmt::Display,
    holds: bool,
    expected: &'static str,
) -> Result<(), BuildError> {
    if holds {
        Ok(())
    } else {
        Err(BuildError::OutOfRange {
            setting,
            value: value.to_string(),
            expected,
        })
    }
}
