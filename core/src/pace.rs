//! The pace at which records start: a record that may run, and for which there is a worker, may still have to wait
//! until a time.
//!
//! How long is not known here: a [`Pace`] is asked, at the moment at which a record would go to a worker. What its
//! answer holds up waits without a worker, in the place where it stands, and nothing else does:
//!
//! ```text
//!   the wait is of      what waits                            how
//!   Whose::Lane         the record and its lane               a lane that is due later, as for a retry
//!   Whose::Partition    all that is ready in its partition    out of its route's queue until then
//!   Whose::Member       everything                            no route hands anything over until then
//! ```
//!
//! Every attempt is asked for, a further one like the first: it costs whoever is protected as much. A record that
//! comes back unstarted is not asked for again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;

use crate::core::Core;
use crate::gate::Gate;
use crate::ids::{LaneIndex, PartitionSlot, RouteId, Timestamp};
use crate::lanes::LaneState;
use crate::mutant::{Mutant, mutated};
use crate::work::TaskRef;

/// What waits for a time before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The record, and its lane with it.
    Lane,
    /// All records of its partition.
    Partition,
    /// All records of the member.
    Member,
}

/// What a pace says of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It starts now. It will, but for a pause or the end of its assignment: the answer is kept.
    Start,
    /// It has to wait.
    Wait {
        /// Until when, later than now; it is asked for again then.
        until: Timestamp,
        /// What waits.
        whose: Whose,
        /// What the pace wants to be told of when it is asked again: which of its limits have let the record through
        /// already and are not to count it twice.
        passed: u8,
    },
}

/// Decides when records start.
pub trait Pace<P>: fmt::Debug {
    /// Asked of a record that would start now. `passed` is what the last answer of [`Turn::Wait`] for this attempt
    /// said, 0 before the first.
    fn turn(&mut self, at: &TaskRef, payload: &P, passed: u8, now: Timestamp) -> Turn;
}

/// In a waiting record: it has been let through.
pub(crate) const LET_THROUGH: u8 = u8::MAX;

/// The pace, if there is one, and what waits because of it. Lanes that wait are among the retries.
#[derive(Debug)]
pub(crate) struct Pacing<P> {
    pace: Option<Box<dyn Pace<P> + Send>>,
    /// Nothing starts before.
    pub(crate) member_until: Option<Timestamp>,
    /// Partitions that wait, by time and then in the order in which they were sent to wait, so that those of one
    /// limit take turns.
    partitions: BinaryHeap<Reverse<(Timestamp, u64, PartitionSlot)>>,
    sent: u64,
    /// The route that is served first when nothing has to wait any more: the one after the one that was sent to
    /// wait, so that routes take turns too.
    first_route: usize,
}

impl<P> Pacing<P> {
    pub(crate) fn none() -> Self {
        Self {
            pace: None,
            member_until: None,
            partitions: BinaryHeap::new(),
            sent: 0,
            first_route: 0,
        }
    }

    /// Whether records may have to wait.
    pub(crate) fn is_on(&self) -> bool {
        self.pace.is_some()
    }

    /// When something that waits is to be looked at again.
    pub(crate) fn next(&self) -> Timestamp {
        let partition = self.partitions.peek();
        let partition = partition.map_or(Timestamp::NEVER, |Reverse((until, _, _))| *until);
        partition.min(self.member_until.unwrap_or(Timestamp::NEVER))
    }

    /// Whether no partition and no route goes on before `until` for the sake of the pace.
    pub(crate) fn holds_all_until(&self, until: Timestamp) -> bool {
        self.member_until.is_some_and(|opens| opens > until)
    }

    /// Whether a partition that waits goes on by `until`.
    pub(crate) fn frees_partition_by(&self, until: Timestamp) -> bool {
        let first = self.partitions.peek();
        first.is_some_and(|Reverse((opens, _, _))| *opens <= until)
    }

    /// The route behind this one is served first from now on.
    pub(crate) fn serve_after(&mut self, route: RouteId, count: usize) {
        self.first_route = (route.index() + 1) % count;
    }

    /// The routes in the order in which they are served.
    pub(crate) fn routes(&self, count: usize) -> impl Iterator<Item = RouteId> + use<P> {
        let first = self.first_route;
        (0..count).map(move |index| RouteId(((first + index) % count) as u16))
    }
}

impl<P, G: Gate<P>> Core<P, G> {
    /// From now on records start at this pace, or as fast as they can. What waits already waits for its time.
    pub fn set_pace(&mut self, pace: Option<Box<dyn Pace<P> + Send>>) {
        self.pacing.pace = pace;
        // Nobody has passed a limit that was not there.
        self.lanes.each(|lane| {
            if let Some(front) = lane.waiting.front_mut() {
                if front.passed != LET_THROUGH {
                    front.passed = 0;
                }
            }
        });
    }

    /// Asks for the first record of a lane of which one may start as soon as there is a worker. Without one it is
    /// not asked for: what is let through starts.
    pub(crate) fn ask_pace_for_room(
        &mut self,
        route: RouteId,
        index: LaneIndex,
        now: Timestamp,
    ) -> Turn {
        if self.pacing.is_on() && self.routes[route.index()].takes_more() {
            self.ask_pace(index, now)
        } else {
            Turn::Start
        }
    }

    /// Asks for the first record of a lane, unless it was let through already.
    pub(crate) fn ask_pace(&mut self, index: LaneIndex, now: Timestamp) -> Turn {
        let Some(pace) = &mut self.pacing.pace else {
            return Turn::Start;
        };
        let lane = self.lanes.get_mut(index);
        let Some(front) = lane.waiting.front_mut() else {
            return Turn::Start;
        };
        if front.passed == LET_THROUGH || mutated(Mutant::PaceIgnored) {
            return Turn::Start;
        }
        let turn = pace.turn(&front.task.at, &front.task.payload, front.passed, now);
        front.passed = match turn {
            Turn::Start => LET_THROUGH,
            Turn::Wait { passed, .. } => passed,
        };
        turn
    }

    /// The first lane of the first partition of a route's queue has to wait.
    pub(crate) fn send_to_wait(
        &mut self,
        route: RouteId,
        index: LaneIndex,
        until: Timestamp,
        whose: Whose,
    ) {
        let lane = self.lanes.get_mut(index);
        let partition = &mut self.partitions[lane.slot.index()];
        match whose {
            Whose::Lane => {
                lane.state = LaneState::Paced(until);
                self.retries.push(until, index);
                partition.ready.pop_front();
            }
            Whose::Partition => {
                let slot = lane.slot;
                partition.paced_until = Some(until);
                partition.in_route_queue = false;
                self.routes[route.index()].queue.pop_front();
                self.pacing.sent += 1;
                let entry = (until, self.pacing.sent, slot);
                self.pacing.partitions.push(Reverse(entry));
            }
            Whose::Member => {
                self.pacing.member_until = Some(until);
                self.pacing.serve_after(route, self.routes.len());
            }
        }
    }

    /// Lets go on what has waited for `now`.
    pub(crate) fn end_waits(&mut self, now: Timestamp) {
        if self.pacing.member_until.is_some_and(|until| until <= now) {
            self.pacing.member_until = None;
        }
        while let Some(Reverse((until, _, slot))) = self.pacing.partitions.peek().copied() {
            if until > now {
                break;
            }
            self.pacing.partitions.pop();
            let partition = &mut self.partitions[slot.index()];
            // Entries of assignments that have ended stay behind and are recognised here.
            if partition.paced_until == Some(until) {
                partition.paced_until = None;
                self.queue_partition(slot);
            }
        }
    }
}
