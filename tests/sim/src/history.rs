//! What really happened to every record, across members and crashes: the truth that invariants are judged by.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::Lane;

/// One attempt that is inside a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) offset: i64,
    /// A member between two crashes.
    pub(crate) incarnation: u64,
    pub(crate) assignment: u64,
    /// The call; records of one batch share it.
    pub(crate) call: u64,
}

/// One partition's past.
#[derive(Debug, Default)]
pub(crate) struct Past {
    /// A handler finished it, under whatever assignment.
    pub(crate) finished: BTreeSet<i64>,
    /// Outputs that a reader of committed data finds.
    pub(crate) written: BTreeSet<i64>,
    /// Below this no record had to run: the group began above.
    pub(crate) begun_at: i64,
    /// Offsets below it were found in order by the check for losses.
    pub(crate) verified_below: i64,
}

/// The past of a run.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) pasts: Vec<Past>,
    /// What runs at this moment, by lane.
    pub(crate) running: BTreeMap<Lane, Vec<Attempt>>,
    /// The last record of each lane whose outputs a transaction has committed.
    pub(crate) last_written: BTreeMap<Lane, i64>,
    /// Assignments that ended before all their attempts had: a handler outlived the revoke wait, or the
    /// member was thrown out.
    pub(crate) outlived: BTreeSet<u64>,
}

impl History {
    pub(crate) fn new(partitions: usize, first_offset: i64) -> Self {
        Self {
            pasts: (0..partitions)
                .map(|_| Past {
                    begun_at: first_offset,
                    verified_below: first_offset,
                    ..Past::default()
                })
                .collect(),
            running: BTreeMap::new(),
            last_written: BTreeMap::new(),
            outlived: BTreeSet::new(),
        }
    }

    pub(crate) fn started(&mut self, lane: Lane, attempt: Attempt) {
        self.running.entry(lane).or_default().push(attempt);
    }

    pub(crate) fn ended(&mut self, lane: Lane, attempt: Attempt) {
        if let Some(attempts) = self.running.get_mut(&lane) {
            attempts.retain(|running| *running != attempt);
            if attempts.is_empty() {
                self.running.remove(&lane);
            }
        }
    }

    /// A process died, and its handlers with it.
    pub(crate) fn crashed(&mut self, incarnation: u64) {
        for attempts in self.running.values_mut() {
            attempts.retain(|running| running.incarnation != incarnation);
        }
        self.running.retain(|_, attempts| !attempts.is_empty());
    }
}
