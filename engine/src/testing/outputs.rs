//! Outputs as their readers find them.

use keyway_causal::HEADER;

use super::letters::text_of;
use crate::causal::stamped;
use crate::output::Output;
use crate::record::Message;

/// A record that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestOutput {
    /// Its topic.
    pub topic: String,
    /// The partition that its sender chose, if any.
    pub partition: Option<i32>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// Its headers in their order.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// The time that its sender chose, if any, in milliseconds since 1970.
    pub timestamp: Option<i64>,
}

impl TestOutput {
    /// `of` is the record that it is an output of.
    pub(super) fn of(output: &Output, of: &Message, stamp: Option<&[u8]>) -> Self {
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let copied = stamp.and_then(|_| of.raw_header(HEADER));
        // A reserved header is refused by the writer alone.
        let headers = stamped(output.raw_headers(), stamp, copied);
        let headers = headers.unwrap_or_else(|_| output.raw_headers());
        let message = output.outgoing(&headers);
        Self {
            topic: message.topic.to_owned(),
            partition: message.partition,
            key: owned(message.key),
            value: owned(message.value),
            headers: headers
                .iter()
                .map(|(name, value)| (name.to_vec(), owned(*value)))
                .collect(),
            timestamp: message.timestamp,
        }
    }

    /// The text of the last header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        text_of(&self.headers, name)
    }
}
