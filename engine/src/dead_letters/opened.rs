//! A dead letter taken apart again: the record as it was, and its story.

use std::str::FromStr;

use super::envelope;
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
    /// Opens a letter of either form.
    ///
    /// Where the story is told in headers it begins at the last `keyway.dlq.topic`: whatever is before it was the record's
    /// own, stories of earlier lives included.
    ///
    /// # Errors
    /// When the record is no such letter.
    pub fn open(letter: &'l Record) -> Result<Self, NoDeadLetter> {
        if let Some(envelope) = envelope::unseal(letter) {
            return Ok(Self {
                key: envelope.key,
                value: envelope.value,
                headers: envelope.headers,
                story: Story::read(&Told(envelope.story))?,
            });
        }
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
    use super::super::{Form, Letter, Origin};
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

    fn origin() -> Origin {
        Origin {
            group: "g".into(),
            member: None,
        }
    }

    type Parts<'a> = (
        Option<&'a [u8]>,
        Option<&'a [u8]>,
        Vec<(&'a [u8], Option<&'a [u8]>)>,
    );

    fn dying((key, value, headers): &Parts<'_>, offset: i64) -> Record {
        let mut parts = RecordParts::new("t", 3, offset);
        parts.key = key.map(<[u8]>::to_vec);
        parts.value = value.map(<[u8]>::to_vec);
        let headers = headers.iter();
        parts.headers = headers
            .map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)))
            .collect();
        Record::alone(NativeRecord::made(parts).into())
    }

    /// The letter of a record, as its reader gets it.
    fn written(record: &Record, form: Form) -> Record {
        let origin = origin();
        let letter = Letter::of(record, form, &origin, 1_700_000_000_000);
        let headers = letter.headers(None);
        let message = letter.outgoing("t.dead", &headers);
        dying(&(message.key, message.value, headers.clone()), 0)
    }

    fn parts<'l>(dead: &'l DeadLetter<'_>) -> Parts<'l> {
        let headers = dead.headers.iter();
        let headers = headers.map(|header| (header.name_bytes(), header.value()));
        (dead.key, dead.value, headers.collect())
    }

    #[test]
    fn in_either_form_the_record_is_as_it_was() {
        let records: [Parts<'_>; 5] = [
            (None, None, Vec::new()),
            (Some(b""), Some(b""), vec![(b"a", Some(b"")), (b"a", None)]),
            (
                Some(b"k"),
                None,
                vec![
                    (b"b", Some(b"\xff\x00")),
                    (b"a", Some(b"1")),
                    (b"b", Some(b"2")),
                ],
            ),
            (
                None,
                Some(b"v"),
                vec![
                    (b"keyway.dlq.topic", Some(b"earlier")),
                    (b"keyway.dlq.offset", None),
                ],
            ),
            // No block holds such a name.
            (
                Some(b"k"),
                Some(b"v"),
                vec![(b"\xff", Some(b"1")), (b"a", None)],
            ),
        ];
        for record in &records {
            for form in [Form::Headers, Form::Envelope] {
                let letter = written(&dying(record, 42), form);
                let dead = DeadLetter::open(&letter).expect("a letter");
                assert_eq!(&parts(&dead), record, "{form:?}");
                let story = &dead.story;
                assert_eq!((&*story.topic, story.partition, story.offset), ("t", 3, 42));
                assert_eq!(story.group.as_deref(), Some("g"));
                // Whatever the form, a letter may die again.
                for again in [Form::Headers, Form::Envelope] {
                    let second = written(&letter, again);
                    let dead = DeadLetter::open(&second).expect("a letter");
                    let (key, value, headers) = parts(&dead);
                    assert_eq!((key, value), (letter.key(), letter.value()));
                    let own = letter.headers().expect("readable");
                    let own: Vec<_> = own.map(|own| (own.name_bytes(), own.value())).collect();
                    assert_eq!(headers, own, "{form:?}, then {again:?}");
                }
            }
        }
    }

    #[test]
    fn an_envelope_leaves_key_and_headers_as_they_were() {
        let record: Parts<'_> = (
            Some(b"k"),
            Some(b"v"),
            vec![(b"a", Some(b"1")), (b"a", None)],
        );
        let letter = written(&dying(&record, 42), Form::Envelope);
        let headers = letter.headers().expect("readable");
        let headers: Vec<_> = headers.map(|own| (own.name_bytes(), own.value())).collect();
        assert_eq!((letter.key(), &headers), (record.0, &record.2));
        assert_ne!(letter.value(), record.1);
        // Another program's value that happens to be a record block is no envelope.
        let bytes = letter.value().expect("an envelope");
        let other = dying(&(Some(b"other"), Some(bytes), Vec::new()), 0);
        assert_eq!(DeadLetter::open(&other), Err(NoDeadLetter::NoStory));
        let damaged = [&bytes[..bytes.len() - 1], b"!"].concat();
        let damaged = dying(&(record.0, Some(&damaged), record.2.clone()), 0);
        assert_eq!(DeadLetter::open(&damaged), Err(NoDeadLetter::NoStory));
    }
}
