//! Order in a lane: a record starts only when every earlier one that has started is finished, and the first starts
//! follow the offsets.
//!
//! Together with no loss this is the whole of it: an earlier record that was passed over has to start at some time, and
//! then its first start comes after a later one's.

use std::collections::{BTreeMap, HashMap, HashSet};

use keyway_offsets::Offset;

use super::lane::{Lane, Ordering};
use super::{Check, Invariant, Place, Rules, Violation};
use crate::event_log::{Event, Kind};

pub(super) struct Order {
    ordering: Ordering,
    batches: bool,
    lanes: HashMap<Lane, State>,
    finished: HashSet<(Place, Offset)>,
}

#[derive(Default)]
struct State {
    /// The latest record that ever started.
    highest: Option<Offset>,
    /// Started and not finished since; by whom, and whether that attempt still runs.
    open: BTreeMap<Offset, (String, bool)>,
    /// No attempt of the lane has ended since it was idle: what starts now may be of one batch.
    batch_opening: bool,
}

impl Order {
    pub(super) fn new(rules: &Rules) -> Self {
        let (ordering, batches) = (rules.ordering, rules.batches);
        Order {
            ordering,
            batches,
            lanes: HashMap::new(),
            finished: HashSet::new(),
        }
    }

    fn start(&mut self, index: usize, event: &Event, found: &mut Vec<Violation>) {
        let Some((lane, (place, offset))) = self.ordering.record(event) else {
            return;
        };
        let state = self.lanes.entry(lane).or_default();
        let idle = state.open.values().all(|(_, running)| !running);
        state.batch_opening |= idle;
        let same_batch = |(member, running): &(String, bool)| {
            self.batches && state.batch_opening && *running && *member == event.member
        };
        let mut report = |detail| {
            let place = place.clone();
            found.push(Violation {
                invariant: Invariant::Order,
                place,
                offset,
                event: Some(index),
                detail,
            });
        };
        if let Some((earlier, _)) = state
            .open
            .range(..offset)
            .find(|(_, open)| !same_batch(open))
        {
            report(format!(
                "starts before {earlier}, which comes first in its lane, is finished"
            ));
        }
        let again =
            self.finished.contains(&(place.clone(), offset)) || state.open.contains_key(&offset);
        match state.highest {
            Some(highest) if offset < highest && !again => {
                report(format!("starts for the first time after {highest}"));
            }
            Some(highest) if offset < highest => {}
            _ => state.highest = Some(offset),
        }
        state.open.insert(offset, (event.member.clone(), true));
    }

    /// The attempt ended; `finished` is whether the record did, too.
    fn end_of(&mut self, event: &Event, finished: bool) {
        let Some((lane, record)) = self.ordering.record(event) else {
            return;
        };
        let state = self.lanes.entry(lane).or_default();
        state.batch_opening = false;
        if finished {
            state.open.remove(&record.1);
            self.finished.insert(record);
        } else if let Some((_, running)) = state.open.get_mut(&record.1) {
            *running = false;
        }
    }

    /// What the member ran is open for the next one, except what had been finished before: a commit of that may have
    /// reached the broker without an answer.
    fn killed(&mut self, member: &str) {
        for (lane, state) in &mut self.lanes {
            let place = lane.place();
            let finished = |offset: Offset| self.finished.contains(&(place.clone(), offset));
            state
                .open
                .retain(|&offset, (by, _)| by != member || !finished(offset));
            for (_, (by, running)) in state.open.iter_mut().filter(|(_, (by, _))| by == member) {
                *running = false;
                by.clear();
            }
        }
    }
}

impl Check for Order {
    fn event(&mut self, index: usize, event: &Event, found: &mut Vec<Violation>) {
        match event.kind {
            Kind::Start => self.start(index, event, found),
            Kind::Done | Kind::Dead => self.end_of(event, true),
            Kind::Failed => self.end_of(event, false),
            Kind::Killed => self.killed(&event.member),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checker::Invariant::Order;
    use crate::checker::world::World;
    use crate::checker::{Ordering, Rules};

    #[test]
    fn keys_may_pass_each_other() {
        World::produced(2)
            .run("start 0/a; start 1/b; done 1/b; done 0/a")
            .clean();
    }

    #[test]
    fn records_of_one_key_start_in_the_order_of_their_offsets() {
        World::produced(2)
            .run("start 1/a; done 1/a; start 0/a; done 0/a")
            .breaks(Order, 0);
    }

    #[test]
    fn a_later_record_does_not_start_while_an_earlier_one_waits_for_its_retry() {
        World::produced(2)
            .run("start 0/a; failed 0/a; start 1/a; done 1/a; start 0/a; done 0/a")
            .breaks(Order, 1);
    }

    #[test]
    fn records_without_a_key_have_no_order() {
        World::produced(2)
            .run("start 1; done 1; start 0; done 0")
            .clean();
    }

    #[test]
    fn in_partition_order_keys_do_not_pass_each_other() {
        let rules = Rules {
            ordering: Ordering::Partition,
            ..Rules::default()
        };
        World::produced(2)
            .rules(rules)
            .run("start 1/b; done 1/b; start 0/a; done 0/a")
            .breaks(Order, 0);
    }

    #[test]
    fn after_a_crash_the_lane_begins_again_at_its_first_open_record() {
        let crash = "start 0/a; done 0/a; start 1/a; killed;";
        World::produced(3)
            .run(&format!(
                "{crash} start 0/a; done 0/a; start 1/a; done 1/a; start 2/a; done 2/a"
            ))
            .clean();
        World::produced(3)
            .run(&format!("{crash} start 2/a; done 2/a; start 1/a; done 1/a"))
            .breaks(Order, 2);
    }

    #[test]
    fn a_batch_starts_together_and_in_order() {
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
            .run("start 1/a; start 0/a; done 0/a; done 1/a")
            .breaks(Order, 0);
        World::produced(2)
            .run("start 0/a; start 1/a; done 0/a; done 1/a")
            .breaks(Order, 1);
    }

    #[test]
    fn what_starts_after_one_of_a_batch_has_ended_is_not_of_it() {
        let rules = Rules {
            batches: true,
            ..Rules::default()
        };
        let late = "start 0/a; start 1/a; done 0/a; start 2/a; done 1/a; done 2/a";
        World::produced(3).rules(rules).run(late).breaks(Order, 2);
    }
}
