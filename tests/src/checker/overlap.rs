//! Never two at once in a lane, within a member and across members.
//!
//! A start is written before the handler runs and its end before the engine is told, so a span in the log holds the
//! handler's true span. A killed process's spans end when the harness saw it gone; a lost partition can't be waited for,
//! so what ran there is not held against the next owner.

use std::collections::HashMap;

use keyway_offsets::Offset;

use super::lane::{Lane, Ordering};
use super::{Check, Invariant, Rules, Violation};
use crate::event_log::{Event, Kind};

pub(super) struct NoOverlap {
    ordering: Ordering,
    batches: bool,
    across_members: bool,
    lanes: HashMap<Lane, State>,
}

#[derive(Default)]
struct State {
    running: Vec<Attempt>,
    /// No attempt has ended since the lane was idle.
    batch_opening: bool,
}

struct Attempt {
    offset: Offset,
    member: String,
    /// The member has lost the partition meanwhile.
    lost: bool,
}

impl NoOverlap {
    pub(super) fn new(rules: &Rules) -> Self {
        NoOverlap {
            ordering: rules.ordering,
            batches: rules.batches,
            across_members: rules.across_members,
            lanes: HashMap::new(),
        }
    }

    fn start(&mut self, index: usize, event: &Event, found: &mut Vec<Violation>) {
        let Some((lane, (place, offset))) = self.ordering.record(event) else {
            return;
        };
        let state = self.lanes.entry(lane).or_default();
        state.batch_opening |= state.running.is_empty();
        let excused = |other: &Attempt| match other.member == event.member {
            true => self.batches && state.batch_opening && other.offset != offset,
            false => other.lost || !self.across_members,
        };
        if let Some(other) = state.running.iter().find(|other| !excused(other)) {
            let detail = format!(
                "starts in {} while {} runs in {}",
                event.member, other.offset, other.member
            );
            found.push(Violation {
                invariant: Invariant::NoOverlap,
                place,
                offset,
                event: Some(index),
                detail,
            });
        }
        state.running.push(Attempt {
            offset,
            member: event.member.clone(),
            lost: false,
        });
    }

    fn end_of(&mut self, event: &Event) {
        let Some((lane, (_, offset))) = self.ordering.record(event) else {
            return;
        };
        let state = self.lanes.entry(lane).or_default();
        state.batch_opening = false;
        state
            .running
            .retain(|attempt| attempt.offset != offset || attempt.member != event.member);
    }

    fn killed(&mut self, member: &str) {
        for state in self.lanes.values_mut() {
            state.running.retain(|attempt| attempt.member != member);
        }
    }

    fn lost(&mut self, event: &Event) {
        for (lane, state) in &mut self.lanes {
            let place = lane.place();
            if place.0 == event.topic && place.1 == event.partition {
                let own = state
                    .running
                    .iter_mut()
                    .filter(|attempt| attempt.member == event.member);
                own.for_each(|attempt| attempt.lost = true);
            }
        }
    }
}

impl Check for NoOverlap {
    fn event(&mut self, index: usize, event: &Event, found: &mut Vec<Violation>) {
        match event.kind {
            Kind::Start => self.start(index, event, found),
            Kind::Done | Kind::Dead | Kind::Failed => self.end_of(event),
            Kind::Killed => self.killed(&event.member),
            Kind::Lost => self.lost(event),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checker::Invariant::NoOverlap;
    use crate::checker::world::World;
    use crate::checker::{Ordering, Rules};

    #[test]
    fn keys_run_beside_each_other() {
        World::produced(2)
            .run("start 0/a; start 1/b; done 0/a; done 1/b")
            .clean();
    }

    #[test]
    fn two_records_of_a_key_do_not_run_at_once() {
        World::produced(2)
            .run("start 0/a; start 1/a; done 0/a; done 1/a")
            .breaks(NoOverlap, 1);
    }

    #[test]
    fn nor_in_two_members() {
        let spans = "start 0/a by x; start 0/a by y; done 0/a by x; done 0/a by y";
        World::produced(1).run(spans).breaks(NoOverlap, 0);
        World::produced(1)
            .rules(Rules {
                across_members: false,
                ..Rules::default()
            })
            .run(spans)
            .clean();
    }

    #[test]
    fn one_record_never_runs_twice_at_once_whatever_the_order() {
        let rules = Rules {
            ordering: Ordering::Unordered,
            batches: true,
            ..Rules::default()
        };
        World::produced(1)
            .rules(rules)
            .run("start 0/a; start 0/a; done 0/a")
            .breaks(NoOverlap, 0);
    }

    #[test]
    fn a_kill_ends_what_ran() {
        World::produced(1)
            .run("start 0/a by x; killed x; start 0/a by y; done 0/a by y")
            .clean();
        World::produced(1)
            .run("start 0/a by x; killed z; start 0/a by y; done 0/a by y")
            .breaks(NoOverlap, 0);
    }

    #[test]
    fn a_lost_partition_excuses_the_next_owner_and_a_revoked_one_does_not() {
        World::produced(1)
            .run("start 0/a by x; lost by x; start 0/a by y; done 0/a by y")
            .clean();
        World::produced(1)
            .run("start 0/a by x; revoked by x; start 0/a by y; done 0/a by y")
            .breaks(NoOverlap, 0);
    }

    #[test]
    fn a_batch_runs_together() {
        let rules = Rules {
            batches: true,
            ..Rules::default()
        };
        World::produced(2)
            .rules(rules)
            .run("start 0/a; start 1/a; done 0/a; done 1/a")
            .clean();
        World::produced(2)
            .rules(rules)
            .run("start 0/a; start 1/a; done 1/a; start 1/a; done 0/a")
            .breaks(NoOverlap, 1);
    }
}
