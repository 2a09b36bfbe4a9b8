//! What is wrong with a header that is not to be taken for absent, and with bytes that are no shard.

use std::fmt;

use thiserror::Error;

use crate::channel::MAX_PARTITION;
use crate::cursor::Fault;
use crate::varint;

/// A part of a header's value or of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// The version.
    Version,
    /// A topic id.
    TopicId,
    /// The number of topics.
    TopicCount,
    /// The number of a topic's partitions.
    PartitionCount,
    /// A partition's number, or how many were passed over before it.
    Partition,
    /// A position.
    Position,
    /// The group's first position in the shard's own partition.
    Baseline,
    /// The highest complete position of the shard's own partition.
    HighestComplete,
    /// How the positions of a topic are packed.
    Form,
    /// The lowest position of a topic, from which the others are counted.
    Base,
    /// The positions of a topic.
    Positions,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "the version",
            Self::TopicId => "a topic id",
            Self::TopicCount => "the number of topics",
            Self::PartitionCount => "the number of partitions",
            Self::Partition => "a partition",
            Self::Position => "a position",
            Self::Baseline => "the baseline",
            Self::HighestComplete => "the highest complete position",
            Self::Form => "the form of the positions",
            Self::Base => "the lowest position",
            Self::Positions => "the positions",
        })
    }
}

/// Why the causes of a record can't be known. Its header is there, and must not be taken for absent: what is sent after
/// the record would leave its causes out.
///
/// Each offset counts from the first byte of the header's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CausesError {
    /// The record's headers do not follow Kafka's protocol, so that nothing can be said of any of them.
    #[error("the record's headers can't be read")]
    HeadersUnreadable,
    /// A header without a value; a program that deletes headers by overwriting them left it.
    #[error(
        "the header is there and its value is null: a record without causes has no header, or the value 01 00"
    )]
    NullValue,
    /// More than one header; something between here and the sender added its own, or copied the record with both.
    #[error("the record has more than one header `parsley.causes`: a copy has to replace it")]
    DuplicateHeader,
    /// A later version wrote it, or something else that uses the name.
    #[error(
        "version 0x{version:02x}, and only 0x01 can be read: read it with the version that wrote it"
    )]
    Version {
        /// The first byte.
        version: u8,
    },
    /// It was cut off, or a count was damaged.
    #[error(
        "it ends within {part}, which begins at byte {offset}: get the whole value, or take a count before it for damaged"
    )]
    Truncated {
        /// Where the part begins.
        offset: usize,
        /// What is cut off.
        part: Part,
    },
    /// Something was appended, or a count was damaged.
    #[error("{bytes} bytes from byte {offset} on belong to nothing that is counted")]
    Trailing {
        /// Where they begin.
        offset: usize,
        /// How many there are.
        bytes: usize,
    },
    /// A number that has a shorter spelling; another program wrote it.
    #[error(
        "{part} at byte {offset} is not in its shortest spelling: its writer has to leave the last zero out"
    )]
    VarintNonminimal {
        /// Where the number begins.
        offset: usize,
        /// What it says.
        part: Part,
    },
    /// A number above 2^31 - 1; another program wrote it, or it was damaged.
    #[error("{part} at byte {offset} is above {MAX_PARTITION}, which is the most that Kafka has")]
    VarintOverflow {
        /// Where the number begins.
        offset: usize,
        /// What it says.
        part: Part,
    },
    /// Topics that do not ascend, or one that comes twice; another program wrote it.
    #[error(
        "the topic id at byte {offset} is not above the one before it: its writer has to sort them as unsigned bytes"
    )]
    TopicOrder {
        /// Where the topic id begins.
        offset: usize,
    },
    /// The id that no topic has; its writer did not know the topic's id.
    #[error(
        "the topic id at byte {offset} is zero, which no topic has: its writer has to look it up"
    )]
    TopicZero {
        /// Where the topic id begins.
        offset: usize,
    },
    /// A topic without partitions; another program wrote it.
    #[error("byte {offset} says that a topic has no partitions: its writer has to leave it out")]
    PartitionCountZero {
        /// Where the count is.
        offset: usize,
    },
    /// Partitions that do not ascend, or one that comes twice; another program wrote it.
    #[error(
        "partition {partition} at byte {offset} is not above the one before it: its writer has to sort them as numbers"
    )]
    PartitionOrder {
        /// Where the partition begins.
        offset: usize,
        /// The partition.
        partition: u32,
    },
    /// A position that no record has, as -1 for "none"; another program wrote it.
    #[error("the position {position} at byte {offset} is negative: its writer has to leave it out")]
    PositionNegative {
        /// Where the position begins.
        offset: usize,
        /// The position.
        position: i64,
    },
    /// The position 2^63 - 1, which implementations keep for themselves; one of them let it out.
    #[error(
        "the position at byte {offset} is {}, which no record has: its writer has to leave it out",
        i64::MAX
    )]
    PositionReserved {
        /// Where the position begins.
        offset: usize,
    },
}

impl CausesError {
    /// The name of the cause in the command's answers.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::HeadersUnreadable => "headers_unreadable",
            Self::NullValue => "null_value",
            Self::DuplicateHeader => "duplicate_header",
            Self::Version { .. } => "version",
            Self::Truncated { .. } => "truncated",
            Self::Trailing { .. } => "trailing",
            Self::VarintNonminimal { .. } => "varint_nonminimal",
            Self::VarintOverflow { .. } => "varint_overflow",
            Self::TopicOrder { .. } => "topic_order",
            Self::TopicZero { .. } => "topic_zero",
            Self::PartitionCountZero { .. } => "partition_count_zero",
            Self::PartitionOrder { .. } => "partition_order",
            Self::PositionNegative { .. } => "position_negative",
            Self::PositionReserved { .. } => "position_reserved",
        }
    }
}

impl From<Fault> for CausesError {
    fn from(fault: Fault) -> Self {
        let Fault { kind, offset, part } = fault;
        match kind {
            varint::Fault::Truncated => Self::Truncated { offset, part },
            varint::Fault::Nonminimal => Self::VarintNonminimal { offset, part },
            varint::Fault::Overflow => Self::VarintOverflow { offset, part },
        }
    }
}

/// Why a rider is no shard. The part of the frontier that it held is lost, which is never the same as empty.
///
/// Each offset counts from the first byte of the rider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShardError {
    /// A rider of the application's own, from before the group was causal.
    #[error("the rider does not begin as a shard does: something else wrote it")]
    NotAShard,
    /// A later version wrote it.
    #[error(
        "a shard of version {version}, and only version 1 can be read: read it with the version that wrote it"
    )]
    Version {
        /// The version byte.
        version: u8,
    },
    /// It was cut off, or a count was damaged.
    #[error(
        "it ends within {part}, which begins at byte {offset}: get the whole rider, or take a count before it for damaged"
    )]
    Truncated {
        /// Where the part begins.
        offset: usize,
        /// What is cut off.
        part: Part,
    },
    /// Something was appended, or a count was damaged.
    #[error("{bytes} bytes from byte {offset} on belong to nothing that is counted")]
    Trailing {
        /// Where they begin.
        offset: usize,
        /// How many there are.
        bytes: usize,
    },
    /// A number that is not in its shortest spelling, or above what the part can be. It was damaged.
    #[error("{part} at byte {offset} is no number that it can be: the shard was damaged")]
    BadNumber {
        /// Where it begins.
        offset: usize,
        /// What it says.
        part: Part,
    },
    /// The id that no topic has. It was damaged.
    #[error("the topic id at byte {offset} is zero, which no topic has: the shard was damaged")]
    TopicZero {
        /// Where the topic id begins.
        offset: usize,
    },
    /// It can be read, but is not how a shard of this content is written: it was damaged, or another program wrote it.
    #[error("from byte {offset} on it is not written as this content is: the shard was damaged")]
    NotCanonical {
        /// The first byte that would be another one.
        offset: usize,
    },
}

impl ShardError {
    /// The name of the cause in the command's answers.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotAShard => "not_a_shard",
            Self::Version { .. } => "version",
            Self::Truncated { .. } => "truncated",
            Self::Trailing { .. } => "trailing",
            Self::BadNumber { .. } => "bad_number",
            Self::TopicZero { .. } => "topic_zero",
            Self::NotCanonical { .. } => "not_canonical",
        }
    }
}

impl From<Fault> for ShardError {
    fn from(fault: Fault) -> Self {
        let Fault { kind, offset, part } = fault;
        match kind {
            varint::Fault::Truncated => Self::Truncated { offset, part },
            varint::Fault::Nonminimal | varint::Fault::Overflow => Self::BadNumber { offset, part },
        }
    }
}
