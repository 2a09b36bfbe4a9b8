//! The envelope: a rider in front of a hole map.
//!
//! ```text
//!     58 ('X') | u16 length | rider | inner        inner: a hole map's payload with its own magic, or nothing
//! ```
//!
//! A length of 0 is the *dropped* marker. An envelope inside an envelope is corrupt.

use thiserror::Error;

/// The magic byte.
const MAGIC: u8 = b'X';

/// Bytes in front of the rider.
pub(crate) const HEADER_BYTES: usize = 3;

/// The longest rider that an envelope can hold, whatever the broker takes.
pub const MAX_RIDER_BYTES: usize = u16::MAX as usize;

/// Why an envelope can't be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EnvelopeFault {
    /// It ends within its length.
    #[error("it has {bytes} bytes, and its header alone needs {HEADER_BYTES}")]
    Header {
        /// Bytes of the whole.
        bytes: usize,
    },
    /// It ends within its rider.
    #[error("it announces a rider of {announced} bytes and has {present}")]
    Rider {
        /// Bytes announced.
        announced: usize,
        /// Bytes that follow.
        present: usize,
    },
    /// It holds another envelope.
    #[error("an envelope inside an envelope")]
    Nested,
}

/// What is inside an envelope: the rider, empty for the marker, and the map's payload.
pub(crate) type Contents<'a> = (&'a [u8], &'a [u8]);

/// The envelope of a rider of at most [`MAX_RIDER_BYTES`]; of none, the marker.
pub(crate) fn write(rider: &[u8], inner: &[u8]) -> Vec<u8> {
    debug_assert!(rider.len() <= MAX_RIDER_BYTES && !is_envelope(inner));
    let mut bytes = Vec::with_capacity(HEADER_BYTES + rider.len() + inner.len());
    bytes.push(MAGIC);
    bytes.extend_from_slice(&(rider.len() as u16).to_be_bytes());
    bytes.extend_from_slice(rider);
    bytes.extend_from_slice(inner);
    bytes
}

pub(crate) fn is_envelope(payload: &[u8]) -> bool {
    payload.first() == Some(&MAGIC)
}

/// Opens `payload`, which [`is_envelope`].
pub(crate) fn open(payload: &[u8]) -> Result<Contents<'_>, EnvelopeFault> {
    let bytes = payload.len();
    let Some((&[_, high, low], rest)) = payload.split_first_chunk() else {
        return Err(EnvelopeFault::Header { bytes });
    };
    let announced = usize::from(u16::from_be_bytes([high, low]));
    let Some((rider, inner)) = rest.split_at_checked(announced) else {
        return Err(EnvelopeFault::Rider {
            announced,
            present: rest.len(),
        });
    };
    if is_envelope(inner) {
        return Err(EnvelopeFault::Nested);
    }
    Ok((rider, inner))
}
