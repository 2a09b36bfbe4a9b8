//! One bit for each offset, in chunks, so that what is uniform costs next to nothing.
//!
//! The one idea: a chunk of 4,096 offsets is wholly complete, wholly incomplete or mixed, and only a mixed
//! one has words. Everything below the first chunk is complete, everything after the last incomplete.
//!
//! ```text
//!     ..complete | mixed | complete | complete | incomplete | mixed | incomplete..
//!                  first                                      last
//! ```
//!
//! A log may jump by any distance (compaction, a log start that moved). A long stretch that is complete at
//! once is therefore left out of the row of chunks and remembered as a *leap*, so that offsets near each
//! end of the number line cost no more than neighbours do.

use std::collections::VecDeque;

use crate::offset::{Offset, OffsetRange};

const CHUNK_BITS: u64 = 4096;
const WORD_BITS: u64 = 64;
const WORDS: usize = (CHUNK_BITS / WORD_BITS) as usize;

/// Complete chunks beyond the row that are worth a leap instead of an entry each.
const LEAP_CHUNKS: u64 = 1 << 12;

/// Word buffers kept for the next mixed chunk, so that a window that moves on allocates nothing.
const SPARE_BUFFERS: usize = 16;

type Words = [u64; WORDS];

#[derive(Clone, Debug)]
enum Chunk {
    Complete,
    Incomplete,
    /// Some of both; the number of complete offsets is always below that of the chunk.
    Mixed {
        complete: u16,
        words: Box<Words>,
    },
}

/// Chunks that are left out of the row, all complete.
#[derive(Clone, Copy, Debug)]
struct Leap {
    first: u64,
    /// One past the last chunk left out.
    end: u64,
    /// Chunks left out by this leap and all that came before it, gone ones included.
    total: u64,
}

/// Which positions are complete. Positions are unsigned offsets; one past `i64::MAX` is the last.
#[derive(Clone, Debug)]
pub(crate) struct Bitmap {
    /// The number of the first chunk in the row.
    row_start: u64,
    /// One past the number of the last chunk in the row.
    row_end: u64,
    row: VecDeque<Chunk>,
    /// The leaps within the row, ascending.
    leaps: VecDeque<Leap>,
    /// The total of the last leap below the row.
    leapt_below: u64,
    // Boxes, so that a buffer moves between here and the row without a copy.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Words>>,
}

/// Where a chunk is to be found.
enum Place {
    /// Below the row or in a leap: complete up to the chunk with this number.
    CompleteTo(u64),
    /// At this index of the row, or past its end.
    Row(usize),
}

impl Bitmap {
    /// A bitmap in which exactly the positions below `start` are complete.
    pub(crate) fn new(start: u64) -> Self {
        let chunk = start / CHUNK_BITS;
        let mut bitmap = Self {
            row_start: chunk,
            row_end: chunk,
            row: VecDeque::new(),
            leaps: VecDeque::new(),
            leapt_below: 0,
            spare: Vec::new(),
        };
        bitmap.set_range(chunk * CHUNK_BITS, start);
        bitmap
    }

    pub(crate) fn is_complete(&self, position: u64) -> bool {
        match self.place(position / CHUNK_BITS) {
            Place::CompleteTo(_) => true,
            Place::Row(index) => match self.row.get(index) {
                Some(Chunk::Complete) => true,
                Some(Chunk::Incomplete) | None => false,
                Some(Chunk::Mixed { words, .. }) => {
                    let bit = position % CHUNK_BITS;
                    words[(bit / WORD_BITS) as usize] >> (bit % WORD_BITS) & 1 == 1
                }
            },
        }
    }

    /// Completes one position; whether it was incomplete.
    pub(crate) fn set(&mut self, position: u64) -> bool {
        let bit = position % CHUNK_BITS;
        self.set_in_chunk(position / CHUNK_BITS, bit, bit + 1) > 0
    }

    /// Completes the positions `from..to`; how many of them were incomplete.
    pub(crate) fn set_range(&mut self, from: u64, to: u64) -> u64 {
        let mut newly = 0;
        let mut at = from;
        while at < to {
            let chunk = at / CHUNK_BITS;
            let whole_end = to / CHUNK_BITS;
            if at % CHUNK_BITS == 0 && chunk >= self.row_end && chunk < whole_end {
                self.pad_to(chunk);
                self.append_complete(whole_end);
                newly += (whole_end - chunk) * CHUNK_BITS;
                at = whole_end * CHUNK_BITS;
                continue;
            }
            let start = chunk * CHUNK_BITS;
            let end = to.min(start + CHUNK_BITS);
            newly += self.set_in_chunk(chunk, at - start, end - start);
            at = match self.place(chunk) {
                Place::CompleteTo(next) => (next * CHUNK_BITS).max(end),
                Place::Row(_) => end,
            };
        }
        newly
    }

    /// The lowest incomplete position from `from` on. There always is one: nothing is complete after the
    /// row.
    pub(crate) fn first_incomplete(&self, from: u64) -> u64 {
        let mut at = from;
        loop {
            let chunk = at / CHUNK_BITS;
            let index = match self.place(chunk) {
                Place::CompleteTo(next) => {
                    at = next * CHUNK_BITS;
                    continue;
                }
                Place::Row(index) => index,
            };
            match self.row.get(index) {
                None | Some(Chunk::Incomplete) => return at,
                Some(Chunk::Complete) => {}
                Some(Chunk::Mixed { words, .. }) => {
                    let bit = at % CHUNK_BITS;
                    let mut word = (bit / WORD_BITS) as usize;
                    let mut zeros = !words[word] & (u64::MAX << (bit % WORD_BITS));
                    while zeros == 0 && word + 1 < WORDS {
                        word += 1;
                        zeros = !words[word];
                    }
                    if zeros != 0 {
                        let found = word as u64 * WORD_BITS + u64::from(zeros.trailing_zeros());
                        return chunk * CHUNK_BITS + found;
                    }
                }
            }
            at = (chunk + 1) * CHUNK_BITS;
        }
    }

    /// The incomplete ranges within `from..to`, ascending, neighbours merged.
    pub(crate) fn holes(&self, from: u64, to: u64) -> Vec<OffsetRange> {
        let mut holes = Holes {
            open: None,
            found: Vec::new(),
        };
        let mut at = from;
        while at < to {
            let chunk = at / CHUNK_BITS;
            let end = to.min((chunk + 1) * CHUNK_BITS);
            match self.place(chunk) {
                Place::CompleteTo(next) => {
                    holes.complete_from(at);
                    at = next * CHUNK_BITS;
                    continue;
                }
                Place::Row(index) => match self.row.get(index) {
                    Some(Chunk::Complete) => holes.complete_from(at),
                    Some(Chunk::Incomplete) | None => holes.incomplete_from(at),
                    Some(Chunk::Mixed { words, .. }) => {
                        holes.mixed(words, chunk * CHUNK_BITS, at, end);
                    }
                },
            }
            at = end;
        }
        holes.complete_from(to);
        holes.found
    }

    /// Forgets the chunks below `base`, under which everything is complete.
    pub(crate) fn trim(&mut self, base: u64) {
        let keep = base / CHUNK_BITS;
        while self.row_start < keep {
            if self.row.pop_front().is_none() {
                self.row_start = keep;
                self.row_end = keep;
                return;
            }
            self.row_start += 1;
            self.enter_leap();
        }
    }

    /// When the row now starts with a leap, starts it behind.
    fn enter_leap(&mut self) {
        if let Some(leap) = self
            .leaps
            .front()
            .filter(|leap| leap.first == self.row_start)
        {
            self.row_start = leap.end;
            self.leapt_below = leap.total;
            self.leaps.pop_front();
        }
    }

    fn place(&self, chunk: u64) -> Place {
        if chunk < self.row_start {
            return Place::CompleteTo(self.row_start);
        }
        let mut index = chunk - self.row_start;
        if !self.leaps.is_empty() {
            let before = self.leaps.partition_point(|leap| leap.first <= chunk);
            if let Some(leap) = before.checked_sub(1).and_then(|last| self.leaps.get(last)) {
                if chunk < leap.end {
                    return Place::CompleteTo(leap.end);
                }
                index -= leap.total - self.leapt_below;
            }
        }
        // Past the row an index may not fit, and then is past it all the same.
        Place::Row(usize::try_from(index).unwrap_or(usize::MAX))
    }

    /// Lengthens the row with incomplete chunks up to, not including, `chunk`.
    fn pad_to(&mut self, chunk: u64) {
        while self.row_end < chunk {
            self.row.push_back(Chunk::Incomplete);
            self.row_end += 1;
        }
    }

    /// Lengthens the row with complete chunks up to, not including, `end`.
    fn append_complete(&mut self, end: u64) {
        let count = end - self.row_end;
        if count < LEAP_CHUNKS {
            self.row.extend((0..count).map(|_| Chunk::Complete));
        } else {
            let before = self
                .leaps
                .back()
                .map_or(self.leapt_below, |leap| leap.total);
            self.leaps.push_back(Leap {
                first: self.row_end,
                end,
                total: before + count,
            });
        }
        self.row_end = end;
        self.enter_leap();
    }

    /// Completes the bits `from..to` of a chunk; how many of them were incomplete.
    fn set_in_chunk(&mut self, chunk: u64, from: u64, to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        let Place::Row(index) = self.place(chunk) else {
            return 0;
        };
        self.pad_to(chunk + 1);
        let slot = &mut self.row[index];
        if let Chunk::Incomplete = slot {
            let mut words = self.spare.pop().unwrap_or_else(|| Box::new([0; WORDS]));
            words.fill(0);
            *slot = Chunk::Mixed { complete: 0, words };
        }
        let Chunk::Mixed { complete, words } = slot else {
            return 0;
        };
        let newly = set_bits(words, from, to);
        *complete += newly;
        if u64::from(*complete) == CHUNK_BITS {
            if let Chunk::Mixed { words, .. } = std::mem::replace(slot, Chunk::Complete) {
                if self.spare.len() < SPARE_BUFFERS {
                    self.spare.push(words);
                }
            }
        }
        newly.into()
    }
}

/// Sets the bits `from..to`, of which there is at least one; how many of them were not set.
fn set_bits(words: &mut Words, from: u64, to: u64) -> u16 {
    let (first, last) = ((from / WORD_BITS) as usize, ((to - 1) / WORD_BITS) as usize);
    let mut newly = 0;
    for (index, word) in words.iter_mut().enumerate().take(last + 1).skip(first) {
        let mut mask = u64::MAX;
        if index == first {
            mask &= u64::MAX << (from % WORD_BITS);
        }
        if index == last {
            mask &= u64::MAX >> (WORD_BITS - 1 - (to - 1) % WORD_BITS);
        }
        newly += (mask & !*word).count_ones() as u16;
        *word |= mask;
    }
    newly
}

/// Collects holes from left to right.
struct Holes {
    open: Option<u64>,
    found: Vec<OffsetRange>,
}

impl Holes {
    fn incomplete_from(&mut self, at: u64) {
        self.open.get_or_insert(at);
    }

    fn complete_from(&mut self, at: u64) {
        if let Some(first) = self.open.take() {
            self.found.push(OffsetRange {
                first: Offset::from_position(first),
                last: Offset::from_position(at - 1),
            });
        }
    }

    /// The positions `from..to` of the chunk that starts at `start`.
    fn mixed(&mut self, words: &Words, start: u64, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let bit = at - start;
            // What is shifted in from above is cut off by `run`.
            let rest = words[(bit / WORD_BITS) as usize] >> (bit % WORD_BITS);
            let left = (WORD_BITS - bit % WORD_BITS).min(to - at);
            let run = if rest & 1 == 1 {
                self.complete_from(at);
                rest.trailing_ones()
            } else {
                self.incomplete_from(at);
                rest.trailing_zeros()
            };
            at += u64::from(run).min(left);
        }
    }
}

#[cfg(test)]
impl Bitmap {
    /// Bytes on the heap, room that is not used yet included.
    fn heap_bytes(&self) -> usize {
        let mixed = self
            .row
            .iter()
            .filter(|chunk| matches!(chunk, Chunk::Mixed { .. }))
            .count();
        self.row.capacity() * size_of::<Chunk>()
            + self.leaps.capacity() * size_of::<Leap>()
            + self.spare.capacity() * size_of::<Box<Words>>()
            + (mixed + self.spare.len()) * size_of::<Words>()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: usize = 1 << 20;

    fn pairs(holes: &[OffsetRange]) -> Vec<(u64, u64)> {
        holes
            .iter()
            .map(|hole| (hole.first.position(), hole.last.position() + 1))
            .collect()
    }

    #[test]
    fn a_hundred_million_offsets_over_one_hole_take_under_a_mebibyte() {
        const OFFSETS: u64 = 100_000_000;
        let mut bitmap = Bitmap::new(0);
        let mut most = 0;
        for at in 1..=OFFSETS {
            assert!(bitmap.set(at));
            if at % 1_000_000 == 0 {
                most = most.max(bitmap.heap_bytes());
            }
        }
        // While the row grows, the old one is there beside the new one for a moment: half as much again.
        assert!(most + most / 2 < MIB, "{most} bytes");
        assert_eq!(pairs(&bitmap.holes(0, OFFSETS)), [(0, 1)]);
        let restored = {
            let mut bitmap = Bitmap::new(0);
            bitmap.set_range(1, OFFSETS);
            bitmap
        };
        assert!(
            restored.heap_bytes() < MIB / 16,
            "{} bytes",
            restored.heap_bytes()
        );
    }

    #[test]
    fn as_many_that_are_all_incomplete_take_no_more() {
        let mut bitmap = Bitmap::new(0);
        bitmap.set(100_000_000);
        assert!(bitmap.heap_bytes() < MIB, "{} bytes", bitmap.heap_bytes());
        assert_eq!(bitmap.first_incomplete(0), 0);
    }

    #[test]
    fn a_window_that_moves_on_allocates_nothing() {
        let mut bitmap = Bitmap::new(0);
        let window = 10 * CHUNK_BITS;
        let mut settled = 0;
        for at in 0..200 * CHUNK_BITS {
            // Out of order within a chunk or so, the lowest last.
            bitmap.set((at / window) * window + (window - 1 - at % window));
            bitmap.trim(bitmap.first_incomplete(at / window * window));
            if at == 2 * window {
                settled = bitmap.heap_bytes();
            }
        }
        assert!(
            bitmap.heap_bytes() <= settled,
            "{} from {settled}",
            bitmap.heap_bytes()
        );
        assert!(bitmap.row.is_empty());
    }

    #[test]
    fn a_leap_costs_one_entry_and_goes_with_the_base() {
        let mut bitmap = Bitmap::new(10);
        bitmap.set_range(11, 1 << 62);
        assert_eq!((bitmap.leaps.len(), bitmap.row.len()), (1, 1));
        bitmap.set_range((1 << 62) + 1, (1 << 62) + (1 << 40));
        assert_eq!(
            pairs(&bitmap.holes(10, (1 << 62) + 9)),
            [(10, 11), (1 << 62, (1 << 62) + 1)]
        );
        assert!(bitmap.set(10));
        assert_eq!(bitmap.first_incomplete(10), 1 << 62);
        bitmap.trim(1 << 62);
        assert_eq!(bitmap.leaps.len(), 1);
        assert!(bitmap.set(1 << 62));
        let base = bitmap.first_incomplete(1 << 62);
        assert_eq!(base, (1 << 62) + (1 << 40));
        bitmap.trim(base);
        assert_eq!((bitmap.leaps.len(), bitmap.row.len()), (0, 0));
        assert!(bitmap.is_complete(5) && bitmap.is_complete(base - 1) && !bitmap.is_complete(base));
    }

    /// Complete ranges, ascending and apart: what the bitmap is to agree with.
    #[derive(Default)]
    struct Ranges(Vec<(u64, u64)>);

    impl Ranges {
        fn count(&self) -> u64 {
            self.0.iter().map(|(from, to)| to - from).sum()
        }

        fn add(&mut self, from: u64, to: u64) {
            self.0.push((from, to));
            self.0.sort_unstable();
            let mut merged: Vec<(u64, u64)> = Vec::new();
            for &(from, to) in &self.0 {
                match merged.last_mut() {
                    Some(last) if from <= last.1 => last.1 = last.1.max(to),
                    _ => merged.push((from, to)),
                }
            }
            self.0 = merged;
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn ranges_of_every_length_agree_with_a_list(
            start in prop_oneof![0..10_000_u64, (1_u64 << 61)..(1 << 62)],
            ranges in proptest::collection::vec((any::<u32>(), 0..6_u32, 0..40_u32), 1..40),
        ) {
            let mut bitmap = Bitmap::new(start);
            let mut model = Ranges::default();
            model.add(0, start);
            let mut known = start;
            let mut base = start;
            for (place, kind, bits) in ranges {
                // Anywhere in what is known, or a little past it; as long as a bit, a chunk, a leap.
                let from = match kind {
                    0..=2 => known + u64::from(place % 5_000),
                    _ => base + u64::from(place) % (known - base + 1),
                };
                let to = from + u64::from(place) % (1 << bits) + 1;
                let before = model.count();
                model.add(from, to);
                prop_assert_eq!(bitmap.set_range(from, to), model.count() - before);
                known = known.max(to);
                base = model.0[0].1;
                prop_assert_eq!(bitmap.first_incomplete(start), base);
                if kind % 2 == 0 {
                    bitmap.trim(base);
                }
                let holes: Vec<_> = model.0.windows(2).map(|pair| (pair[0].1, pair[1].0)).collect();
                prop_assert_eq!(pairs(&bitmap.holes(base, known)), holes);
                for &(from, to) in &model.0 {
                    prop_assert!(bitmap.is_complete(from) && bitmap.is_complete(to - 1));
                    prop_assert!(!bitmap.is_complete(to));
                }
            }
        }
    }
}
