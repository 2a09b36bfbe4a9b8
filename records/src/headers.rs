//! The header block: an ordered list of names and values.
//!
//! ```text
//!     u16 count | (u16 name_len | name | u32 value_len | value) * count
//! ```
//!
//! It can't say null; a record block keeps that outside it.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError, Part};

/// Most headers of one block: what its count can say.
pub const MAX_HEADERS: usize = u16::MAX as usize;

/// Most bytes of a header's name: what its length can say.
pub const MAX_NAME_BYTES: usize = u16::MAX as usize;

/// Bytes of a header beside its name and value.
const HEADER_FRAME_BYTES: usize = 6;

/// Bytes of the count.
const COUNT_BYTES: usize = 2;

/// One header of a record. Names may come more than once, and the order of a list of them counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header<'a> {
    /// The name.
    pub name: &'a str,
    /// The value; `None` for null, which is not the empty value.
    pub value: Option<&'a [u8]>,
}

impl Header<'_> {
    pub(crate) fn value_or_empty(&self) -> &[u8] {
        self.value.unwrap_or_default()
    }
}

/// The block of these headers. Null is written as empty, since the block can't say it.
///
/// # Errors
/// When a length or the number of headers is over what the block can say.
pub fn encode_headers(headers: &[Header<'_>]) -> Result<Vec<u8>, EncodeError> {
    let mut block = Vec::with_capacity(measure(headers)? as usize);
    write(headers, &mut block);
    Ok(block)
}

/// Reads a block that is there by itself. No value is null.
///
/// # Errors
/// When it is anything but exactly one block. Nothing is allocated by what it announces.
pub fn decode_headers(block: &[u8]) -> Result<Vec<Header<'_>>, DecodeError> {
    let mut cursor = Cursor::new(block);
    let headers = read(&mut cursor)?;
    cursor.end()?;
    Ok(headers)
}

/// Bytes of the block, once it is known that every number fits.
pub(crate) fn measure(headers: &[Header<'_>]) -> Result<u64, EncodeError> {
    let count = headers.len();
    if count > MAX_HEADERS {
        return Err(EncodeError::TooManyHeaders { count });
    }
    let mut sum = COUNT_BYTES as u64;
    for (index, header) in headers.iter().enumerate() {
        let (name, value) = (header.name.len(), header.value_or_empty().len() as u64);
        if name > MAX_NAME_BYTES {
            return Err(EncodeError::NameTooLong { index, bytes: name });
        }
        if value > u32::MAX.into() {
            let part = Part::HeaderValue;
            return Err(EncodeError::TooLong { part, bytes: value });
        }
        sum += (HEADER_FRAME_BYTES + name) as u64 + value;
    }
    Ok(sum)
}

/// Appends the block of headers that were measured.
pub(crate) fn write(headers: &[Header<'_>], to: &mut Vec<u8>) {
    to.extend_from_slice(&(headers.len() as u16).to_be_bytes());
    for header in headers {
        let value = header.value_or_empty();
        to.extend_from_slice(&(header.name.len() as u16).to_be_bytes());
        to.extend_from_slice(header.name.as_bytes());
        to.extend_from_slice(&(value.len() as u32).to_be_bytes());
        to.extend_from_slice(value);
    }
}

/// Reads a block that may have something behind it.
pub(crate) fn read<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Header<'a>>, DecodeError> {
    let count = cursor.u16(Part::HeaderCount)?;
    // Grows with the headers that are there, not with the number that is announced.
    let mut headers = Vec::new();
    for index in 0..count.into() {
        let bytes = cursor.u16(Part::NameLength)?;
        let at = cursor.at();
        let name = cursor.take(bytes.into(), Part::Name)?;
        let name = std::str::from_utf8(name).map_err(|fault| DecodeError::BadName {
            index,
            offset: at + fault.valid_up_to(),
        })?;
        let bytes = cursor.u32(Part::HeaderValueLength)?;
        let value = Some(cursor.take(bytes, Part::HeaderValue)?);
        headers.push(Header { name, value });
    }
    Ok(headers)
}
