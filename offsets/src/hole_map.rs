//! The hole map: a base, the highest offset that is spoken about, and what is incomplete between them.
//!
//! The one idea: a map that has something to say begins with a hole. If the offset at its base were
//! complete, the base would be higher; and a map without a hole says no more than its base. So a map is
//! either *caught up* (it spans nothing) or its first hole starts at its base.
//!
//! ```text
//!     base                     highest
//!      |                          |
//!      o x x x o o x x x x o x x x        o incomplete   x complete
//!      '-----------span-----------'
//! ```

use crate::error::InvalidMap;
use crate::offset::{Offset, OffsetRange};

/// Which offsets of a partition are complete, as one commit carries it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HoleMap {
    base: Offset,
    /// One past the last offset of the span, as an [`Offset::position`].
    end: u64,
    holes: Vec<OffsetRange>,
}

impl HoleMap {
    /// A map from its parts: `holes` are the incomplete offsets, ascending; neighbours are merged.
    ///
    /// `highest` is raised to one below `base` when it is lower, and without any hole the map is
    /// caught up at `base`, whatever `highest` says: that is all a commit at `base` can express.
    ///
    /// # Errors
    /// When a range is reversed, out of order, overlaps the one before or leaves `[base, highest]`;
    /// or when `base` itself is complete although something above it is not.
    pub fn new(
        base: Offset,
        highest: i64,
        holes: impl IntoIterator<Item = OffsetRange>,
    ) -> Result<Self, InvalidMap> {
        let mut merged: Vec<OffsetRange> = Vec::new();
        for range in holes {
            if range.last < range.first {
                return Err(InvalidMap::Reversed { range });
            }
            if range.first < base || range.last.get() > highest {
                return Err(InvalidMap::Outside {
                    range,
                    base,
                    highest,
                });
            }
            match merged.last_mut() {
                Some(previous) if range.last < previous.first => {
                    return Err(InvalidMap::Unsorted {
                        range,
                        previous: *previous,
                    });
                }
                Some(previous) if range.first <= previous.last => {
                    return Err(InvalidMap::Overlapping {
                        range,
                        previous: *previous,
                    });
                }
                Some(previous) if range.first == previous.last.next() => previous.last = range.last,
                _ => merged.push(range),
            }
        }
        match merged.first() {
            None => Ok(Self::caught_up(base)),
            Some(first) if first.first > base => Err(InvalidMap::BaseComplete { base }),
            Some(_) => Ok(Self {
                base,
                end: highest.unsigned_abs() + 1,
                holes: merged,
            }),
        }
    }

    /// The map of a partition in which nothing is incomplete below `base` and nothing known above.
    pub const fn caught_up(base: Offset) -> Self {
        Self {
            base,
            end: base.position(),
            holes: Vec::new(),
        }
    }

    /// A map whose parts are known to be in order: holes ascending, apart from each other, the first
    /// at `base`, none at or past `end`.
    pub(crate) fn from_sorted(base: Offset, end: u64, holes: Vec<OffsetRange>) -> Self {
        if holes.is_empty() {
            return Self::caught_up(base);
        }
        debug_assert!(holes[0].first == base);
        debug_assert!(holes[holes.len() - 1].last.position() < end);
        debug_assert!(
            holes
                .windows(2)
                .all(|pair| pair[0].last.next() < pair[1].first)
        );
        Self { base, end, holes }
    }

    /// The offset that is committed with the map.
    pub const fn base(&self) -> Offset {
        self.base
    }

    /// The last offset that the map speaks about, one below the base when it speaks of none:
    /// `base + span - 1`, what Java calls the highest seen.
    ///
    /// Maps of a [`Tracker`](crate::Tracker) end with a complete offset. One that was read may not.
    pub const fn highest(&self) -> i64 {
        // `end` is at most one past `i64::MAX`, and 0 for a base of 0 without a span.
        self.end.wrapping_sub(1) as i64
    }

    /// The highest complete offset; one below the base when there is none above it.
    pub fn highest_complete(&self) -> i64 {
        match self.holes.last() {
            Some(hole) if hole.last.get() == self.highest() => hole.first.get() - 1,
            _ => self.highest(),
        }
    }

    /// How many offsets the map speaks about; 0 when it is caught up.
    pub const fn span(&self) -> u64 {
        self.end - self.base.position()
    }

    /// The incomplete offsets, ascending, neighbours merged.
    pub fn holes(&self) -> &[OffsetRange] {
        &self.holes
    }

    /// How many offsets are incomplete.
    pub fn hole_count(&self) -> u64 {
        self.holes.iter().map(OffsetRange::len).sum()
    }

    /// Whether the map says nothing beyond its base; its text is the empty string.
    pub fn is_caught_up(&self) -> bool {
        self.holes.is_empty()
    }

    /// Whether `offset` is complete. Above the highest offset nothing is.
    pub fn is_complete(&self, offset: Offset) -> bool {
        if offset < self.base {
            return true;
        }
        if offset.position() >= self.end {
            return false;
        }
        let after = self.holes.partition_point(|hole| hole.first <= offset);
        !self.holes[..after]
            .last()
            .is_some_and(|hole| hole.contains(offset))
    }

    /// How many of the offsets from `from` up to but not including `to` are complete.
    pub(crate) fn complete_within(&self, from: u64, to: u64) -> u64 {
        let length = |from: u64, to: u64| to.saturating_sub(from);
        let first = self
            .holes
            .partition_point(|hole| hole.last.position() < from);
        let open: u64 = self.holes[first..]
            .iter()
            .take_while(|hole| hole.first.position() < to)
            .map(|hole| {
                length(
                    hole.first.position().max(from),
                    (hole.last.position() + 1).min(to),
                )
            })
            .sum();
        length(from, to.min(self.end)) - open
    }

    /// The map once everything below `offset` is gone from the log: the base is raised to `offset` and
    /// on to the first incomplete one.
    #[must_use]
    pub fn clip_below(&self, offset: Offset) -> Self {
        if offset <= self.base {
            return self.clone();
        }
        let kept = self.holes.partition_point(|hole| hole.last < offset);
        let mut holes = self.holes[kept..].to_vec();
        match holes.first_mut() {
            None => Self::caught_up(Offset::from_position(self.end.max(offset.position()))),
            Some(first) => {
                first.first = first.first.max(offset);
                let base = first.first;
                Self::from_sorted(base, self.end, holes)
            }
        }
    }

    /// The map once the offsets of `range` are complete as well. What lies between the last offset that this map
    /// speaks about and the range is not, so the new one calls it incomplete; the base goes up to the first hole left.
    #[must_use]
    pub fn with_complete(&self, range: OffsetRange) -> Self {
        if range.len() == 0 {
            return self.clone();
        }
        let mut holes = self.holes.clone();
        if range.first.position() > self.end {
            let unknown = OffsetRange {
                first: Offset::from_position(self.end),
                last: Offset::from_position(range.first.position() - 1),
            };
            match holes.last_mut() {
                Some(last) if last.last.next() == unknown.first => last.last = unknown.last,
                _ => holes.push(unknown),
            }
        }
        let end = self.end.max(range.last.position() + 1);
        let left: Vec<OffsetRange> = holes.iter().flat_map(|hole| hole.without(range)).collect();
        match left.first() {
            None => Self::caught_up(Offset::from_position(end)),
            Some(first) => Self::from_sorted(first.first, end, left),
        }
    }

    /// One past the last offset of the span.
    pub(crate) const fn end(&self) -> u64 {
        self.end
    }
}
