//! The names and magic bytes of the forms: one table for writing, reading and showing.

use std::fmt;

use crate::error::DecodeError;

/// The form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// A bit an offset, up to 32,767 offsets.
    BitSet,
    /// A bit an offset.
    BitSetV2,
    /// The lengths of runs, each up to 32,767.
    RunLength,
    /// The lengths of runs.
    RunLengthV2,
    /// [`Encoding::BitSet`] in a zstd frame.
    BitSetCompressed,
    /// [`Encoding::BitSetV2`] in a zstd frame.
    BitSetV2Compressed,
    /// [`Encoding::RunLength`] in a zstd frame.
    RunLengthCompressed,
    /// [`Encoding::RunLengthV2`] in a zstd frame.
    RunLengthV2Compressed,
    /// A byte an offset; read, never written.
    ByteArray,
    /// [`Encoding::ByteArray`] in a zstd frame; read, never written.
    ByteArrayCompressed,
    /// The empty string.
    None,
}

/// The integers of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Two bytes: the forms of Java's version 1.
    Short,
    /// Four bytes: version 2.
    Int,
}

impl Width {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Short => 2,
            Self::Int => 4,
        }
    }

    /// The largest number that fits; the integers are signed.
    pub(crate) const fn max(self) -> u64 {
        match self {
            Self::Short => i16::MAX.unsigned_abs() as u64,
            Self::Int => i32::MAX.unsigned_abs() as u64,
        }
    }

    /// Appends `value`, which is at most [`Width::max`], big-endian.
    pub(crate) fn push(self, bytes: &mut Vec<u8>, value: u64) {
        debug_assert!(value <= self.max());
        bytes.extend_from_slice(&value.to_be_bytes()[8 - self.bytes()..]);
    }

    /// The integer that `bytes` begins with, and what follows it.
    pub(crate) fn split(self, bytes: &[u8]) -> Option<(i32, &[u8])> {
        match self {
            Self::Short => bytes
                .split_first_chunk()
                .map(|(n, rest)| (i16::from_be_bytes(*n).into(), rest)),
            Self::Int => bytes
                .split_first_chunk()
                .map(|(n, rest)| (i32::from_be_bytes(*n), rest)),
        }
    }
}

/// A form that is written, before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    RunLength(Width),
    BitSet(Width),
}

impl Form {
    /// Among forms of equal length the first in this order is written. Java leaves it to chance.
    pub(crate) const ALL: [Self; 4] = [
        Self::RunLength(Width::Short),
        Self::BitSet(Width::Short),
        Self::RunLength(Width::Int),
        Self::BitSet(Width::Int),
    ];

    pub(crate) const fn plain(self) -> Encoding {
        match self {
            Self::RunLength(Width::Short) => Encoding::RunLength,
            Self::RunLength(Width::Int) => Encoding::RunLengthV2,
            Self::BitSet(Width::Short) => Encoding::BitSet,
            Self::BitSet(Width::Int) => Encoding::BitSetV2,
        }
    }

    pub(crate) const fn compressed(self) -> Encoding {
        match self {
            Self::RunLength(Width::Short) => Encoding::RunLengthCompressed,
            Self::RunLength(Width::Int) => Encoding::RunLengthV2Compressed,
            Self::BitSet(Width::Short) => Encoding::BitSetCompressed,
            Self::BitSet(Width::Int) => Encoding::BitSetV2Compressed,
        }
    }
}

impl Encoding {
    /// Every form that has a magic byte, with it.
    const MAGIC: [(u8, Self); 10] = [
        (b'l', Self::BitSet),
        (b'o', Self::BitSetV2),
        (b'n', Self::RunLength),
        (b'e', Self::RunLengthV2),
        (b'a', Self::BitSetCompressed),
        (b's', Self::BitSetV2Compressed),
        (b'J', Self::RunLengthCompressed),
        (b'p', Self::RunLengthV2Compressed),
        (b'L', Self::ByteArray),
        (0xEE, Self::ByteArrayCompressed),
    ];

    /// The first bytes of Kafka Streams' own metadata, the versions of its format.
    const KAFKA_STREAMS: std::ops::RangeInclusive<u8> = 1..=2;

    pub(crate) fn from_magic(magic: u8) -> Result<Self, DecodeError> {
        if Self::KAFKA_STREAMS.contains(&magic) {
            return Err(DecodeError::KafkaStreams { version: magic });
        }
        Self::MAGIC
            .iter()
            .find(|(known, _)| *known == magic)
            .map(|(_, encoding)| *encoding)
            .ok_or(DecodeError::UnknownMagic { magic })
    }

    /// The magic byte; the empty string has none.
    pub(crate) fn magic(self) -> Option<u8> {
        Self::MAGIC
            .iter()
            .find(|(_, known)| *known == self)
            .map(|(magic, _)| *magic)
    }

    /// The form of the body, `None` for one byte an offset.
    pub(crate) const fn form(self) -> Option<Form> {
        match self {
            Self::BitSet | Self::BitSetCompressed => Some(Form::BitSet(Width::Short)),
            Self::BitSetV2 | Self::BitSetV2Compressed => Some(Form::BitSet(Width::Int)),
            Self::RunLength | Self::RunLengthCompressed => Some(Form::RunLength(Width::Short)),
            Self::RunLengthV2 | Self::RunLengthV2Compressed => Some(Form::RunLength(Width::Int)),
            Self::ByteArray | Self::ByteArrayCompressed | Self::None => None,
        }
    }

    pub(crate) const fn is_compressed(self) -> bool {
        matches!(
            self,
            Self::BitSetCompressed
                | Self::BitSetV2Compressed
                | Self::RunLengthCompressed
                | Self::RunLengthV2Compressed
                | Self::ByteArrayCompressed
        )
    }

    /// The bytes of the longest body that a map of `offsets` offsets can have in this form.
    pub(crate) fn longest_body(self, offsets: u64) -> u64 {
        match self.form() {
            Some(Form::BitSet(width)) => {
                width.bytes() as u64 + offsets.min(width.max()).div_ceil(8) + 1
            }
            // Every run holds an offset, except the only run of a map of none.
            Some(Form::RunLength(width)) => offsets.max(1).saturating_mul(width.bytes() as u64),
            None => offsets,
        }
    }

    /// The name in the command's answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BitSet => "BitSet",
            Self::BitSetV2 => "BitSetV2",
            Self::RunLength => "RunLength",
            Self::RunLengthV2 => "RunLengthV2",
            Self::BitSetCompressed => "BitSetCompressed",
            Self::BitSetV2Compressed => "BitSetV2Compressed",
            Self::RunLengthCompressed => "RunLengthCompressed",
            Self::RunLengthV2Compressed => "RunLengthV2Compressed",
            Self::ByteArray => "ByteArray",
            Self::ByteArrayCompressed => "ByteArrayCompressed",
            Self::None => "None",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
