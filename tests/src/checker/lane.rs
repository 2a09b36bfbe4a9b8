//! Lanes: what runs one record after the other.

use keyway_offsets::Offset;

use super::Place;
use crate::event_log::Event;

/// What the run promised to keep in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// Records of one key in one partition; those without a key have no order among themselves.
    Key,
    /// All records of a partition.
    Partition,
    /// Nothing but that one record never runs twice at once.
    Unordered,
}

/// Records that run one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    Key(Place, Vec<u8>),
    Partition(Place),
    Record(Place, Offset),
}

/// The record of an event about one.
pub(super) fn record(event: &Event) -> Option<(Place, Offset)> {
    Some(((event.topic.clone(), event.partition), event.offset?))
}

impl Lane {
    pub(super) fn place(&self) -> &Place {
        match self {
            Lane::Key(place, _) | Lane::Partition(place) | Lane::Record(place, _) => place,
        }
    }
}

impl Ordering {
    /// The record of an event about one, and its lane.
    pub(super) fn record(self, event: &Event) -> Option<(Lane, (Place, Offset))> {
        let (place, offset) = record(event)?;
        let lane = match (self, &event.key) {
            (Ordering::Key, Some(key)) => Lane::Key(place.clone(), key.clone()),
            (Ordering::Partition, _) => Lane::Partition(place.clone()),
            (Ordering::Key, None) | (Ordering::Unordered, _) => Lane::Record(place.clone(), offset),
        };
        Some((lane, (place, offset)))
    }
}
