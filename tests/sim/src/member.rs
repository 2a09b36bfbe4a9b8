//! One member: the real core, and around it what the engine is to it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use keyway_core::{
    CircuitState, Command, CommitPlan, Core, DeadLetter, LaneNames, Leases, PartitionSlot, Sending,
    Shape, Staged, Timestamp, WorkerIndex,
};

use crate::assignment::Assignment;
use crate::gate::MarkGate;
use crate::pace::{Book, SteadyPace};
use crate::record::Payload;
use crate::runner::Runner;
use crate::scenario::Scenario;

/// Records that were fetched and not yet given to the core.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// The assignment they were fetched under.
    pub(crate) epoch: keyway_core::Epoch,
    pub(crate) offsets: Vec<i64>,
    /// Where reading stands behind them.
    pub(crate) position: i64,
}

/// One partition as the member sees it.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) assignment: Option<Assignment>,
    pub(crate) position: i64,
    pub(crate) paused: bool,
    pub(crate) paused_by_user: bool,
    pub(crate) inbox: VecDeque<Fetched>,
    /// Until when a revoke waits.
    pub(crate) revoke_until: Option<Timestamp>,
}

/// One partition's commit in a request.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) partition: usize,
    pub(crate) epoch: keyway_core::Epoch,
    pub(crate) offset: keyway_offsets::Offset,
    pub(crate) text: String,
    pub(crate) leader_epoch: Option<i32>,
    pub(crate) inner_chars: usize,
    pub(crate) stripped: bool,
    /// Stores of the partition when the answer was lost.
    pub(crate) stores: u64,
}

/// What a transaction carries for each partition of its plan; nothing where commits are none.
pub(crate) type Carried = Vec<Vec<Staged<Payload>>>;

/// Where a commit request stands.
#[derive(Debug)]
pub(crate) enum Request {
    /// The core planned it.
    Planned(CommitPlan, Carried),
    /// It was sent under a generation.
    Sent {
        plan: CommitPlan,
        carried: Carried,
        entries: Vec<Entry>,
        generation: u64,
    },
    /// The broker has answered.
    Answered(keyway_core::CommitFinished, Carried),
}

/// What a member is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Running,
    Draining,
    Stopping,
    /// Not there.
    Down,
}

/// A member between two restarts.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) incarnation: u64,
    pub(crate) mode: Mode,
    /// The group has thrown it out, and it does not know yet.
    pub(crate) kicked: bool,
    pub(crate) generation: u64,
    pub(crate) core: Core<Payload, MarkGate>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) names: LaneNames,
    pub(crate) slots: Vec<Slot>,
    /// Pinned workers that have had something, and the runs of pools.
    pub(crate) runners: Vec<Runner>,
    /// Calls at once of each route.
    pub(crate) concurrency: Vec<u32>,
    /// Where the circuit of each route stands, as far as the core has said.
    pub(crate) circuits: Vec<CircuitState>,
    pub(crate) request: Option<Request>,
    /// Tasks handed over and not reported.
    pub(crate) out: usize,
    /// Outputs that are being sent, those of a lane in their order.
    pub(crate) sendings: Vec<Sending<Payload>>,
    /// Dead letters that are being written.
    pub(crate) letters: Vec<DeadLetter<Payload>>,
    /// Commands of the core that were looked at and not carried out yet.
    pub(crate) commands: VecDeque<Command<Payload>>,
    /// Starts that the limit leaves, where one is set.
    pub(crate) starts_left: Option<u64>,
    /// Whom the pace has let through, where there is one.
    pub(crate) let_through: Option<Book>,
    /// Commits tried while leaving.
    pub(crate) last_tries: u32,
    /// When a commit was last asked for while leaving.
    pub(crate) last_try: Option<Timestamp>,
}

impl Member {
    pub(crate) fn down(scenario: &Scenario) -> Self {
        Self {
            mode: Mode::Down,
            ..Self::start(scenario, 0, 0)
        }
    }

    pub(crate) fn start(scenario: &Scenario, incarnation: u64, seed: u64) -> Self {
        let leases = Arc::new(Leases::default());
        let mut core = Core::with_gate(scenario.core.clone(), Arc::clone(&leases), MarkGate);
        for partition in 0..scenario.partitions {
            core.add_partition(scenario.route(partition))
                .expect("fewer partitions than slots");
        }
        let let_through = scenario.pace.is_set().then(Book::default);
        if let Some(book) = &let_through {
            core.set_pace(Some(Box::new(SteadyPace::new(scenario.pace, book.clone()))));
        }
        let routes = scenario.core.routes.iter();
        let concurrency = routes.map(|route| match route.shape {
            Shape::Pinned { workers } => workers,
            Shape::Pool { concurrency } => concurrency,
        });
        Self {
            incarnation,
            mode: Mode::Running,
            kicked: false,
            generation: 0,
            core,
            leases,
            names: LaneNames::new(seed),
            slots: (0..scenario.partitions).map(|_| Slot::default()).collect(),
            runners: Vec::new(),
            concurrency: concurrency.collect(),
            circuits: vec![CircuitState::Closed; scenario.core.routes.len()],
            request: None,
            out: 0,
            sendings: Vec::new(),
            letters: Vec::new(),
            commands: VecDeque::new(),
            starts_left: None,
            let_through,
            last_tries: 0,
            last_try: None,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.mode != Mode::Down
    }

    /// The place of a route's pinned worker, made with its first work.
    pub(crate) fn runner(&mut self, route: keyway_core::RouteId, worker: WorkerIndex) -> usize {
        let is_it = |runner: &Runner| (runner.route, runner.worker) == (route, Some(worker));
        self.runners.iter().position(is_it).unwrap_or_else(|| {
            self.runners.push(Runner::new(route, Some(worker)));
            self.runners.len() - 1
        })
    }

    pub(crate) fn assignment(&mut self, slot: PartitionSlot) -> Option<&mut Assignment> {
        self.slots[slot.index()].assignment.as_mut()
    }

    /// The slot's assignment if it is the one of `epoch`.
    pub(crate) fn current(
        &mut self,
        slot: PartitionSlot,
        epoch: keyway_core::Epoch,
    ) -> Option<&mut Assignment> {
        self.assignment(slot)
            .filter(|assignment| assignment.epoch == epoch)
    }

    /// A task has come back from a worker, started or not.
    pub(crate) fn came_back(&mut self, at: &keyway_core::TaskRef, unstarted: bool) {
        self.out -= 1;
        if unstarted && at.attempt == 1 {
            if let Some(left) = &mut self.starts_left {
                *left += 1;
            }
        }
        if let Some(assignment) = self.current(at.slot, at.epoch) {
            assignment.out.remove(&at.offset.get());
        }
    }

    /// The core's next command.
    pub(crate) fn next_command(&mut self) -> Option<Command<Payload>> {
        let looked_at = self.commands.pop_front();
        looked_at.or_else(|| self.core.next_command())
    }

    /// Looks at the core's commands: whose outputs are held back.
    pub(crate) fn held_back(&mut self) -> BTreeSet<(PartitionSlot, i64)> {
        while let Some(command) = self.core.next_command() {
            self.commands.push_back(command);
        }
        let of_held_back = |command: &Command<Payload>| match command {
            Command::Send(sending) if sending.held_back => {
                Some((sending.at.slot, sending.at.offset.get()))
            }
            _ => None,
        };
        self.commands.iter().filter_map(of_held_back).collect()
    }

    /// What is held back was perhaps staged for a moment, and the map may reach as far as the log has nothing below it:
    /// the core does not say. What is complete up to there is looked at all the same.
    pub(crate) fn look_how_far_maps_reach(&mut self) {
        for status in self.core.status().partitions {
            if let Some(assignment) = &mut self.slots[status.slot.index()].assignment {
                let ours = assignment.map().highest();
                let is_open = |at: i64| assignment.incomplete.contains(&at);
                if (ours + 1..=status.map.highest()).any(|at| !is_open(at)) {
                    assignment.highest = status.map.highest();
                }
            }
        }
    }

    /// What the transaction under way carries for assignments that have ended.
    pub(crate) fn stale_in_request(&self) -> impl Iterator<Item = &Staged<Payload>> {
        let carried = match &self.request {
            Some(
                Request::Planned(_, carried)
                | Request::Sent { carried, .. }
                | Request::Answered(_, carried),
            ) => &carried[..],
            None => &[],
        };
        let is_current = |staged: &Staged<Payload>| {
            let assignment = self.slots[staged.at.slot.index()].assignment.as_ref();
            assignment.is_some_and(|assignment| assignment.epoch == staged.at.epoch)
        };
        carried
            .iter()
            .flatten()
            .filter(move |staged| !is_current(staged))
    }

    pub(crate) fn has_assignments(&self) -> bool {
        self.slots.iter().any(|slot| slot.assignment.is_some())
    }
}
