//! The state machine: events in by method, commands out by [`Core::next_command`].
//!
//! ```text
//!   assigned, records, completed,         +------+   Dispatch, Reopen, Commit,
//!   commit_finished, revoking, revoked, ->| Core |-> Pause, Resume, Stop
//!   lost, tick                            +------+
//! ```
//!
//! One thread owns it. It has no clock, no randomness and no I/O: every method takes the time, and the same
//! events give the same commands. What happens to a record on its way is told in the files beside this one:
//! `dispatch` (arrival to worker), `completion` (worker back to tracker), `commit` (tracker to plan).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use keyway_offsets::Offset;

use crate::circuit::Circuit;
use crate::command::{Command, Restored};
use crate::commit::Commits;
use crate::config::CoreConfig;
use crate::gate::{Gate, OpenGate};
use crate::ids::{Epoch, LaneIndex, PartitionSlot, RouteId, Timestamp, WorkerIndex};
use crate::lanes::{LaneState, LaneTable};
use crate::lease::{Leases, MAX_SLOTS};
use crate::mutant::{Mutant, mutated};
use crate::pace::Pacing;
use crate::partition::{Partition, Phase};
use crate::retry::Retries;
use crate::route::Route;
use crate::stage::Staging;
use crate::status::Counters;
use crate::work::Task;

/// The state of one member: its partitions, their lanes, its routes.
///
/// `P` is what handlers get; the core carries it and looks at nothing in it.
#[derive(Debug)]
pub struct Core<P, G = OpenGate> {
    pub(crate) config: CoreConfig,
    pub(crate) gate: G,
    pub(crate) leases: Arc<Leases>,
    pub(crate) partitions: Vec<Partition<P>>,
    pub(crate) lanes: LaneTable<P>,
    pub(crate) routes: Vec<Route<P>>,
    pub(crate) retries: Retries,
    pub(crate) pacing: Pacing<P>,
    pub(crate) held: BTreeMap<(PartitionSlot, Offset), LaneIndex>,
    pub(crate) commits: Commits,
    pub(crate) staging: Staging,
    pub(crate) totals: Totals,
    pub(crate) counters: Counters,
    pub(crate) commands: VecDeque<Command<P>>,
    pub(crate) spare: Vec<Vec<Task<P>>>,
    /// First attempts that may still be handed over, where a limit is set.
    pub(crate) starts_left: Option<u64>,
    pub(crate) draining: bool,
    /// What a record has as outputs, lately.
    pub(crate) mean_output_bytes: usize,
    /// Records were kept from starting because too many outputs were being sent.
    pub(crate) waits_for_outputs: bool,
    /// When riders of idle partitions are looked at again.
    pub(crate) refresh_at: Timestamp,
    last_epoch: u64,
}

/// What all partitions hold together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Partitions that are assigned or about to leave.
    pub(crate) assigned: usize,
    /// Records in the core or at workers, those of ended assignments included.
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    /// Records at workers.
    pub(crate) out: usize,
    /// Records whose outputs or dead letter are being written, those of ended assignments included.
    pub(crate) writes_out: usize,
    /// What outputs that are being sent, or staged, count.
    pub(crate) output_bytes: usize,
    /// Records on the stages and in the transaction that is under way, and what they count in the buffers.
    pub(crate) staged: usize,
    pub(crate) staged_bytes: usize,
    /// When the buffers were last filled up to the reserve.
    pub(crate) full_since: Timestamp,
    /// They have been full for long: partitions that hold little are fetched all the same.
    pub(crate) reserve_open: bool,
    /// Some partition may be paused for the sake of the buffers, and when all were last looked at.
    pub(crate) some_paused: bool,
    pub(crate) eased_at: Timestamp,
}

/// Vectors kept for reuse; more than are under way at once are given back.
const SPARE_VECTORS: usize = 256;

impl<P> Core<P> {
    /// A core without partitions, whose gate is open.
    pub fn new(config: CoreConfig, leases: Arc<Leases>) -> Self {
        Self::with_gate(config, leases, OpenGate)
    }
}

impl<P, G: Gate<P>> Core<P, G> {
    /// A core without partitions.
    pub fn with_gate(config: CoreConfig, leases: Arc<Leases>, gate: G) -> Self {
        let routes = config.routes.iter().cloned().map(Route::new).collect();
        Self {
            commits: Commits::new(config.limits),
            staging: Staging::default(),
            routes,
            config,
            gate,
            leases,
            partitions: Vec::new(),
            lanes: LaneTable::new(),
            retries: Retries::default(),
            pacing: Pacing::none(),
            held: BTreeMap::new(),
            totals: Totals::default(),
            counters: Counters::default(),
            commands: VecDeque::new(),
            spare: Vec::new(),
            starts_left: None,
            draining: false,
            mean_output_bytes: 0,
            waits_for_outputs: false,
            refresh_at: Timestamp::ZERO,
            last_epoch: 0,
        }
    }

    /// A slot for a partition whose records go to `route`, or `None` when [`MAX_SLOTS`] are taken. A slot
    /// belongs to its partition from then on, so that a lane of an older assignment is recognised.
    pub fn add_partition(&mut self, route: RouteId) -> Option<PartitionSlot> {
        if self.partitions.len() >= MAX_SLOTS {
            return None;
        }
        let slot = PartitionSlot(u32::try_from(self.partitions.len()).ok()?);
        self.partitions.push(Partition::vacant(route));
        Some(slot)
    }

    /// Event: the partition is this member's, and this is where it starts. Everything of an earlier
    /// assignment is dropped.
    pub fn assigned(&mut self, slot: PartitionSlot, restored: &Restored, now: Timestamp) -> Epoch {
        self.end_assignment(slot);
        self.last_epoch += 1;
        let epoch = Epoch(self.last_epoch);
        let partition = &mut self.partitions[slot.index()];
        partition.restore(epoch, restored);
        partition.judge_map(&self.commits.limits);
        let base = partition.tracker.base();
        self.gate.begun(slot, base, restored);
        if let (0, Some(interval)) = (self.totals.assigned, self.refresh_interval()) {
            self.refresh_at = now.after(interval);
        }
        self.totals.assigned += 1;
        self.leases.grant(slot, epoch);
        if restored.committed.is_none() {
            // A first position is written down at once: until then a crash would choose it anew.
            self.commits.make_due(now);
        } else if self.partitions[slot.index()].is_dirty() {
            // The log starts above what was committed.
            self.commits.note_change();
        }
        if self.gate.take_news() {
            self.commits.note_change();
        }
        self.pass_gate(now);
        epoch
    }

    /// Event: the partition is about to leave. Nothing of it is started any more; what runs still counts, and
    /// [`Core::is_quiet`] tells when nothing does.
    pub fn revoking(&mut self, slot: PartitionSlot) {
        if self.partitions[slot.index()].phase == Phase::Assigned {
            self.partitions[slot.index()].phase = Phase::Revoking;
            self.leases.end(slot);
            self.drop_waiting(slot);
            self.owe_last_rider(slot);
            self.partitions[slot.index()].committed.begin_end();
        }
    }

    /// Event: the partition has left. Results that come later are recognised and dropped.
    pub fn revoked(&mut self, slot: PartitionSlot) {
        self.end_assignment(slot);
    }

    /// Event: the partition was lost; the same as revoked, without a commit before.
    pub fn lost(&mut self, slot: PartitionSlot) {
        self.end_assignment(slot);
    }

    fn end_assignment(&mut self, slot: PartitionSlot) {
        if self.partitions[slot.index()].phase == Phase::Vacant {
            return;
        }
        self.leases.end(slot);
        self.drop_waiting(slot);
        self.drop_stage(slot);
        self.partitions[slot.index()].vacate();
        self.gate.ended(slot);
        self.totals.assigned -= 1;
    }

    /// Drops what waits in the core; lanes with records at workers stay until these come back.
    fn drop_waiting(&mut self, slot: PartitionSlot) {
        for index in self.lanes.of_slot(slot) {
            let lane = self.lanes.get_mut(index);
            let dropped: Vec<_> = lane
                .waiting
                .drain(..)
                .chain(lane.returned.drain(..))
                .collect();
            lane.state = LaneState::Following;
            lane.due = Timestamp::ZERO;
            let out = lane.out;
            for waiting in &dropped {
                if mutated(Mutant::RevokedStillCounted) {
                    continue;
                }
                self.forget(slot, waiting.task.at.bytes);
            }
            if out == 0 {
                self.lanes.remove(index);
            }
        }
        let partition = &mut self.partitions[slot.index()];
        partition.ready.clear();
        partition.behind_map.clear();
        partition.behind_limit.clear();
        partition.letters_waiting = 0;
        self.held.retain(|(held, _), _| *held != slot);
    }

    /// A record of the running assignment left the buffers.
    pub(crate) fn forget(&mut self, slot: PartitionSlot, bytes: u32) {
        let partition = &mut self.partitions[slot.index()];
        partition.buffered = partition.buffered.saturating_sub(1);
        partition.buffered_bytes = partition.buffered_bytes.saturating_sub(bytes as usize);
        self.forget_total(bytes);
    }

    /// A record of an ended assignment left the buffers.
    pub(crate) fn forget_total(&mut self, bytes: u32) {
        self.totals.records = self.totals.records.saturating_sub(1);
        self.totals.bytes = self.totals.bytes.saturating_sub(bytes as usize);
    }

    /// Event: time passed. Retries that are due run, a commit that is due is planned.
    pub fn tick(&mut self, now: Timestamp) {
        self.ease(now);
        self.end_waits(now);
        while let Some(index) = self.next_due_lane(now) {
            self.queue_lane(index, now);
        }
        self.fill_all(now);
        self.plan_if_due(now);
        self.refresh_if_due(now);
    }

    fn next_due_lane(&mut self, now: Timestamp) -> Option<LaneIndex> {
        while let Some((due, index)) = self.retries.pop_due(now) {
            // Entries of lanes that went with their assignment stay behind and are recognised here.
            let state = self.lanes.get(index).state;
            if state == LaneState::Due(due) || state == LaneState::Paced(due) {
                return Some(index);
            }
        }
        None
    }

    /// From now on batches are not held back to fill up. Fetching is the caller's to end.
    pub fn begin_drain(&mut self, now: Timestamp) {
        self.draining = true;
        self.begin_ends();
        self.fill_all(now);
    }

    fn begin_ends(&mut self) {
        for partition in &mut self.partitions {
            partition.committed.begin_end();
        }
    }

    /// From now on nothing is started; what was handed over and not started comes back.
    pub fn begin_stop(&mut self) {
        self.leases.set_stopping();
        self.begin_ends();
    }

    /// At most `records` further records are ever started; the rest wait. Further attempts are no starts.
    pub fn limit_starts(&mut self, records: u64) {
        self.starts_left = Some(records);
        // Where none of them is due later: they waited for nothing but a start.
        self.queue_behind_limit(Timestamp::NEVER);
    }

    /// From now on a route has `calls` calls at once, at least 1. What runs is finished; a worker that is one too many
    /// gives back what it has not started, which goes on elsewhere once what it runs of the same lane is done.
    pub fn set_concurrency(&mut self, route: RouteId, calls: u32, now: Timestamp) {
        self.routes[route.index()].calls = calls.max(1);
        self.resize(route, now);
    }

    /// So many calls of a route hang: as many are made beyond its concurrency, until there are fewer again.
    pub fn set_surplus(&mut self, route: RouteId, calls: u32, now: Timestamp) {
        self.routes[route.index()].surplus = calls;
        self.resize(route, now);
    }

    fn resize(&mut self, route: RouteId, now: Timestamp) {
        let state = &mut self.routes[route.index()];
        let before = state.workers.iter().map(|worker| worker.retired);
        let before: Vec<bool> = before.collect();
        state.resize();
        for (index, was_retired) in before.into_iter().enumerate() {
            let worker = WorkerIndex(index as u32);
            let state = &self.routes[route.index()].workers[index];
            if state.retired && !was_retired {
                self.commands.push_back(match state.held {
                    0 => Command::Retire { route, worker },
                    _ => Command::TakeBack { route, worker },
                });
            }
        }
        self.fill(route, now);
        self.flush(route);
    }

    /// How many workers a route has or had, for one whose lanes are pinned.
    pub fn workers(&self, route: RouteId) -> u32 {
        self.routes[route.index()].workers.len() as u32
    }

    /// The next command, in the order in which they are to be carried out.
    pub fn next_command(&mut self) -> Option<Command<P>> {
        self.commands.pop_front()
    }

    /// Takes back a vector that carried a hand-over, so that the next one needs no allocation.
    pub fn recycle(&mut self, mut tasks: Vec<Task<P>>) {
        if self.spare.len() < SPARE_VECTORS {
            tasks.clear();
            self.spare.push(tasks);
        }
    }

    pub(crate) fn spare_vector(&mut self) -> Vec<Task<P>> {
        self.spare.pop().unwrap_or_default()
    }

    /// When [`Core::tick`] has to be called at the latest.
    pub fn next_deadline(&self) -> Timestamp {
        let commit = self.commit_deadline().min(self.refresh_deadline());
        let commit = commit.min(self.ease_deadline());
        let mut deadline = self.retries.next().min(self.pacing.next()).min(commit);
        let waits_for_time = |route: &&Route<P>| !route.batch_waits_for_room;
        if !self.leases.is_stopping() {
            for route in self.routes.iter().filter(waits_for_time) {
                deadline = deadline.min(route.batch_due.unwrap_or(Timestamp::NEVER));
            }
            for route in self.routes.iter().filter(|route| !route.queue.is_empty()) {
                let circuit = route.circuit.as_ref();
                deadline = deadline.min(circuit.map_or(Timestamp::NEVER, Circuit::next));
            }
        }
        deadline
    }

    /// Whether no record of the partition is at a worker under its running assignment, and no outputs and no dead letter
    /// of it are being written.
    pub fn is_quiet(&self, slot: PartitionSlot) -> bool {
        let partition = &self.partitions[slot.index()];
        partition.out == 0 && partition.sends_out == 0 && partition.letters_out == 0
    }

    /// Whether nothing is at a worker, and no outputs and no dead letter are being written. A letter that could not be
    /// written, and waits for its next try, is nothing to wait for.
    pub fn is_all_quiet(&self) -> bool {
        self.totals.out == 0 && self.totals.writes_out == 0
    }

    /// Whether nothing more will complete before `until` by itself: nothing is at a worker or being written, nothing
    /// may run, and no retry is due by then, nor the end of a wait for the pace or a circuit.
    pub fn is_drained(&self, until: Timestamp) -> bool {
        let nothing_ready = || !self.routes.iter().any(|route| route.may_go_on_by(until));
        let nothing_due = || self.retries.next() > until && !self.pacing.frees_partition_by(until);
        // A dead letter is no start: it keeps no pace.
        let no_letter = || self.partitions.iter().all(|part| part.letters_waiting == 0);
        self.is_all_quiet()
            && ((self.pacing.holds_all_until(until) && no_letter())
                || (nothing_ready() && nothing_due()))
    }

    /// Whether no record will run before another arrives: what is here, if anything, is on hold or behind it.
    pub fn is_idle(&self) -> bool {
        self.is_all_quiet()
            && self.routes.iter().all(|route| route.queue.is_empty())
            && self.retries.next() == Timestamp::NEVER
            && self.held.is_empty()
            && self.partitions.iter().all(|partition| {
                partition.behind_map.is_empty()
                    && partition.behind_limit.is_empty()
                    && partition.paced_until.is_none()
            })
    }

    /// Whether the core holds no record at all.
    pub fn is_empty(&self) -> bool {
        self.totals.records == 0
    }

    /// Whether records have had outputs.
    pub fn has_outputs(&self) -> bool {
        self.counters.sent + self.counters.sends_failed > 0 || self.mean_output_bytes > 0
    }

    /// Whether records leave the buffers when a broker answers, and not before.
    pub fn is_writing(&self) -> bool {
        self.totals.writes_out > 0 || (self.is_transactional() && self.commit_in_flight().is_some())
    }

    /// What outputs that are being sent, or staged, count.
    pub fn output_bytes(&self) -> usize {
        self.totals.output_bytes
    }

    /// The gate.
    pub fn gate(&self) -> &G {
        &self.gate
    }

    /// The gate, to be told what only its owner knows; [`Core::pass_gate`] lets through what that frees.
    pub fn gate_mut(&mut self) -> &mut G {
        &mut self.gate
    }

    /// What a commit of the partition would carry as its offset.
    pub fn base(&self, slot: PartitionSlot) -> Offset {
        self.partitions[slot.index()].tracker.base()
    }

    /// A worker that holds more than it runs and of which `is_slow` says that its running attempt takes long.
    pub fn next_laden(
        &self,
        is_slow: impl Fn(RouteId, WorkerIndex) -> bool,
    ) -> Option<(RouteId, WorkerIndex)> {
        self.laden()
            .find(|(route, worker)| is_slow(*route, *worker))
    }

    /// Whether some worker holds more than it runs.
    pub fn is_laden(&self) -> bool {
        self.laden().next().is_some()
    }

    /// Whether the worker holds more than the record that it may be running.
    pub fn holds_more_than_one(&self, route: RouteId, worker: WorkerIndex) -> bool {
        self.routes[route.index()].workers[worker.index()].held > 1
    }

    fn laden(&self) -> impl Iterator<Item = (RouteId, WorkerIndex)> + '_ {
        self.routes.iter().enumerate().flat_map(|(route, state)| {
            state
                .workers
                .iter()
                .enumerate()
                .filter(|(_, worker)| worker.held > 1 && !worker.stuck)
                .map(move |(worker, _)| (RouteId(route as u16), WorkerIndex(worker as u32)))
        })
    }

    /// Whether a commit follows a completion without an interval in between.
    pub fn commits_at_once(&self) -> bool {
        self.config.commit.interval.is_zero()
    }
}
