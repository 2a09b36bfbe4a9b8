//! Where a cause is: a partition of one life of a topic, and a record's place in it.

use std::fmt;

use keyway_offsets::Offset;
use thiserror::Error;

use crate::topic::TopicId;

/// The highest partition number that Kafka's protocol, and the header's grammar, can say.
pub const MAX_PARTITION: u32 = i32::MAX as u32;

/// A partition of a topic in one life of it.
///
/// Ordered by the bytes of the topic id, then by partition: the order of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel {
    topic: TopicId,
    partition: u32,
}

impl Channel {
    /// Partition `partition` of `topic`; `None` above [`MAX_PARTITION`].
    pub const fn new(topic: TopicId, partition: u32) -> Option<Self> {
        if partition > MAX_PARTITION {
            None
        } else {
            Some(Self { topic, partition })
        }
    }

    /// A channel whose partition was seen to be one.
    pub(crate) const fn valid(topic: TopicId, partition: u32) -> Self {
        Self { topic, partition }
    }

    /// The topic.
    pub const fn topic(self) -> TopicId {
        self.topic
    }

    /// The partition, at most [`MAX_PARTITION`]. Any number up to that may come from outside: nothing is sized by it.
    pub const fn partition(self) -> u32 {
        self.partition
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// The offset at which a record is, as a cause: 0 to 2^63 - 2, so that the one after it is an offset too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(i64);

impl Position {
    /// The first position of a channel.
    pub const ZERO: Self = Self(0);

    /// The last position that a header can name.
    pub const MAX: Self = Self(i64::MAX - 1);

    /// The position `value`; `None` when it is negative or above [`Position::MAX`].
    pub const fn new(value: i64) -> Option<Self> {
        if value < 0 || value > Self::MAX.0 {
            None
        } else {
            Some(Self(value))
        }
    }

    /// A position that was seen to be one.
    pub(crate) const fn valid(value: i64) -> Self {
        Self(value)
    }

    /// The last position below `offset`: what is complete where `offset` is committed. `None` below the first one.
    pub const fn before(offset: Offset) -> Option<Self> {
        Self::new(offset.get() - 1)
    }

    /// The number that goes over the wire.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The offset after it: what is committed once this one and all below are complete.
    pub fn next(self) -> Offset {
        self.offset().next()
    }

    /// The offset of the record.
    pub fn offset(self) -> Offset {
        self.into()
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The offset 2^63 - 1, at which no record can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no record is at offset {}: it is above every position", i64::MAX)]
pub struct NoPosition;

impl TryFrom<Offset> for Position {
    type Error = NoPosition;

    fn try_from(offset: Offset) -> Result<Self, NoPosition> {
        Self::new(offset.get()).ok_or(NoPosition)
    }
}

impl From<Position> for Offset {
    fn from(position: Position) -> Self {
        // A position is never negative.
        Self::new(position.0).unwrap_or(Self::ZERO)
    }
}

impl From<Position> for i64 {
    fn from(position: Position) -> Self {
        position.0
    }
}
