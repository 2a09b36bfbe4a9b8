//! Limits that can be changed while the engine runs: how many records start in a second, and how many calls there are
//! at once.
//!
//! ```text
//!   Limits --Change--> the engine's own thread --> rates: `Pacer`, asked by the core of each record that would start
//!                                              '-> concurrency: the core and the workers of a route
//! ```
//!
//! What is wrong with a number is said here, before it travels.

mod pacer;
mod rate;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use keyway_core::RouteId;

pub(crate) use self::pacer::{Rates, TopicRates};
pub use self::rate::Rate;
use crate::builder::{BuildError, in_range};
use crate::route::Route;
use crate::settings::Settings;

/// Why a limit was not changed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The number is outside its range.
    #[error(transparent)]
    OutOfRange(BuildError),
    /// The topic has no route of its own, so its concurrency is that of the default route.
    #[error(
        "`{topic}` has no route of its own: give it one with `Builder::topic`, or set the default route's"
    )]
    NoRoute {
        /// The topic.
        topic: String,
    },
    /// No handler serves topics without a route of their own.
    #[error("there is no default route: name the topic whose route is meant")]
    NoDefaultRoute,
    /// The engine has ended.
    #[error("the engine has ended")]
    Ended,
}

/// A limit that is to change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// Of the whole engine.
    Rate(Option<Rate>),
    /// Of a topic.
    TopicRate(String, Option<Rate>),
    /// Of each key of a topic.
    KeyRate(String, Option<Rate>),
    /// Calls at once of a route.
    Concurrency(RouteId, u32),
}

/// Changes the limits of a running engine, from any thread; [`Engine::limits`](crate::Engine::limits).
///
/// Its methods do not wait: a change holds from the next record on that starts. What waits already because of a rate
/// waits for its time, which is never more than a second away. Changes last as long as the engine.
///
/// ```no_run
/// # fn tune(engine: &keyway::Engine) -> Result<(), keyway::LimitError> {
/// use keyway::Rate;
///
/// let limits = engine.limits();
/// limits.set_rate(Rate::per_second(5_000))?;
/// limits.set_key_rate("orders", Rate::per_second(10))?;
/// limits.set_topic_rate("orders", None)?; // as fast as it can
/// limits.set_concurrency(64)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Limits {
    send: Arc<dyn Fn(Change) -> bool + Send + Sync>,
    routes: Arc<Routes>,
}

/// Which routes there are, and how far each may be raised.
#[derive(Debug)]
struct Routes {
    most_calls: Vec<u32>,
    by_topic: HashMap<String, RouteId>,
    default: Option<RouteId>,
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits")
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

impl Limits {
    /// The limits of an engine made of `settings`. `send` says whether somebody hears the change.
    pub(crate) fn new(
        settings: &Settings,
        send: impl Fn(Change) -> bool + Send + Sync + 'static,
    ) -> Self {
        let route = |index: usize| RouteId(index as u16);
        let topics = settings.topic_routes.iter();
        let routes = Routes {
            most_calls: settings.routes.iter().map(Route::most_calls).collect(),
            by_topic: topics
                .map(|(topic, index)| (topic.clone(), route(*index)))
                .collect(),
            default: settings.default_route.map(route),
        };
        Self {
            send: Arc::new(send),
            routes: Arc::new(routes),
        }
    }

    /// At most so many records of the whole engine start in a second, or with `None` as many as can.
    ///
    /// # Errors
    /// For a rate outside its range, or after the engine's end.
    pub fn set_rate(&self, rate: impl Into<Option<Rate>>) -> Result<(), LimitError> {
        self.send(Change::Rate(checked("rate", rate.into())?))
    }

    /// At most so many records of the topic start in a second, or with `None` as many as can. Also for a topic that
    /// has no partition here yet.
    ///
    /// # Errors
    /// As [`Limits::set_rate`].
    pub fn set_topic_rate(
        &self,
        topic: &str,
        rate: impl Into<Option<Rate>>,
    ) -> Result<(), LimitError> {
        let rate = checked("topic_rate", rate.into())?;
        self.send(Change::TopicRate(topic.to_owned(), rate))
    }

    /// At most so many records of each key of the topic start in a second, or with `None` as many as can.
    ///
    /// # Errors
    /// As [`Limits::set_rate`].
    pub fn set_key_rate(
        &self,
        topic: &str,
        rate: impl Into<Option<Rate>>,
    ) -> Result<(), LimitError> {
        let rate = checked("key_rate", rate.into())?;
        self.send(Change::KeyRate(topic.to_owned(), rate))
    }

    /// From now on the default route has so many calls at once; see [`Route::concurrency`]. Lowered, it kills nothing:
    /// what runs is finished, and what waited behind it goes elsewhere.
    ///
    /// # Errors
    /// For a number outside its range, without a default route, or after the engine's end.
    pub fn set_concurrency(&self, calls: u32) -> Result<(), LimitError> {
        let route = self.routes.default.ok_or(LimitError::NoDefaultRoute)?;
        self.concurrency_of(route, calls)
    }

    /// The same for the route of a topic that has one of its own.
    ///
    /// # Errors
    /// As [`Limits::set_concurrency`], and for a topic without a route of its own.
    pub fn set_topic_concurrency(&self, topic: &str, calls: u32) -> Result<(), LimitError> {
        let route = self.routes.by_topic.get(topic).copied();
        let route = route.ok_or_else(|| LimitError::NoRoute {
            topic: topic.to_owned(),
        })?;
        self.concurrency_of(route, calls)
    }

    fn concurrency_of(&self, route: RouteId, calls: u32) -> Result<(), LimitError> {
        check_calls(calls, self.routes.most_calls[route.index()])
            .map_err(LimitError::OutOfRange)?;
        self.send(Change::Concurrency(route, calls))
    }

    fn send(&self, change: Change) -> Result<(), LimitError> {
        match (self.send)(change) {
            true => Ok(()),
            false => Err(LimitError::Ended),
        }
    }
}

fn checked(setting: &'static str, rate: Option<Rate>) -> Result<Option<Rate>, LimitError> {
    if let Some(rate) = rate {
        rate.check(setting).map_err(LimitError::OutOfRange)?;
    }
    Ok(rate)
}

/// Most calls at once of a handler that occupies a thread for each: more threads than that are a slip of the pen on
/// any machine of today.
pub(crate) const MOST_THREADS: u32 = 4_096;

/// Most calls at once of a handler that does not.
pub(crate) const MOST_CALLS: u32 = 1_000_000;

pub(crate) fn check_calls(calls: u32, most: u32) -> Result<(), BuildError> {
    let expected = match most {
        MOST_THREADS => "from 1 to 4,096 calls at once, since each takes a thread",
        _ => "from 1 to 1,000,000 calls at once",
    };
    in_range("concurrency", calls, (1..=most).contains(&calls), expected)
}
