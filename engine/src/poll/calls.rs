//! Handlers that do not return: told to people, and their capacity replaced for as long as they last.

use std::time::Duration;

use keyway_core::{PartitionSlot, RouteId, Timestamp, WorkerIndex};
use keyway_offsets::Offset;

use super::PollLoop;
use crate::health::Stuck;

/// When calls of a route are stuck, and how many of these are replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    pub(crate) stuck_after: Duration,
    pub(crate) replace: u32,
}

/// Stuck calls that are told one by one; with more of them it is not about records any more.
const TOLD: usize = 100;

/// What the calls looked like a moment ago.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Calls beyond the concurrency, of each route.
    surplus: Vec<u32>,
    /// The longest first.
    stuck: Vec<StuckCall>,
    /// Of these, calls in whose place no other is made.
    pub(super) unreplaced: usize,
    /// When the oldest call began that has not returned.
    oldest: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug)]
struct StuckCall {
    since: Timestamp,
    slot: PartitionSlot,
    offset: Offset,
    worker: Option<WorkerIndex>,
}

impl Calls {
    pub(super) fn stuck(&self) -> usize {
        self.stuck.len()
    }

    pub(super) fn replaced(&self) -> usize {
        self.stuck.len() - self.unreplaced
    }

    pub(super) fn oldest(&self, now: Timestamp) -> Option<Duration> {
        self.oldest.map(|since| now.since(since))
    }
}

impl PollLoop {
    /// Looks which calls have not returned for long, and makes room for others in their place.
    pub(super) fn watch_calls(&mut self, now: Timestamp) {
        let before = std::mem::take(&mut self.state.calls);
        let mut calls = Calls {
            surplus: before.surplus,
            ..Calls::default()
        };
        calls.surplus.resize(self.pools.len(), 0);
        for index in 0..self.pools.len() {
            let Watch {
                stuck_after,
                replace,
            } = self.watches[index];
            let known = calls.stuck.len();
            self.pools[index].calls(|worker, call| {
                let oldest = calls.oldest.get_or_insert(call.since);
                *oldest = call.since.min(*oldest);
                if now.since(call.since) >= stuck_after {
                    calls.stuck.push(StuckCall {
                        since: call.since,
                        slot: call.slot,
                        offset: call.offset,
                        worker,
                    });
                }
            });
            let stuck = calls.stuck.len() - known;
            let surplus = match self.pools[index].can_grow() {
                true => replace.min(stuck as u32),
                false => 0,
            };
            calls.unreplaced += stuck - surplus as usize;
            if std::mem::replace(&mut calls.surplus[index], surplus) != surplus {
                self.make_room(RouteId(index as u16), surplus, now);
            }
        }
        calls.stuck.sort_by_key(|call| call.since);
        let is_new = |call: &&StuckCall| {
            let same = |old: &StuckCall| {
                (old.slot, old.offset, old.since) == (call.slot, call.offset, call.since)
            };
            !before.stuck.iter().any(same)
        };
        for call in calls.stuck.iter().take(TOLD).filter(is_new) {
            let stuck = self.told(call, now);
            tracing::warn!(%stuck, "a handler does not return");
        }
        self.state.calls = calls;
    }

    fn make_room(&mut self, route: RouteId, surplus: u32, now: Timestamp) {
        tracing::info!(route = route.0, surplus, "calls in place of stuck ones");
        self.core.set_surplus(route, surplus, now);
        self.carry_out(now);
    }

    fn told(&self, call: &StuckCall, now: Timestamp) -> Stuck {
        Stuck {
            partition: self.slots.partition(call.slot).clone(),
            offset: call.offset.get(),
            lasting: now.since(call.since),
            worker: call.worker.map(|worker| worker.0),
        }
    }

    /// The stuck calls, for people.
    pub(super) fn stuck(&self, now: Timestamp) -> Vec<Stuck> {
        let calls = self.state.calls.stuck.iter().take(TOLD);
        calls.map(|call| self.told(call, now)).collect()
    }
}
