//! The rider as its writer gives it, and as a reader finds it.

use thiserror::Error;

use crate::envelope::MAX_RIDER_BYTES;

/// A rider that can be written: of 1 to [`MAX_RIDER_BYTES`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RiderBytes(Vec<u8>);

/// Why bytes are no rider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidRider {
    /// There are none: an envelope of no bytes says that a rider was dropped.
    #[error("a rider has at least one byte; `None` says that there is none")]
    Empty,
    /// More than any envelope holds.
    #[error("a rider of {bytes} bytes, where {MAX_RIDER_BYTES} are the most")]
    TooLong {
        /// Bytes given.
        bytes: usize,
    },
}

impl RiderBytes {
    /// A rider of these bytes.
    ///
    /// # Errors
    /// When there are none, or too many for any envelope.
    pub fn new(bytes: Vec<u8>) -> Result<Self, InvalidRider> {
        match bytes.len() {
            0 => Err(InvalidRider::Empty),
            len if len > MAX_RIDER_BYTES => Err(InvalidRider::TooLong { bytes: len }),
            _ => Ok(Self(bytes)),
        }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// What a commit says of the application's rider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rider {
    /// The writer had none.
    #[default]
    None,
    /// The writer had one, or had found one, and could not write it.
    Dropped,
    /// The rider; never empty.
    Present(Vec<u8>),
    /// There is an envelope, and it can't be parsed.
    Unreadable,
}

impl Rider {
    /// The bytes, where there are some.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Present(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The name in the command's answers.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Dropped => "dropped",
            Self::Present(_) => "present",
            Self::Unreadable => "unreadable",
        }
    }
}
