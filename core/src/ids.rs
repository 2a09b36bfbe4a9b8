//! The small numbers of the state machine, each a type of its own so that none stands in for another.

use std::fmt;
use std::time::Duration;

/// A moment, in nanoseconds since a start that the caller chooses. The core has no clock of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The start of time.
    pub const ZERO: Self = Self(0);
    /// Later than every other moment.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The moment `delay` later; [`Timestamp::NEVER`] where that can't be said.
    pub fn after(self, delay: Duration) -> Self {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// How long ago `earlier` was; zero when it is not in the past.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The member's index of an assigned partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionSlot(pub u32);

impl PartitionSlot {
    /// The slot as an index into a table of slots.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PartitionSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.0)
    }
}

/// One assignment of one partition to this member. Grows over all partitions of the member, is never
/// used twice, and 0 belongs to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of no assignment.
    pub const NONE: Self = Self(0);
}

/// A handler with its workers: the records of one topic, or of all topics without one of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub u16);

impl RouteId {
    /// The route as an index into the table of routes.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One worker of a route whose lanes are pinned to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerIndex(pub u32);

impl WorkerIndex {
    /// The worker as an index into its route's table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What tells one lane from another: a seeded 64-bit hash of the slot and the key. Two keys that collide
/// only wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u64);

/// A lane's place in the core's table while it holds records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneIndex(pub u32);

impl LaneIndex {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A commit plan's number; plans are ordered by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlanId(pub u64);
