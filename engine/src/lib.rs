#![doc = include_str!("../README.md")]

mod budget;
mod builder;
mod circuit;
mod context;
mod engine;
pub mod group;
mod handler;
mod health;
mod kafka;
mod limits;
pub mod metrics;
mod observer;
mod outcome;
mod poll;
mod record;
mod retry;
mod riders;
mod route;
mod settings;
mod status;
mod stop;
pub mod testing;
mod workers;

pub use keyway_core::{Exhausted, Ordering};
pub use keyway_offsets as offsets;
pub use keyway_rider as rider;
pub use keyway_rider::{BadMetadata, Rider, RiderState, Update};
pub use rdkafka;
pub use rdkafka::ClientConfig;

pub use builder::{BuildError, Builder, Keyway};
pub use circuit::{Circuit, CircuitStatus};
pub use context::{Fence, RecordId};
pub use engine::{Engine, StartError};
pub use health::{Health, NotReady, Stuck};
pub use kafka::{ClientError, ConfigError, DeniedWhat, ErrorCode, OauthToken, TopicPartition};
pub use limits::{LimitError, Limits, Rate};
pub use observer::Observer;
pub use outcome::{BatchOutcome, Outcome, Reason};
pub use record::{Header, Record, UnreadableHeaders};
pub use retry::Retry;
pub use riders::{Assigned, RiderContext, RiderReason};
pub use route::Route;
pub use settings::{CommitMode, MapsWithoutEpoch, StartAt};
pub use status::{PartitionStatus, RouteStatus, Status};
pub use stop::{CommitError, Report, StopReason};
