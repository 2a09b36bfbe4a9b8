//! What a record gives to its reader, beside the fields that `native/message.rs` reads in place.

use std::sync::Arc;

use super::native::{HeaderSource, NativeRecord};

/// A partition of received records as two numbers, so that a record finds its slot without hashing a
/// name. See [`NativeRecord::partition_token`] for how long it is valid.
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

/// What a record is made of that no broker sent: [`NativeRecord::made`].
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

/// Why headers can't be read. The record's other parts can.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum HeaderError {
    /// A producer that writes names in another encoding.
    #[error("header {index} has a name that is not UTF-8: {name}")]
    NameNotUtf8 {
        /// Which header, from 0.
        index: usize,
        /// The name with what is not UTF-8 replaced.
        name: String,
    },
    /// The header block does not follow the protocol.
    #[error("the record's headers can't be read: {0}")]
    Malformed(String),
}

/// The headers of a record, in its order, duplicates included.
///
/// A header with a bad name is an error item; those behind it still follow.
pub(crate) struct Headers<'r> {
    source: HeaderSource<'r>,
    next: usize,
    count: usize,
    malformed: Option<String>,
}

impl<'r> Iterator for Headers<'r> {
    type Item = Result<(&'r str, Option<&'r [u8]>), HeaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(text) = self.malformed.take() {
            return Some(Err(HeaderError::Malformed(text)));
        }
        if self.next >= self.count {
            return None;
        }
        let index = self.next;
        self.next += 1;
        let (name, value) = self.source.header(index)?;
        Some(match std::str::from_utf8(name) {
            Ok(name) => Ok((name, value)),
            Err(_) => Err(HeaderError::NameNotUtf8 {
                index,
                name: String::from_utf8_lossy(name).into_owned(),
            }),
        })
    }
}

impl NativeRecord {
    /// The headers. The first call parses them and takes a short lock; a reader that needs them
    /// often should keep what it found.
    pub(crate) fn headers(&self) -> Headers<'_> {
        match self.header_source() {
            Ok(source) => Headers {
                source,
                next: 0,
                count: source.count(),
                malformed: None,
            },
            Err(failure) => Headers {
                source: HeaderSource::None,
                next: 0,
                count: 0,
                malformed: Some(failure.text),
            },
        }
    }

    /// Bytes of the headers' names and values; parses them.
    pub(crate) fn header_bytes(&self) -> usize {
        let Ok(source) = self.header_source() else {
            return 0;
        };
        (0..source.count())
            .filter_map(|index| source.header(index))
            .map(|(name, value)| name.len() + value.map_or(0, <[u8]>::len))
            .sum()
    }

    /// Bytes of key, value and headers; parses the headers.
    pub(crate) fn full_bytes(&self) -> usize {
        self.payload_bytes() + self.header_bytes()
    }
}
