//! One member from its start to its end: what the poll thread does, at the pace of a test.

mod causal;
mod transactions;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keyway_core::{
    Command, CommitAnswer, CommitFinished, CommitPlan, CommitReason, Core, DeadLetter, Epoch,
    Leases, PartitionAnswer, PartitionSlot, RouteId, Sending, Sent, Timestamp, WorkerIndex,
};
use keyway_offsets::Offset;
use keyway_rider::Rider;
use tokio::sync::Notify;

pub use self::causal::topic_id;
use super::journal::{Journal, Scribe};
use super::letters::TestLetter;
use super::log::Log;
use super::outputs::TestOutput;
use crate::causal::EngineGate;
use crate::context::{Clock, Fence, Member};
use crate::dead_letters::{Letter, Origin};
use crate::kafka::TopicPartition;
use crate::limits::{Change, Limits, Rates};
use crate::observer::Observer;
use crate::output::Output;
use crate::poll::Slots;
use crate::record::{Message, Record};
use crate::riders::{self, Guard, Texts};
use crate::settings::{Settings, StartAt};
use crate::stop::{Report, StopReason};
use crate::workers::{InlineWorkers, Reports, RouteContext, Wake, reports};
use crate::writer::{HELD_BACK, fail_attempt};

/// The seed of the lanes' hashes: any, and always the same.
const SEED: u64 = 0x6b65_7977_6179;

/// How many records are fetched at once.
const FETCH: usize = 1_000;

/// What a life shares with the test and with the lives before and after it.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) time: Arc<AtomicU64>,
    /// Rung when an async handler can go on.
    pub(super) bell: Arc<Notify>,
    pub(super) journal: Arc<Journal>,
}

/// What the clock shows at the start: not zero, which stands for "never" in places, and whole milliseconds, so
/// that the runtime's timers agree with it.
pub(super) const ORIGIN: Duration = Duration::from_millis(1);

impl Surroundings {
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.time.load(Ordering::Relaxed))
    }

    /// The time since the start.
    pub(super) fn since_start(&self) -> Duration {
        Duration::from_nanos(self.time.load(Ordering::Relaxed)) - ORIGIN
    }
}

/// A partition in this member's hands.
#[derive(Debug)]
struct Assigned {
    slot: PartitionSlot,
    epoch: Epoch,
    /// What is fetched next.
    position: Offset,
    paused: bool,
    /// What the log has beside the committed offset.
    rider: Rider,
}

/// How a member is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Finish what is buffered.
    Drain,
    /// Finish what runs.
    Stop,
}

pub(super) struct Life {
    core: Core<Message, EngineGate>,
    /// Topics that are consumed, by name.
    subscription: Vec<String>,
    slots: Slots,
    texts: Texts,
    member: Arc<Member>,
    workers: Vec<InlineWorkers>,
    rates: Rates,
    /// Limits that the test has changed since the last turn.
    changes: Arc<Mutex<Vec<Change>>>,
    reports: Reports,
    scribe: Arc<Scribe>,
    around: Surroundings,
    /// Who gives records up.
    origin: Origin,
    assigned: BTreeMap<TopicPartition, Assigned>,
    generation: u64,
    pub(super) ending: Option<Ending>,
    pub(super) stop_reason: Option<StopReason>,
    first_received: Option<Timestamp>,
    last_completed: Timestamp,
    began: Timestamp,
}

impl Life {
    pub(super) fn new(settings: &Settings, around: &Surroundings) -> Self {
        let leases = Arc::new(Leases::default());
        let clock = Clock::manual(Arc::clone(&around.time));
        let member = Member::with_clock(Arc::clone(&leases), clock)
            .keeping_failures(settings.has_dead_letters())
            .staging_outputs(settings.commit.transactional);
        let member = Arc::new(member);
        let scribe = Arc::new(Scribe {
            user: settings.observer.clone(),
            around: around.clone(),
            dead: AtomicBool::new(false),
        });
        // Nobody sleeps, so nobody needs to be woken.
        let (sender, reports) = reports(Arc::new(Wake::new(|| {})));
        let routes = settings.routes.iter().enumerate();
        let workers = routes.map(|(index, route)| {
            let context = RouteContext {
                route: RouteId(index as u16),
                member: Arc::clone(&member),
                reports: sender.clone(),
                observer: Some(Arc::clone(&scribe) as Arc<dyn Observer>),
                timeout: route.timeout,
            };
            InlineWorkers::new(route.handler.clone(), context, Arc::clone(&around.bell))
        });
        let mut core = settings.core(leases);
        let rates = settings.rates(SEED);
        rates.apply_to(&mut core);
        Self {
            workers: workers.collect(),
            rates,
            changes: Arc::default(),
            core,
            subscription: settings.subscription.clone(),
            slots: settings.slots(SEED),
            texts: Texts::new(settings.riders.clone(), Guard::inline()),
            member,
            reports,
            scribe,
            around: around.clone(),
            origin: Origin {
                group: settings
                    .client
                    .client
                    .get("group.id")
                    .unwrap_or_default()
                    .into(),
                member: Some("test".into()),
            },
            assigned: BTreeMap::new(),
            generation: 0,
            ending: None,
            stop_reason: None,
            first_received: None,
            last_completed: around.now(),
            began: around.now(),
        }
    }

    fn now(&self) -> Timestamp {
        self.around.now()
    }

    pub(super) fn partitions(&self) -> Vec<TopicPartition> {
        self.assigned.keys().cloned().collect()
    }

    pub(super) fn is_assigned(&self, partition: &TopicPartition) -> bool {
        self.assigned.contains_key(partition)
    }

    pub(super) fn assign(&mut self, settings: &Settings, log: &Log, partition: &TopicPartition) {
        if self.is_assigned(partition) || self.ending.is_some() {
            return;
        }
        let now = self.now();
        let slot = match self.slots.slot_of(&mut self.core, partition) {
            Ok(slot) => slot,
            Err(reason) => return self.stop_because(reason),
        };
        let first = match settings.start {
            StartAt::Earliest => Offset::ZERO,
            StartAt::Latest => log.end(partition),
            StartAt::Timestamp(millis) => log.at_time(partition, millis),
        };
        let restored = log.restored(partition, first, settings.limits.max_window);
        self.generation += 1;
        self.member.set_fence(slot, Fence::new(self.generation));
        self.tell_gate(log, slot, partition);
        self.heed_gate();
        if self.stop_reason.is_some() {
            return;
        }
        let restored = self.core.gate().behind_effects(slot, partition, &restored);
        let epoch = self.core.assigned(slot, &restored, now);
        self.slots.set_epoch(slot, Some(epoch));
        let state = settings.riders.hand_over(&riders::Assigned {
            partition: partition.clone(),
            offset: restored.committed.unwrap_or(restored.start).get(),
            rider: restored.rider.clone(),
            map_discarded: false,
        });
        if let Some(state) = state {
            self.core.attach_state(slot, state);
        }
        self.scribe.assigned(partition);
        let assigned = Assigned {
            slot,
            epoch,
            position: self.core.base(slot),
            paused: false,
            rider: restored.rider,
        };
        self.assigned.insert(partition.clone(), assigned);
    }

    /// Begins a revoke: nothing of the partition is started any more. `false` when it is not this member's.
    pub(super) fn revoking(&mut self, partition: &TopicPartition) -> bool {
        let Some(assigned) = self.assigned.get(partition) else {
            return false;
        };
        self.core.revoking(assigned.slot);
        self.scribe.revoked(partition);
        self.take_all_back();
        true
    }

    pub(super) fn is_quiet(&self, partition: &TopicPartition) -> bool {
        let assigned = self.assigned.get(partition);
        assigned.is_none_or(|assigned| self.core.is_quiet(assigned.slot))
    }

    pub(super) fn is_all_quiet(&self) -> bool {
        self.core.is_all_quiet()
    }

    pub(super) fn is_drained(&self, until: Timestamp) -> bool {
        self.core.is_drained(until)
    }

    /// Commits what can be, of one partition or of all.
    pub(super) fn commit(
        &mut self,
        log: &mut Log,
        reason: CommitReason,
        partition: Option<&TopicPartition>,
    ) {
        let slot = partition.and_then(|name| Some([self.assigned.get(name)?.slot]));
        let slots = slot.as_ref().map(<[PartitionSlot; 1]>::as_slice);
        self.core.commit_now(reason, slots, self.now());
        self.carry_out(log);
    }

    pub(super) fn begin_last_commit(&mut self) {
        self.core.begin_last_commit();
    }

    /// Ends an assignment; late results of it have no effect.
    pub(super) fn let_go(&mut self, partition: &TopicPartition) {
        if let Some(assigned) = self.assigned.remove(partition) {
            self.slots.set_epoch(assigned.slot, None);
            self.core.revoked(assigned.slot);
        }
    }

    pub(super) fn lose(&mut self, partition: &TopicPartition) {
        if self.is_assigned(partition) {
            self.scribe.lost(partition);
            self.let_go(partition);
            self.take_all_back();
        }
    }

    fn take_all_back(&mut self) {
        for route in 0..self.workers.len() {
            let route = RouteId(route as u16);
            for worker in 0..self.core.workers(route) {
                if self.core.holds_more_than_one(route, WorkerIndex(worker)) {
                    self.take_back(route, WorkerIndex(worker));
                }
            }
        }
    }

    fn take_back(&mut self, route: RouteId, worker: WorkerIndex) {
        let mut tasks = Vec::new();
        self.workers[route.index()].take_back(worker, &mut tasks);
        self.core.taken_back(route, worker, &mut tasks, self.now());
    }

    /// Limits that are changed by this are so from the next turn on.
    pub(super) fn limits(&self, settings: &Settings) -> Limits {
        let changes = Arc::clone(&self.changes);
        Limits::new(settings, move |change| {
            let mut changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
            changes.push(change);
            true
        })
    }

    fn change_limits(&mut self, now: Timestamp) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        for change in changes.drain(..) {
            match change {
                Change::Concurrency(route, calls) => self.core.set_concurrency(route, calls, now),
                _ => self.rates.change(&change, &mut self.core, now),
            }
        }
    }

    pub(super) fn end(&mut self, ending: Ending) {
        if self.ending == Some(Ending::Stop) {
            return;
        }
        self.ending = Some(ending);
        match ending {
            Ending::Drain => self.core.begin_drain(self.now()),
            Ending::Stop => {
                self.core.begin_stop();
                self.take_all_back();
            }
        }
    }

    fn stop_because(&mut self, reason: StopReason) {
        self.stop_reason.get_or_insert(reason);
        self.end(Ending::Stop);
    }

    /// One round: time, records, commands, one step of each route, results. `false` when nothing happened.
    pub(super) fn turn(&mut self, log: &mut Log) -> bool {
        let now = self.now();
        if now >= self.core.next_deadline() {
            self.core.tick(now);
        }
        self.change_limits(now);
        self.heed_gate();
        let mut moved = self.fetch(log);
        moved |= self.carry_out(log);
        for route in 0..self.workers.len() {
            moved |= self.workers[route].step();
            while let Some(report) = self.reports.try_next() {
                let spent = self.core.completed(report, now);
                self.reports.recycle(spent);
                self.last_completed = now;
            }
            moved |= self.carry_out(log);
        }
        moved
    }

    fn fetch(&mut self, log: &Log) -> bool {
        if self.ending.is_some() {
            return false;
        }
        let mut moved = false;
        for name in self.partitions() {
            moved |= self.fetch_partition(log, &name);
        }
        moved
    }

    fn fetch_partition(&mut self, log: &Log, name: &TopicPartition) -> bool {
        let Some(assigned) = self.assigned.get_mut(name) else {
            return false;
        };
        let end = log.end(name);
        if assigned.paused || assigned.position >= end || self.core.is_full() {
            return false;
        }
        let (slot, epoch) = (assigned.slot, assigned.epoch);
        let mut arrivals = Vec::new();
        let mut fault = None;
        while arrivals.len() < FETCH {
            let Some(record) = log.read(name, assigned.position) else {
                break;
            };
            let offset = assigned.position;
            match self.slots.arrival(slot, offset, record, &self.member) {
                Ok(arrival) => arrivals.push(arrival),
                Err(reason) => {
                    fault = Some(reason);
                    break;
                }
            }
            assigned.position = offset.next();
        }
        let mut reached_end = assigned.position == end && fault.is_none();
        let now = self.around.now();
        self.first_received.get_or_insert(now);
        self.core.records(slot, epoch, &mut arrivals, now);
        if let Some(first) = arrivals.first() {
            // It found no room, and is read again.
            assigned.position = first.offset;
            reached_end = false;
        }
        if reached_end {
            self.core.position_reached(slot, epoch, end, now);
        }
        if let Some(reason) = fault {
            self.stop_because(reason);
        }
        true
    }

    fn carry_out(&mut self, log: &mut Log) -> bool {
        let mut moved = false;
        while let Some(command) = self.core.next_command() {
            moved = true;
            match command {
                Command::Dispatch {
                    route,
                    worker,
                    work,
                } => {
                    if let Some(spent) = self.workers[route.index()].dispatch(worker, work) {
                        self.core.recycle(spent);
                    }
                }
                Command::Reopen {
                    route,
                    worker,
                    lane,
                } => self.workers[route.index()].reopen(worker, lane),
                Command::TakeBack { route, worker } => self.take_back(route, worker),
                // Without a thread there is none to end.
                Command::Retire { .. } => {}
                Command::Commit(plan) => {
                    let finished = self.store(log, &plan);
                    self.core.commit_finished(&finished, self.now());
                }
                Command::Transact(transaction) => self.transact(log, transaction),
                Command::Pause(slot) => self.set_paused(slot, true),
                Command::Resume(slot) => self.set_paused(slot, false),
                Command::Stop(cause) => {
                    if let Some(reason) = self.slots.stop_reason(cause) {
                        self.stop_because(reason);
                    }
                }
                Command::Circuit { route, state } => {
                    self.slots.circuit_turned(route, state, self.around.now());
                }
                Command::OnHold { at, without_topic } => self.slots.on_hold(&at, without_topic),
                Command::PassedOver { at, payload } => {
                    let observer = Some(&*self.scribe as &dyn Observer);
                    self.slots.passed_over(&at, payload, observer, &self.member);
                }
                Command::Send(sending) => self.send(log, sending),
                Command::WriteDeadLetter(letter) => self.write_letter(log, letter),
                Command::StateLost {
                    slot,
                    offset,
                    fault,
                } => self.slots.state_lost(slot, offset, fault),
                other => tracing::error!(?other, "a command that this engine does not know"),
            }
        }
        moved
    }

    /// The broker takes outputs, unless the test says that they can't be sent.
    fn send(&mut self, log: &mut Log, sending: Sending<Message>) {
        let now = self.now();
        let observer = Some(&*self.scribe as &dyn Observer);
        if sending.held_back {
            drop(sending.payload.take_outputs());
            let sending = fail_attempt(sending, HELD_BACK, &self.member, observer);
            return self.core.outputs_not_sent(sending, now);
        }
        if log.refuses_outputs {
            let sending = fail_attempt(sending, "the test refuses outputs", &self.member, observer);
            return self.core.outputs_failed(sending, now);
        }
        let Some(stamp) = self.stamp() else {
            drop(sending.payload.take_outputs());
            return self.core.outputs_not_sent(sending, now);
        };
        let Sending {
            at,
            payload,
            update,
            bytes,
            ..
        } = sending;
        let outputs = payload.take_outputs();
        let written = |output: &Output| TestOutput::of(output, &payload, stamp.as_deref());
        log.outputs.extend(outputs.iter().map(written));
        let record = Record::new(payload, &at, 0, Arc::clone(&self.member));
        self.scribe.done(&record);
        self.core
            .outputs_acknowledged(Sent { at, update, bytes }, now);
        self.last_completed = now;
    }

    /// The broker takes a dead letter, unless the test says that it can't be written.
    fn write_letter(&mut self, log: &mut Log, letter: DeadLetter<Message>) {
        let Some(to) = self.slots.dead_letters(letter.at.slot) else {
            return;
        };
        let now = self.now();
        if log.refuses_letters {
            return self.core.dead_letter_failed(letter, now);
        }
        let Some(stamp) = self.stamp() else {
            return self.core.dead_letter_failed(letter, now);
        };
        let DeadLetter { at, payload, .. } = letter;
        let record = Record::new(payload, &at, 0, Arc::clone(&self.member));
        let wall = self.member.clock().wall_millis();
        let letter = Letter::of(&record, to.form(), &self.origin, wall);
        log.letters
            .push(TestLetter::of(to.topic(), &letter, stamp.as_deref()));
        self.scribe.dead(&record);
        self.core.dead_letter_written(at, now);
        self.last_completed = now;
    }

    fn set_paused(&mut self, slot: PartitionSlot, paused: bool) {
        for assigned in self.assigned.values_mut() {
            if assigned.slot == slot {
                assigned.paused = paused;
            }
        }
    }

    /// The broker takes a commit.
    fn store(&mut self, log: &mut Log, plan: &CommitPlan) -> CommitFinished {
        let mut answers = Vec::with_capacity(plan.partitions.len());
        let parts = plan.partitions.iter();
        let names: Vec<_> = parts
            .map(|part| self.slots.partition(part.slot).clone())
            .collect();
        let assigned = &self.assigned;
        let made = self.texts.make(plan, &names, |slot, epoch| {
            let mut assigned = assigned.values();
            let assigned =
                assigned.find(|assigned| (assigned.slot, assigned.epoch) == (slot, epoch));
            assigned.map(|assigned| assigned.rider.clone())
        });
        for ((part, made), name) in plan.partitions.iter().zip(made).zip(&names) {
            let answer = if made.is_unchanged {
                CommitAnswer::Unchanged
            } else {
                CommitAnswer::Stored
            };
            answers.push(PartitionAnswer::new(part, &made.text, answer));
            if made.is_unchanged {
                continue;
            }
            made.note_stored(&plan.limits);
            let base = part.map.base();
            self.scribe.committed(name, base.get(), &made.text.text);
            log.commit(name, base, part.leader_epoch, made.text.text);
            if let Some(assigned) = self.assigned.get_mut(name) {
                assigned.rider = made.rider;
            }
        }
        CommitFinished {
            plan: plan.id,
            partitions: answers,
            took: Duration::ZERO,
        }
    }

    /// When something is due that only time brings about.
    pub(super) fn next_deadline(&self) -> Timestamp {
        self.core.next_deadline()
    }

    /// Calls of async handlers that have not returned.
    pub(super) fn running(&self) -> usize {
        self.workers.iter().map(InlineWorkers::running).sum()
    }

    pub(super) fn buffered(&self) -> usize {
        self.core.load().0
    }

    pub(super) fn completed(&self) -> u64 {
        self.core.counters().completed
    }

    pub(super) fn report(&self) -> Report {
        let counters = self.core.counters();
        let running = self
            .first_received
            .map_or(Duration::ZERO, |first| self.last_completed.since(first));
        Report {
            records: counters.completed,
            failed: counters.failed,
            commits: counters.commits,
            running,
            assigned: self.now().since(self.began),
            fetched_bytes: 0,
            left_open: self.core.load().0,
            left_running: self.running(),
            all_committed: self.core.is_all_committed(),
        }
    }

    /// What ends from now on is seen by nobody.
    pub(super) fn die(&mut self) {
        self.scribe.dead.store(true, Ordering::Relaxed);
    }
}
