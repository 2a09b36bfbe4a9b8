#![doc = include_str!("../README.md")]

mod causes;
mod channel;
mod clock;
mod cursor;
mod error;
mod gate;
mod header;
mod shard;
mod topic;
mod varint;
mod view;

pub use causes::Causes;
pub use channel::{Channel, MAX_PARTITION, NoPosition, Position};
pub use clock::CausalClock;
pub use error::{CausesError, Part, ShardError};
pub use gate::{
    Blocker, CAUSES_BUDGET, CarriesCauses, CausalConfig, CausalGate, CausalStatus, CausalStop,
    Counters, GroupPartition, HeldRecord, Reading, SHARD_BUDGET, StampError, Whose,
};
pub use header::{HEADER, RESERVED_PREFIX, ReservedHeader, check_names, find_causes, is_reserved};
pub use shard::Shard;
pub use topic::{InvalidTopicId, TopicId};
pub use view::{CausesView, Entries, TopicCauses, Topics};
