//! After an end in good order the broker's commits cover everything: the next member repeats nothing.

use std::collections::{BTreeMap, BTreeSet};

use keyway_offsets::{HoleMap, Offset};

use super::{Check, Commit, Evidence, Invariant, Place, Rules, Violation, lane};
use crate::event_log::{Event, Kind};

pub(super) struct AllCommitted {
    judged: bool,
    /// Finished in the run, or committed before it.
    finished: BTreeSet<(Place, Offset)>,
}

impl AllCommitted {
    pub(super) fn new(evidence: &Evidence, rules: &Rules) -> Self {
        let before = maps(&evidence.before);
        let covered = |(place, offset): &&(Place, Offset)| {
            before
                .get(place)
                .is_some_and(|map| map.is_complete(*offset))
        };
        let finished = evidence.produced.iter().filter(covered).cloned().collect();
        AllCommitted {
            judged: rules.committed,
            finished,
        }
    }
}

impl Check for AllCommitted {
    fn event(&mut self, _index: usize, event: &Event, _found: &mut Vec<Violation>) {
        if matches!(event.kind, Kind::Done | Kind::Dead) {
            self.finished.extend(lane::record(event));
        }
    }

    fn end(&mut self, after: &[Commit], found: &mut Vec<Violation>) {
        if !self.judged {
            return;
        }
        let after = maps(after);
        let committed = |place, offset| {
            after
                .get(place)
                .is_some_and(|map: &HoleMap| map.is_complete(offset))
        };
        let open = self
            .finished
            .iter()
            .filter(|(place, offset)| !committed(place, *offset));
        found.extend(open.map(|(place, offset)| Violation {
            invariant: Invariant::AllCommitted,
            place: place.clone(),
            offset: *offset,
            event: None,
            detail: "finished, and not in what the broker holds at the end".to_owned(),
        }));
    }
}

/// A text that is no map is judged as loss, and covers nothing here.
fn maps(commits: &[Commit]) -> BTreeMap<Place, HoleMap> {
    commits
        .iter()
        .filter_map(|commit| Some((commit.place.clone(), commit.map().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::checker::Invariant::AllCommitted;
    use crate::checker::Rules;
    use crate::checker::world::World;

    const GRACEFUL: Rules = Rules {
        committed: true,
        finished: false,
        ..Rules::STRICT
    };

    #[test]
    fn an_end_in_good_order_leaves_nothing_uncommitted() {
        let run = "start 0; start 1; done 1; start 2; done 2";
        World::produced(3)
            .rules(GRACEFUL)
            .run(run)
            .after(0, &[0])
            .clean();
        World::produced(3)
            .rules(GRACEFUL)
            .run(run)
            .after(0, &[0, 2])
            .breaks(AllCommitted, 2);
        World::produced(3)
            .rules(GRACEFUL)
            .run(run)
            .breaks_only(AllCommitted, &[1, 2]);
    }

    #[test]
    fn what_was_committed_before_stays_committed() {
        World::produced(3)
            .rules(GRACEFUL)
            .before(2, &[2])
            .after(1, &[])
            .breaks(AllCommitted, 1);
    }

    #[test]
    fn after_a_crash_it_is_not_asked_for() {
        World::produced(1).run("start 0; done 0; killed").clean();
    }
}
