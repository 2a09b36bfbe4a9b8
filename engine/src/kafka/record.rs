//! What a record gives to its reader, beside the fields that `native/message.rs` reads in place.

use std::sync::Arc;

/// A partition of received records as two numbers, so that a record finds its slot without hashing a
/// name. See [`NativeRecord::partition_token`](super::NativeRecord::partition_token) for how long it is valid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PartitionToken {
    pub(super) topic: usize,
    pub(super) partition: i32,
}

/// A record's time in milliseconds since 1970, by the topic's `message.timestamp.type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timestamp {
    /// Set by the producer.
    Created(i64),
    /// Set by the broker when it appended the record.
    Appended(i64),
}

impl Timestamp {
    /// Milliseconds since 1970, whoever set them.
    pub(crate) fn millis(self) -> i64 {
        match self {
            Self::Created(millis) | Self::Appended(millis) => millis,
        }
    }
}

/// What a record is made of that no broker sent: [`NativeRecord::made`](super::NativeRecord::made).
#[derive(Clone, Debug)]
pub(crate) struct RecordParts {
    pub(crate) topic: Arc<str>,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) timestamp: Option<Timestamp>,
    /// Names are bytes so that a test can make a name that is not UTF-8.
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(crate) leader_epoch: Option<i32>,
}

impl RecordParts {
    /// A record without key, value, time or headers.
    pub(crate) fn new(topic: impl Into<Arc<str>>, partition: i32, offset: i64) -> Self {
        Self {
            topic: topic.into(),
            partition,
            offset,
            key: None,
            value: None,
            timestamp: None,
            headers: Vec::new(),
            leader_epoch: None,
        }
    }
}
