//! Which life of a topic.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Hexadecimal digits of a topic id.
const DIGITS: usize = 32;

/// The id that Kafka gave a topic when it was created (KIP-516): a topic that is deleted and created again under its name
/// has another one. Never zero, which Kafka keeps for "none".
///
/// Ordered as its bytes are, unsigned. Written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId([u8; 16]);

impl TopicId {
    /// The id of these bytes, the most significant first; `None` when all are zero.
    pub fn new(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// An id that was seen not to be zero.
    pub(crate) const fn valid(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes, the most significant first.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopicId({self})")
    }
}

/// Why digits are no topic id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidTopicId {
    /// Not as many hexadecimal digits as an id has.
    #[error("a topic id has {DIGITS} hexadecimal digits, without hyphens")]
    Digits,
    /// The id that no topic has.
    #[error("the topic id is zero, which Kafka gives to no topic")]
    Zero,
}

impl FromStr for TopicId {
    type Err = InvalidTopicId;

    fn from_str(digits: &str) -> Result<Self, InvalidTopicId> {
        // `from_str_radix` takes a sign as well.
        if digits.len() != DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(InvalidTopicId::Digits);
        }
        let number = u128::from_str_radix(digits, 16).map_err(|_| InvalidTopicId::Digits)?;
        Self::new(number.to_be_bytes()).ok_or(InvalidTopicId::Zero)
    }
}
