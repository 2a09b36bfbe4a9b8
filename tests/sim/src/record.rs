//! What a record is to the simulator, and the lane that the oracle puts it in.

use keyway_core::Ordering;

/// What the core carries for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) partition: usize,
    pub(crate) offset: i64,
    pub(crate) held: bool,
    pub(crate) poison: bool,
}

/// A lane as the rules name it, without the core's hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Lane {
    Key(usize, usize),
    Partition(usize),
    Record(usize, i64),
}

impl Lane {
    pub(crate) fn of(
        ordering: Ordering,
        partition: usize,
        offset: i64,
        key: Option<usize>,
    ) -> Self {
        match (ordering, key) {
            (Ordering::Key, Some(key)) => Lane::Key(partition, key),
            (Ordering::Partition, _) => Lane::Partition(partition),
            _ => Lane::Record(partition, offset),
        }
    }
}

/// The bytes of a key; the first is the empty key.
pub(crate) fn key_bytes(key: usize) -> Vec<u8> {
    if key == 0 {
        Vec::new()
    } else {
        vec![key as u8]
    }
}
