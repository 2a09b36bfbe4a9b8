//! What can be wrong with a text, a map or a limit.
//!
//! One variant for one cause, each with the numbers that a person needs to see where the text came from.

use thiserror::Error;

use crate::offset::{Offset, OffsetRange};

/// Why a metadata string is not a hole map.
///
/// Whether that ends in a replay from the committed offset or in a stop is the policy's decision.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not Base64: most often the string of another program, which may write there what it likes.
    #[error("not Base64: {0}")]
    BadText(TextFault),
    /// Base64 of something that begins with no known magic byte: another program, or a later version.
    #[error("unknown magic byte {magic:#04x}")]
    UnknownMagic {
        /// The first byte of the decoded text.
        magic: u8,
    },
    /// Kafka Streams wrote this: the group id belongs, or belonged, to a Streams application.
    #[error("metadata of Kafka Streams, version {version}")]
    KafkaStreams {
        /// The first byte of the decoded text, which is Streams' version of its format.
        version: u8,
    },
    /// The body ends too early: a text that was cut.
    #[error("the body of {form} ends after {actual} bytes, {needed} are needed")]
    Truncated {
        /// The form that the magic byte names.
        form: &'static str,
        /// Bytes that the body would need to have.
        needed: u64,
        /// Bytes that it has.
        actual: usize,
    },
    /// The body goes on, or has bits set, after its end.
    #[error("the body of {form} has something after its end: {data}")]
    Trailing {
        /// The form that the magic byte names.
        form: &'static str,
        /// What stands there.
        data: TrailingData,
    },
    /// A number of offsets that is negative.
    #[error("{form} claims {length} offsets")]
    BadLength {
        /// The form that the magic byte names.
        form: &'static str,
        /// The claim.
        length: i32,
    },
    /// A run of negative length.
    #[error("run {index} of {form} has length {length}")]
    BadRun {
        /// The form that the magic byte names.
        form: &'static str,
        /// Which run, from 0.
        index: usize,
        /// Its length.
        length: i32,
    },
    /// The compressed body is not one whole zstd frame of bounded content.
    #[error("bad zstd: {0}")]
    BadZstd(ZstdFault),
    /// The map spans more offsets than the window allows, or than there are above its base.
    #[error("the map spans {span} offsets or more, {limit} are allowed")]
    TooLarge {
        /// Offsets claimed, as far as they were counted.
        span: u64,
        /// Offsets allowed above this base.
        limit: u64,
    },
    /// Readable, but nothing that an encoder writes.
    #[error("not canonical: {0}")]
    NotCanonical(NotCanonical),
}

impl DecodeError {
    /// The name of the cause in the command's answers.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::BadText(_) => "bad_text",
            Self::UnknownMagic { .. } => "unknown_magic",
            Self::KafkaStreams { .. } => "kafka_streams",
            Self::Truncated { .. } => "truncated",
            Self::Trailing { .. } => "trailing",
            Self::BadLength { .. } => "bad_length",
            Self::BadRun { .. } => "bad_run",
            Self::BadZstd(_) => "bad_zstd",
            Self::TooLarge { .. } => "too_large",
            Self::NotCanonical(_) => "not_canonical",
        }
    }
}

/// What is wrong with a text as Base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TextFault {
    /// A byte outside the alphabet.
    #[error("byte {byte:#04x} at {position}")]
    Byte {
        /// Where, in bytes from the start.
        position: usize,
        /// The byte.
        byte: u8,
    },
    /// A length that no number of bytes gives.
    #[error("{chars} characters can't be whole bytes")]
    Length {
        /// The length of the text.
        chars: usize,
    },
    /// A last character with bits that belong to no byte.
    #[error("the last character {byte:#04x} at {position} has bits left over")]
    LastSymbol {
        /// Where, in bytes from the start.
        position: usize,
        /// The character.
        byte: u8,
    },
    /// Too little or too much padding.
    #[error("wrong padding")]
    Padding,
}

/// What stands after the end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TrailingData {
    /// More bytes.
    #[error("{count} bytes")]
    Bytes {
        /// How many.
        count: u64,
    },
    /// Set bits between the last offset and the end of its byte.
    #[error("set bits in the last byte, {byte:#04x}")]
    Bits {
        /// The byte.
        byte: u8,
    },
    /// A pad byte that is not 00.
    #[error("a pad byte of {byte:#04x}")]
    Pad {
        /// The byte.
        byte: u8,
    },
}

/// What is wrong with a compressed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ZstdFault {
    /// It does not begin with a frame; a skippable frame is none.
    #[error("not a frame")]
    NotAFrame,
    /// The frame is cut or its headers make no sense.
    #[error("the frame is incomplete or corrupt")]
    Incomplete,
    /// Something follows the frame.
    #[error("{count} bytes after the frame")]
    Trailing {
        /// How many bytes.
        count: usize,
    },
    /// The content is longer than any body of the form within the bound.
    #[error("the content is longer than {bound} bytes")]
    TooLong {
        /// Bytes that were allowed.
        bound: usize,
    },
    /// The content does not decompress.
    #[error("the content is corrupt")]
    Corrupt,
}

/// How a map differs from what encoders write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotCanonical {
    /// A run of no offsets that is not the only run.
    #[error("run {index} is empty")]
    ZeroRun {
        /// Which run, from 0.
        index: usize,
    },
    /// The committed offset itself is complete: the commit would have been at a later one.
    #[error("the committed offset is complete")]
    BaseComplete,
    /// A zstd frame whose content is a zstd frame.
    #[error("a zstd frame inside a zstd frame")]
    NestedZstd,
}

/// Why parts do not make a [`HoleMap`](crate::HoleMap).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidMap {
    /// A range whose end comes before its start.
    #[error("the range from {} to {} is reversed", range.first, range.last)]
    Reversed {
        /// The range.
        range: OffsetRange,
    },
    /// A range that comes before the one it follows.
    #[error("{range} comes after {previous}")]
    Unsorted {
        /// The range.
        range: OffsetRange,
        /// The one before it, merged with its neighbours.
        previous: OffsetRange,
    },
    /// A range that shares offsets with the one it follows.
    #[error("{range} overlaps {previous}")]
    Overlapping {
        /// The range.
        range: OffsetRange,
        /// The one before it, merged with its neighbours.
        previous: OffsetRange,
    },
    /// A range that reaches below the base or above the highest offset.
    #[error("{range} is not within {base} and {highest}")]
    Outside {
        /// The range.
        range: OffsetRange,
        /// The base of the map.
        base: Offset,
        /// The highest offset of the map.
        highest: i64,
    },
    /// The base is complete although a higher offset is not: the base would be that one.
    #[error("the base {base} is not incomplete, though something above it is")]
    BaseComplete {
        /// The base of the map.
        base: Offset,
    },
}

/// A threshold that is no share of the cap.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("{value} is not within 0 and 1")]
pub struct InvalidRatio {
    /// The value that was given.
    pub value: f64,
}
