//! What a worker is inside of, for other threads to see while it is there.

use keyway_offsets::Offset;

use crate::ids::{PartitionSlot, Timestamp};
use crate::sync::{AtomicU64, Ordering};
use crate::work::TaskRef;

/// The call that a worker is in: three words that the worker writes and others look at.
#[derive(Debug)]
pub struct Running {
    /// Nanoseconds of the worker's clock at which the call began; 0 while there is none.
    since: AtomicU64,
    slot: AtomicU64,
    offset: AtomicU64,
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningCall {
    /// When it began, on the worker's clock.
    pub since: Timestamp,
    /// Partition of its record, of a batch the first.
    pub slot: PartitionSlot,
    /// Offset of its record.
    pub offset: Offset,
}

impl Default for Running {
    fn default() -> Self {
        Self {
            since: AtomicU64::new(0),
            slot: AtomicU64::new(0),
            offset: AtomicU64::new(0),
        }
    }
}

impl Running {
    /// A call of the record begins.
    pub fn begin(&self, now: Timestamp, at: &TaskRef) {
        // Relaxed, all three: whoever looks wants to know of calls that last, and reads what was written long before.
        self.slot.store(u64::from(at.slot.0), Ordering::Relaxed);
        self.offset.store(at.offset.get() as u64, Ordering::Relaxed);
        self.since.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// There is none any more.
    pub fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// When the call began; `None` while there is none.
    pub fn since(&self) -> Option<Timestamp> {
        match self.since.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Timestamp::from_nanos(nanos)),
        }
    }

    /// The call; `None` while there is none, or while one follows another.
    pub fn call(&self) -> Option<RunningCall> {
        let since = self.since()?;
        let slot = PartitionSlot(u32::try_from(self.slot.load(Ordering::Relaxed)).ok()?);
        let offset = Offset::new(self.offset.load(Ordering::Relaxed) as i64)?;
        (self.since() == Some(since)).then_some(RunningCall {
            since,
            slot,
            offset,
        })
    }
}
