//! Dead letters: records that are written to another topic in place of a further attempt, and how they are read again.
//!
//! [`DeadLetters`] says where the letters of a route go; [`DeadLetter::open`] gives a letter's reader the record and its
//! story. A letter that can't be written is tried again for ever: the core decides when, so the thread that writes
//! remembers nothing but what librdkafka has in its hands.

mod envelope;
mod letter;
mod opened;

use std::sync::Arc;

pub(crate) use self::letter::{Letter, Origin};
pub use self::opened::{DeadLetter, NoDeadLetter, Story};

/// Where the records of a route go that are to be dead letters, and in which form.
///
/// ```
/// use std::time::Duration;
/// use keyway::{DeadLetters, Exhausted, Record, Retry, Route};
///
/// # fn charge(_: &Record) -> Result<(), String> { Ok(()) }
/// let route = Route::handler(charge)
///     .retry(Retry::exponential(Duration::from_secs(1)).attempts(5, Exhausted::DeadLetter))
///     .dead_letters(DeadLetters::headers("orders.dead"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetters {
    topic: Arc<str>,
    form: Form,
}

/// Where a letter tells its story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// In headers behind the record's own.
    Headers,
    /// In its value, with the record.
    Envelope,
}

impl DeadLetters {
    /// Key, value and headers as they are, with the record's story in further headers behind its own: text in UTF-8,
    /// numbers in decimal, times in milliseconds since 1970.
    ///
    /// | header | |
    /// |---|---|
    /// | `keyway.dlq.topic`, `keyway.dlq.partition`, `keyway.dlq.offset` | where the record lies |
    /// | `keyway.dlq.timestamp` | its time; absent where it has none |
    /// | `keyway.dlq.attempts` | attempts made since its partition was assigned |
    /// | `keyway.dlq.first_failure`, `keyway.dlq.last_failure` | when the first and the last of them failed |
    /// | `keyway.dlq.error` | the last one's error, at most 4 KiB of it |
    /// | `keyway.dlq.group`, `keyway.dlq.member` | who gave it up |
    /// | `keyway.dlq.headers_unreadable` | only where the record's own headers break the protocol, and are left out: how |
    ///
    /// A letter's own time is the time of its writing, so that the topic's retention begins to count there. Its
    /// partition follows its key as with Java's clients. A letter may be written twice: after a crash, a move of the
    /// partition, or an answer that was lost.
    pub fn headers(topic: impl Into<String>) -> Self {
        Self {
            topic: topic.into().into(),
            form: Form::Headers,
        }
    }

    /// Key and headers as they are, and in place of the value an envelope: the whole record with its story, told by the
    /// names of [`DeadLetters::headers`]. For readers to whom the record's headers mean something, and who take no others.
    ///
    /// The envelope is a record block of the crate `keyway-records` whose headers are the story and whose value is the
    /// record's own block; [`DeadLetter::open`] reads both forms. Headers that no block holds (a name that is no text, more
    /// than 65,535 of them) are left out of it, which `keyway.dlq.headers_unreadable` tells, and are the letter's own all the
    /// same. All else is as with headers.
    pub fn envelope(topic: impl Into<String>) -> Self {
        Self {
            form: Form::Envelope,
            ..Self::headers(topic)
        }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }
}
