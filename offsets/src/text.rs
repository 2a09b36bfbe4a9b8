//! The outer layer: Base64 of a magic byte and a body.
//!
//! ```text
//!     metadata = Base64( magic:1 | body )      standard alphabet, written with padding
//! ```
//!
//! Padding may be absent on read, all of it or none: half a padding is no encoder's.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use crate::error::TextFault;

/// The characters that `bytes` bytes become.
pub const fn chars_of(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(4)
}

/// The most bytes whose text has at most `chars` characters.
pub const fn bytes_within(chars: usize) -> usize {
    chars / 4 * 3
}

/// The text of `bytes`; no bytes are the empty text.
pub fn write(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of `text`.
///
/// # Errors
/// When it is no Base64.
pub fn read(text: &[u8]) -> Result<Vec<u8>, TextFault> {
    let engine = if text.last() == Some(&b'=') {
        STANDARD
    } else {
        STANDARD_NO_PAD
    };
    engine.decode(text).map_err(|error| match error {
        base64::DecodeError::InvalidByte(position, byte) => TextFault::Byte { position, byte },
        base64::DecodeError::InvalidLength(_) => TextFault::Length { chars: text.len() },
        base64::DecodeError::InvalidLastSymbol(position, byte) => {
            TextFault::LastSymbol { position, byte }
        }
        base64::DecodeError::InvalidPadding => TextFault::Padding,
    })
}
