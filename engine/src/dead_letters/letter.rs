//! What is in a dead letter.

use std::sync::Arc;

use keyway_causal::HEADER;

use super::{Form, envelope};
use crate::kafka::{Outgoing, RawHeader};
use crate::record::Record;

/// Who gives records up.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) group: Arc<str>,
    /// The member's id in its group; none before it has joined and after it was thrown out.
    pub(crate) member: Option<Arc<str>>,
}

/// The names of a story's headers. The topic's comes first.
pub(super) mod story {
    pub(crate) const TOPIC: &str = "keyway.dlq.topic";
    pub(crate) const PARTITION: &str = "keyway.dlq.partition";
    pub(crate) const OFFSET: &str = "keyway.dlq.offset";
    pub(crate) const TIMESTAMP: &str = "keyway.dlq.timestamp";
    pub(crate) const ATTEMPTS: &str = "keyway.dlq.attempts";
    pub(crate) const FIRST_FAILURE: &str = "keyway.dlq.first_failure";
    pub(crate) const LAST_FAILURE: &str = "keyway.dlq.last_failure";
    pub(crate) const ERROR: &str = "keyway.dlq.error";
    pub(crate) const GROUP: &str = "keyway.dlq.group";
    pub(crate) const MEMBER: &str = "keyway.dlq.member";
    pub(crate) const HEADERS_UNREADABLE: &str = "keyway.dlq.headers_unreadable";
}

/// The record's own parts, and its story as headers.
#[derive(Debug)]
pub(crate) struct Letter<'r> {
    record: &'r Record,
    /// Name and value behind the record's own headers.
    story: Vec<(&'static str, String)>,
    /// The value in place of the record's own.
    envelope: Option<Vec<u8>>,
}

impl<'r> Letter<'r> {
    /// `now` is milliseconds since 1970.
    pub(crate) fn of(record: &'r Record, form: Form, origin: &Origin, now: i64) -> Self {
        let mut story = vec![
            (story::TOPIC, record.topic().to_owned()),
            (story::PARTITION, record.partition().to_string()),
            (story::OFFSET, record.offset().to_string()),
        ];
        let mut add = |name, value: Option<String>| story.extend(value.map(|value| (name, value)));
        let number = |number: i64| number.to_string();
        add(story::TIMESTAMP, record.timestamp().map(number));
        add(story::ATTEMPTS, Some(record.attempt().to_string()));
        let failures = record.failures();
        let first = failures.as_ref().map(|failures| failures.first_at);
        let last = failures.as_ref().map(|failures| failures.last_at);
        add(story::FIRST_FAILURE, first.map(number));
        add(story::LAST_FAILURE, last.map(number));
        add(story::ERROR, failures.map(|failures| failures.error.into()));
        add(story::GROUP, Some(origin.group.to_string()));
        add(
            story::MEMBER,
            origin.member.as_ref().map(ToString::to_string),
        );
        let unreadable = record.headers().err();
        add(
            story::HEADERS_UNREADABLE,
            unreadable.map(|why| why.to_string()),
        );
        match form {
            Form::Headers => Self {
                record,
                story,
                envelope: None,
            },
            Form::Envelope => Self {
                record,
                envelope: Some(envelope::seal(record, &story, now)),
                story: Vec::new(),
            },
        }
    }

    /// All headers: the record's own in their order, then its story where it is told there. The causes that the record
    /// names are those of the record: with causal delivery the letter has the stamp in their place.
    pub(crate) fn headers<'h>(&'h self, stamp: Option<&'h [u8]>) -> Vec<RawHeader<'h>> {
        let own = self.record.headers().into_iter().flatten();
        let own = own.map(|header| (header.name_bytes(), header.value()));
        let is_replaced = |name: &[u8]| stamp.is_some() && keyway_causal::is_reserved(name);
        let own = own.filter(|(name, _)| !is_replaced(name));
        let story = self.story.iter();
        own.chain(story.map(|(name, value)| (name.as_bytes(), Some(value.as_bytes()))))
            .chain(stamp.map(|stamp| (HEADER.as_bytes(), Some(stamp))))
            .collect()
    }

    /// The letter as the producer takes it.
    pub(crate) fn outgoing<'m>(
        &'m self,
        topic: &'m str,
        headers: &'m [RawHeader<'m>],
    ) -> Outgoing<'m> {
        Outgoing {
            topic,
            partition: None,
            key: self.record.key(),
            value: self.envelope.as_deref().or(self.record.value()),
            headers,
            // That of its writing, from which the topic's retention counts.
            timestamp: None,
        }
    }
}
