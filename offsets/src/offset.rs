//! Offsets and ranges of offsets.
//!
//! An [`Offset`] is what Kafka calls one: never negative, at most `i64::MAX`. "One past an offset" may
//! therefore not exist; everything here saturates or answers `None` there, and nothing overflows.

use std::fmt;

/// An offset of a partition: of a record, or a position between records ("the next to read").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(i64);

impl Offset {
    /// The first offset that a partition can have.
    pub const ZERO: Self = Self(0);

    /// The last offset that the protocol can express.
    pub const MAX: Self = Self(i64::MAX);

    /// The offset `value`, or `None` when it is negative (Kafka's logical offsets are not offsets).
    pub const fn new(value: i64) -> Option<Self> {
        if value < 0 { None } else { Some(Self(value)) }
    }

    /// The number that goes over the wire.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The position after this offset; [`Offset::MAX`] has none and stays where it is.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The offset `count` further on, or `None` past [`Offset::MAX`].
    pub const fn checked_add(self, count: u64) -> Option<Self> {
        match self.0.checked_add_unsigned(count) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }

    /// How many offsets lie from `earlier` up to here, this one excluded; `None` when `earlier` is
    /// later.
    pub const fn distance_from(self, earlier: Self) -> Option<u64> {
        if self.0 < earlier.0 {
            None
        } else {
            Some(self.0.abs_diff(earlier.0))
        }
    }

    /// As an unsigned position, where one past [`Offset::MAX`] has a value too.
    pub(crate) const fn position(self) -> u64 {
        self.0.unsigned_abs()
    }

    /// Back from a position; one past [`Offset::MAX`] is not expressible and becomes it.
    pub(crate) const fn from_position(position: u64) -> Self {
        if position > Self::MAX.position() {
            Self::MAX
        } else {
            Self(position as i64)
        }
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Offset> for i64 {
    fn from(offset: Offset) -> Self {
        offset.0
    }
}

/// The offsets from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffsetRange {
    /// The lowest offset of the range.
    pub first: Offset,
    /// The highest offset of the range.
    pub last: Offset,
}

impl OffsetRange {
    /// The range `first..=last`, or `None` when `last` comes before `first`.
    pub fn new(first: Offset, last: Offset) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// The range that holds `offset` alone.
    pub const fn single(offset: Offset) -> Self {
        Self {
            first: offset,
            last: offset,
        }
    }

    /// How many offsets the range holds; 0 when `last` comes before `first`.
    #[allow(clippy::len_without_is_empty)] // A range that was made by `new` is never empty.
    pub fn len(&self) -> u64 {
        self.last
            .distance_from(self.first)
            .map_or(0, |distance| distance + 1)
    }

    /// Whether `offset` lies in the range.
    pub fn contains(&self, offset: Offset) -> bool {
        self.first <= offset && offset <= self.last
    }

    /// What is left of the range below and above `taken`, which holds at least one offset.
    pub(crate) fn without(self, taken: Self) -> impl Iterator<Item = Self> {
        let below = (self.first < taken.first).then(|| Self {
            first: self.first,
            last: self
                .last
                .min(Offset::from_position(taken.first.position() - 1)),
        });
        let above = (taken.last < self.last).then(|| Self {
            first: self.first.max(taken.last.next()),
            last: self.last,
        });
        below.into_iter().chain(above)
    }
}

impl fmt::Display for OffsetRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            self.first.fmt(f)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}
