#![doc = include_str!("../README.md")]

mod causes;
mod channel;
mod error;
mod header;
mod topic;
mod varint;
mod view;

pub use causes::Causes;
pub use channel::{Channel, MAX_PARTITION, NoPosition, Position};
pub use error::{CausesError, Part};
pub use header::{HEADER, RESERVED_PREFIX, find_causes, is_reserved};
pub use topic::{InvalidTopicId, TopicId};
pub use view::{CausesView, Entries, TopicCauses, Topics};
