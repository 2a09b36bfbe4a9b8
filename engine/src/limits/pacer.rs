//! The limiters behind the rates, and when a record may start by them.
//!
//! A record has to pass three limits, and one that it has passed must not count it again when a later one makes it
//! wait. So they are asked in this order, and a wait says how many were passed:
//!
//! ```text
//!   of its key --> of its topic --> of the engine --> it starts
//!   its lane       its partition    everything           <-- what waits
//! ```
//!
//! All of it is the business of one thread, which owns the core; the mutex is never waited for.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::DashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{NotUntil, RateLimiter};
use keyway_core::{Core, LaneNames, Pace, PartitionSlot, TaskRef, Timestamp, Turn, Whose};

use super::{Change, Rate};
use crate::builder::BuildError;
use crate::causal::EngineGate;
use crate::record::Message;

/// No wait is shorter: a limit that many thousands pass in a second wakes the engine's thread 500 times in it, and
/// what falls due meanwhile is far less than a burst.
const SHORTEST_WAIT: Duration = Duration::from_millis(2);

/// When so many keys of a topic are known, those that have been idle for long enough to be as good as new are
/// forgotten; at rates of one record a second and more that takes no longer than a second. A key takes some 50 bytes.
const KEYS: usize = 65_536;

/// The time of the question, which is all the time that the limiters know.
#[derive(Clone, Debug, Default)]
struct Moment(Arc<AtomicU64>);

impl Moment {
    fn set(&self, now: Timestamp) {
        // Relaxed: one thread asks.
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }
}

impl Clock for Moment {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(self.0.load(Ordering::Relaxed))
    }
}

type Middleware = NoOpMiddleware<Nanos>;
type One = RateLimiter<NotKeyed, InMemoryState, Moment, Middleware>;
type Each = RateLimiter<u64, DashMapStateStore<u64>, Moment, Middleware>;

/// A limit of each key of a topic.
struct Keys {
    limiter: Each,
    names: LaneNames,
    /// Questions since the keys were counted: they can't have grown by more.
    asked: usize,
}

impl Keys {
    fn new(rate: Rate, moment: &Moment, names: LaneNames) -> Self {
        Self {
            limiter: RateLimiter::dashmap_with_clock(rate.quota(), moment.clone()),
            names,
            asked: 0,
        }
    }

    fn turn(&mut self, key: &[u8]) -> Result<(), NotUntil<Nanos>> {
        self.asked += 1;
        if self.asked >= KEYS {
            self.asked = 0;
            if self.limiter.len() >= KEYS {
                self.limiter.retain_recent();
                self.limiter.shrink_to_fit();
            }
        }
        // The key of a topic, whichever partition it is in. Two keys that collide share a limit.
        let name = self.names.keyed(PartitionSlot(0), key);
        self.limiter.check_key(&name.0)
    }
}

/// What the routes say of a topic's rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicRates {
    /// Of the topic.
    pub(crate) topic: Option<Rate>,
    /// Of each of its keys.
    pub(crate) key: Option<Rate>,
}

impl TopicRates {
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        for (setting, rate) in [("topic_rate", self.topic), ("key_rate", self.key)] {
            if let Some(rate) = rate {
                rate.check(setting)?;
            }
        }
        Ok(())
    }
}

/// The limiters of a topic.
struct Topic {
    rates: TopicRates,
    all: Option<One>,
    keys: Option<Keys>,
}

struct Limiters {
    moment: Moment,
    names: LaneNames,
    /// By the topics with a route of their own, and for the others.
    by_route: HashMap<String, TopicRates>,
    otherwise: TopicRates,
    rate: Option<Rate>,
    engine: Option<One>,
    topics: Vec<Topic>,
    by_name: HashMap<String, usize>,
    /// Place in `topics` of each slot's topic, once a record of it was asked for.
    of_slot: Vec<Option<usize>>,
}

impl Limiters {
    fn one(&self, rate: Option<Rate>) -> Option<One> {
        rate.map(|rate| RateLimiter::direct_with_clock(rate.quota(), self.moment.clone()))
    }

    /// The place of a topic, made when it has none yet.
    fn topic(&mut self, name: &str) -> usize {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        let rates = self.by_route.get(name).copied().unwrap_or(self.otherwise);
        let index = self.topics.len();
        self.topics.push(Topic {
            rates,
            all: self.one(rates.topic),
            keys: self.keys(rates.key),
        });
        self.by_name.insert(name.to_owned(), index);
        index
    }

    fn keys(&self, rate: Option<Rate>) -> Option<Keys> {
        rate.map(|rate| Keys::new(rate, &self.moment, self.names.clone()))
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Rate(rate) => {
                self.rate = *rate;
                self.engine = self.one(*rate);
            }
            Change::TopicRate(topic, rate) => {
                let index = self.topic(topic);
                self.topics[index].rates.topic = *rate;
                self.topics[index].all = self.one(*rate);
            }
            Change::KeyRate(topic, rate) => {
                let index = self.topic(topic);
                self.topics[index].rates.key = *rate;
                self.topics[index].keys = self.keys(*rate);
            }
            Change::Concurrency(..) => {}
        }
    }

    fn is_off(&self) -> bool {
        let known = self.topics.iter().map(|topic| &topic.rates);
        let by_route = self.by_route.values().chain([&self.otherwise]);
        self.rate.is_none()
            && known
                .chain(by_route)
                .all(|rates| *rates == TopicRates::default())
    }

    fn topic_of(&mut self, slot: PartitionSlot, message: &Message) -> usize {
        if let Some(Some(index)) = self.of_slot.get(slot.index()) {
            return *index;
        }
        let index = self.topic(message.topic_name());
        if self.of_slot.len() <= slot.index() {
            self.of_slot.resize(slot.index() + 1, None);
        }
        self.of_slot[slot.index()] = Some(index);
        index
    }

    fn turn(&mut self, at: &TaskRef, message: &Message, passed: u8, now: Timestamp) -> Turn {
        self.moment.set(now);
        let index = self.topic_of(at.slot, message);
        let topic = &mut self.topics[index];
        let of_key = |topic: &mut Topic| match (&mut topic.keys, message.key()) {
            (Some(keys), Some(key)) => keys.turn(key),
            _ => Ok(()),
        };
        let of_one = |one: &Option<One>| one.as_ref().map_or(Ok(()), RateLimiter::check);
        let wait = |until: NotUntil<Nanos>, whose, passed| Turn::Wait {
            until: Timestamp::from_nanos(until.earliest_possible().as_u64())
                .max(now.after(SHORTEST_WAIT)),
            whose,
            passed,
        };
        if passed < 1 {
            if let Err(until) = of_key(topic) {
                return wait(until, Whose::Lane, 0);
            }
        }
        if passed < 2 {
            if let Err(until) = of_one(&topic.all) {
                return wait(until, Whose::Partition, 1);
            }
        }
        match of_one(&self.engine) {
            Ok(()) => Turn::Start,
            Err(until) => wait(until, Whose::Member, 2),
        }
    }
}

/// The rates of an engine, in the hands of the thread that owns its core.
pub(crate) struct Rates(Arc<Mutex<Limiters>>);

impl Rates {
    /// `seed` is that of the keys' hashes.
    pub(crate) fn new(
        rate: Option<Rate>,
        by_route: HashMap<String, TopicRates>,
        otherwise: TopicRates,
        seed: u64,
    ) -> Self {
        let mut limiters = Limiters {
            moment: Moment::default(),
            names: LaneNames::new(seed),
            by_route,
            otherwise,
            rate,
            engine: None,
            topics: Vec::new(),
            by_name: HashMap::new(),
            of_slot: Vec::new(),
        };
        limiters.engine = limiters.one(rate);
        Self(Arc::new(Mutex::new(limiters)))
    }

    /// Has the core ask for each record, where there is a rate at all.
    pub(crate) fn apply_to(&self, core: &mut Core<Message, EngineGate>) {
        let pacer = Pacer(Arc::clone(&self.0));
        core.set_pace((!lock(&self.0).is_off()).then(|| Box::new(pacer) as _));
    }

    pub(crate) fn change(
        &self,
        change: &Change,
        core: &mut Core<Message, EngineGate>,
        now: Timestamp,
    ) {
        let mut limiters = lock(&self.0);
        limiters.moment.set(now);
        limiters.change(change);
        drop(limiters);
        self.apply_to(core);
    }
}

fn lock(limiters: &Mutex<Limiters>) -> MutexGuard<'_, Limiters> {
    limiters.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the core asks.
struct Pacer(Arc<Mutex<Limiters>>);

impl Pace<Message> for Pacer {
    fn turn(&mut self, at: &TaskRef, message: &Message, passed: u8, now: Timestamp) -> Turn {
        lock(&self.0).turn(at, message, passed, now)
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    // Without `retain_recent` a million and more are known at the end.
    #[test]
    fn a_million_keys_are_not_remembered_for_ever() {
        const NANOS_BETWEEN: u64 = 100_000; // ten thousand starts a second
        let moment = Moment::default();
        let mut keys = Keys::new(Rate::per_second(10), &moment, LaneNames::new(1));
        let mut most = 0;
        for number in 0..1_000_000_u64 {
            moment.set(at(1 + number * NANOS_BETWEEN));
            assert!(keys.turn(&number.to_be_bytes()).is_ok(), "each is new");
            if number % 1_000 == 0 {
                most = most.max(keys.limiter.len());
            }
        }
        assert!(most < 2 * KEYS, "{most}");
    }

    #[test]
    fn a_key_that_is_over_its_rate_is_not_forgotten() {
        let moment = Moment::default();
        let mut keys = Keys::new(Rate::per_second(1), &moment, LaneNames::new(1));
        moment.set(at(1));
        assert!(keys.turn(b"hot").is_ok());
        for number in 0..2 * KEYS as u64 {
            let _ = keys.turn(&number.to_be_bytes());
        }
        assert!(keys.turn(b"hot").is_err());
        moment.set(at(1_000_000_001));
        assert!(keys.turn(b"hot").is_ok());
    }

    #[test]
    fn a_tenth_of_a_second_may_start_at_once_and_then_the_rate_holds() {
        let moment = Moment::default();
        let one: One =
            RateLimiter::direct_with_clock(Rate::per_second(1_000).quota(), moment.clone());
        let mut started = 0;
        for millis in 0..=2_000_u64 {
            moment.set(at(1 + millis * 1_000_000));
            while one.check().is_ok() {
                started += 1;
            }
        }
        assert_eq!(started, 2_100);
    }
}
