//! What a handler sends: records of other topics, as values.

use std::sync::Arc;

use crate::kafka::{Outgoing, RawHeader};
use crate::record::{Record, UnreadableHeaders};

/// A record to be sent, with [`Outcome::Send`](crate::Outcome::Send).
///
/// ```
/// use keyway::{Outcome, Output, Record};
///
/// fn enrich(record: &Record) -> Outcome {
///     let output = Output::to("orders.enriched")
///         .key(record.key().unwrap_or_default())
///         .value("..")
///         .header("source", record.topic());
///     Outcome::Send(vec![output])
/// }
/// # let _ = keyway::Route::handler(enrich);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    topic: Arc<str>,
    partition: Option<i32>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    timestamp: Option<i64>,
}

impl Output {
    /// A record of this topic with neither key nor value, which both are null until they are set. An `Arc<str>` that is
    /// kept for many outputs is not copied.
    pub fn to(topic: impl Into<Arc<str>>) -> Self {
        Self {
            topic: topic.into(),
            partition: None,
            key: None,
            value: None,
            headers: Vec::new(),
            timestamp: None,
        }
    }

    /// A copy of a record for another topic: its key, value, headers and timestamp. The partition follows the key.
    ///
    /// # Errors
    /// When the record's headers break the protocol.
    pub fn copy_of(record: &Record, topic: impl Into<Arc<str>>) -> Result<Self, UnreadableHeaders> {
        let copy = Self {
            key: record.key().map(<[u8]>::to_vec),
            value: record.value().map(<[u8]>::to_vec),
            timestamp: record.timestamp(),
            ..Self::to(topic)
        };
        copy.headers_of(record)
    }

    /// The key.
    #[must_use]
    pub fn key(self, key: impl Into<Vec<u8>>) -> Self {
        Self {
            key: Some(key.into()),
            ..self
        }
    }

    /// The value. Without one it is a tombstone in a compacted topic.
    #[must_use]
    pub fn value(self, value: impl Into<Vec<u8>>) -> Self {
        Self {
            value: Some(value.into()),
            ..self
        }
    }

    /// One more header, behind those that there are. A name may come more than once.
    #[must_use]
    pub fn header(mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    /// One more header, whose value is null, which is not the empty value.
    #[must_use]
    pub fn null_header(mut self, name: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), None));
        self
    }

    /// More headers, in their order.
    #[must_use]
    pub fn headers<N: Into<Vec<u8>>, V: Into<Vec<u8>>>(
        mut self,
        headers: impl IntoIterator<Item = (N, Option<V>)>,
    ) -> Self {
        let headers = headers.into_iter();
        self.headers
            .extend(headers.map(|(name, value)| (name.into(), value.map(Into::into))));
        self
    }

    /// More headers from a map, whose order means nothing: they are sent sorted by name, so that equal maps make equal
    /// records.
    #[must_use]
    pub fn header_map<N: Into<Vec<u8>>, V: Into<Vec<u8>>>(
        mut self,
        headers: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let first = self.headers.len();
        let headers = headers.into_iter();
        self.headers
            .extend(headers.map(|(name, value)| (name.into(), Some(value.into()))));
        self.headers[first..].sort();
        self
    }

    /// The headers of a record, as they are, behind those that there are.
    ///
    /// # Errors
    /// When they break the protocol.
    pub fn headers_of(mut self, record: &Record) -> Result<Self, UnreadableHeaders> {
        let headers = record.headers()?;
        self.headers.extend(headers.map(|header| {
            let value = header.value().map(<[u8]>::to_vec);
            (header.name_bytes().to_vec(), value)
        }));
        Ok(self)
    }

    /// The partition. Without one it follows the key as with Java's clients, and is drawn where there is no key.
    #[must_use]
    pub fn partition(self, partition: i32) -> Self {
        Self {
            partition: Some(partition),
            ..self
        }
    }

    /// The record's time in milliseconds since 1970; without one, the time of sending.
    #[must_use]
    pub fn timestamp(self, millis: i64) -> Self {
        Self {
            timestamp: Some(millis),
            ..self
        }
    }

    pub(crate) fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// Bytes of key, value and headers.
    pub(crate) fn size(&self) -> usize {
        let len = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        let headers = self.headers.iter();
        let headers: usize = headers.map(|(name, value)| name.len() + len(value)).sum();
        len(&self.key) + len(&self.value) + headers
    }

    /// Its headers as the producer takes them.
    pub(crate) fn raw_headers(&self) -> Vec<RawHeader<'_>> {
        let headers = self.headers.iter();
        headers
            .map(|(name, value)| (name.as_slice(), value.as_deref()))
            .collect()
    }

    pub(crate) fn outgoing<'m>(&'m self, headers: &'m [RawHeader<'m>]) -> Outgoing<'m> {
        Outgoing {
            topic: &self.topic,
            partition: self.partition,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers,
            timestamp: self.timestamp,
        }
    }
}

/// What a record's outputs count against the bound of those that are under way: their bytes, and what each costs beside
/// them.
pub(crate) fn weight(outputs: &[Output]) -> u32 {
    const OVERHEAD: usize = 256;
    let bytes: usize = outputs.iter().map(|output| output.size() + OVERHEAD).sum();
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_headers_keeps_its_order_and_a_map_is_sorted_by_name() {
        let output = Output::to("t")
            .headers([("b", Some("1")), ("a", None), ("b", Some("2"))])
            .header_map([("z", "3"), ("c", "4")])
            .null_header("a");
        let headers = output.raw_headers();
        let expected: [RawHeader<'_>; 6] = [
            (b"b", Some(b"1")),
            (b"a", None),
            (b"b", Some(b"2")),
            (b"c", Some(b"4")),
            (b"z", Some(b"3")),
            (b"a", None),
        ];
        assert_eq!(headers, expected);
    }

    #[test]
    fn an_output_weighs_its_bytes_and_what_it_costs_beside_them() {
        let output = Output::to("t").key("12").value("345").header("6", "78");
        assert_eq!(output.size(), 8);
        assert_eq!(weight(&[output.clone(), output]), 2 * (8 + 256));
        assert_eq!(weight(&[]), 0);
    }
}
