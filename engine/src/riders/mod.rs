//! Riders: the application's bytes beside each commit's hole map.
//!
//! ```text
//!   plan --> maps --(max_bytes)--> supplier or state, guarded --> offers --> texts     committer
//!   restored rider --> the application --> state, attached to the core                 poll thread
//! ```
//!
//! What the application does here costs a rider at most, and says so: it holds up neither the commits of this or
//! of other partitions, nor polling, nor handlers.

mod guard;
mod texts;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use keyway_core::{CommitReason, RiderSource};
use keyway_rider::{Rider, RiderState, StateCell};

pub(crate) use self::guard::Guard;
pub(crate) use self::texts::{Made, Texts};
use crate::kafka::TopicPartition;
use crate::metrics;
use crate::poll::panic_text;

/// What a supplier is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RiderContext {
    /// Of which partition the rider is.
    pub partition: TopicPartition,
    /// The offset that the commit carries: the next one to read.
    pub offset: i64,
    /// The bytes that the rider may have in this commit. May be 0.
    pub max_bytes: usize,
    /// The bytes that it may have in every commit whose hole map does not hold the partition back.
    pub guaranteed_bytes: usize,
    /// Why the commit is made.
    pub reason: RiderReason,
}

/// Why a commit is made that a rider is to go with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RiderReason {
    /// The interval passed, or somebody waits for a commit.
    Periodic,
    /// The partition is about to leave this member.
    Revoke,
    /// The member is about to leave.
    Shutdown,
    /// The partition has nothing to commit, and its rider may have changed.
    Refresh,
}

impl From<CommitReason> for RiderReason {
    fn from(reason: CommitReason) -> Self {
        match reason {
            CommitReason::Revoke => Self::Revoke,
            CommitReason::Shutdown => Self::Shutdown,
            CommitReason::Refresh => Self::Refresh,
            _ => Self::Periodic,
        }
    }
}

/// A partition that has come to this member, with what the commit before said of its rider.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assigned {
    /// Which one.
    pub partition: TopicPartition,
    /// The committed offset; where reading starts, for a group without one.
    pub offset: i64,
    /// The rider.
    pub rider: Rider,
    /// Whether the hole map beside it was not used, as [`BadMetadata::Ignore`](crate::BadMetadata::Ignore) or
    /// [`MapsWithoutEpoch::Discard`](crate::MapsWithoutEpoch::Discard) say: what was complete above the offset runs
    /// again, though the rider may have it already.
    pub map_discarded: bool,
}

type Supplier = dyn Fn(&RiderContext) -> Option<Vec<u8>> + Send + Sync;
type StateMaker = dyn Fn(&Assigned) -> StateCell + Send + Sync;
type OnAssigned = dyn Fn(&Assigned) + Send + Sync;

/// Where riders come from.
#[derive(Clone, Default)]
pub(crate) enum Riders {
    #[default]
    None,
    Supplier {
        supplier: Arc<Supplier>,
        refresh: Option<Duration>,
    },
    State(Arc<StateMaker>),
}

/// What the builder says of riders.
#[derive(Clone)]
pub(crate) struct RiderSettings {
    pub(crate) riders: Riders,
    /// How long the suppliers of one commit may take together.
    pub(crate) timeout: Duration,
    pub(crate) on_assigned: Option<Arc<OnAssigned>>,
}

/// Long enough for a lock that is held or a copy of a map, short enough that a commit does not wait noticeably.
pub(crate) const DEFAULT_SUPPLIER_TIMEOUT: Duration = Duration::from_secs(1);

impl Default for RiderSettings {
    fn default() -> Self {
        Self {
            riders: Riders::None,
            timeout: DEFAULT_SUPPLIER_TIMEOUT,
            on_assigned: None,
        }
    }
}

impl fmt::Debug for RiderSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RiderSettings")
            .field("source", &self.source())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl RiderSettings {
    /// What the core has to know.
    pub(crate) fn source(&self) -> RiderSource {
        match &self.riders {
            Riders::None => RiderSource::None,
            Riders::Supplier { refresh, .. } => RiderSource::Supplier { refresh: *refresh },
            Riders::State(_) => RiderSource::State,
        }
    }

    /// Says once what a rider asks of the group.
    pub(crate) fn announce(&self) {
        if !matches!(self.riders, Riders::None) {
            tracing::info!(
                "commits of this group carry riders: every member and tool of it has to know them. Java's Parallel \
                 Consumer up to 0.5.3.3 fails at each assignment of such a partition, also after this writer is \
                 rolled back, until `keyway group scrub` has taken the riders out"
            );
        }
    }

    /// Who runs the application's code when commits are made.
    pub(crate) fn guard(&self) -> std::io::Result<Guard> {
        match self.riders {
            Riders::None => Ok(Guard::inline()),
            Riders::Supplier { .. } | Riders::State(_) => Guard::start(),
        }
    }

    /// Gives the application what was restored, before any record of the partition; the state that it makes of
    /// it, where it keeps one.
    pub(crate) fn hand_over(&self, assigned: &Assigned) -> Option<StateCell> {
        if let Some(on_assigned) = &self.on_assigned {
            guarded("`on_assigned`", assigned, || on_assigned(assigned));
        }
        let Riders::State(make) = &self.riders else {
            return None;
        };
        let state = guarded("the state of a rider", assigned, || make(assigned));
        Some(state.unwrap_or_else(|| {
            failed("panicked");
            StateCell::lost()
        }))
    }
}

/// A maker of cells from a maker of states.
pub(crate) fn state_maker<S: RiderState>(
    make: impl Fn(&Assigned) -> S + Send + Sync + 'static,
) -> Arc<StateMaker> {
    Arc::new(move |assigned| StateCell::new(make(assigned)))
}

fn guarded<T>(what: &str, assigned: &Assigned, call: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => Some(value),
        Err(panic) => {
            tracing::error!(
                partition = %assigned.partition,
                panic = panic_text(&*panic),
                "{what} panicked when the partition was assigned"
            );
            // What was thrown is the application's, and may panic again when it is dropped.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
            None
        }
    }
}

/// Counts a rider that the application could not give.
pub(crate) fn failed(reason: &'static str) {
    ::metrics::counter!(metrics::RIDER_SUPPLIER_FAILURES, "reason" => reason).increment(1);
}
