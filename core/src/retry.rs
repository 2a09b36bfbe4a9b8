//! Records that wait for another attempt: a heap of lanes by the time at which they are due. The record
//! itself stays at the front of its lane, so that it holds no worker and nothing of its lane passes it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::ids::{LaneIndex, Timestamp};

#[derive(Debug, Default)]
pub(crate) struct Retries {
    heap: BinaryHeap<Reverse<(Timestamp, LaneIndex)>>,
}

impl Retries {
    pub(crate) fn push(&mut self, due: Timestamp, lane: LaneIndex) {
        self.heap.push(Reverse((due, lane)));
    }

    /// The next lane that is due at `now`. The caller checks that it still waits for exactly this.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, LaneIndex)> {
        let Reverse((due, _)) = *self.heap.peek()?;
        if due > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// When the next lane is due, or [`Timestamp::NEVER`].
    pub(crate) fn next(&self) -> Timestamp {
        self.heap
            .peek()
            .map_or(Timestamp::NEVER, |Reverse((due, _))| *due)
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}
