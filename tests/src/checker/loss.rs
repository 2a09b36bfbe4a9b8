//! Nothing is lost: no commit covers a record that was not finished, and in the end all are.
//!
//! `done` is written before any commit that covers it, so at each `committed` line everything it covers has a `done`
//! above. That catches a loss at the moment it happens, also when a later replay would have hidden it.

use std::collections::{BTreeMap, BTreeSet};

use keyway_offsets::Offset;

use super::{Check, Commit, Evidence, Invariant, Place, Rules, Violation, coverage, lane};
use crate::event_log::{Event, Kind};

pub(super) struct NoLoss {
    /// Produced and not finished yet.
    open: BTreeMap<Place, BTreeSet<Offset>>,
    finished: bool,
}

impl NoLoss {
    pub(super) fn new(evidence: &Evidence, rules: &Rules) -> Self {
        let mut open: BTreeMap<Place, BTreeSet<Offset>> = BTreeMap::new();
        for (place, offset) in &evidence.produced {
            open.entry(place.clone()).or_default().insert(*offset);
        }
        // Whoever committed before the run has answered for it.
        for commit in &evidence.before {
            if let (Some(open), Ok(map)) = (open.get_mut(&commit.place), commit.map()) {
                open.retain(|&offset| !map.is_complete(offset));
            }
        }
        NoLoss {
            open,
            finished: rules.finished,
        }
    }

    fn commit(
        &self,
        place: &Place,
        base: Offset,
        text: &[u8],
        event: Option<usize>,
        found: &mut Vec<Violation>,
    ) {
        let violation = |offset, detail| Violation {
            invariant: Invariant::NoLoss,
            place: place.clone(),
            offset,
            event,
            detail,
        };
        let map = match coverage::of(base, text) {
            Ok(map) => map,
            Err(reason) => return found.push(violation(base, reason)),
        };
        let open = self.open.get(place).into_iter().flatten();
        let covered =
            open.take_while(|offset| offset.get() <= map.highest_complete().max(base.get()));
        let lost = covered.filter(|&&offset| map.is_complete(offset));
        found.extend(lost.map(|&offset| {
            violation(
                offset,
                format!("complete in the commit at {base}, but not finished"),
            )
        }));
    }
}

impl Check for NoLoss {
    fn event(&mut self, index: usize, event: &Event, found: &mut Vec<Violation>) {
        let Some((place, offset)) = lane::record(event) else {
            return;
        };
        match event.kind {
            Kind::Done | Kind::Dead => {
                if let Some(open) = self.open.get_mut(&place) {
                    open.remove(&offset);
                }
            }
            Kind::Committed => self.commit(
                &place,
                offset,
                event.metadata.as_bytes(),
                Some(index),
                found,
            ),
            _ => {}
        }
    }

    fn end(&mut self, after: &[Commit], found: &mut Vec<Violation>) {
        for commit in after {
            self.commit(&commit.place, commit.offset, &commit.metadata, None, found);
        }
        if self.finished {
            let open = self
                .open
                .iter()
                .flat_map(|(place, open)| open.iter().map(move |&offset| (place, offset)));
            found.extend(open.map(|(place, offset)| Violation {
                invariant: Invariant::NoLoss,
                place: place.clone(),
                offset,
                event: None,
                detail: "never finished".to_owned(),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checker::Invariant::NoLoss;
    use crate::checker::Rules;
    use crate::checker::world::World;

    #[test]
    fn all_finished_and_committed_is_no_loss() {
        World::produced(3).run("start 0; done 0; start 1; start 2; done 2; committed 1 holes 1; done 1; committed 3").clean();
    }

    #[test]
    fn a_record_that_nobody_finished_is_lost() {
        World::produced(3)
            .run("start 0; done 0; start 2; done 2")
            .breaks(NoLoss, 1);
    }

    #[test]
    fn a_dead_letter_is_finished_and_a_failure_is_not() {
        World::produced(2)
            .run("start 0; failed 0; start 0; dead 0; start 1; failed 1")
            .breaks(NoLoss, 1);
    }

    #[test]
    fn a_commit_above_an_unfinished_record_is_a_loss_even_when_it_is_finished_later() {
        World::produced(2)
            .run("start 0; start 1; done 1; committed 2; done 0")
            .breaks(NoLoss, 0);
    }

    #[test]
    fn a_map_that_calls_an_unfinished_record_complete_is_a_loss() {
        World::produced(4).run("start 0; start 3; done 3; committed 0 holes 0,1; start 1; done 0; done 1; start 2; done 2").breaks(NoLoss, 2);
    }

    #[test]
    fn what_was_committed_before_the_run_need_not_be_finished_in_it() {
        World::produced(3)
            .before(1, &[1])
            .run("start 1; done 1; committed 3")
            .clean();
        World::produced(3)
            .before(1, &[1, 2])
            .run("start 1; done 1")
            .breaks(NoLoss, 2);
    }

    #[test]
    fn the_brokers_last_word_is_judged_like_a_commit() {
        let unfinished = Rules {
            finished: false,
            ..Rules::default()
        };
        World::produced(3)
            .rules(unfinished)
            .run("start 0; done 0")
            .after(1, &[])
            .clean();
        World::produced(3)
            .rules(unfinished)
            .run("start 0; done 0")
            .after(2, &[])
            .breaks(NoLoss, 1);
    }

    #[test]
    fn a_text_that_is_no_map_is_reported_at_its_commit() {
        World::produced(1)
            .run("start 0; done 0; committed 1 text %%%")
            .breaks(NoLoss, 1);
    }
}
