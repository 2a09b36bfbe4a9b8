//! Dead letters as their readers find them.

use crate::dead_letters::Letter;

/// A dead letter that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestLetter {
    /// The dead-letter topic.
    pub topic: String,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// The record's value.
    pub value: Option<Vec<u8>>,
    /// The record's headers in their order, then those that tell its story.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl TestLetter {
    pub(super) fn of(topic: &str, letter: &Letter<'_>, stamp: Option<&[u8]>) -> Self {
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let headers = letter.headers(stamp);
        let message = letter.outgoing(topic, &headers);
        Self {
            topic: topic.to_owned(),
            key: owned(message.key),
            value: owned(message.value),
            headers: message
                .headers
                .iter()
                .map(|(name, value)| (name.to_vec(), owned(*value)))
                .collect(),
        }
    }

    /// The text of the last header with this name, such as `keyway.dlq.error`.
    pub fn header(&self, name: &str) -> Option<&str> {
        text_of(&self.headers, name)
    }
}

/// The text of the last header with this name.
pub(super) fn text_of<'h>(
    headers: &'h [(Vec<u8>, Option<Vec<u8>>)],
    name: &str,
) -> Option<&'h str> {
    let mut named = headers.iter().rev();
    let (_, value) = named.find(|(found, _)| found == name.as_bytes())?;
    std::str::from_utf8(value.as_deref()?).ok()
}
