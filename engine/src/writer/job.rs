//! What is written for one record: one message or several, and it has ended when each has its report.

use std::sync::Arc;

use keyway_causal::HEADER;
use keyway_core::{DeadLetter, Sending};

use crate::causal::{Stamp, stamped};
use crate::context::Member;
use crate::dead_letters::{DeadLetters, Letter, Origin};
use crate::kafka::{ClientError, NotWritten, Producer};
use crate::output::Output;
use crate::record::{Message, Record};

/// Something to write.
#[derive(Debug)]
pub(crate) enum Job {
    Outputs(OutputsJob),
    Letter(LetterJob),
}

/// The outputs of a record.
#[derive(Debug)]
pub(crate) struct OutputsJob {
    pub(super) sending: Sending<Message>,
    /// Empty once librdkafka has its copies.
    outputs: Vec<Output>,
    stamp: Stamp,
}

/// A dead letter.
#[derive(Debug)]
pub(crate) struct LetterJob {
    pub(crate) letter: DeadLetter<Message>,
    pub(crate) to: DeadLetters,
    pub(crate) origin: Origin,
    pub(crate) stamp: Stamp,
}

/// A job whose messages librdkafka was given, as far as it took them.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) job: Job,
    /// Where it goes, its first message at least.
    pub(super) topic: Arc<str>,
    /// The size of these messages.
    pub(super) bytes: usize,
    /// Of which there is no report yet.
    pub(super) messages: usize,
    /// Why one of them could not be written: the first reason.
    pub(super) failure: Option<NotWritten>,
    /// Of its topics those that had refused outputs before.
    pub(super) tried: Vec<String>,
}

impl Job {
    /// The outputs that a record's payload carries.
    pub(crate) fn outputs(sending: Sending<Message>, stamp: Stamp) -> Self {
        Job::Outputs(OutputsJob {
            outputs: sending.payload.take_outputs(),
            stamp,
            sending,
        })
    }

    /// Where it goes; of a job that is open this is no longer known.
    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        let (outputs, letter) = match self {
            Job::Outputs(job) => (&job.outputs[..], None),
            Job::Letter(job) => (&[][..], Some(job.to.topic())),
        };
        let outputs = outputs.iter().map(|output| &**output.topic());
        outputs.chain(letter)
    }

    /// Gives its messages to librdkafka, which copies them, all under one number. It takes none after one that it
    /// refuses.
    pub(super) fn write(self, producer: &Producer, number: u64, member: &Arc<Member>) -> Open {
        match self {
            Job::Outputs(job) => job.write(producer, number),
            Job::Letter(job) => job.write(producer, number, member),
        }
    }

    /// None of its messages can be written.
    pub(super) fn refused(self, error: ClientError) -> Open {
        let topic = self.topics().next().unwrap_or_default().to_owned();
        Open {
            job: self,
            topic: topic.as_str().into(),
            bytes: 0,
            messages: 0,
            failure: Some(NotWritten { error, topic }),
            tried: Vec::new(),
        }
    }
}

/// Gives a record's outputs to librdkafka, which copies them, and says how many it has taken: none after one that is
/// refused.
pub(crate) fn produce_outputs(
    producer: &Producer,
    number: u64,
    outputs: &[Output],
    of: &Message,
    stamp: Option<&[u8]>,
) -> (usize, Option<NotWritten>) {
    let copied = stamp.and_then(|_| of.raw_header(HEADER));
    for (taken, output) in outputs.iter().enumerate() {
        let headers = match stamped(output.raw_headers(), stamp, copied) {
            Ok(headers) => headers,
            Err(name) => {
                let error = ClientError::reserved_header(&name);
                let topic = output.topic().to_string();
                return (taken, Some(NotWritten { error, topic }));
            }
        };
        if let Err(error) = producer.produce(&output.outgoing(&headers), number) {
            return (taken, Some(error));
        }
    }
    (outputs.len(), None)
}

/// Gives a record's dead letter to librdkafka, which copies it.
pub(crate) fn produce_letter(
    producer: &Producer,
    number: u64,
    record: &Record,
    to: &DeadLetters,
    origin: &Origin,
    stamp: Option<&[u8]>,
    member: &Member,
) -> Result<(), NotWritten> {
    let letter = Letter::of(record, to.form(), origin, member.clock().wall_millis());
    let headers = letter.headers(stamp);
    producer.produce(&letter.outgoing(to.topic(), &headers), number)
}

impl OutputsJob {
    fn write(mut self, producer: &Producer, number: u64) -> Open {
        let outputs = std::mem::take(&mut self.outputs);
        let stamp = self.stamp.as_deref();
        let (messages, failure) =
            produce_outputs(producer, number, &outputs, &self.sending.payload, stamp);
        let first = outputs.first().map(|output| Arc::clone(output.topic()));
        Open {
            job: Job::Outputs(self),
            topic: first.unwrap_or_default(),
            bytes: outputs.iter().take(messages).map(Output::size).sum(),
            messages,
            failure,
            tried: Vec::new(),
        }
    }
}

impl LetterJob {
    fn write(self, producer: &Producer, number: u64, member: &Arc<Member>) -> Open {
        let LetterJob {
            letter: DeadLetter { at, payload, tries },
            to,
            origin,
            stamp,
        } = self;
        let record = Record::new(payload, &at, 0, Arc::clone(member));
        let result = produce_letter(
            producer,
            number,
            &record,
            &to,
            &origin,
            stamp.as_deref(),
            member,
        );
        let bytes = record.size();
        let (payload, _) = record.into_parts();
        Open {
            topic: to.topic().into(),
            job: Job::Letter(LetterJob {
                letter: DeadLetter { at, payload, tries },
                to,
                origin,
                stamp,
            }),
            bytes,
            messages: usize::from(result.is_ok()),
            failure: result.err(),
            tried: Vec::new(),
        }
    }
}

impl Open {
    /// Takes a report in. Says whether it was the last.
    pub(super) fn report(&mut self, result: Result<(), NotWritten>) -> bool {
        self.messages -= 1;
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
        self.messages == 0
    }
}
