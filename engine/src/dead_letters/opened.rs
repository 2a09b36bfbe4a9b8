//! A dead letter taken apart again: the record as it was, and its story.

use std::str::FromStr;

use super::letter::story;
use crate::output::Output;
use crate::record::{Header, Record, UnreadableHeaders};

/// A dead letter: what its record was, and why it was given up. Borrowed from the letter.
///
/// ```
/// use keyway::dead_letters::DeadLetter;
/// use keyway::{Outcome, Record};
///
/// // A handler over a dead-letter topic that sends its records where they came from.
/// fn replay(letter: &Record) -> Outcome {
///     match DeadLetter::open(letter) {
///         Ok(dead) => dead.output().into(),
///         Err(no_letter) => Outcome::GiveUp(no_letter.to_string().into()),
///     }
/// }
/// # let _ = keyway::Route::handler(replay);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter<'l> {
    /// The record's key.
    pub key: Option<&'l [u8]>,
    /// The record's value.
    pub value: Option<&'l [u8]>,
    /// The record's own headers, in order.
    pub headers: Vec<Header<'l>>,
    /// Where it lay, and what became of it.
    pub story: Story,
}

/// What a dead letter tells of its record, beside the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Story {
    /// The record's topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its time in milliseconds since 1970, if it had one.
    pub timestamp: Option<i64>,
    /// Attempts made since its partition was assigned.
    pub attempts: Option<u32>,
    /// When the first of them failed, in milliseconds since 1970.
    pub first_failure: Option<i64>,
    /// When the last of them failed.
    pub last_failure: Option<i64>,
    /// The last one's error.
    pub error: Option<String>,
    /// Whose group gave it up.
    pub group: Option<String>,
    /// Which member.
    pub member: Option<String>,
    /// How the record's own headers broke the protocol, where they did and were left out.
    pub headers_unreadable: Option<String>,
}

/// Why a record is no dead letter that can be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoDeadLetter {
    /// Its headers break the protocol.
    #[error(transparent)]
    Headers(#[from] UnreadableHeaders),
    /// Nothing in it tells of a record.
    #[error("it has no header `keyway.dlq.topic`: it was not written as a dead letter")]
    NoStory,
    /// Its story lacks what a replay can't do without, or has something else in its place.
    #[error("its header `{name}` is {found}: {wanted} is wanted")]
    BadStory {
        /// Which header.
        name: &'static str,
        /// What is there.
        found: String,
        /// What was to be there.
        wanted: &'static str,
    },
}

impl<'l> DeadLetter<'l> {
    /// Opens a letter that was written in the form of [`DeadLetters::headers`](super::DeadLetters::headers).
    ///
    /// The story begins at the last `keyway.dlq.topic`: whatever is before it was the record's own, stories of earlier
    /// lives included.
    ///
    /// # Errors
    /// When the record is no such letter.
    pub fn open(letter: &'l Record) -> Result<Self, NoDeadLetter> {
        let mut headers: Vec<Header<'l>> = letter.headers()?.collect();
        let is_begin = |header: &Header<'_>| header.name_bytes() == story::TOPIC.as_bytes();
        let begin = headers.iter().rposition(is_begin);
        let told = headers.split_off(begin.ok_or(NoDeadLetter::NoStory)?);
        Ok(Self {
            key: letter.key(),
            value: letter.value(),
            headers,
            story: Story::read(&Told(told))?,
        })
    }

    /// The record as it was, for its own partition: key, value, headers and time.
    pub fn output(&self) -> Output {
        self.output_to(self.story.topic.as_str())
            .partition(self.story.partition)
    }

    /// The record as it was, for another topic, where its partition follows its key.
    pub fn output_to(&self, topic: &str) -> Output {
        let headers = self.headers.iter();
        let mut output =
            Output::to(topic).headers(headers.map(|header| (header.name_bytes(), header.value())));
        if let Some(key) = self.key {
            output = output.key(key);
        }
        if let Some(value) = self.value {
            output = output.value(value);
        }
        match self.story.timestamp {
            Some(millis) => output.timestamp(millis),
            None => output,
        }
    }
}

/// The headers of a story.
struct Told<'l>(Vec<Header<'l>>);

impl Told<'_> {
    /// The last header of this name; text that is no UTF-8 is made so.
    fn text(&self, name: &str) -> Option<String> {
        let mut named = self.0.iter().rev();
        let header = named.find(|header| header.name_bytes() == name.as_bytes())?;
        let value = header.value().unwrap_or_default();
        Some(String::from_utf8_lossy(value).into_owned())
    }

    fn number<N: FromStr>(&self, name: &'static str) -> Result<Option<N>, NoDeadLetter> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| NoDeadLetter::BadStory {
            name,
            found: format!("`{text}`"),
            wanted: "a number",
        })
    }
}

impl Story {
    fn read(told: &Told<'_>) -> Result<Self, NoDeadLetter> {
        let missing = |name| NoDeadLetter::BadStory {
            name,
            found: "not there".to_owned(),
            wanted: "a number",
        };
        Ok(Self {
            topic: told.text(story::TOPIC).unwrap_or_default(),
            partition: told
                .number(story::PARTITION)?
                .ok_or_else(|| missing(story::PARTITION))?,
            offset: told
                .number(story::OFFSET)?
                .ok_or_else(|| missing(story::OFFSET))?,
            timestamp: told.number(story::TIMESTAMP)?,
            attempts: told.number(story::ATTEMPTS)?,
            first_failure: told.number(story::FIRST_FAILURE)?,
            last_failure: told.number(story::LAST_FAILURE)?,
            error: told.text(story::ERROR),
            group: told.text(story::GROUP),
            member: told.text(story::MEMBER),
            headers_unreadable: told.text(story::HEADERS_UNREADABLE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::{NativeRecord, RecordParts};

    type Named<'a> = (&'a str, Option<&'a str>);

    fn letter(headers: &[Named<'_>]) -> Record {
        let mut parts = RecordParts::new("t.dead", 0, 7);
        parts.key = Some(b"k".to_vec());
        parts.headers = headers
            .iter()
            .map(|(name, value)| {
                (
                    name.as_bytes().to_vec(),
                    value.map(|v| v.as_bytes().to_vec()),
                )
            })
            .collect();
        Record::alone(NativeRecord::made(parts).into())
    }

    const STORY: [Named<'static>; 5] = [
        ("keyway.dlq.topic", Some("t")),
        ("keyway.dlq.partition", Some("3")),
        ("keyway.dlq.offset", Some("42")),
        ("keyway.dlq.timestamp", Some("1700000000000")),
        ("keyway.dlq.error", Some("it is bad")),
    ];

    #[test]
    fn the_record_is_there_as_it_was_with_the_stories_of_earlier_lives() {
        let own = [
            ("a", Some("1")),
            ("a", None),
            ("keyway.dlq.topic", Some("earlier")),
            ("keyway.dlq.offset", Some("1")),
        ];
        let letter = letter(&[&own[..], &STORY[..]].concat());
        let dead = DeadLetter::open(&letter).expect("a letter");
        let story = &dead.story;
        assert_eq!((&*story.topic, story.partition, story.offset), ("t", 3, 42));
        assert_eq!(story.error.as_deref(), Some("it is bad"));
        assert_eq!((story.attempts, &story.member), (None, &None));
        let expected = own
            .iter()
            .map(|(name, value)| (*name, value.map(str::as_bytes)));
        let expected = expected.fold(Output::to("t"), |output, (name, value)| {
            output.headers([(name, value)])
        });
        let expected = expected.key("k").partition(3).timestamp(1_700_000_000_000);
        assert_eq!(dead.output(), expected);
    }

    #[test]
    fn what_is_no_letter_says_why() {
        let open = |headers: &[Named<'_>]| {
            DeadLetter::open(&letter(headers))
                .expect_err("no letter")
                .to_string()
        };
        assert_eq!(
            open(&[("a", Some("1"))]),
            "it has no header `keyway.dlq.topic`: it was not written as a dead letter"
        );
        assert_eq!(
            open(&STORY[..2]),
            "its header `keyway.dlq.offset` is not there: a number is wanted"
        );
        let bad = [&STORY[..], &[("keyway.dlq.attempts", Some("two"))]].concat();
        assert_eq!(
            open(&bad),
            "its header `keyway.dlq.attempts` is `two`: a number is wanted"
        );
    }
}
