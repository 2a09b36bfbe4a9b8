//! Back-pressure by the length of the hole map.
//!
//! The map has to fit into the broker's string, and what is at workers can't be called back. So two bounds hold
//! for the offset of a record that is to start:
//!
//! ```text
//!    base                 highest complete
//!     o x x o x x x x x o x | . . . . . . . . | . . . . . . . . .
//!     '---------------------' '-- horizon ----' '-- wait
//!        may always start       until the map is
//!                               over the threshold
//! ```
//!
//! * Over the **threshold** nothing above the highest complete record starts, so the map shrinks.
//! * Below it nothing starts beyond the **horizon**: as far as the map would still fit under the cap however the
//!   records up to there end. A fast handler holds thousands of records at once, far more than the space between
//!   threshold and cap.

use keyway_offsets::{Limits, Offset, encode_payload, plain_text_len, text};

use crate::core::Core;
use crate::gate::Gate;
use crate::ids::{PartitionSlot, Timestamp};
use crate::mutant::{Mutant, mutated};
use crate::partition::Partition;

/// What is known of the map's length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapPressure {
    /// Whether the map was over the threshold, or as wide as it may be, at the last judgement.
    pub(crate) over_threshold: bool,
    /// Characters of the map at the last judgement.
    pub(crate) chars: usize,
    /// As judged: the highest offset up to which the map would fit under the cap.
    horizon: i64,
    /// Offsets from the base on of which any map fits.
    always_fits: u64,
    /// Completions since the last judgement.
    since_judged: u64,
}

impl Default for MapPressure {
    /// Nothing is known yet, so only the lowest record may start.
    fn default() -> Self {
        Self {
            over_threshold: false,
            chars: 0,
            horizon: -1,
            always_fits: 1,
            since_judged: 0,
        }
    }
}

/// Completions between two judgements of a map that holds nobody back. A judgement walks the words of the window, so
/// a wide one is judged less often, once for so many offsets: a few nanoseconds a record.
const JUDGE_EVERY: u64 = 1024;
const OFFSETS_A_COMPLETION: u64 = 256;
/// The same while lanes wait for it, which makes it worth a microsecond a record.
const JUDGE_WAITED_FOR_EVERY: u64 = 64;
const OFFSETS_A_COMPLETION_WAITED_FOR: u64 = 4096;

/// Bytes of room under the cap that the horizon leaves alone: what a compressed form has around its content.
const RESERVE_BYTES: usize = 64;
/// Quarters of a bit that an offset ahead may cost: two bits, of which a bitmap would take one. The other is for
/// what compression loses when the content changes.
const AHEAD: u64 = 8;
/// Quarters of a bit that a hole may cost when it ends in whatever order: a bit and a half, and a quarter more each
/// time that holes lie twice as far apart. Regular holes compress to nothing, and cost so much once some have ended
/// and others not; `core/tests/back_pressure.rs` has them from 2 to 1,000 apart.
const HOLE: u64 = 6;

impl<P> Partition<P> {
    /// Whether the record at `offset` may start as far as the hole map goes. The lowest incomplete one always
    /// may.
    pub(crate) fn map_allows(&self, offset: Offset) -> bool {
        if mutated(Mutant::MapHoldsLowest)
            && self.map.over_threshold
            && offset == self.tracker.base()
        {
            return false;
        }
        let base = self.tracker.base().get();
        let highest = self.tracker.highest_complete().max(base);
        if self.map.over_threshold {
            return offset.get() <= highest;
        }
        let fits = base.saturating_add_unsigned(self.map.always_fits - 1);
        let allowed = highest.max(fits).max(self.map.horizon);
        offset.get() <= allowed || mutated(Mutant::NoHorizon)
    }

    /// Notes a completion and says whether enough has changed to look at the map's length again.
    pub(crate) fn map_judgement_due(&mut self) -> bool {
        self.map.since_judged += 1;
        let every = if self.map_is_waited_for() {
            // With nothing running no completion will come to bring the count up.
            let wide = self.tracker.span() / OFFSETS_A_COMPLETION_WAITED_FOR;
            if self.out == 0 {
                1
            } else {
                JUDGE_WAITED_FOR_EVERY.max(wide)
            }
        } else {
            JUDGE_EVERY.max(self.tracker.span() / OFFSETS_A_COMPLETION)
        };
        self.map.since_judged >= every
    }

    fn map_is_waited_for(&self) -> bool {
        self.map.over_threshold || !self.behind_map.is_empty()
    }

    /// Looks at the map's length.
    pub(crate) fn judge_map(&mut self, limits: &Limits) {
        let map = self.tracker.snapshot();
        let mut chars = plain_text_len(&map);
        // Only here is the cost of compression paid; a map too wide for every form has no text to compress.
        if chars > limits.threshold_chars && chars != usize::MAX {
            chars = text::chars_of(encode_payload(&map).bytes.len());
        }
        let room = text::bytes_within(limits.cap_chars.saturating_sub(chars));
        let quarters = (room.saturating_sub(RESERVE_BYTES) as u64).saturating_mul(8 * 4);
        let holes = map.hole_count();
        let apart = map.span().checked_div(holes).unwrap_or(1).max(1);
        let for_holes = holes.saturating_mul(HOLE + u64::from(apart.ilog2()) + 1);
        let ahead = quarters.saturating_sub(for_holes) / AHEAD;
        let horizon = map.highest().saturating_add_unsigned(ahead);
        let widest = map
            .base()
            .get()
            .saturating_add_unsigned(limits.max_window.saturating_sub(1));
        self.map = MapPressure {
            over_threshold: limits.hold_back(chars, map.span()),
            chars,
            horizon: horizon.min(widest),
            always_fits: limits.span_that_always_fits(),
            since_judged: 0,
        };
    }
}

impl<P, G: Gate<P>> Core<P, G> {
    /// Looks at the length of a partition's map, and queues anew the lanes that waited for it and may run.
    pub(crate) fn judge_map(&mut self, slot: PartitionSlot, now: Timestamp) {
        self.partitions[slot.index()].judge_map(&self.commits.limits);
        self.let_pass_map(slot, now);
    }

    /// Judges the map if lanes wait for it; says whether some do no longer.
    pub(crate) fn judge_if_waited_for(&mut self, slot: PartitionSlot, now: Timestamp) -> bool {
        let partition = &mut self.partitions[slot.index()];
        let waiting = partition.behind_map.len();
        if partition.map_is_waited_for() {
            self.judge_map(slot, now);
        }
        self.partitions[slot.index()].behind_map.len() < waiting
    }

    /// Something is complete that was not: the map may have to be judged, and lanes may pass it.
    pub(crate) fn map_changed(&mut self, slot: PartitionSlot, now: Timestamp) {
        if self.partitions[slot.index()].map_judgement_due() {
            self.judge_map(slot, now);
        } else {
            self.let_pass_map(slot, now);
        }
    }

    /// Queues the lanes anew that the map does not hold any more.
    fn let_pass_map(&mut self, slot: PartitionSlot, now: Timestamp) {
        if mutated(Mutant::BehindMapForgotten) {
            return;
        }
        loop {
            let partition = &mut self.partitions[slot.index()];
            let first = partition.behind_map.first_key_value();
            let Some((offset, index)) = first.map(|(offset, index)| (*offset, *index)) else {
                return;
            };
            if !partition.map_allows(offset) {
                return;
            }
            partition.behind_map.remove(&offset);
            self.queue_lane(index, now);
        }
    }
}
