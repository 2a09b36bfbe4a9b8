//! Kafka, and the only code that names rdkafka.
//!
//! The one idea: librdkafka is polled by **one** thread, and everything that it has to say is either
//! a record or an event that is handled after the records which came before it.
//!
//! ```text
//!                     poll thread                           other threads
//!   librdkafka                                               (commit, restore)
//!   consumer queue --> Source::poll --> records               GroupClient
//!      | callbacks        |                                     commit, committed,
//!      v (store only)     v                                     log_range, ..
//!    stash ---------> Source::next_event                          |
//!                         |                                       |
//!                      assign / unassign ----- group lock ----- check and hand over
//!
//!   NativeRecord: owned, any thread, outlives both; counted.
//!   Dropping Source starts the closer thread: leave the group, wait for the count, destroy.
//! ```
//!
//! - `source` what the poll thread owns; `rebalance` its share in an assignment's life; `positions`
//!   what was delivered, and two faults of librdkafka mended
//! - `group` what other threads may ask and commit; `admin` what somebody may who is no member
//! - `producer` what the engine itself writes, `transactions` together with offsets
//! - `record` what a record gives; `token` what it shows to a broker that asks for OAUTHBEARER;
//!   `native` all unsafe code
//! - `config` which properties an application may set, `errors` and `statistics` what comes back
//! - `close` the end, `log` librdkafka's log, `mock` a broker inside the process
//!
//! Four rules, each paid for by somebody (the design's `06` and `11`):
//! 1. A callback stores its event and returns. Records that the same poll returned belong to the
//!    time before it.
//! 2. Whether a commit is still ours to make is judged, and the commit handed over, under the lock
//!    that a change of the assignment takes.
//! 3. Each partition of a commit has its own answer, and no answer is an answer too.
//! 4. The native client is never freed under a live record, and nobody waits for it.

mod admin;
mod close;
mod config;
mod errors;
mod group;
mod log;
mod mock;
mod native;
mod positions;
mod producer;
mod reading;
mod rebalance;
mod record;
mod source;
mod statistics;
#[cfg(test)]
mod tests;
mod token;
mod transactions;

use std::fmt;
use std::sync::Arc;

pub(crate) use admin::Outsider;
pub(crate) use close::{LeaveOutcome, StaticMember};
pub use config::ConfigError;
pub(crate) use config::{Prefetch, Prepared, StartWish, prepare, transaction_timeout};
pub(crate) use errors::CommitCode;
pub use errors::{ClientError, DeniedWhat, ErrorCode};
pub(crate) use group::{CommitAnswer, CommitOffset, Committed, GroupClient, LogRange, NotSent};
pub use mock::{MockBroker, MockError, MockFault, MockRequest};
pub(crate) use native::{Description, NativeRecord, Outgoing, RawHeader};
pub(crate) use producer::{NotWritten, Producer, ProducerEvent, ProducerTokens};
pub(crate) use record::{PartitionToken, RecordParts, Timestamp};
pub(crate) use source::{Source, SourceConfig, SourceEvent, Start};
pub use token::OauthToken;
pub(crate) use transactions::StepError;

/// What tells one life of a topic from another under the same name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TopicId(pub(crate) i64, pub(crate) i64);

impl TopicId {
    /// As it goes over the wire; zero where the brokers have none.
    pub(crate) fn bytes(self) -> [u8; 16] {
        let number = u128::from(self.0 as u64) << u64::BITS | u128::from(self.1 as u64);
        number.to_be_bytes()
    }
}

/// A topic's name with its id, or why that is not known.
pub(crate) type TopicIdentity = (String, Result<TopicId, ClientError>);

/// A partition of a topic, by the topic's name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// The partition of that number.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
