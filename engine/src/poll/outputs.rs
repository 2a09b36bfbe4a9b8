//! Outputs on their way between the core and the writer.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use keyway_core::{Sending, Sent, TaskRef, Timestamp};

use super::PollLoop;
use crate::kafka::{ClientError, NotWritten};
use crate::record::Message;
use crate::writer::{HELD_BACK, Job, fail_attempt};

/// What is known of topics that refuse outputs.
const MOST_SEND_ERRORS: usize = 64;

/// Outputs that could not be sent are forgotten so long after the last try at the same topic: nobody sends any there.
const FORGOTTEN: Duration = Duration::from_secs(300);

/// Why outputs could not be sent to a topic.
#[derive(Debug)]
pub(super) struct SendError {
    pub(super) error: ClientError,
    pub(super) since: Timestamp,
    last: Timestamp,
}

impl SendError {
    pub(super) fn is_recent(&self, now: Timestamp) -> bool {
        now.since(self.last) < FORGOTTEN
    }
}

/// The way to the writer.
pub(crate) struct Writes {
    jobs: Sender<Vec<Job>>,
    /// What the commands that are being carried out ask for. Given over together, so that of a batch the writer knows all
    /// outputs of a lane before the first of them can fail.
    asked: Vec<Job>,
    /// The group, as dead letters name it.
    pub(crate) group: Arc<str>,
}

impl Writes {
    pub(crate) fn new(jobs: Sender<Vec<Job>>, group: Arc<str>) -> Self {
        Self {
            jobs,
            asked: Vec::new(),
            group,
        }
    }

    pub(super) fn ask(&mut self, job: Job) {
        self.asked.push(job);
    }

    /// Says whether the writer is still there.
    pub(super) fn give_over(&mut self) -> bool {
        self.asked.is_empty() || self.jobs.send(std::mem::take(&mut self.asked)).is_ok()
    }
}

impl PollLoop {
    /// Topics that refuse outputs.
    pub(super) fn send_errors(&self, now: Timestamp) -> impl Iterator<Item = &SendError> {
        let errors = self.state.send_errors.values();
        errors.filter(move |error| error.is_recent(now))
    }

    pub(super) fn send_outputs(&mut self, sending: Sending<Message>, now: Timestamp) {
        if sending.held_back {
            drop(sending.payload.take_outputs());
            let observer = self.observer.as_deref();
            let sending = fail_attempt(sending, HELD_BACK, &self.member, observer);
            return self.core.outputs_not_sent(sending, now);
        }
        let Some(stamp) = self.stamp(now) else {
            drop(sending.payload.take_outputs());
            return self.core.outputs_not_sent(sending, now);
        };
        self.writes.ask(Job::outputs(sending, stamp));
    }

    /// `healed` are topics that had refused outputs.
    pub(super) fn outputs_acknowledged(
        &mut self,
        acknowledged: Vec<Sent>,
        healed: &[String],
        now: Timestamp,
    ) {
        for topic in healed {
            self.state.send_errors.remove(topic);
        }
        for sent in acknowledged {
            self.core.outputs_acknowledged(sent, now);
        }
    }

    pub(super) fn outputs_failed(
        &mut self,
        sending: Sending<Message>,
        failure: NotWritten,
        now: Timestamp,
    ) {
        self.note_send_error(&sending.at, failure, now);
        self.core.outputs_failed(sending, now);
    }

    /// Says that outputs of this record can't be sent.
    pub(super) fn note_send_error(&mut self, at: &TaskRef, failure: NotWritten, now: Timestamp) {
        let NotWritten { error, topic } = failure;
        let number = error.code().map_or(0, |code| code.number);
        if self.state.repeats.say(number, now) {
            tracing::warn!(
                partition = %self.slots.partition(at.slot),
                offset = %at.offset,
                attempt = at.attempt,
                topic,
                %error,
                "outputs can't be sent: the attempt has failed"
            );
        }
        let errors = &mut self.state.send_errors;
        errors.retain(|_, error| error.is_recent(now));
        let since = errors.get(&topic).map_or(now, |error| error.since);
        if errors.len() < MOST_SEND_ERRORS || errors.contains_key(&topic) {
            let last = now;
            errors.insert(topic, SendError { error, since, last });
        }
    }
}
