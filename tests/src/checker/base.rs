//! A committed base never goes down as long as a member keeps its assignment.

use std::collections::HashMap;

use keyway_offsets::Offset;

use super::{Check, Invariant, Place, Violation, lane};
use crate::event_log::{Event, Kind};

#[derive(Default)]
pub(super) struct BaseRises {
    /// The last base that a member committed in its present assignment.
    bases: HashMap<(String, Place), Offset>,
}

impl Check for BaseRises {
    fn event(&mut self, index: usize, event: &Event, found: &mut Vec<Violation>) {
        let of_member = || (event.member.clone(), (event.topic.clone(), event.partition));
        match event.kind {
            Kind::Assigned | Kind::Revoked | Kind::Lost => drop(self.bases.remove(&of_member())),
            Kind::Committed => {
                let Some((place, offset)) = lane::record(event) else {
                    return;
                };
                let before = self.bases.insert(of_member(), offset);
                if let Some(before) = before.filter(|&before| offset < before) {
                    let detail = format!(
                        "committed after {before} in the same assignment of {}",
                        event.member
                    );
                    found.push(Violation {
                        invariant: Invariant::BaseRises,
                        place,
                        offset,
                        event: Some(index),
                        detail,
                    });
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checker::Invariant::BaseRises;
    use crate::checker::world::World;

    #[test]
    fn a_base_that_rises_or_stays_is_well() {
        World::produced(2)
            .run("start 0; done 0; committed 1; committed 1; start 1; done 1; committed 2")
            .clean();
    }

    #[test]
    fn a_base_that_falls_is_not() {
        World::produced(2)
            .run("start 0; done 0; start 1; done 1; committed 2; committed 1")
            .breaks(BaseRises, 1);
    }

    #[test]
    fn a_new_assignment_begins_anew() {
        let moved =
            "assigned; start 0; done 0; start 1; done 1; committed 2; lost; assigned; committed 1";
        World::produced(2).run(moved).clean();
    }
}
