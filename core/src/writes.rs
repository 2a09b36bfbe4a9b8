//! The second step of a completion: its handler is over, and the record waits for what a broker says of that which is
//! written on its account, its outputs or its dead letter.
//!
//! Meanwhile its lane waits, no worker is held, and the record counts in the buffers like any other.

use crate::core::Core;
use crate::gate::Gate;
use crate::ids::Timestamp;
use crate::work::TaskRef;

/// What is written on a record's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Outputs,
    Letter,
}

impl<P, G: Gate<P>> Core<P, G> {
    /// The record's lane waits from now on until the broker has answered.
    pub(crate) fn begin_write(&mut self, at: &TaskRef, what: Written) {
        let lane = self.lanes.get_mut(at.lane);
        // A worker has closed the lane, and is to be told to open it again.
        lane.failed = true;
        lane.out += 1;
        lane.writes += 1;
        lane.out_epoch = at.epoch;
        *self.partitions[at.slot.index()].writes_out(what) += 1;
        self.totals.writes_out += 1;
    }

    /// Says whether the answer counts: not when the assignment of its record has ended.
    pub(crate) fn end_write(&mut self, at: &TaskRef, what: Written) -> bool {
        let lane = self.lanes.get_mut(at.lane);
        lane.out -= 1;
        lane.writes -= 1;
        self.totals.writes_out -= 1;
        let partition = &mut self.partitions[at.slot.index()];
        let counts = partition.counts(at.epoch);
        if counts {
            *partition.writes_out(what) -= 1;
        } else {
            self.counters.late_results += 1;
            self.forget_total(at.bytes);
        }
        counts
    }

    /// The lane goes on.
    pub(crate) fn after_write(&mut self, at: &TaskRef, now: Timestamp) {
        let route = self.partitions[at.slot.index()].route;
        self.settle_lane(route, at.lane, now);
        self.after_results(route, now);
    }
}
