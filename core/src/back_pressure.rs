//! Back-pressure by records and bytes, and pauses by hand: when a partition is fetched, and when it is not.
//!
//! Two may hold a partition at once, its own fullness and its user; fetching goes on when neither does.

use crate::command::Command;
use crate::core::Core;
use crate::gate::Gate;
use crate::ids::{PartitionSlot, Timestamp};
use crate::mutant::{Mutant, mutated};
use crate::partition::Phase;

/// Records that may come in beyond the bound while the engine takes one now and then to have its callbacks
/// served: at ten a second this lasts 100 s, then everything is paused.
pub const RESERVE_RECORDS: usize = 1_000;

/// What one partition may hold while the buffers are pressed. A pause throws away what was fetched ahead, and the bound of
/// the whole does not: partitions that are alike come to that one first, and only one that is ahead of the others is
/// paused. (With one share each, twelve partitions alike fetched two and a half times what they processed.)
const FAIR_SHARES: usize = 4;

impl<P, G: Gate<P>> Core<P, G> {
    /// Back-pressure by what a partition, and all of them, hold.
    pub(crate) fn push_back(&mut self, slot: PartitionSlot) {
        let bounds = self.bounds();
        if self.totals.records
            >= self
                .config
                .buffers
                .total_records
                .saturating_add(RESERVE_RECORDS)
        {
            if !self.totals.exhausted {
                self.totals.exhausted = true;
                for index in 0..self.partitions.len() {
                    self.pause(PartitionSlot(index as u32));
                }
            }
        } else if self.partitions[slot.index()].is_over(&bounds) {
            self.pause(slot);
        }
    }

    fn pause(&mut self, slot: PartitionSlot) {
        let partition = &mut self.partitions[slot.index()];
        if partition.phase == Phase::Assigned && !partition.paused {
            partition.paused = true;
            self.counters.pauses += 1;
            if !partition.paused_by_user {
                self.commands.push_back(Command::Pause(slot));
            }
        }
    }

    /// The user pauses a partition: nothing of it is fetched and nothing starts until [`Core::resume_by_user`]. What
    /// runs is finished, and commits go on. Lasts as long as the assignment.
    pub fn pause_by_user(&mut self, slot: PartitionSlot) {
        let partition = &mut self.partitions[slot.index()];
        if partition.phase == Phase::Assigned && !partition.paused_by_user {
            partition.paused_by_user = true;
            if !partition.paused {
                self.commands.push_back(Command::Pause(slot));
            }
        }
    }

    /// The end of a pause by the user.
    pub fn resume_by_user(&mut self, slot: PartitionSlot, now: Timestamp) {
        let partition = &mut self.partitions[slot.index()];
        if partition.phase != Phase::Assigned || !partition.paused_by_user {
            return;
        }
        partition.paused_by_user = false;
        if !partition.paused {
            self.commands.push_back(Command::Resume(slot));
        }
        let route = partition.route;
        self.queue_partition(slot);
        self.fill(route, now);
        self.flush(route);
    }

    /// A record of `slot` left the buffers: lets partitions fetch again that have gone well below their bounds.
    pub(crate) fn let_up(&mut self, slot: PartitionSlot) {
        self.let_up_all();
        if !self.totals.exhausted {
            self.resume(slot);
        }
    }

    /// Records left the buffers, of whatever assignment: once the reserve is free again nobody may stay paused
    /// for its sake, since one that is empty has no completion of its own to come.
    pub(crate) fn let_up_all(&mut self) {
        if self.totals.exhausted && self.totals.records <= self.config.buffers.total_records * 3 / 4
        {
            self.totals.exhausted = false;
            for index in 0..self.partitions.len() {
                self.resume(PartitionSlot(index as u32));
            }
        }
    }

    fn resume(&mut self, slot: PartitionSlot) {
        if !self.partitions[slot.index()].paused || mutated(Mutant::NeverResumed) {
            return;
        }
        let bounds = self.bounds();
        let partition = &mut self.partitions[slot.index()];
        if partition.phase == Phase::Assigned && partition.is_well_below(&bounds) {
            partition.paused = false;
            if !partition.paused_by_user {
                self.commands.push_back(Command::Resume(slot));
            }
        }
    }

    /// The bounds of one partition at this moment. From half of the whole on, each partition has [`FAIR_SHARES`] only: the
    /// ones that hold more are paused, and the others always find room.
    fn bounds(&self) -> crate::config::BufferConfig {
        let mut bounds = self.config.buffers;
        let pressed = self.totals.records > bounds.total_records / 2
            || self.totals.bytes > bounds.total_bytes / 2;
        if pressed {
            let share = self.totals.assigned.max(1);
            bounds.partition_records = bounds.partition_records.min(
                (bounds.total_records / share)
                    .saturating_mul(FAIR_SHARES)
                    .max(1),
            );
            bounds.partition_bytes = bounds.partition_bytes.min(
                (bounds.total_bytes / share)
                    .saturating_mul(FAIR_SHARES)
                    .max(1),
            );
        }
        bounds
    }
}
