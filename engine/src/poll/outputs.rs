//! Outputs on their way between the core and the writer.

use std::sync::Arc;

use crossbeam_channel::Sender;
use keyway_core::{Sending, Sent, Timestamp};

use super::PollLoop;
use crate::kafka::NotWritten;
use crate::record::Message;
use crate::writer::{HELD_BACK, Job, fail_attempt};

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
    pub(super) fn send_outputs(&mut self, sending: Sending<Message>, now: Timestamp) {
        if sending.held_back {
            drop(sending.payload.take_outputs());
            let observer = self.observer.as_deref();
            let sending = fail_attempt(sending, HELD_BACK, &self.member, observer);
            return self.core.outputs_not_sent(sending, now);
        }
        self.writes.ask(Job::outputs(sending));
    }

    pub(super) fn outputs_acknowledged(&mut self, acknowledged: Vec<Sent>, now: Timestamp) {
        self.state.send_error = None;
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
        let NotWritten { error, topic } = failure;
        let number = error.code().map_or(0, |code| code.number);
        if self.state.repeats.say(number, now) {
            tracing::warn!(
                partition = %self.slots.partition(sending.at.slot),
                offset = %sending.at.offset,
                attempt = sending.at.attempt,
                topic,
                %error,
                "outputs can't be sent: the attempt has failed"
            );
        }
        let since = self.state.send_error.take().map_or(now, |(_, since)| since);
        self.state.send_error = Some((error, since));
        self.core.outputs_failed(sending, now);
    }
}
