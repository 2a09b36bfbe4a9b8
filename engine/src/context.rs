//! What a call knows besides its record: identity, fence, and whether it is still wanted.
//!
//! One [`Member`] block is shared by the poll thread, the workers and every record in a handler. The poll
//! thread writes it; the others only read atomics, so that asking costs a handler a few nanoseconds.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use keyway_core::{Epoch, PartitionSlot, Timestamp};
use keyway_core::{Leases, MAX_SLOTS};

/// The identity of a record, the same for every attempt on every member: a key for idempotent writes.
///
/// Displayed as `topic/partition/offset`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    /// Name of its topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.topic, self.partition, self.offset)
    }
}

/// A number that grows with each assignment of a partition, across the members of the group.
///
/// A store that remembers the highest fence it has seen for a partition, and refuses writes with a lower one,
/// is safe from a handler that runs on after its partition went to another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The fence `number`; `None` for 0, which stands for "no fence".
    pub(crate) const fn new(number: u64) -> Option<Self> {
        if number == 0 {
            None
        } else {
            Some(Self(number))
        }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The engine's clock: nanoseconds since it was made, the same for the poll thread and all workers.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// Set by hand, in tests of handlers.
    manual: Option<Arc<AtomicU64>>,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            manual: None,
        }
    }

    /// A clock that shows what somebody writes into `nanos`.
    pub(crate) fn manual(nanos: Arc<AtomicU64>) -> Self {
        Self {
            manual: Some(nanos),
            ..Self::new()
        }
    }

    /// Milliseconds since 1970; of a clock that is set by hand, since its start.
    pub(crate) fn wall_millis(&self) -> i64 {
        let since = match &self.manual {
            // Relaxed: as in `now`.
            Some(nanos) => Duration::from_nanos(nanos.load(Ordering::Relaxed)),
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        };
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// Now; never [`Timestamp::ZERO`], which means "not running" beside a worker's queue.
    pub(crate) fn now(&self) -> Timestamp {
        if let Some(nanos) = &self.manual {
            // Relaxed: whoever sets it is the only thread there is.
            return Timestamp::from_nanos(nanos.load(Ordering::Relaxed).max(1));
        }
        // In 64 bits, which last for 584 years: this is called for each record.
        let elapsed = self.start.elapsed();
        Timestamp::from_nanos(
            (elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos())).max(1),
        )
    }
}

const CHUNK: usize = 1024;

/// The fence of each slot, laid out like the leases: a reader needs no lock, and a word never moves.
#[derive(Debug)]
struct Fences {
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl Fences {
    fn new() -> Self {
        Self {
            chunks: (0..MAX_SLOTS / CHUNK).map(|_| OnceLock::new()).collect(),
        }
    }

    fn set(&self, slot: PartitionSlot, fence: Option<Fence>) {
        let Some(chunk) = self.chunks.get(slot.index() / CHUNK) else {
            return;
        };
        let number = fence.map_or(0, Fence::get);
        if number == 0 && chunk.get().is_none() {
            return;
        }
        let words = chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(0)).collect());
        // Release: see `Member::admit`.
        words[slot.index() % CHUNK].store(number, Ordering::Release);
    }

    fn of(&self, slot: PartitionSlot) -> u64 {
        let words = self
            .chunks
            .get(slot.index() / CHUNK)
            .and_then(OnceLock::get);
        // Acquire: see `Member::admit`.
        words.map_or(0, |words| {
            words[slot.index() % CHUNK].load(Ordering::Acquire)
        })
    }
}

/// What the threads of one member share.
#[derive(Debug)]
pub(crate) struct Member {
    leases: Arc<Leases>,
    fences: Fences,
    clock: Clock,
    /// Dead letters tell of failed attempts.
    keeps_failures: bool,
    /// Outputs wait for a transaction.
    stages_outputs: bool,
}

impl Member {
    pub(crate) fn new(leases: Arc<Leases>) -> Self {
        Self::with_clock(leases, Clock::new())
    }

    pub(crate) fn with_clock(leases: Arc<Leases>, clock: Clock) -> Self {
        Self {
            leases,
            fences: Fences::new(),
            clock,
            keeps_failures: false,
            stages_outputs: false,
        }
    }

    #[cfg(test)]
    pub(crate) fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }

    /// Whether failed attempts are noted with their record.
    pub(crate) fn keeping_failures(self, keeps_failures: bool) -> Self {
        Self {
            keeps_failures,
            ..self
        }
    }

    /// Whether outputs go with a transaction, and hold up nobody until then.
    pub(crate) fn staging_outputs(self, stages_outputs: bool) -> Self {
        Self {
            stages_outputs,
            ..self
        }
    }

    pub(crate) fn stages_outputs(&self) -> bool {
        self.stages_outputs
    }

    pub(crate) fn keeps_failures(&self) -> bool {
        self.keeps_failures
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Sets the fence of a new assignment: after the lease of the one before has ended, and before the first
    /// record of the new one is dispatched.
    pub(crate) fn set_fence(&self, slot: PartitionSlot, fence: Option<Fence>) {
        self.fences.set(slot, fence);
    }

    /// Whether a record of this assignment may start, and its fence (0 for none) if so.
    pub(crate) fn admit(&self, slot: PartitionSlot, epoch: Epoch) -> Option<u64> {
        // The fence is read first. A fence of a later assignment is stored after the lease of this one ended,
        // so whoever acquires it also sees the lease ended and admits nothing: a record never carries the
        // fence of another assignment.
        let fence = self.fences.of(slot);
        (self.leases.holds(slot, epoch) && !self.leases.is_stopping()).then_some(fence)
    }

    /// Whether a running attempt of this assignment is no longer wanted.
    pub(crate) fn cancelled(&self, slot: PartitionSlot, epoch: Epoch) -> bool {
        self.leases.is_stopping() || !self.leases.holds(slot, epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: PartitionSlot = PartitionSlot(5);

    fn member() -> Member {
        Member::new(Arc::new(Leases::default()))
    }

    #[test]
    fn a_record_starts_only_under_its_own_assignment() {
        let member = member();
        assert_eq!(member.admit(SLOT, Epoch(1)), None);
        member.leases().grant(SLOT, Epoch(1));
        assert_eq!(member.admit(SLOT, Epoch(1)), Some(0));
        assert!(!member.cancelled(SLOT, Epoch(1)));
        member.leases().end(SLOT);
        assert_eq!(member.admit(SLOT, Epoch(1)), None);
        assert!(member.cancelled(SLOT, Epoch(1)));
    }

    #[test]
    fn a_stopping_member_starts_nothing_and_cancels_what_runs() {
        let member = member();
        member.leases().grant(SLOT, Epoch(1));
        member.leases().set_stopping();
        assert_eq!(member.admit(SLOT, Epoch(1)), None);
        assert!(member.cancelled(SLOT, Epoch(1)));
    }

    #[test]
    fn each_assignment_has_its_own_fence() {
        let member = member();
        member.set_fence(SLOT, Fence::new(7));
        member.leases().grant(SLOT, Epoch(1));
        assert_eq!(member.admit(SLOT, Epoch(1)), Some(7));
        member.leases().end(SLOT);
        member.set_fence(SLOT, None);
        member.leases().grant(SLOT, Epoch(2));
        assert_eq!(member.admit(SLOT, Epoch(1)), None);
        assert_eq!(member.admit(SLOT, Epoch(2)), Some(0));
    }

    #[test]
    fn an_identity_reads_as_a_path() {
        let id = RecordId {
            topic: "orders".into(),
            partition: 3,
            offset: 42,
        };
        assert_eq!(id.to_string(), "orders/3/42");
    }
}
