//! One member: the real core with the real gate, and around it what the engine is to it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use keyway_causal::{CausalConfig, CausalGate};
use keyway_core::{
    CommitFinished, CommitPlan, Core, Epoch, Leases, PartitionSlot, RouteId, Sending, Task,
};
use keyway_offsets::{HoleMap, Offset};

use crate::bits::Bits;
use crate::record::Payload;
use crate::scenario::Scenario;

/// The oracle's account of one assignment.
#[derive(Debug)]
pub(crate) struct Assignment {
    pub(crate) epoch: Epoch,
    pub(crate) start: i64,
    pub(crate) map: HoleMap,
    /// Done here, and their outputs acknowledged.
    pub(crate) done: BTreeSet<i64>,
    /// Records of the partition that are complete here, as far as the shard that was restored went.
    pub(crate) complete: Bits,
}

impl Assignment {
    /// Whether the record is complete as far as this member knows by itself.
    pub(crate) fn is_done(&self, offset: i64) -> bool {
        offset < self.start
            || self.done.contains(&offset)
            || Offset::new(offset).is_some_and(|at| self.map.is_complete(at))
    }
}

/// One partition as the member sees it.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) assignment: Option<Assignment>,
    pub(crate) position: i64,
    /// Up to where the core was told that reading has come.
    pub(crate) reported: i64,
    pub(crate) paused: bool,
    /// It is about to leave, and so often a commit was tried since.
    pub(crate) leaving: Option<u32>,
}

/// A run of one lane at the pool.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) route: RouteId,
    pub(crate) queue: VecDeque<Task<Payload>>,
    pub(crate) running: Option<Task<Payload>>,
}

/// The oracle's account of a plan: what was true when it was made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// For each partition of the plan.
    pub(crate) complete: Vec<Bits>,
    /// All that the member had seen of channels that the group does not consume.
    pub(crate) learned: Bits,
    pub(crate) is_lost: bool,
}

/// One partition's commit in a request.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) slot: usize,
    pub(crate) epoch: Epoch,
    pub(crate) offset: Offset,
    pub(crate) text: keyway_rider::CommitText,
    pub(crate) complete: Bits,
    pub(crate) is_lost: bool,
    /// Stores of the partition when the answer was lost.
    pub(crate) stores: u64,
}

/// A request on its way to the broker.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) plan: CommitPlan,
    pub(crate) entries: Vec<Entry>,
    pub(crate) learned: Bits,
    pub(crate) generation: u64,
}

/// Where a commit stands.
#[derive(Debug)]
pub(crate) enum Request {
    Planned(CommitPlan, Told),
    Sent(Sent),
    Answered(CommitFinished),
}

/// An output that was handed to the producer.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) sending: Sending<Payload>,
    pub(crate) fails: bool,
}

/// A member between two restarts.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) is_up: bool,
    pub(crate) is_kicked: bool,
    /// The gate has said that it has to stop.
    pub(crate) is_stopping: bool,
    pub(crate) generation: u64,
    pub(crate) core: Core<Payload, CausalGate>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) runs: Vec<Run>,
    pub(crate) request: Option<Request>,
    pub(crate) outputs: Vec<Output>,
    /// Everything that is before what this member sends now.
    pub(crate) past: Bits,
    /// What the group knew was lost when this member last read it.
    pub(crate) must_refuse: bool,
    pub(crate) was_refused: bool,
}

impl Member {
    pub(crate) fn start(scenario: &Scenario, slots: usize, config: CausalConfig) -> Self {
        let leases = Arc::new(Leases::default());
        let gate = CausalGate::new(config);
        let mut core = Core::with_gate(scenario.core.clone(), Arc::clone(&leases), gate);
        for _ in 0..slots {
            core.add_partition(RouteId(0))
                .expect("fewer partitions than slots");
        }
        Self {
            is_up: true,
            is_kicked: false,
            is_stopping: false,
            generation: 0,
            core,
            leases,
            slots: (0..slots).map(|_| Slot::default()).collect(),
            runs: Vec::new(),
            request: None,
            outputs: Vec::new(),
            past: Bits::default(),
            must_refuse: false,
            was_refused: false,
        }
    }

    /// The slot's assignment if it is the one of `epoch`.
    pub(crate) fn current(&mut self, slot: PartitionSlot, epoch: Epoch) -> Option<&mut Assignment> {
        let assignment = self.slots[slot.index()].assignment.as_mut();
        assignment.filter(|assignment| assignment.epoch == epoch)
    }

    pub(crate) fn has_assignments(&self) -> bool {
        self.slots.iter().any(|slot| slot.assignment.is_some())
    }
}
