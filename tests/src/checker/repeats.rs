//! Only a crash or a loss repeats work: what a member finished before it let its partition go in good order, or ended in
//! good order, never starts again.

use std::collections::BTreeMap;

use keyway_offsets::Offset;

use super::{Check, Invariant, Place, Rules, Violation, lane};
use crate::event_log::{Event, Kind};

pub(super) struct OnlyCrashesRepeat {
    judged: bool,
    /// By which event the last attempt began.
    begun: BTreeMap<(Place, Offset), usize>,
    /// By whom, and by which event that attempt began: what is lost or killed while it runs does not count as finished.
    finished: BTreeMap<(Place, Offset), (String, usize)>,
    /// When a member was killed, and when it last lost a partition, by the index of the event.
    killed: BTreeMap<String, usize>,
    lost: BTreeMap<(String, Place), usize>,
}

impl OnlyCrashesRepeat {
    pub(super) fn new(rules: &Rules) -> Self {
        OnlyCrashesRepeat {
            judged: rules.only_crashes_repeat,
            begun: BTreeMap::new(),
            finished: BTreeMap::new(),
            killed: BTreeMap::new(),
            lost: BTreeMap::new(),
        }
    }

    fn start(&self, index: usize, event: &Event, found: &mut Vec<Violation>) {
        let Some((place, offset)) = lane::record(event).filter(|_| event.attempt <= 1) else {
            return;
        };
        let Some((by, begun)) = self.finished.get(&(place.clone(), offset)) else {
            return;
        };
        let lost = self.lost.get(&(by.clone(), place.clone()));
        if self.killed.get(by).max(lost) > Some(begun) {
            return;
        }
        found.push(Violation {
            invariant: Invariant::OnlyCrashesRepeat,
            place,
            offset,
            event: Some(index),
            detail: format!(
                "starts again in {} although {by}, which finished it, neither crashed nor lost it",
                event.member
            ),
        });
    }
}

impl Check for OnlyCrashesRepeat {
    fn event(&mut self, index: usize, event: &Event, found: &mut Vec<Violation>) {
        if !self.judged {
            return;
        }
        let of_member = || (event.member.clone(), (event.topic.clone(), event.partition));
        match event.kind {
            Kind::Start => {
                self.start(index, event, found);
                self.begun
                    .extend(lane::record(event).map(|record| (record, index)));
            }
            Kind::Done | Kind::Dead => {
                if let Some(record) = lane::record(event) {
                    let begun = self.begun.get(&record).copied().unwrap_or(index);
                    self.finished.insert(record, (event.member.clone(), begun));
                }
            }
            Kind::Killed => drop(self.killed.insert(event.member.clone(), index)),
            Kind::Lost => drop(self.lost.insert(of_member(), index)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checker::Invariant::OnlyCrashesRepeat;
    use crate::checker::Rules;
    use crate::checker::world::World;

    const ORDERLY: Rules = Rules {
        only_crashes_repeat: true,
        ..Rules::STRICT
    };

    #[test]
    fn after_a_crash_or_a_loss_finished_work_may_run_again() {
        for end in ["killed a", "lost by a", "lost by a; assigned by a"] {
            World::produced(1)
                .rules(ORDERLY)
                .run(&format!(
                    "assigned by a; start 0 by a; done 0 by a; {end}; start 0 by b; done 0 by b"
                ))
                .clean();
        }
    }

    // Judged from the end of the work, the late result of a lost assignment would count as finished work.
    #[test]
    fn what_ran_when_its_partition_was_lost_may_run_again() {
        World::produced(1)
            .rules(ORDERLY)
            .run("assigned by a; start 0 by a; lost by a; done 0 by a; start 0 by b; done 0 by b")
            .clean();
    }

    #[test]
    fn after_a_revoke_or_an_orderly_end_it_does_not() {
        let run =
            "assigned by a; start 0 by a; done 0 by a; revoked by a; start 0 by b; done 0 by b";
        World::produced(1)
            .rules(ORDERLY)
            .run(run)
            .breaks(OnlyCrashesRepeat, 0);
        World::produced(1)
            .run(run)
            .breaks_only(OnlyCrashesRepeat, &[]);
    }

    #[test]
    fn a_loss_before_the_work_excuses_nothing() {
        World::produced(1)
            .rules(ORDERLY)
            .run("assigned by a; lost by a; assigned by a; start 0 by a; done 0 by a; revoked by a; start 0 by b; done 0 by b")
            .breaks(OnlyCrashesRepeat, 0);
    }
}
