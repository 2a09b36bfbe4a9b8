//! Back-pressure by records and bytes, and pauses by hand: when a partition is fetched, and when it is not.
//!
//! ```text
//!   0 ................... 3/5 ................ 4/5 ................. all    what all partitions hold
//!   for whoever comes      | full: nothing is   | each has its share of
//!                          | fetched, for now   | this for itself
//! ```
//!
//! A partition is paused at its own bound, or when it holds twice as much as is free of the part for all, but never below
//! its share of the last part. So those that do not get done, however many they are, leave the others room for ever,
//! while partitions that are alike are held back by the whole before one of them is paused: a pause throws away what was
//! fetched ahead. (With one share of the whole for each, twelve alike fetched two and a half times what they processed.)
//!
//! Two may hold a partition at once, its own fullness and its user; fetching goes on when neither does.

use std::time::Duration;

use crate::command::{Arrival, Command};
use crate::config::BufferConfig;
use crate::core::Core;
use crate::gate::Gate;
use crate::ids::{PartitionSlot, Timestamp};
use crate::mutant::{Mutant, mutated};
use crate::partition::Phase;

/// Of how many parts of the buffers the following are numbers.
const PARTS: usize = 5;

/// From so many on they are full.
const FULL: usize = 3;

/// So many are for whoever comes, and the rest in shares.
const FOR_ALL: usize = 4;

/// What a partition may hold for each record or byte that is still free. With it four that are alike have a third of what
/// they would be paused at when the buffers are full, and one alone is paused at its own bound of half.
const LEAD: usize = 2;

/// How long the buffers are full without a break before fetching goes on into the rest. A second: handlers that get done
/// make room more often. Where they do not, it costs a prefetch for each filling of the rest.
const PATIENCE: Duration = Duration::from_secs(1);

impl<P, G: Gate<P>> Core<P, G> {
    /// How many of these arrivals find room before the partition is at its bound. One that holds nothing has room for
    /// one, whatever the others hold.
    pub(crate) fn admitted(&self, slot: PartitionSlot, arrivals: &[Arrival<P>]) -> usize {
        let partition = &self.partitions[slot.index()];
        let (own, totals) = (&self.config.buffers, &self.totals);
        let room = |bound: usize, holds: usize, total: usize, all: usize| {
            // What it takes is no longer free: with x more it holds as much as it may.
            let led = LEAD * for_all(total).saturating_sub(all);
            let x = led.saturating_sub(holds).div_ceil(LEAD + 1);
            let share = self.share(total).saturating_sub(holds);
            bound.saturating_sub(holds).min(x.max(share))
        };
        let records = room(
            own.partition_records,
            partition.buffered,
            own.total_records,
            totals.records,
        );
        let mut bytes = room(
            own.partition_bytes,
            partition.buffered_bytes,
            own.total_bytes,
            totals.bytes,
        );
        let mut admitted = 0;
        for arrival in arrivals.iter().take(records) {
            if bytes == 0 {
                break;
            }
            bytes = bytes.saturating_sub(arrival.bytes as usize);
            admitted += 1;
        }
        match partition.buffered {
            0 if !mutated(Mutant::NoReservedPlace) => admitted.max(1).min(arrivals.len()),
            _ => admitted,
        }
    }

    /// Records of the partition came in; `was_full` is of before.
    pub(crate) fn push_back(&mut self, slot: PartitionSlot, was_full: bool, now: Timestamp) {
        if !was_full && self.is_pressed() {
            self.totals.full_since = now;
        }
        if self.partitions[slot.index()].is_over(&self.bounds()) {
            self.pause(slot);
        }
    }

    /// Whether the buffers are full but for what is kept.
    pub(crate) fn is_pressed(&self) -> bool {
        let bounds = &self.config.buffers;
        let full = |total: usize| (total / PARTS * FULL).max(1);
        self.totals.records >= full(bounds.total_records)
            || self.totals.bytes >= full(bounds.total_bytes)
    }

    /// Whether nothing should be fetched, of no partition.
    pub fn is_full(&self) -> bool {
        self.is_pressed() && !self.totals.reserve_open && !self.waits_for_others()
    }

    /// Whether all that could get done waits for records that are not here: then no patience makes room.
    fn waits_for_others(&self) -> bool {
        !self.held.is_empty() && self.totals.out == 0
    }

    /// How many records to ask for, so that they find room: half of what is free, by the mean size of what is here.
    pub fn room_for_records(&self) -> usize {
        let free = self
            .config
            .buffers
            .total_bytes
            .saturating_sub(self.totals.bytes);
        let mean = self.totals.bytes / self.totals.records.max(1);
        (free / 2 / mean.max(1)).max(1)
    }

    /// Time passed: opens the reserve or closes it, and resumes partitions that have room because others got done.
    pub(crate) fn ease(&mut self, now: Timestamp) {
        let is_pressed = self.is_pressed();
        let is_open = is_pressed
            && (self.totals.reserve_open || now.since(self.totals.full_since) >= PATIENCE);
        self.totals.reserve_open = is_open;
        if self.totals.some_paused && now.since(self.totals.eased_at) >= PATIENCE {
            self.totals.eased_at = now;
            for index in 0..self.partitions.len() {
                self.resume(PartitionSlot(index as u32));
            }
            self.totals.some_paused = self.partitions.iter().any(|partition| partition.paused);
        }
    }

    /// When time has to pass for the sake of the buffers.
    pub(crate) fn ease_deadline(&self) -> Timestamp {
        let mut deadline = Timestamp::NEVER;
        if self.is_full() {
            deadline = self.totals.full_since.after(PATIENCE);
        }
        if self.totals.some_paused {
            deadline = deadline.min(self.totals.eased_at.after(PATIENCE));
        }
        deadline
    }

    fn pause(&mut self, slot: PartitionSlot) {
        let partition = &mut self.partitions[slot.index()];
        if partition.phase == Phase::Assigned && !partition.paused {
            partition.paused = true;
            self.totals.some_paused = true;
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

    /// Fetches the partition again if it has gone well below its bounds.
    pub(crate) fn resume(&mut self, slot: PartitionSlot) {
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

    /// What each partition has for itself, however much the others hold.
    fn share(&self, total: usize) -> usize {
        (total - for_all(total)) / self.totals.assigned.max(1)
    }

    /// The bounds of one partition at this moment. One that holds nothing is within.
    fn bounds(&self) -> BufferConfig {
        let mut bounds = self.config.buffers;
        let free = |total: usize, all: usize| {
            let led = LEAD * for_all(total).saturating_sub(all);
            led.max(self.share(total)).max(1)
        };
        bounds.partition_records = bounds
            .partition_records
            .min(free(bounds.total_records, self.totals.records));
        bounds.partition_bytes = bounds
            .partition_bytes
            .min(free(bounds.total_bytes, self.totals.bytes));
        bounds
    }
}

/// What of the buffers is for whoever comes.
fn for_all(total: usize) -> usize {
    total / PARTS * FOR_ALL
}
