//! What was finished and is complete in an acknowledged commit never starts again.
//!
//! What was committed before the run by whoever it was, Java's Parallel Consumer for one, does not start at all.
//! What was finished but in no acknowledged commit may: that is at-least-once. By the strict reading any earlier commit
//! counts, since an engine restores what the last one says and no commit takes back what one before has said. Where
//! maps may be stripped or discarded, the last commit alone counts.

use std::collections::{BTreeMap, BTreeSet};

use keyway_offsets::{HoleMap, Offset};

use super::{Check, Commit, Evidence, Invariant, Place, Rules, Violation, coverage, lane};
use crate::event_log::{Event, Kind};

pub(super) struct NoReplay {
    maps_may_be_lost: bool,
    places: BTreeMap<Place, State>,
}

#[derive(Default)]
struct State {
    /// What the group had committed before the run, whoever finished it.
    before: Option<HoleMap>,
    finished: BTreeSet<Offset>,
    /// Finished and covered by a commit, with the base of that commit.
    covered: BTreeMap<Offset, Offset>,
}

impl NoReplay {
    pub(super) fn new(evidence: &Evidence, rules: &Rules) -> Self {
        let state = |commit: &Commit| State {
            before: commit.map().ok(),
            ..State::default()
        };
        let places = evidence
            .before
            .iter()
            .map(|commit| (commit.place.clone(), state(commit)));
        NoReplay {
            maps_may_be_lost: rules.maps_may_be_lost,
            places: places.collect(),
        }
    }
}

impl State {
    /// The base of the commit that forbids another start.
    fn forbids(&self, offset: Offset) -> Option<Offset> {
        let before = self.before.as_ref().filter(|map| map.is_complete(offset));
        before
            .map(HoleMap::base)
            .or_else(|| self.covered.get(&offset).copied())
    }

    fn commit(&mut self, base: Offset, text: &[u8], forget: bool) {
        // A text that is no map is judged as loss, and covers nothing here.
        let Ok(map) = coverage::of(base, text) else {
            return;
        };
        if forget {
            self.before = None;
            self.finished
                .extend(std::mem::take(&mut self.covered).into_keys());
        }
        let covered: Vec<Offset> = self
            .finished
            .iter()
            .copied()
            .filter(|&offset| map.is_complete(offset))
            .collect();
        for offset in covered {
            self.finished.remove(&offset);
            self.covered.insert(offset, base);
        }
    }
}

impl Check for NoReplay {
    fn event(&mut self, index: usize, event: &Event, found: &mut Vec<Violation>) {
        let Some((place, offset)) = lane::record(event) else {
            return;
        };
        let state = self.places.entry(place.clone()).or_default();
        match event.kind {
            Kind::Start => {
                if let Some(base) = state.forbids(offset) {
                    let detail =
                        format!("starts again although it is complete in the commit at {base}");
                    found.push(Violation {
                        invariant: Invariant::NoReplay,
                        place,
                        offset,
                        event: Some(index),
                        detail,
                    });
                }
            }
            Kind::Done | Kind::Dead if !state.covered.contains_key(&offset) => {
                state.finished.insert(offset);
            }
            Kind::Committed => {
                state.commit(offset, event.metadata.as_bytes(), self.maps_may_be_lost);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checker::Invariant::NoReplay;
    use crate::checker::Rules;
    use crate::checker::world::World;

    #[test]
    fn finished_work_in_no_commit_may_run_again() {
        World::produced(1)
            .run("start 0; done 0; killed; start 0; done 0")
            .clean();
    }

    #[test]
    fn finished_work_below_a_committed_base_does_not() {
        World::produced(1)
            .run("start 0; done 0; committed 1; killed; start 0; done 0")
            .breaks(NoReplay, 0);
    }

    #[test]
    fn nor_does_finished_work_that_a_map_calls_complete() {
        let crash = "start 0; start 1; done 1; start 2; done 2; committed 0 holes 0,2; killed; start 0; done 0;";
        World::produced(3)
            .run(&format!("{crash} start 2; done 2"))
            .breaks_only(NoReplay, &[]);
        World::produced(3)
            .run(&format!("{crash} start 1; done 1"))
            .breaks(NoReplay, 1);
    }

    #[test]
    fn a_commit_after_the_start_does_not_condemn_it() {
        World::produced(1)
            .run("start 0; done 0; killed; start 0; committed 1; done 0")
            .clean();
    }

    #[test]
    fn what_was_committed_before_the_run_does_not_start() {
        World::produced(3)
            .before(1, &[1])
            .run("start 1; done 1")
            .clean();
        World::produced(3)
            .before(1, &[1])
            .run("start 1; done 1; start 2; done 2")
            .breaks(NoReplay, 2);
    }

    #[test]
    fn a_stripped_map_is_excused_only_where_that_may_happen() {
        let stripped = "start 0; start 1; done 1; committed 0 holes 0; committed 0; killed; start 0; done 0; start 1; done 1";
        World::produced(2).run(stripped).breaks(NoReplay, 1);
        World::produced(2)
            .rules(Rules {
                maps_may_be_lost: true,
                ..Rules::default()
            })
            .run(stripped)
            .clean();
    }
}
