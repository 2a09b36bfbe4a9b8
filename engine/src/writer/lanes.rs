//! One record of a lane after the other: otherwise outputs that are sent again would come after a later record's.
//!
//! The core starts the next record of a lane only when the outputs of the one before are acknowledged, so that several
//! of one lane meet here only after a batch that held several.

use std::collections::{HashMap, VecDeque};

use keyway_core::{LaneIndex, Sending};

use super::job::{Job, OutputsJob};
use crate::record::Message;

/// The lanes of which a record's outputs are being sent, with what waits behind them. A lane keeps its place in the
/// core's table as long as something of it is.
#[derive(Default)]
pub(super) struct SendLanes {
    busy: HashMap<LaneIndex, VecDeque<OutputsJob>>,
}

impl SendLanes {
    /// Gives the job back when it may be written now. Dead letters may at any time.
    pub(super) fn enter(&mut self, job: Job) -> Option<Job> {
        let Job::Outputs(job) = job else {
            return Some(job);
        };
        match self.busy.get_mut(&job.sending.at.lane) {
            Some(behind) => {
                behind.push_back(job);
                None
            }
            None => {
                self.busy.insert(job.sending.at.lane, VecDeque::new());
                Some(Job::Outputs(job))
            }
        }
    }

    /// The outputs before it were sent: what may be written next.
    pub(super) fn sent(&mut self, lane: LaneIndex) -> Option<Job> {
        let next = self.busy.get_mut(&lane)?.pop_front();
        if next.is_none() {
            self.busy.remove(&lane);
        }
        next.map(Job::Outputs)
    }

    /// The outputs before it could not be sent: what must not be written now.
    pub(super) fn failed(&mut self, lane: LaneIndex) -> impl Iterator<Item = Sending<Message>> {
        let behind = self.busy.remove(&lane).unwrap_or_default();
        behind.into_iter().map(|job| job.sending)
    }

    pub(super) fn clear(&mut self) {
        self.busy.clear();
    }
}
