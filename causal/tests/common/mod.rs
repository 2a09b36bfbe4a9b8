//! Channels, positions and headers for the tests of this crate.

#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

use keyway_causal::{Causes, Channel, Position, TopicId};
use keyway_offsets::Offset;

pub fn topic(last: u8) -> TopicId {
    let mut bytes = [0; 16];
    bytes[15] = last;
    TopicId::new(bytes).unwrap()
}

pub fn channel(topic_last: u8, partition: u32) -> Channel {
    Channel::new(topic(topic_last), partition).unwrap()
}

pub fn at(position: i64) -> Position {
    Position::new(position).unwrap()
}

pub fn offset(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

/// Entries as the last byte of the topic, partition and position.
pub fn causes(entries: &[(u8, u32, i64)]) -> Causes {
    entries
        .iter()
        .map(|&(topic, partition, position)| (channel(topic, partition), at(position)))
        .collect()
}

/// Bytes from digits with blanks between them.
pub fn bytes(digits: &str) -> Vec<u8> {
    hex::decode(digits.replace(char::is_whitespace, "")).unwrap()
}

/// The number in this variable of the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}
