//! Which records share a lane.
//!
//! A lane is named by a seeded 64-bit hash of its partition's slot and of what the ordering looks at, so that
//! every ordering mode is one hash and the rest of the core knows none of them.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use keyway_offsets::Offset;

use crate::ids::{LaneId, PartitionSlot};

/// The order that is kept among the records of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ordering {
    /// Records with equal keys run one after another; records without a key have no order.
    #[default]
    Key,
    /// All records of a partition run one after another.
    Partition,
    /// No order.
    Unordered,
}

/// Names lanes. Two members may use different seeds: a lane's name never leaves its member.
#[derive(Clone, Debug)]
pub struct LaneNames {
    state: FixedState,
}

impl LaneNames {
    /// Names from `seed`, which should be random: keys that collide under one seed then don't under another.
    pub fn new(seed: u64) -> Self {
        Self {
            state: FixedState::with_seed(seed),
        }
    }

    /// The lane of a record under `ordering`.
    pub fn lane(
        &self,
        ordering: Ordering,
        slot: PartitionSlot,
        offset: Offset,
        key: Option<&[u8]>,
    ) -> LaneId {
        match (ordering, key) {
            (Ordering::Key, Some(key)) => self.keyed(slot, key),
            (Ordering::Partition, _) => self.name((slot.0, 1_u8)),
            (Ordering::Key, None) | (Ordering::Unordered, _) => {
                self.name((slot.0, 2_u8, offset.get()))
            }
        }
    }

    /// The lane of a record whose lane the user chose by a value.
    pub fn keyed(&self, slot: PartitionSlot, key: &[u8]) -> LaneId {
        self.name((slot.0, 0_u8, key))
    }

    fn name(&self, parts: impl std::hash::Hash) -> LaneId {
        LaneId(self.state.hash_one(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Offset {
        Offset::new(offset).expect("not negative")
    }

    /// Without the slot in the name it fails with one lane for both partitions.
    #[test]
    fn equal_keys_share_a_lane_within_a_partition_only() {
        let names = LaneNames::new(7);
        let lane =
            |slot, offset, key| names.lane(Ordering::Key, PartitionSlot(slot), at(offset), key);
        assert_eq!(lane(0, 1, Some(b"a".as_slice())), lane(0, 2, Some(b"a")));
        assert_ne!(lane(0, 1, Some(b"a".as_slice())), lane(1, 1, Some(b"a")));
        assert_ne!(lane(0, 1, Some(b"a".as_slice())), lane(0, 1, Some(b"b")));
    }

    /// With one taken for the other it fails: two lanes for the empty key, or one for none.
    #[test]
    fn an_empty_key_is_a_key_and_no_key_is_a_lane_of_its_own() {
        let names = LaneNames::new(7);
        let lane = |offset, key| names.lane(Ordering::Key, PartitionSlot(0), at(offset), key);
        assert_eq!(lane(1, Some(b"".as_slice())), lane(2, Some(b"")));
        assert_ne!(lane(1, None), lane(2, None));
    }

    /// With the offset in the name of a partition's lane it fails with two.
    #[test]
    fn partition_order_is_one_lane_and_unordered_is_one_for_each_record() {
        let names = LaneNames::new(7);
        let lane =
            |ordering, offset| names.lane(ordering, PartitionSlot(3), at(offset), Some(b"k"));
        assert_eq!(lane(Ordering::Partition, 1), lane(Ordering::Partition, 2));
        assert_ne!(lane(Ordering::Unordered, 1), lane(Ordering::Unordered, 2));
    }
}
