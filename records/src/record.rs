//! The record block: a record with its headers under one checksum.
//!
//! ```text
//!     u32 crc32c | u8 attrs | u8 presence | i64 timestamp | u32 key_len | u32 value_len     22 bytes
//!                | u32 headers_len                                                          if attrs has 0x10
//!                | header block | null bitmap                                               headers_len bytes
//!                | key | value
//! ```
//!
//! The one idea: a record has exactly one block. Whatever could be said in two ways is refused in all but one, so
//! that what was read is written back to the byte, and a checksum of the one stands for the other.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError, Part};
use crate::headers::{self, Header};

/// Bytes of the checksum, which covers all behind it.
const CRC_BYTES: usize = 4;

/// Where the attrs byte is.
const ATTRS_AT: usize = CRC_BYTES;

/// Where the presence byte is.
const PRESENCE_AT: usize = ATTRS_AT + 1;

/// Where the lengths of key and value are.
const KEY_LEN_AT: usize = PRESENCE_AT + 1 + size_of::<i64>();
const VALUE_LEN_AT: usize = KEY_LEN_AT + size_of::<u32>();

/// Bytes of the record header of a record without headers.
const PLAIN_HEAD_BYTES: usize = VALUE_LEN_AT + size_of::<u32>();

/// Bytes of the record header of a record with headers.
const FULL_HEAD_BYTES: usize = PLAIN_HEAD_BYTES + size_of::<u32>();

/// Headers are present.
const ATTR_HEADERS: u8 = 0x10;

const PRESENT_KEY: u8 = 0b01;
const PRESENT_VALUE: u8 = 0b10;

/// A record, as it is kept outside Kafka's own framing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The key; `None` for null, which is not the empty key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` for null (a tombstone in a compacted topic).
    pub value: Option<&'a [u8]>,
    /// Milliseconds since 1970; -1 where Kafka knows none.
    pub timestamp: i64,
    /// The headers, in order.
    pub headers: Vec<Header<'a>>,
}

/// The block of a record.
///
/// # Errors
/// When a length or the number of headers is over what the block can say.
pub fn encode_record(record: &Record<'_>) -> Result<Vec<u8>, EncodeError> {
    let mut block = Vec::new();
    append_record(record, &mut block)?;
    Ok(block)
}

/// Appends the block of a record to `to`, which stays as it is when there is none.
///
/// # Errors
/// As [`encode_record`].
pub fn append_record(record: &Record<'_>, to: &mut Vec<u8>) -> Result<(), EncodeError> {
    let (key, value) = (
        record.key.unwrap_or_default(),
        record.value.unwrap_or_default(),
    );
    let key_len = length(Part::Key, key.len() as u64)?;
    let value_len = length(Part::Value, value.len() as u64)?;
    let headers_len = match record.headers.as_slice() {
        [] => None,
        some => {
            let bytes = headers::measure(some)? + bitmap_bytes(some.len()) as u64;
            Some(length(Part::Headers, bytes)?)
        }
    };

    let start = to.len();
    let payload = u64::from(headers_len.unwrap_or(0)) + u64::from(key_len) + u64::from(value_len);
    to.reserve(FULL_HEAD_BYTES + payload as usize);
    to.extend_from_slice(&[0; CRC_BYTES]);
    to.push(if headers_len.is_some() {
        ATTR_HEADERS
    } else {
        0
    });
    to.push(presence(record));
    to.extend_from_slice(&record.timestamp.to_be_bytes());
    to.extend_from_slice(&key_len.to_be_bytes());
    to.extend_from_slice(&value_len.to_be_bytes());
    if let Some(bytes) = headers_len {
        to.extend_from_slice(&bytes.to_be_bytes());
        headers::write(&record.headers, to);
        write_bitmap(&record.headers, to);
    }
    to.extend_from_slice(key);
    to.extend_from_slice(value);
    let crc = crc32c::crc32c(&to[start + CRC_BYTES..]);
    to[start..start + CRC_BYTES].copy_from_slice(&crc.to_be_bytes());
    Ok(())
}

/// Reads a block that is there by itself.
///
/// # Errors
/// When it is anything but exactly one block in its one form. Nothing is allocated by what it announces.
pub fn decode_record(block: &[u8]) -> Result<Record<'_>, DecodeError> {
    let mut cursor = Cursor::new(block);
    let head = Head::read(&mut cursor)?;
    let (needed, present) = (head.payload(), cursor.rest().len() as u64);
    if present < needed {
        return Err(cursor.truncated(Part::Payload, needed));
    }
    if present > needed {
        // It is shorter than what is there, so that it is no longer than memory.
        return Err(DecodeError::Trailing {
            offset: cursor.at() + needed as usize,
            bytes: present - needed,
        });
    }
    let computed = crc32c::crc32c(&block[CRC_BYTES..]);
    if computed != head.crc {
        return Err(DecodeError::BadCrc {
            offset: 0,
            stored: head.crc,
            computed,
        });
    }
    head.check()?;
    let headers = match head.headers_len {
        None => Vec::new(),
        Some(bytes) => read_headers(cursor.part(bytes, Part::Headers)?)?,
    };
    let key = cursor.take(head.key_len, Part::Key)?;
    let value = cursor.take(head.value_len, Part::Value)?;
    Ok(Record {
        key: head.has(PRESENT_KEY).then_some(key),
        value: head.has(PRESENT_VALUE).then_some(value),
        timestamp: head.timestamp,
        headers,
    })
}

/// What the beginning of a block says of its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// It has so many bytes or more, and they say how many.
    AtLeast(u64),
    Exactly(u64),
}

/// The length of the block that begins with `prefix`.
///
/// # Errors
/// When its flags leave it unknown.
pub(crate) fn block_length(prefix: &[u8]) -> Result<Length, DecodeError> {
    let mut cursor = Cursor::new(prefix);
    match Head::read(&mut cursor) {
        Ok(head) => Ok(Length::Exactly(cursor.at() as u64 + head.payload())),
        Err(DecodeError::Truncated { .. }) if prefix.len() < PLAIN_HEAD_BYTES => {
            Ok(Length::AtLeast(PLAIN_HEAD_BYTES as u64))
        }
        Err(DecodeError::Truncated { .. }) => Ok(Length::AtLeast(FULL_HEAD_BYTES as u64)),
        Err(fault) => Err(fault),
    }
}

/// Whether a block can begin with `prefix`, whatever follows.
pub(crate) fn check_beginning(prefix: &[u8]) -> Result<(), DecodeError> {
    match Head::read(&mut Cursor::new(prefix)) {
        Ok(head) => head.check(),
        Err(DecodeError::Truncated { .. }) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// The record header.
struct Head {
    crc: u32,
    presence: u8,
    timestamp: i64,
    key_len: u32,
    value_len: u32,
    headers_len: Option<u32>,
}

impl Head {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let part = Part::RecordHeader;
        let crc = cursor.u32(part)?;
        let attrs = cursor.u8(part)?;
        // A flag of another version may have put something in between.
        if attrs & !ATTR_HEADERS != 0 {
            let offset = ATTRS_AT;
            return Err(DecodeError::UnknownAttrs { offset, attrs });
        }
        Ok(Self {
            crc,
            presence: cursor.u8(part)?,
            timestamp: cursor.i64(part)?,
            key_len: cursor.u32(part)?,
            value_len: cursor.u32(part)?,
            headers_len: match attrs {
                0 => None,
                _ => Some(cursor.u32(part)?),
            },
        })
    }

    fn payload(&self) -> u64 {
        [self.headers_len.unwrap_or(0), self.key_len, self.value_len]
            .into_iter()
            .map(u64::from)
            .sum()
    }

    const fn has(&self, part: u8) -> bool {
        self.presence & part != 0
    }

    /// Whether presence and lengths agree.
    fn check(&self) -> Result<(), DecodeError> {
        if self.presence & !(PRESENT_KEY | PRESENT_VALUE) != 0 {
            return Err(DecodeError::UnknownPresence {
                offset: PRESENCE_AT,
                presence: self.presence,
            });
        }
        for (bit, offset, part, bytes) in [
            (PRESENT_KEY, KEY_LEN_AT, Part::Key, self.key_len),
            (PRESENT_VALUE, VALUE_LEN_AT, Part::Value, self.value_len),
        ] {
            if !self.has(bit) && bytes != 0 {
                return Err(DecodeError::LengthOfNull {
                    offset,
                    part,
                    bytes,
                });
            }
        }
        Ok(())
    }
}

fn presence(record: &Record<'_>) -> u8 {
    let key = if record.key.is_some() { PRESENT_KEY } else { 0 };
    let value = if record.value.is_some() {
        PRESENT_VALUE
    } else {
        0
    };
    key | value
}

fn length(part: Part, bytes: u64) -> Result<u32, EncodeError> {
    u32::try_from(bytes).map_err(|_| EncodeError::TooLong { part, bytes })
}

/// Bytes of the null bitmap of so many headers.
const fn bitmap_bytes(headers: usize) -> usize {
    headers.div_ceil(8)
}

/// A bit for each header, the first one the least significant of the first byte; 1 for null.
fn write_bitmap(headers: &[Header<'_>], to: &mut Vec<u8>) {
    to.extend(headers.chunks(8).map(|eight| {
        let bits = eight.iter().enumerate();
        bits.fold(0, |byte, (bit, header)| {
            byte | u8::from(header.value.is_none()) << bit
        })
    }));
}

/// Reads the header block and the null bitmap, which are all that is there.
fn read_headers(mut cursor: Cursor<'_>) -> Result<Vec<Header<'_>>, DecodeError> {
    let offset = cursor.at();
    let mut headers = headers::read(&mut cursor)?;
    if headers.is_empty() {
        return Err(DecodeError::NoHeaders { offset });
    }
    let start = cursor.at();
    // At most an eighth of 65,535.
    let bitmap = cursor.take(bitmap_bytes(headers.len()) as u32, Part::NullBitmap)?;
    cursor.end()?;
    let mut index = 0;
    for (offset, (eight, &bits)) in (start..).zip(headers.chunks_mut(8).zip(bitmap)) {
        if u32::from(bits) >> eight.len() != 0 {
            return Err(DecodeError::SpareBits {
                offset,
                bitmap: bits,
            });
        }
        for (bit, header) in eight.iter_mut().enumerate() {
            if bits & 1 << bit != 0 {
                let bytes = header.value_or_empty().len();
                if bytes != 0 {
                    return Err(DecodeError::NullWithValue {
                        offset,
                        index,
                        bytes,
                    });
                }
                header.value = None;
            }
            index += 1;
        }
    }
    Ok(headers)
}
