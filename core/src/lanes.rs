//! The lanes: queues of records that run one after another.
//!
//! A lane exists while it holds a record or one of its records is out at a worker; then its place in the table
//! is used again. A million distinct keys therefore cost no more than those that are under way.
//!
//! ```text
//!   waiting:  [7 8 9]            in the core, oldest first
//!   returned: [5 6]              came back unfinished; merged in front once `out` is 0
//!   out:      2                  at a worker, not reported yet
//! ```

use std::collections::VecDeque;

use hashbrown::HashTable;
use keyway_offsets::Offset;

use crate::ids::{Epoch, LaneId, LaneIndex, PartitionSlot, Timestamp, WorkerIndex};
use crate::mutant::{Mutant, mutated};
use crate::work::Task;

/// A record that waits in the core.
#[derive(Debug)]
pub(crate) struct Waiting<P> {
    pub(crate) task: Task<P>,
    /// Most records of the batch in which it may run next; halved each time a batch fails as a whole.
    pub(crate) batch_limit: u32,
    /// The gate has not let it through yet.
    pub(crate) held: bool,
    /// What the pace has said of this attempt so far.
    pub(crate) passed: u8,
    /// How often its dead letter could not be written; 0 for a record that is to run.
    pub(crate) letter_tries: u32,
}

impl<P> Waiting<P> {
    pub(crate) fn new(task: Task<P>) -> Self {
        Self {
            task,
            batch_limit: u32::MAX,
            held: false,
            passed: 0,
            letter_tries: 0,
        }
    }
}

/// Why a lane's first waiting record is not at a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneState {
    /// Nothing waits, or records of it are out and the rest follows them.
    Following,
    /// In its partition's queue of lanes that may run.
    Ready,
    /// The hole map is too long: only records below its highest complete offset may run.
    BehindMap,
    /// The limit of starts is reached, and its first record was never started.
    BehindLimit,
    /// A retry is due at this time.
    Due(Timestamp),
    /// Its first record starts at this time at the earliest, for the sake of the pace.
    Paced(Timestamp),
    /// The gate holds its first record.
    Held,
}

#[derive(Debug)]
pub(crate) struct Lane<P> {
    pub(crate) id: LaneId,
    pub(crate) slot: PartitionSlot,
    pub(crate) state: LaneState,
    pub(crate) waiting: VecDeque<Waiting<P>>,
    pub(crate) returned: Vec<Waiting<P>>,
    /// Records at workers and not reported, and those whose outputs or dead letter are being written.
    pub(crate) out: u32,
    /// How many of these are being written.
    pub(crate) writes: u32,
    /// Assignment of the records that are out.
    pub(crate) out_epoch: Epoch,
    /// Worker of the records that are out, for a pinned route.
    pub(crate) worker: WorkerIndex,
    /// An attempt failed, or what it came to is being written: nothing follows until all that is out has come back.
    pub(crate) failed: bool,
    /// The first record that failed, or was given up, since nothing was out.
    pub(crate) failed_at: Option<Offset>,
    /// When the failed record may run again.
    pub(crate) due: Timestamp,
}

impl<P> Lane<P> {
    /// Whether a record that arrives now may follow the ones that are out.
    pub(crate) fn may_append(&self, epoch: Epoch) -> bool {
        self.out_epoch == epoch
            && !self.failed
            && self.waiting.is_empty()
            && self.returned.is_empty()
    }

    /// Notes that a record has to run again, or goes to the dead letters.
    pub(crate) fn note_failed(&mut self, offset: Offset) {
        self.failed = true;
        let first = self.failed_at.unwrap_or(offset);
        self.failed_at = Some(first.min(offset));
    }

    /// Puts what came back in front of what waits, in the order of offsets.
    pub(crate) fn merge_returned(&mut self) {
        self.returned.sort_by_key(|waiting| waiting.task.at.offset);
        if mutated(Mutant::MergedBackwards) {
            self.returned.reverse();
        }
        if mutated(Mutant::FailedGoesLast) {
            self.waiting.extend(self.returned.drain(..));
        }
        for waiting in self.returned.drain(..).rev() {
            self.waiting.push_front(waiting);
        }
    }

    /// Offset of the first waiting record.
    pub(crate) fn front(&self) -> Option<Offset> {
        self.waiting.front().map(|waiting| waiting.task.at.offset)
    }
}

/// All lanes of a member.
#[derive(Debug)]
pub(crate) struct LaneTable<P> {
    lanes: Vec<Lane<P>>,
    free: Vec<LaneIndex>,
    by_id: HashTable<LaneIndex>,
}

/// A vacant lane keeps room for this many waiting records; what a burst needed beyond is given back.
const KEPT_CAPACITY: usize = 64;

impl<P> LaneTable<P> {
    pub(crate) fn new() -> Self {
        Self {
            lanes: Vec::new(),
            free: Vec::new(),
            by_id: HashTable::new(),
        }
    }

    /// The lane called `id`, made when there is none.
    pub(crate) fn find_or_make(&mut self, id: LaneId, slot: PartitionSlot) -> LaneIndex {
        let lanes = &self.lanes;
        // The id is a good hash already.
        if let Some(index) = self.by_id.find(id.0, |index| lanes[index.index()].id == id) {
            return *index;
        }
        let index = match self.free.pop() {
            Some(index) => {
                let lane = &mut self.lanes[index.index()];
                lane.id = id;
                lane.slot = slot;
                index
            }
            None => {
                let index = LaneIndex(
                    u32::try_from(self.lanes.len())
                        .expect("fewer than 2^32 lanes: each holds a buffered record"),
                );
                self.lanes.push(Lane {
                    id,
                    slot,
                    state: LaneState::Following,
                    waiting: VecDeque::new(),
                    returned: Vec::new(),
                    out: 0,
                    writes: 0,
                    out_epoch: Epoch::NONE,
                    worker: WorkerIndex(0),
                    failed: false,
                    failed_at: None,
                    due: Timestamp::ZERO,
                });
                index
            }
        };
        let lanes = &self.lanes;
        self.by_id
            .insert_unique(id.0, index, |index| lanes[index.index()].id.0);
        index
    }

    pub(crate) fn remove(&mut self, index: LaneIndex) {
        let id = self.lanes[index.index()].id;
        if let Ok(entry) = self.by_id.find_entry(id.0, |found| *found == index) {
            entry.remove();
        }
        let lane = &mut self.lanes[index.index()];
        debug_assert!(lane.out == 0 && lane.waiting.is_empty() && lane.returned.is_empty());
        lane.state = LaneState::Following;
        lane.failed = false;
        lane.failed_at = None;
        lane.due = Timestamp::ZERO;
        lane.waiting.shrink_to(KEPT_CAPACITY);
        lane.returned.shrink_to(KEPT_CAPACITY);
        self.free.push(index);
    }

    pub(crate) fn get(&self, index: LaneIndex) -> &Lane<P> {
        &self.lanes[index.index()]
    }

    pub(crate) fn get_mut(&mut self, index: LaneIndex) -> &mut Lane<P> {
        &mut self.lanes[index.index()]
    }

    /// The lanes of a partition, in no order.
    pub(crate) fn of_slot(&self, slot: PartitionSlot) -> Vec<LaneIndex> {
        self.by_id
            .iter()
            .copied()
            .filter(|index| self.lanes[index.index()].slot == slot)
            .collect()
    }

    /// All lanes that hold a record.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lane<P>> {
        self.by_id.iter().map(|index| &self.lanes[index.index()])
    }

    /// Calls `change` with each lane that holds a record.
    pub(crate) fn each(&mut self, mut change: impl FnMut(&mut Lane<P>)) {
        for index in &self.by_id {
            change(&mut self.lanes[index.index()]);
        }
    }

    /// Number of lanes that hold a record.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }
}
