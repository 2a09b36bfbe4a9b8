//! From arrival to worker.
//!
//! ```text
//!   records -> tracker -> gate -> lane --(room at a worker)--> hand-over
//!                                   \--(none)--> ready queue of its partition, partitions in turn
//! ```
//!
//! A record whose lane has others at a worker follows them there without waiting for a completion. Lanes that
//! found no room are served by partition in turn, so that a hot partition can't starve another.

use keyway_offsets::{Offset, Received};

use crate::command::{Arrival, Command};
use crate::config::{BatchConfig, Shape};
use crate::core::Core;
use crate::gate::{Admission, Gate};
use crate::ids::{Epoch, LaneIndex, PartitionSlot, RouteId, Timestamp, WorkerIndex};
use crate::lanes::{LaneState, Waiting};
use crate::mutant::{Mutant, mutated};
use crate::pace::Turn;
use crate::partition::Phase;
use crate::work::{Task, TaskRef, Work};

impl<P, G: Gate<P>> Core<P, G> {
    /// Event: records of one partition arrived, in the order of their offsets. What is left in the vector has found no
    /// room and was not received: reading goes back to the first of it, and no position beyond it may be told. What
    /// belongs to an assignment that ended, or was complete already, is dropped.
    pub fn records(
        &mut self,
        slot: PartitionSlot,
        epoch: Epoch,
        arrivals: &mut Vec<Arrival<P>>,
        now: Timestamp,
    ) {
        let partition = &self.partitions[slot.index()];
        let old = partition.epoch != epoch && !mutated(Mutant::OldRecordsAccepted);
        if old || partition.phase != Phase::Assigned {
            arrivals.clear();
            return;
        }
        let route = partition.route;
        let before = partition.tracker.version();
        let was_full = self.is_pressed();
        // Where records have outputs, each is asked for.
        let has_room = self.mean_output_bytes == 0 && self.outputs_have_room();
        let config = &self.routes[route.index()].config;
        let at_once = config.batch.is_none()
            && matches!(config.shape, Shape::Pinned { .. })
            && !self.pacing.is_on()
            && has_room
            && self.routes[route.index()].allowance() == u32::MAX
            && !self.leases.is_stopping();
        let mut waits = false;
        loop {
            // Those that are complete already take no room, so that there may be some for others behind them.
            let admitted = self.admitted(slot, arrivals);
            if admitted == 0 {
                break;
            }
            for arrival in arrivals.drain(..admitted) {
                waits |= self.take_in(slot, epoch, arrival, at_once, now);
            }
        }
        if mutated(Mutant::RestForgotten) {
            arrivals.clear();
        }
        waits |= self.note_gaps(slot, before, now);
        if waits {
            self.fill(route, now);
        }
        self.flush(route);
        if self.gate.take_news() {
            // What was learned is to be written, though nothing may come of the records for long.
            self.commits.note_change();
        }
        self.pass_gate(now);
        self.push_back(slot, was_full, now);
    }

    /// Takes an arrival in. Says whether it waits here; otherwise it is at its worker, or was complete.
    fn take_in(
        &mut self,
        slot: PartitionSlot,
        epoch: Epoch,
        arrival: Arrival<P>,
        at_once: bool,
        now: Timestamp,
    ) -> bool {
        let Some((index, task, held)) = self.receive(slot, epoch, arrival) else {
            return false;
        };
        let route = self.partitions[slot.index()].route;
        if !held && at_once && self.hand_over_at_once(route, index, &task) {
            let worker = self.lanes.get(index).worker;
            self.routes[route.index()].give(worker, task);
            return false;
        }
        let lane = self.lanes.get_mut(index);
        let idle = lane.out == 0 && lane.waiting.is_empty() && lane.returned.is_empty();
        lane.waiting.push_back(Waiting {
            held,
            ..Waiting::new(task)
        });
        if idle {
            self.queue_lane(index, now);
        }
        true
    }

    /// What the log skipped is complete since the tracker's version was `before`: that is to be committed, and
    /// may have shortened a map that lanes wait for. Says whether some wait no longer.
    fn note_gaps(&mut self, slot: PartitionSlot, before: u64, now: Timestamp) -> bool {
        let partition = &mut self.partitions[slot.index()];
        if partition.tracker.version() == before {
            return false;
        }
        if mutated(Mutant::GapNotCommitted) {
            return false;
        }
        self.commits.note_change();
        self.settle_gate(slot);
        self.judge_if_waited_for(slot, now)
    }

    /// Tells the gate how far the partition is complete.
    pub(crate) fn settle_gate(&mut self, slot: PartitionSlot) {
        let base = self.partitions[slot.index()].tracker.base();
        self.gate.settled(slot, base);
    }

    /// Event: reading has reached `position`, so offsets below it that were not received hold no record
    /// (markers, aborted or compacted ones). Every record that the source returned before must have been
    /// given to [`Core::records`].
    pub fn position_reached(
        &mut self,
        slot: PartitionSlot,
        epoch: Epoch,
        position: Offset,
        now: Timestamp,
    ) {
        let partition = &mut self.partitions[slot.index()];
        if partition.epoch == epoch && partition.phase == Phase::Assigned {
            let before = partition.tracker.version();
            let route = partition.route;
            partition.tracker.complete_below(position);
            if self.note_gaps(slot, before, now) {
                self.fill(route, now);
                self.flush(route);
            }
            self.pass_gate(now);
        }
    }

    /// Notes an arrival in its partition and finds its lane.
    fn receive(
        &mut self,
        slot: PartitionSlot,
        epoch: Epoch,
        mut arrival: Arrival<P>,
    ) -> Option<(LaneIndex, Task<P>, bool)> {
        let partition = &mut self.partitions[slot.index()];
        match partition.tracker.receive(arrival.offset) {
            Received::Fresh => {}
            Received::AlreadyComplete if mutated(Mutant::RestoredMapIgnored) => {}
            Received::AlreadyComplete => {
                self.counters.skipped_complete += 1;
                self.gate.learn(slot, arrival.offset, &arrival.payload);
                return None;
            }
            Received::Repeated => {
                self.counters.repeated += 1;
                return None;
            }
        }
        partition
            .leader_epochs
            .note(arrival.offset, arrival.leader_epoch);
        partition.buffered += 1;
        partition.buffered_bytes += arrival.bytes as usize;
        self.totals.records += 1;
        self.totals.bytes += arrival.bytes as usize;
        self.counters.received += 1;
        let mut lane = arrival.lane;
        if mutated(Mutant::StaleLaneIgnored) {
            lane.0 ^= epoch.0 << 32;
        }
        let index = self.lanes.find_or_make(lane, slot);
        let admission = self.gate.admit(slot, arrival.offset, &mut arrival.payload);
        let held = admission == Admission::Held && !mutated(Mutant::HeldRuns);
        if held {
            self.held.insert((slot, arrival.offset), index);
        }
        let at = TaskRef {
            offset: arrival.offset,
            epoch,
            slot,
            lane: index,
            bytes: arrival.bytes,
            attempt: 1,
        };
        Some((
            index,
            Task {
                at,
                payload: arrival.payload,
            },
            held,
        ))
    }

    /// The way without a wait: behind its lane's records at their worker, or as a new lane on a worker with
    /// room. Says whether the task may go to its lane's worker; all but the giving is done.
    fn hand_over_at_once(&mut self, route: RouteId, index: LaneIndex, task: &Task<P>) -> bool {
        if self.starts_left == Some(0)
            || self.partitions[task.at.slot.index()].paused_by_user
            || !self.partitions[task.at.slot.index()].map_allows(task.at.offset)
        {
            return false;
        }
        let lane = self.lanes.get(index);
        let worker = if lane.out > 0 {
            if !lane.may_append(task.at.epoch) || self.routes[route.index()].room(lane.worker) == 0
            {
                return false;
            }
            lane.worker
        } else {
            if !lane.waiting.is_empty() {
                return false;
            }
            let Some(worker) = self.routes[route.index()].place() else {
                return false;
            };
            worker
        };
        self.note_out(index, worker, &task.at);
        true
    }

    /// Notes that a task leaves for a worker.
    fn note_out(&mut self, index: LaneIndex, worker: WorkerIndex, at: &TaskRef) {
        let lane = self.lanes.get_mut(index);
        lane.out += 1;
        lane.out_epoch = at.epoch;
        lane.worker = worker;
        lane.state = LaneState::Following;
        self.partitions[at.slot.index()].out += 1;
        self.totals.out += 1;
        self.gate.started(at.slot, at.offset);
        if at.attempt == 1 {
            if let Some(left) = &mut self.starts_left {
                *left = left.saturating_sub(1);
            }
        }
    }

    /// Puts a lane with nothing at a worker where it belongs: away when it is empty, else among those that
    /// are ready, due, held, or behind the map.
    pub(crate) fn queue_lane(&mut self, index: LaneIndex, now: Timestamp) {
        let lane = self.lanes.get_mut(index);
        debug_assert!(lane.out == 0);
        let Some(front) = lane.waiting.front() else {
            self.lanes.remove(index);
            return;
        };
        let (offset, held, slot) = (front.task.at.offset, front.held, lane.slot);
        let is_letter = front.letter_tries > 0;
        let partition = &mut self.partitions[slot.index()];
        if held {
            lane.state = LaneState::Held;
        } else if lane.due > now && !mutated(Mutant::RetryNotDue) {
            lane.state = LaneState::Due(lane.due);
            self.retries.push(lane.due, index);
        } else if is_letter && !self.leases.is_stopping() {
            lane.state = LaneState::Following;
            if let Some(waiting) = lane.waiting.pop_front() {
                self.write_waiting_letter(waiting, now);
            }
            if self.lanes.get(index).out == 0 {
                // It goes with a transaction, and the lane goes on.
                self.queue_lane(index, now);
            }
        } else if !partition.map_allows(offset) {
            lane.state = LaneState::BehindMap;
            partition.behind_map.insert(offset, index);
        } else {
            lane.state = LaneState::Ready;
            partition.ready.push_back(index);
            self.queue_partition(slot);
        }
    }

    /// Takes a lane with nothing at a worker out of wherever it waits, so that records can be put in front of it. What is
    /// due or paced is recognised by the lane's state.
    pub(crate) fn put_aside(&mut self, index: LaneIndex) {
        let lane = self.lanes.get_mut(index);
        let partition = &mut self.partitions[lane.slot.index()];
        match std::mem::replace(&mut lane.state, LaneState::Following) {
            LaneState::Ready => partition.ready.retain(|ready| *ready != index),
            LaneState::BehindMap => partition.behind_map.retain(|_, waits| *waits != index),
            LaneState::BehindLimit => partition.behind_limit.retain(|waits| *waits != index),
            LaneState::Following | LaneState::Held | LaneState::Due(_) | LaneState::Paced(_) => {}
        }
    }

    /// Puts a partition with lanes that may run among those of its route, unless its user has paused it or it waits for
    /// the pace.
    pub(crate) fn queue_partition(&mut self, slot: PartitionSlot) {
        let partition = &mut self.partitions[slot.index()];
        let waits = partition.paused_by_user || partition.paced_until.is_some();
        if !partition.in_route_queue && !waits && !partition.ready.is_empty() {
            partition.in_route_queue = true;
            self.routes[partition.route.index()].queue.push_back(slot);
        }
    }

    /// Lets through what the gate has freed.
    pub fn pass_gate(&mut self, now: Timestamp) {
        let mut freed = false;
        while let Some((slot, offset)) = self.gate.next_freed() {
            freed |= self.unhold(slot, offset, now);
        }
        if freed {
            self.fill_all(now);
        }
    }

    /// The gate lets a held record through.
    pub fn release(&mut self, slot: PartitionSlot, offset: Offset, now: Timestamp) {
        if self.unhold(slot, offset, now) {
            let route = self.partitions[slot.index()].route;
            self.fill(route, now);
            self.flush(route);
        }
    }

    /// Takes the mark off a record that was held. Says whether there was one.
    fn unhold(&mut self, slot: PartitionSlot, offset: Offset, now: Timestamp) -> bool {
        let Some(index) = self.held.remove(&(slot, offset)) else {
            return false;
        };
        let lane = self.lanes.get_mut(index);
        if let Some(waiting) = lane
            .waiting
            .iter_mut()
            .find(|waiting| waiting.task.at.offset == offset)
        {
            waiting.held = false;
        }
        if lane.state == LaneState::Held && lane.front() == Some(offset) {
            self.queue_lane(index, now);
        }
        true
    }

    /// The limit leaves a start again: lanes that waited for one may run.
    pub(crate) fn queue_behind_limit(&mut self, now: Timestamp) {
        for slot in 0..self.partitions.len() {
            for index in std::mem::take(&mut self.partitions[slot].behind_limit) {
                self.queue_lane(index, now);
            }
        }
    }

    pub(crate) fn fill_all(&mut self, now: Timestamp) {
        for route in self.pacing.routes(self.routes.len()) {
            self.fill(route, now);
            self.flush(route);
        }
    }

    /// Hands over what may run while a worker has room.
    pub(crate) fn fill(&mut self, route: RouteId, now: Timestamp) {
        if self.leases.is_stopping() {
            return;
        }
        if let Some(circuit) = &mut self.routes[route.index()].circuit {
            circuit.pass_time(now);
        }
        if let Some(batch) = self.routes[route.index()].config.batch {
            self.fill_batches(route, batch, now);
            return;
        }
        match self.routes[route.index()].config.shape {
            Shape::Pinned { .. } => {
                while self.may_begin(route) && self.peek_lane(route, now).is_some() {
                    let may_queue = self.outputs_allow_a_queue();
                    let state = &mut self.routes[route.index()];
                    let worker = match may_queue {
                        true => state.place(),
                        false => state.idle(),
                    };
                    let Some(worker) = worker else {
                        break;
                    };
                    let Some(index) = self.next_lane(route, now) else {
                        break;
                    };
                    self.follow(route, index, worker, now);
                }
            }
            Shape::Pool { .. } => {
                while self.may_begin(route) && self.routes[route.index()].pool_has_room() {
                    let Some(index) = self.next_lane(route, now) else {
                        break;
                    };
                    self.start_run(route, index, now);
                }
            }
        }
    }

    /// Whether the circuit and the outputs that are under way let a call begin.
    fn may_begin(&mut self, route: RouteId) -> bool {
        if mutated(Mutant::HeldTakesWorker) {
            let state = &self.routes[route.index()];
            if state.runs as usize + self.held.len() >= state.calls as usize {
                return false;
            }
        }
        self.routes[route.index()].allowance() > 0 && self.outputs_have_room()
    }

    /// The first lane that may run, left where it is; lanes that may not, after all, are put aside.
    fn peek_lane(&mut self, route: RouteId, now: Timestamp) -> Option<LaneIndex> {
        loop {
            if self.pacing.member_until.is_some() {
                return None;
            }
            let slot = *self.routes[route.index()].queue.front()?;
            let partition = &mut self.partitions[slot.index()];
            let first = partition.ready.front().copied();
            let is_held = partition.paused_by_user && !mutated(Mutant::PauseIgnored);
            let Some(index) = first.filter(|_| !is_held) else {
                partition.in_route_queue = false;
                self.routes[route.index()].queue.pop_front();
                continue;
            };
            let lane = self.lanes.get_mut(index);
            let front = lane.waiting.front().map(|waiting| &waiting.task.at);
            let front = front.map(|at| (at.offset, may_start(self.starts_left, at)));
            match front {
                Some((offset, starts)) if partition.map_allows(offset) => {
                    if starts {
                        match self.ask_pace_for_room(route, index, now) {
                            Turn::Start => return Some(index),
                            Turn::Wait { until, whose, .. } => {
                                self.send_to_wait(route, index, until, whose);
                                continue;
                            }
                        }
                    }
                    lane.state = LaneState::BehindLimit;
                    partition.behind_limit.push(index);
                }
                Some((offset, _)) => {
                    lane.state = LaneState::BehindMap;
                    partition.behind_map.insert(offset, index);
                }
                None => debug_assert!(false, "a lane that is ready has a record"),
            }
            partition.ready.pop_front();
        }
    }

    /// Takes the next lane that may run; the partition after its own is next.
    fn next_lane(&mut self, route: RouteId, now: Timestamp) -> Option<LaneIndex> {
        let index = self.peek_lane(route, now)?;
        let queue = &mut self.routes[route.index()].queue;
        let slot = queue.pop_front()?;
        let partition = &mut self.partitions[slot.index()];
        partition.ready.pop_front();
        if partition.ready.is_empty() {
            partition.in_route_queue = false;
        } else {
            queue.push_back(slot);
        }
        self.lanes.get_mut(index).state = LaneState::Following;
        Some(index)
    }

    /// The next waiting record of a lane if it may run now.
    fn take_next(&mut self, index: LaneIndex, now: Timestamp) -> Option<Waiting<P>> {
        let lane = self.lanes.get_mut(index);
        let front = lane.waiting.front()?;
        let partition = &self.partitions[lane.slot.index()];
        if front.held
            || front.letter_tries > 0
            || (partition.paused_by_user && !mutated(Mutant::PauseIgnored))
            || !partition.map_allows(front.task.at.offset)
            || !may_start(self.starts_left, &front.task.at)
        {
            return None;
        }
        // Where it has to wait, what is out of its lane comes back first; then the lane is queued and asked for.
        if self.ask_pace(index, now) != Turn::Start {
            return None;
        }
        self.lanes.get_mut(index).waiting.pop_front()
    }

    /// Hands waiting records of a lane to `worker` while it has room.
    pub(crate) fn follow(
        &mut self,
        route: RouteId,
        index: LaneIndex,
        worker: WorkerIndex,
        now: Timestamp,
    ) {
        let state = &self.routes[route.index()];
        let room = state.room(worker).min(state.allowance());
        for _ in 0..room {
            let is_idle = self.routes[route.index()].workers[worker.index()].held == 0;
            if !is_idle && !self.outputs_allow_a_queue() {
                break;
            }
            let Some(waiting) = self.take_next(index, now) else {
                break;
            };
            self.note_out(index, worker, &waiting.task.at);
            let state = &mut self.routes[route.index()];
            if let Some(circuit) = &mut state.circuit {
                circuit.begins(std::slice::from_ref(&waiting.task));
            }
            state.give(worker, waiting.task);
        }
    }

    /// Hands waiting records of a lane to the pool as one run.
    fn start_run(&mut self, route: RouteId, index: LaneIndex, now: Timestamp) {
        let state = &self.routes[route.index()];
        let length = state.run_length().min(state.allowance());
        let length = match self.outputs_allow_a_queue() {
            true => length,
            false => length.min(1),
        };
        let mut tasks = self.spare_vector();
        for _ in 0..length {
            let Some(waiting) = self.take_next(index, now) else {
                break;
            };
            self.note_out(index, WorkerIndex(0), &waiting.task.at);
            if let Some(circuit) = &mut self.routes[route.index()].circuit {
                circuit.begins(std::slice::from_ref(&waiting.task));
            }
            tasks.push(waiting.task);
        }
        self.routes[route.index()].runs += 1;
        self.commands.push_back(Command::Dispatch {
            route,
            worker: None,
            work: Work::Records(tasks),
        });
    }

    fn fill_batches(&mut self, route: RouteId, batch: BatchConfig, now: Timestamp) {
        self.routes[route.index()].batch_waits_for_room = false;
        while self.may_begin(route) && self.peek_lane(route, now).is_some() {
            if !self.batch_may_go(route, batch, now) {
                return;
            }
            let state = &mut self.routes[route.index()];
            let worker = match state.config.shape {
                Shape::Pinned { .. } => state.place().map(Some),
                Shape::Pool { .. } => state.pool_has_room().then_some(None),
            };
            let Some(worker) = worker else {
                state.batch_waits_for_room = true;
                return;
            };
            state.batch_due = None;
            let tasks = self.form_batch(route, batch, worker.unwrap_or(WorkerIndex(0)), now);
            let state = &mut self.routes[route.index()];
            if let Some(circuit) = &mut state.circuit {
                circuit.begins(&tasks);
            }
            match worker {
                Some(worker) => state.workers[worker.index()].held += tasks.len() as u32,
                None => state.runs += 1,
            }
            self.commands.push_back(Command::Dispatch {
                route,
                worker,
                work: Work::Batch(tasks),
            });
        }
        match self.may_begin(route) {
            true => self.routes[route.index()].batch_due = None,
            // Behind a circuit, or without room for outputs, it goes on waiting, for no time of its own.
            false => self.routes[route.index()].batch_waits_for_room = true,
        }
    }

    /// Whether the batch is full or has waited long enough.
    fn batch_may_go(&mut self, route: RouteId, batch: BatchConfig, now: Timestamp) -> bool {
        let wait = self.routes[route.index()].batch_wait();
        if wait.is_zero() || self.draining {
            return true;
        }
        let due = *self.routes[route.index()]
            .batch_due
            .get_or_insert(now.after(wait));
        if now >= due {
            return true;
        }
        let (mut records, mut bytes) = (0, 0);
        for slot in &self.routes[route.index()].queue {
            for index in &self.partitions[slot.index()].ready {
                let lane = self.lanes.get(*index);
                let takes = if batch.same_lane {
                    lane.waiting.len()
                } else {
                    1
                };
                for waiting in lane.waiting.iter().take(takes) {
                    records += 1;
                    bytes += waiting.task.at.bytes as usize;
                    // A batch that has failed before does not wait for more to join it.
                    let limit = batch.max_records.min(waiting.batch_limit as usize);
                    if records >= limit || bytes >= batch.max_bytes {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Takes the records of one batch; `peek_lane` has found at least one.
    fn form_batch(
        &mut self,
        route: RouteId,
        batch: BatchConfig,
        worker: WorkerIndex,
        now: Timestamp,
    ) -> Vec<Task<P>> {
        let mut tasks = self.spare_vector();
        let (mut limit, mut bytes) = (batch.max_records.max(1), 0);
        let mut left_over = Vec::new();
        'lanes: while tasks.len() < limit {
            let Some(index) = self.next_lane(route, now) else {
                break;
            };
            loop {
                let fits = self.lanes.get(index).waiting.front().is_some_and(|front| {
                    tasks.is_empty()
                        || (bytes + front.task.at.bytes as usize <= batch.max_bytes
                            && tasks.len() < front.batch_limit as usize)
                });
                let Some(waiting) = fits.then(|| self.take_next(index, now)).flatten() else {
                    if self.lanes.get(index).out == 0 {
                        left_over.push(index);
                        break 'lanes;
                    }
                    break;
                };
                limit = limit.min(waiting.batch_limit as usize).max(1);
                bytes += waiting.task.at.bytes as usize;
                self.note_out(index, worker, &waiting.task.at);
                tasks.push(waiting.task);
                if !batch.same_lane || tasks.len() >= limit {
                    break;
                }
            }
        }
        for index in left_over {
            self.queue_lane(index, now);
        }
        tasks
    }

    /// Turns what was given to workers into commands.
    pub(crate) fn flush(&mut self, route: RouteId) {
        while let Some(worker) = self.routes[route.index()].touched.pop() {
            let spare = self.spare_vector();
            let pending = std::mem::replace(
                &mut self.routes[route.index()].workers[worker.index()].pending,
                spare,
            );
            self.commands.push_back(Command::Dispatch {
                route,
                worker: Some(worker),
                work: Work::Records(pending),
            });
        }
    }
}

/// Whether the limit of starts lets a record go: a further attempt is no further start.
fn may_start(starts_left: Option<u64>, at: &TaskRef) -> bool {
    starts_left != Some(0) || at.attempt > 1
}
