//! What is wrong with bytes that are no block, and with records that no block can hold.

use std::fmt;
use std::io;

use thiserror::Error;

/// A part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part {
    /// Checksum, flags, timestamp and lengths, which every record block begins with.
    RecordHeader,
    /// All behind the record header.
    Payload,
    /// The header block and the null bitmap behind it.
    Headers,
    /// The number of headers.
    HeaderCount,
    /// The length of a header's name.
    NameLength,
    /// The name of a header.
    Name,
    /// The length of a header's value.
    HeaderValueLength,
    /// The value of a header.
    HeaderValue,
    /// The bits that say which headers are null.
    NullBitmap,
    /// The record's key.
    Key,
    /// The record's value.
    Value,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RecordHeader => "the record header",
            Self::Payload => "the payload",
            Self::Headers => "the headers",
            Self::HeaderCount => "the number of headers",
            Self::NameLength => "the length of a header's name",
            Self::Name => "a header's name",
            Self::HeaderValueLength => "the length of a header's value",
            Self::HeaderValue => "a header's value",
            Self::NullBitmap => "the null bitmap",
            Self::Key => "the key",
            Self::Value => "the value",
        })
    }
}

/// Why a record, or a list of headers, fits no block. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// More headers than the block can count.
    #[error("{count} headers, and a block holds at most 65535: leave some out")]
    TooManyHeaders {
        /// How many there are.
        count: usize,
    },
    /// A name is longer than its length can say.
    #[error(
        "the name of header {index} has {bytes} bytes, and a block holds at most 65535: shorten it"
    )]
    NameTooLong {
        /// Which header, from 0.
        index: usize,
        /// Bytes of its name.
        bytes: usize,
    },
    /// A part is longer than its length can say.
    #[error(
        "{part} has {bytes} bytes, and a block holds at most 4294967295: keep it elsewhere and send where it is"
    )]
    TooLong {
        /// Which part.
        part: Part,
        /// Bytes that it has, or would have.
        bytes: u64,
    },
}

impl EncodeError {
    /// The name of the cause in the command's answers.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TooManyHeaders { .. } => "too_many_headers",
            Self::NameTooLong { .. } => "name_too_long",
            Self::TooLong { .. } => "too_long",
        }
    }
}

/// Why bytes are no header block, or no record block. Each offset counts from the first byte of the block.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A block that was cut off, or a length that was damaged.
    #[error(
        "it ends within {part}: byte {offset} begins {needed} bytes and {present} are there; get the whole block, \
         or take a length before it for damaged"
    )]
    Truncated {
        /// Where the part begins.
        offset: usize,
        /// What is cut off.
        part: Part,
        /// Bytes that it has.
        needed: u64,
        /// Bytes of it that are there.
        present: u64,
    },
    /// Something else was appended, or a length was damaged.
    #[error(
        "{bytes} bytes from byte {offset} on belong to no part of it: pass one block, and nothing behind it"
    )]
    Trailing {
        /// Where they begin.
        offset: usize,
        /// How many there are.
        bytes: u64,
    },
    /// A header's name that was no text where it was written, or was damaged since.
    #[error(
        "the name of header {index} is not UTF-8 from byte {offset} on: have it written as text"
    )]
    BadName {
        /// Which header, from 0.
        index: usize,
        /// The first byte that is none of UTF-8.
        offset: usize,
    },
    /// A later version wrote it, or the byte was damaged: what follows it can't be known, the checksum included.
    #[error(
        "attrs 0x{attrs:02x} at byte {offset} has flags that this version does not know: read it with the version that wrote it"
    )]
    UnknownAttrs {
        /// Where the byte is.
        offset: usize,
        /// The byte.
        attrs: u8,
    },
    /// The block is not the one that was written.
    #[error(
        "the checksum at byte {offset} is 0x{stored:08x}, and that of the bytes 0x{computed:08x}: it was damaged, take another copy"
    )]
    BadCrc {
        /// Where the checksum is.
        offset: usize,
        /// What it says.
        stored: u32,
        /// What it would have to say.
        computed: u32,
    },
    /// A later version wrote it.
    #[error(
        "presence 0x{presence:02x} at byte {offset} has bits that this version does not know: read it with the version that wrote it"
    )]
    UnknownPresence {
        /// Where the byte is.
        offset: usize,
        /// The byte.
        presence: u8,
    },
    /// A length of a key or value that is null; another program wrote it.
    #[error(
        "byte {offset} gives {part} a length of {bytes}, but it is null: its writer has to write 0"
    )]
    LengthOfNull {
        /// Where the length is.
        offset: usize,
        /// The key or the value.
        part: Part,
        /// The length.
        bytes: u32,
    },
    /// The flag 0x10 on a record without headers; another program wrote it.
    #[error(
        "attrs 0x10 promises headers and byte {offset} counts none: its writer has to leave both out"
    )]
    NoHeaders {
        /// Where the number of headers is.
        offset: usize,
    },
    /// A header with a value that is null as well; another program wrote it.
    #[error(
        "byte {offset} says that header {index} is null, but it has a value of {bytes} bytes: its writer has to choose"
    )]
    NullWithValue {
        /// Where the header's bit is.
        offset: usize,
        /// Which header, from 0.
        index: usize,
        /// Bytes of its value.
        bytes: usize,
    },
    /// Null bits for headers that are not there; another program wrote it.
    #[error(
        "byte {offset} of the null bitmap is 0x{bitmap:02x}, with bits of no header: its writer has to write 0 there"
    )]
    SpareBits {
        /// Where the byte is.
        offset: usize,
        /// The byte.
        bitmap: u8,
    },
}

impl DecodeError {
    /// The name of the cause in the command's answers.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "truncated",
            Self::Trailing { .. } => "trailing",
            Self::BadName { .. } => "bad_name",
            Self::UnknownAttrs { .. } => "unknown_attrs",
            Self::BadCrc { .. } => "bad_crc",
            Self::UnknownPresence { .. } => "unknown_presence",
            Self::LengthOfNull { .. } => "length_of_null",
            Self::NoHeaders { .. } => "no_headers",
            Self::NullWithValue { .. } => "null_with_value",
            Self::SpareBits { .. } => "spare_bits",
        }
    }
}

/// Why a file of record blocks can't be read further. Each offset is that of a block, in bytes from the start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The bytes could not be had.
    #[error("the block at byte {offset} can't be read: {source}")]
    Io {
        /// Where the block begins.
        offset: u64,
        /// What the reader said.
        source: io::Error,
    },
    /// The file ends within its last block: whoever appended it died. All before it was read.
    #[error(
        "the last block, at byte {offset}, was torn off after {present} bytes and needs {needed} or more: \
         cut the file at byte {offset} before anything is appended"
    )]
    Torn {
        /// Where the block begins.
        offset: u64,
        /// Bytes of it that are there.
        present: u64,
        /// Bytes that it has as far as its beginning tells.
        needed: u64,
    },
    /// The block is longer than any that the reader takes, so that its lengths are taken for damaged.
    #[error(
        "the block at byte {offset} claims {bytes} bytes, over the limit of {limit}: it is damaged, or raise the limit"
    )]
    TooLong {
        /// Where the block begins.
        offset: u64,
        /// Bytes that it claims.
        bytes: u64,
        /// The reader's limit.
        limit: u64,
    },
    /// The block is damaged; what follows it can't be found, since its lengths may be.
    #[error("the block at byte {offset}: {fault}")]
    Corrupt {
        /// Where the block begins.
        offset: u64,
        /// What is wrong with it.
        #[source]
        fault: DecodeError,
    },
}
