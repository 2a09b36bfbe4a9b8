//! Leases: how a worker sees, before each record, that the partition is still this member's.
//!
//! One atomic word for each slot holds the epoch of the running assignment, or [`Epoch::NONE`]. The poll
//! thread grants and ends; workers only read. Chunks are allocated when a slot in them is first used, so
//! that a reader needs no lock and a slot's word never moves.

use std::sync::OnceLock;

use crate::ids::{Epoch, PartitionSlot};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

const CHUNK: usize = 1024;
const CHUNKS: usize = 256;

/// The most partitions that one member may have been assigned at the same time.
pub const MAX_SLOTS: usize = CHUNK * CHUNKS;

/// The leases of a member, shared by the poll thread and its workers.
#[derive(Debug)]
pub struct Leases {
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    stopping: AtomicBool,
}

impl Default for Leases {
    fn default() -> Self {
        Self {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
            stopping: AtomicBool::new(false),
        }
    }
}

impl Leases {
    fn word(&self, slot: PartitionSlot) -> Option<&AtomicU64> {
        self.chunks
            .get(slot.index() / CHUNK)?
            .get()?
            .get(slot.index() % CHUNK)
    }

    /// Gives `slot` to the assignment `epoch`.
    ///
    /// # Panics
    /// When the slot is not below [`MAX_SLOTS`]; the core hands out none above.
    pub fn grant(&self, slot: PartitionSlot, epoch: Epoch) {
        let chunk = self.chunks[slot.index() / CHUNK]
            .get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(Epoch::NONE.0)).collect());
        // Release: a worker that sees the epoch also sees all that was prepared for it.
        chunk[slot.index() % CHUNK].store(epoch.0, Ordering::Release);
    }

    /// Ends the assignment of `slot`: from now on no worker starts a record of it.
    pub fn end(&self, slot: PartitionSlot) {
        if let Some(word) = self.word(slot) {
            word.store(Epoch::NONE.0, Ordering::Release);
        }
    }

    /// Whether `epoch` is the running assignment of `slot`.
    pub fn holds(&self, slot: PartitionSlot, epoch: Epoch) -> bool {
        self.word(slot)
            .is_some_and(|word| word.load(Ordering::Acquire) == epoch.0)
    }

    /// Tells every handler that the member is stopping.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether the member is stopping: nothing unstarted is started any more.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
