#![doc = include_str!("../README.md")]

mod causes;
mod channel;
mod clock;
mod cursor;
mod error;
mod header;
mod shard;
mod topic;
mod varint;
mod view;

pub use causes::Causes;
pub use channel::{Channel, MAX_PARTITION, NoPosition, Position};
pub use clock::CausalClock;
pub use error::{CausesError, Part, ShardError};
pub use header::{HEADER, RESERVED_PREFIX, ReservedHeader, check_names, find_causes, is_reserved};
pub use shard::Shard;
pub use topic::{InvalidTopicId, TopicId};
pub use view::{CausesView, Entries, TopicCauses, Topics};
