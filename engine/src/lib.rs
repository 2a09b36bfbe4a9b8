#![doc = include_str!("../README.md")]

mod budget;
mod builder;
mod context;
mod engine;
mod handler;
mod kafka;
pub mod metrics;
mod observer;
mod outcome;
mod poll;
mod record;
mod route;
mod status;
mod stop;
pub mod testing;
mod workers;

pub use keyway_core::Ordering;
pub use keyway_offsets as offsets;
pub use rdkafka;
pub use rdkafka::ClientConfig;

pub use builder::{
    BadMetadata, BuildError, Builder, CommitMode, Keyway, MapsWithoutEpoch, StartAt,
};
pub use context::{Fence, RecordId};
pub use engine::{CommitError, Engine, StartError};
pub use kafka::{ClientError, ConfigError, DeniedWhat, ErrorCode, TopicPartition};
pub use observer::Observer;
pub use outcome::{BatchOutcome, Outcome, Reason};
pub use record::{Header, Record, UnreadableHeaders};
pub use route::Route;
pub use status::{PartitionStatus, Status};
pub use stop::{Report, StopReason};
