//! What a probe asks: does it live, may it be counted on, does a handler hang.
//!
//! Answered from what the poll thread last wrote down, so that whoever asks never waits for it: a member whose poll
//! thread stands still answers that it is not alive.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use keyway_core::Timestamp;

use crate::context::Clock;
use crate::kafka::{ClientError, TopicPartition};

/// How long a turn of the poll thread may take before it counts as standing still. It sleeps for 100 ms at most, and
/// leaving the group at the end takes up to 6 s.
pub(crate) const ALIVE_WITHIN: Duration = Duration::from_secs(10);

/// The state of an engine for those who decide what becomes of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the engine runs and its poll thread has turned within the last 10 s. Without it nothing goes on,
    /// whatever the rest says, which is then as old as that: restart the process.
    pub alive: bool,
    /// How long ago the poll thread last turned.
    pub last_turn: Duration,
    /// Why the member can't be counted on at the moment; see [`Health::is_ready`].
    pub not_ready: Vec<NotReady>,
    /// Calls of handlers that have lasted longer than [`Route::stuck_after`](crate::Route::stuck_after), the longest
    /// first; at most 100 of them. A member with stuck calls is alive and ready.
    pub stuck: Vec<Stuck>,
    /// Stuck calls in whose place no other can be made, since
    /// [`Route::replace_stuck`](crate::Route::replace_stuck) is used up: the capacity is so much smaller.
    pub unreplaced: usize,
}

/// A call of a handler that does not return.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stuck {
    /// Partition of its record, of a batch the first.
    pub partition: TopicPartition,
    /// Offset of its record.
    pub offset: i64,
    /// For how long.
    pub lasting: Duration,
    /// The worker, for handlers on threads: its thread is called `keyway-worker-` and this number.
    pub worker: Option<u32>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (partition, offset) = (&self.partition, self.offset);
        write!(f, "{partition}, offset {offset}, for {:.1?}", self.lasting)?;
        match self.worker {
            Some(worker) => write!(f, " on keyway-worker-{worker}"),
            None => Ok(()),
        }
    }
}

impl Default for Health {
    /// Of an engine that has not begun.
    fn default() -> Self {
        Self {
            alive: true,
            last_turn: Duration::ZERO,
            not_ready: vec![NotReady::Unassigned],
            stuck: Vec::new(),
            unreplaced: 0,
        }
    }
}

impl Health {
    /// Alive, settled in its group with whatever the group has given it, all of that restored, nothing denied, and
    /// not stopping.
    pub fn is_ready(&self) -> bool {
        self.alive && self.not_ready.is_empty()
    }
}

/// Why a member is not ready.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NotReady {
    /// The group has given this member nothing yet, or has taken everything back and not settled again. A member for
    /// which a settled group has no partition is ready.
    Unassigned,
    /// What the group had committed for these partitions is not known yet.
    Restoring {
        /// Which ones.
        partitions: Vec<TopicPartition>,
        /// For how long the first of them has been waited for.
        lasting: Duration,
        /// Why the latest question about one of them had no answer, if one had none.
        error: Option<ClientError>,
    },
    /// Something is denied until somebody changes rights, credentials or topics.
    Denied {
        /// What, and how librdkafka says it.
        error: ClientError,
        /// For how long.
        lasting: Duration,
    },
    /// Commits of these partitions are refused until somebody changes rights or topics. Their records run all the
    /// same; those since the last commit would run again after a crash.
    CommitDenied {
        /// Which ones.
        partitions: Vec<TopicPartition>,
    },
    /// No broker can be reached.
    BrokersDown {
        /// For how long.
        lasting: Duration,
    },
    /// The circuits of these routes hold their records, since a dependency is taken for down; `None` is the default
    /// route.
    CircuitOpen {
        /// By the topics that they are of.
        routes: Vec<Option<String>>,
    },
    /// The engine is about to stop.
    Stopping,
    /// The engine has ended; [`Engine::ended`](crate::Engine::ended) tells how.
    Ended,
}

impl NotReady {
    /// Every name, for a gauge of each.
    pub(crate) const NAMES: [&'static str; 8] = [
        "unassigned",
        "restoring",
        "denied",
        "commit_denied",
        "brokers_down",
        "circuit_open",
        "stopping",
        "ended",
    ];

    /// One word for it: the label of the metric `keyway_not_ready`.
    pub fn name(&self) -> &'static str {
        let index = match self {
            Self::Unassigned => 0,
            Self::Restoring { .. } => 1,
            Self::Denied { .. } => 2,
            Self::CommitDenied { .. } => 3,
            Self::BrokersDown { .. } => 4,
            Self::CircuitOpen { .. } => 5,
            Self::Stopping => 6,
            Self::Ended => 7,
        };
        Self::NAMES[index]
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unassigned => f.write_str("the group has not given it anything yet"),
            Self::Restoring {
                partitions,
                lasting,
                error,
            } => {
                write!(
                    f,
                    "what was committed for {partitions:?} is not known yet, after {lasting:.1?}"
                )?;
                error.iter().try_for_each(|error| write!(f, ": {error}"))
            }
            Self::Denied { error, lasting } => write!(f, "{error}, for {lasting:.1?}"),
            Self::CommitDenied { partitions } => write!(f, "commits of {partitions:?} are refused"),
            Self::BrokersDown { lasting } => {
                write!(f, "no broker can be reached, for {lasting:.1?}")
            }
            Self::CircuitOpen { routes } => {
                write!(f, "a dependency of the routes {routes:?} is taken for down")
            }
            Self::Stopping => f.write_str("it is about to stop"),
            Self::Ended => f.write_str("it has ended"),
        }
    }
}

/// When the poll thread last turned, for all threads to see.
#[derive(Debug)]
pub(crate) struct Pulse {
    clock: Clock,
    turned_at: AtomicU64,
}

impl Pulse {
    pub(crate) fn new(clock: Clock) -> Self {
        let turned_at = AtomicU64::new(clock.now().as_nanos());
        Self { clock, turned_at }
    }

    /// The poll thread begins a turn.
    pub(crate) fn beat(&self, now: Timestamp) {
        // Relaxed: nothing else is read because of it.
        self.turned_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn last(&self) -> Duration {
        let turned_at = Timestamp::from_nanos(self.turned_at.load(Ordering::Relaxed));
        self.clock.now().since(turned_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_name_of_its_own() {
        let lasting = Duration::ZERO;
        let partitions = Vec::new;
        let reasons = [
            NotReady::Unassigned,
            NotReady::Restoring {
                partitions: partitions(),
                lasting,
                error: None,
            },
            NotReady::Denied {
                error: ClientError::Closed,
                lasting,
            },
            NotReady::CommitDenied {
                partitions: partitions(),
            },
            NotReady::BrokersDown { lasting },
            NotReady::CircuitOpen { routes: Vec::new() },
            NotReady::Stopping,
            NotReady::Ended,
        ];
        assert_eq!(reasons.map(|reason| reason.name()), NotReady::NAMES);
    }

    #[test]
    fn an_engine_that_has_not_begun_is_alive_and_not_ready() {
        let health = Health::default();
        assert!(health.alive && !health.is_ready());
    }
}
