//! A state that rides beside the map: how many records brought something, and which, as a number and a sum.

use keyway_core::{PartitionPlan, PlannedRider};
use keyway_rider::{CommitMap, Offer, Rider, RiderBytes, RiderState};

/// The offsets that came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    records: u64,
    sum: u64,
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
        }
    }

    pub(crate) fn add(&mut self, offset: i64) {
        self.records += 1;
        // Spread, so that two offsets do not stand for two others.
        self.sum = self.sum.wrapping_add(
            (offset as u64 + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(17),
        );
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        [self.records.to_be_bytes(), self.sum.to_be_bytes()].concat()
    }
}

impl RiderState for Tally {
    type Update = i64;

    fn apply(&mut self, offset: &i64) {
        self.add(*offset);
    }

    fn encode(&self, _: usize) -> Option<Vec<u8>> {
        Some(self.bytes())
    }
}

/// What a member puts beside the map of a plan.
pub(crate) fn offer(plan: &PartitionPlan, map: &CommitMap) -> Offer {
    match &plan.rider {
        PlannedRider::Nothing => Offer::Nothing,
        PlannedRider::Marker(_) | PlannedRider::Ask => Offer::Marker,
        PlannedRider::State(state) => state
            .encode(map.max_rider_bytes())
            .and_then(|bytes| RiderBytes::new(bytes).ok())
            .map_or(Offer::Marker, Offer::Rider),
    }
}
