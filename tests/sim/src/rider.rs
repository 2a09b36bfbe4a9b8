//! A state that rides beside the map: how many records brought something, and which, as a number and a sum.

use std::collections::BTreeSet;

use keyway_core::{PartitionPlan, PlannedRider};
use keyway_offsets::HoleMap;
use keyway_rider::{CommitMap, CommitText, Offer, Rider, RiderBytes, RiderState};

/// The offsets that came in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    records: u64,
    sum: u64,
    /// Those of this assignment, one by one, for the invariants: no rider has room for them.
    offsets: BTreeSet<i64>,
}

impl Tally {
    /// What a commit's rider says; nothing where it has none.
    pub(crate) fn restored(rider: &Rider) -> Self {
        let Some((records, sum)) = rider.bytes().and_then(|bytes| bytes.split_first_chunk()) else {
            return Self::default();
        };
        Self {
            records: u64::from_be_bytes(*records),
            sum: sum.try_into().map_or(0, u64::from_be_bytes),
            offsets: BTreeSet::new(),
        }
    }

    pub(crate) fn add(&mut self, offset: i64) {
        self.records += 1;
        // Spread, so that two offsets do not stand for two others.
        let spread = (offset as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sum = self.sum.wrapping_add(spread.rotate_left(17));
        self.offsets.insert(offset);
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.records.to_be_bytes(), self.sum.to_be_bytes()].concat()
    }
}

/// Asked for with so much room, a state gives its offsets one by one.
const ALL: usize = usize::MAX;

impl RiderState for Tally {
    type Update = i64;

    fn apply(&mut self, offset: &i64) {
        self.add(*offset);
    }

    fn encode(&self, max_bytes: usize) -> Option<Vec<u8>> {
        match max_bytes {
            ALL => Some(
                self.offsets
                    .iter()
                    .flat_map(|offset| offset.to_be_bytes())
                    .collect(),
            ),
            _ => Some(self.bytes()),
        }
    }
}

/// What a member puts beside the map of a plan, as the engine does. A supplier says `value`.
pub(crate) fn offer(plan: &PartitionPlan, map: &CommitMap, value: u64) -> Offer {
    let bytes = match &plan.rider {
        PlannedRider::Nothing => return Offer::Nothing,
        PlannedRider::Marker(_) => return Offer::Marker,
        PlannedRider::Ask => value.to_be_bytes().to_vec(),
        // This simulator's gate writes none.
        PlannedRider::Gate(rider) => rider.clone(),
        // Without its map it would count records twice.
        PlannedRider::State(_) if map.is_stripped() => return Offer::Marker,
        PlannedRider::State(state) => match state.encode(map.max_rider_bytes()) {
            Some(bytes) => bytes,
            None => return Offer::Nothing,
        },
    };
    match RiderBytes::new(bytes) {
        Ok(rider) if rider.as_slice().len() <= map.max_rider_bytes() => Offer::Rider(rider),
        _ => Offer::Marker,
    }
}

/// An offset that a state of this text has, and that a reader of the text runs again.
pub(crate) fn counted_twice(plan: &PartitionPlan, text: &CommitText) -> Option<i64> {
    let PlannedRider::State(state) = &plan.rider else {
        return None;
    };
    if !text.rung.has_rider() {
        return None;
    }
    let map = match text.rung.has_map() {
        true => plan.map.clone(),
        false => HoleMap::caught_up(plan.map.base()),
    };
    let offsets = state.encode(ALL).unwrap_or_default();
    let mut offsets = offsets.chunks_exact(8).filter_map(|bytes| {
        let offset = i64::from_be_bytes(bytes.try_into().ok()?);
        Some((offset, keyway_offsets::Offset::new(offset)?))
    });
    offsets.find_map(|(offset, at)| (!map.is_complete(at)).then_some(offset))
}
