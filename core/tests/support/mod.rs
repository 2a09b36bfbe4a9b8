//! A core with a hand at every end of it: records go in by offset and key, what is handed over is kept, and the
//! test says how each attempt and each commit ends.

#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use keyway_core::{
    Arrival, BatchConfig, BufferConfig, CircuitState, Command, CommitAnswer, CommitConfig,
    CommitFinished, CommitPlan, Core, CoreConfig, DeadLetter, Epoch, Finished, Gate, LaneIndex,
    LaneNames, Leases, OpenGate, Ordering, PartitionAnswer, PartitionSlot, Report, Restored,
    RetryPolicy, RiderSource, RouteConfig, RouteId, Sending, Sent, Shape, Staged, StopCause, Task,
    Timestamp, Transaction, Verdict, Work, WorkerIndex,
};
use keyway_offsets::{HoleMap, Limits, Offset, OffsetRange};
use keyway_rider::{CommitMap, Offer, Rider, StateFault};

pub const RETRY_DELAY: Duration = Duration::from_millis(10);
pub const INTERVAL: Duration = Duration::from_millis(100);
pub const BACKOFF: Duration = Duration::from_millis(20);
/// Fast enough that records queue behind each other, slow enough that idle workers are woken.
pub const FAST: Duration = Duration::from_micros(50);

pub fn config(shape: Shape) -> CoreConfig {
    CoreConfig {
        routes: vec![RouteConfig {
            shape,
            batch: None,
            retry: RetryPolicy::fixed(RETRY_DELAY),
            circuit: None,
            dead_letters: true,
        }],
        limits: Limits::default(),
        buffers: BufferConfig::default(),
        commit: CommitConfig {
            interval: INTERVAL,
            backoff: BACKOFF,
            transactional: false,
        },
        riders: RiderSource::None,
    }
}

pub fn pinned(workers: u32) -> CoreConfig {
    config(Shape::Pinned { workers })
}

pub fn pool(concurrency: u32) -> CoreConfig {
    config(Shape::Pool { concurrency })
}

pub fn batches(shape: Shape, batch: BatchConfig) -> CoreConfig {
    let mut config = config(shape);
    config.routes[0].batch = Some(batch);
    config
}

pub fn at(offset: i64) -> Offset {
    Offset::new(offset).expect("not negative")
}

/// A map from its base, its highest offset and single holes.
pub fn map(base: i64, highest: i64, holes: &[i64]) -> HoleMap {
    let holes = holes.iter().map(|hole| OffsetRange::single(at(*hole)));
    HoleMap::new(at(base), highest, holes).expect("a map")
}

/// One hand-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    pub worker: Option<WorkerIndex>,
    pub offsets: Vec<i64>,
    pub batch: bool,
}

pub struct World<G: Gate<u64> = OpenGate> {
    pub core: Core<u64, G>,
    pub leases: Arc<Leases>,
    pub now: Timestamp,
    pub ordering: Ordering,
    /// Every hand-over since the start.
    pub handed_over: Vec<HandOver>,
    /// At workers.
    pub out: BTreeMap<(u32, i64), (Option<WorkerIndex>, Task<u64>)>,
    pub reopened: Vec<(WorkerIndex, LaneIndex)>,
    pub plans: Vec<CommitPlan>,
    /// What the transaction under way carries, by partition of its plan.
    pub carried: Option<Vec<Vec<Staged<u64>>>>,
    /// Workers that the core wants something back from.
    pub taking_back: Vec<WorkerIndex>,
    /// Workers whose thread may end.
    pub retired: Vec<WorkerIndex>,
    /// Every state that a circuit has come to.
    pub circuit: Vec<CircuitState>,
    pub paused: Vec<PartitionSlot>,
    pub resumed: Vec<PartitionSlot>,
    /// Slot and first offset of what found no room.
    pub given_back: Vec<(u32, i64)>,
    pub stop: Option<StopCause>,
    /// What the next assignment finds of a rider.
    pub restored_rider: Rider,
    pub states_lost: Vec<(i64, StateFault)>,
    /// Offsets that were passed over, with the attempts made.
    pub passed_over: Vec<(i64, u32)>,
    /// Offsets that are on hold, and whether they were to be dead letters.
    pub on_hold: Vec<(i64, bool)>,
    /// Dead letters that are being written, by slot and offset.
    pub letters: BTreeMap<(u32, i64), DeadLetter<u64>>,
    /// Outputs that are being sent, by slot and offset of their record.
    pub sendings: BTreeMap<(u32, i64), Sending<u64>>,
    /// Time that each attempt is said to have taken.
    pub took: Duration,
    pub epochs: Vec<Epoch>,
    names: LaneNames,
}

impl World {
    /// One member with one partition, assigned at offset 0.
    pub fn new(config: CoreConfig) -> Self {
        Self::with_partitions(config, 1)
    }

    pub fn with_partitions(config: CoreConfig, partitions: u32) -> Self {
        let mut world = Self::with_gate(config, OpenGate, partitions);
        for slot in 0..partitions {
            world.assign(slot, Some(0), None);
        }
        world
    }
}

impl<G: Gate<u64>> World<G> {
    pub fn with_gate(config: CoreConfig, gate: G, partitions: u32) -> Self {
        let leases = Arc::new(Leases::default());
        let mut core = Core::with_gate(config, Arc::clone(&leases), gate);
        for _ in 0..partitions {
            core.add_partition(RouteId(0)).expect("a slot");
        }
        Self {
            core,
            leases,
            now: Timestamp::from_nanos(1_000_000_000),
            ordering: Ordering::Key,
            handed_over: Vec::new(),
            out: BTreeMap::new(),
            reopened: Vec::new(),
            plans: Vec::new(),
            carried: None,
            taking_back: Vec::new(),
            retired: Vec::new(),
            circuit: Vec::new(),
            paused: Vec::new(),
            resumed: Vec::new(),
            given_back: Vec::new(),
            stop: None,
            restored_rider: Rider::None,
            states_lost: Vec::new(),
            passed_over: Vec::new(),
            on_hold: Vec::new(),
            letters: BTreeMap::new(),
            sendings: BTreeMap::new(),
            took: FAST,
            epochs: vec![Epoch::NONE; partitions as usize],
            names: LaneNames::new(1),
        }
    }

    /// Assigns a slot; reading starts at the committed offset, or at 0.
    pub fn assign(&mut self, slot: u32, committed: Option<i64>, map: Option<HoleMap>) -> Epoch {
        let start = committed.unwrap_or(0);
        self.assign_from(slot, committed, start, map)
    }

    pub fn assign_from(
        &mut self,
        slot: u32,
        committed: Option<i64>,
        start: i64,
        map: Option<HoleMap>,
    ) -> Epoch {
        let restored = Restored {
            committed: committed.map(at),
            start: at(start),
            map,
            leader_epoch: None,
            rider: self.restored_rider.clone(),
        };
        let epoch = self.core.assigned(PartitionSlot(slot), &restored, self.now);
        self.epochs[slot as usize] = epoch;
        self.pump();
        epoch
    }

    /// Records of slot 0 arrive.
    pub fn arrive(&mut self, records: &[(i64, &str)]) {
        self.arrive_at(0, records);
    }

    pub fn arrive_at(&mut self, slot: u32, records: &[(i64, &str)]) {
        let records: Vec<_> = records
            .iter()
            .map(|(offset, key)| (*offset, Some(key.as_bytes())))
            .collect();
        self.arrive_under(slot, self.epochs[slot as usize], &records);
    }

    pub fn arrive_under(&mut self, slot: u32, epoch: Epoch, records: &[(i64, Option<&[u8]>)]) {
        let slot = PartitionSlot(slot);
        let mut arrivals: Vec<Arrival<u64>> = records
            .iter()
            .map(|(offset, key)| Arrival {
                offset: at(*offset),
                lane: self.names.lane(self.ordering, slot, at(*offset), *key),
                bytes: 10,
                leader_epoch: None,
                payload: *offset as u64,
            })
            .collect();
        self.core.records(slot, epoch, &mut arrivals, self.now);
        if let Some(first) = arrivals.first() {
            self.given_back.push((slot.0, first.offset.get()));
        }
        self.pump();
    }

    fn pump(&mut self) {
        while let Some(command) = self.core.next_command() {
            match command {
                Command::Dispatch { worker, work, .. } => {
                    let batch = matches!(work, Work::Batch(_));
                    let (Work::Records(tasks) | Work::Batch(tasks)) = work;
                    let offsets = tasks.iter().map(|task| task.at.offset.get()).collect();
                    self.handed_over.push(HandOver {
                        worker,
                        offsets,
                        batch,
                    });
                    for task in tasks {
                        let place = (task.at.slot.0, task.at.offset.get());
                        let twice = self.out.insert(place, (worker, task));
                        assert!(twice.is_none(), "{place:?} is at two workers");
                    }
                }
                Command::Reopen { worker, lane, .. } => self.reopened.push((worker, lane)),
                Command::Commit(plan) => self.plans.push(plan),
                Command::Transact(Transaction { plan, staged }) => {
                    self.plans.push(plan);
                    let twice = self.carried.replace(staged);
                    assert!(twice.is_none(), "two transactions at once");
                }
                Command::TakeBack { worker, .. } => self.taking_back.push(worker),
                Command::Retire { worker, .. } => self.retired.push(worker),
                Command::Circuit { state, .. } => self.circuit.push(state),
                Command::Pause(slot) => self.paused.push(slot),
                Command::Resume(slot) => self.resumed.push(slot),
                Command::Stop(cause) => self.stop = Some(cause),
                Command::OnHold { at, without_topic } => {
                    self.on_hold.push((at.offset.get(), without_topic));
                }
                Command::PassedOver { at, payload } => {
                    assert_eq!(payload, at.offset.get() as u64);
                    self.passed_over.push((at.offset.get(), at.attempt));
                }
                Command::WriteDeadLetter(letter) => {
                    assert_eq!(letter.payload, letter.at.offset.get() as u64);
                    let place = (letter.at.slot.0, letter.at.offset.get());
                    let twice = self.letters.insert(place, letter);
                    assert!(twice.is_none(), "{place:?} is written twice at once");
                }
                Command::Send(sending) => {
                    assert_eq!(sending.payload, sending.at.offset.get() as u64);
                    let place = (sending.at.slot.0, sending.at.offset.get());
                    let twice = self.sendings.insert(place, sending);
                    assert!(twice.is_none(), "{place:?} is sent twice at once");
                }
                Command::StateLost { offset, fault, .. } => {
                    self.states_lost.push((offset.get(), fault));
                }
                other => panic!("unknown command {other:?}"),
            }
        }
    }

    /// Offsets of slot 0 at workers.
    pub fn running(&self) -> Vec<i64> {
        self.running_of(0)
    }

    pub fn running_of(&self, slot: u32) -> Vec<i64> {
        self.out
            .keys()
            .filter(|(of, _)| *of == slot)
            .map(|(_, offset)| *offset)
            .collect()
    }

    pub fn attempt(&self, offset: i64) -> u32 {
        self.out[&(0, offset)].1.at.attempt
    }

    pub fn worker_of(&self, offset: i64) -> WorkerIndex {
        self.out[&(0, offset)].0.expect("a pinned worker")
    }

    /// The records of one slot end so, in one report for each worker or run.
    pub fn end_at(
        &mut self,
        slot: u32,
        offsets: &[i64],
        batch_failed: bool,
        verdict: impl Fn(u64) -> Verdict<u64>,
    ) {
        let mut finished = Vec::new();
        let mut worker = None;
        for offset in offsets {
            let (of, task) = self.out.remove(&(slot, *offset)).expect("at a worker");
            worker = of;
            finished.push(Finished {
                at: task.at,
                verdict: verdict(task.payload),
            });
        }
        let started = finished
            .iter()
            .filter(|f| !matches!(f.verdict, Verdict::Returned { .. }))
            .count() as u32;
        let report = Report {
            route: RouteId(0),
            worker,
            finished,
            busy: self.took * started,
            slow: if self.took > keyway_core::SLOW_ATTEMPT {
                started
            } else {
                0
            },
            batch_failed,
        };
        self.core.completed(report, self.now);
        self.pump();
    }

    /// A record of another route's pool is done.
    pub fn end_of_route(&mut self, route: u16, slot: u32, offset: i64) {
        let (worker, task) = self.out.remove(&(slot, offset)).expect("at a worker");
        let report = Report {
            route: RouteId(route),
            worker,
            finished: vec![Finished {
                at: task.at,
                verdict: Verdict::Done,
            }],
            busy: self.took,
            slow: 0,
            batch_failed: false,
        };
        self.core.completed(report, self.now);
        self.pump();
    }

    pub fn done(&mut self, offsets: &[i64]) {
        self.end_at(0, offsets, false, |_| Verdict::Done);
    }

    pub fn done_at(&mut self, slot: u32, offsets: &[i64]) {
        self.end_at(slot, offsets, false, |_| Verdict::Done);
    }

    pub fn fail(&mut self, offsets: &[i64]) {
        self.end_at(0, offsets, false, |payload| Verdict::Failed {
            payload,
            after: None,
        });
    }

    pub fn fail_batch(&mut self, offsets: &[i64]) {
        self.end_at(0, offsets, true, |payload| Verdict::Failed {
            payload,
            after: None,
        });
    }

    /// The handler wants the record of slot 0 in the dead-letter topic.
    pub fn bury(&mut self, offset: i64) {
        self.end_at(0, &[offset], false, |payload| Verdict::DeadLetter {
            payload,
        });
    }

    /// Offsets of slot 0 whose dead letters are being written, with the try at it.
    pub fn writing(&self) -> Vec<(i64, u32)> {
        let of_slot = self.letters.iter().filter(|((slot, _), _)| *slot == 0);
        of_slot
            .map(|((_, offset), letter)| (*offset, letter.tries))
            .collect()
    }

    /// The broker acknowledges a dead letter of slot 0.
    pub fn written(&mut self, offset: i64) {
        let letter = self.letters.remove(&(0, offset)).expect("being written");
        self.core.dead_letter_written(letter.at, self.now);
        self.pump();
    }

    /// A dead letter of slot 0 can't be written.
    pub fn not_written(&mut self, offset: i64) {
        let letter = self.letters.remove(&(0, offset)).expect("being written");
        self.core.dead_letter_failed(letter, self.now);
        self.pump();
    }

    /// The handlers of records of slot 0 are done, each with outputs of `bytes`.
    pub fn send(&mut self, offsets: &[i64], bytes: u32) {
        self.end_at(0, offsets, false, |payload| Verdict::Outputs {
            payload,
            update: None,
            bytes,
        });
    }

    /// Offsets of slot 0 whose outputs are being sent.
    pub fn sending(&self) -> Vec<i64> {
        let of_slot = self.sendings.keys().filter(|(slot, _)| *slot == 0);
        of_slot.map(|(_, offset)| *offset).collect()
    }

    fn take_sending(&mut self, offset: i64) -> Sending<u64> {
        self.sendings.remove(&(0, offset)).expect("being sent")
    }

    /// The broker acknowledges the outputs of a record of slot 0.
    pub fn sent(&mut self, offset: i64) {
        let Sending {
            at, update, bytes, ..
        } = self.take_sending(offset);
        let sent = Sent { at, update, bytes };
        self.core.outputs_acknowledged(sent, self.now);
        self.pump();
    }

    /// The outputs of a record of slot 0 can't be sent.
    pub fn not_sent(&mut self, offset: i64) {
        let sending = self.take_sending(offset);
        self.core.outputs_failed(sending, self.now);
        self.pump();
    }

    /// The outputs of a record of slot 0 are not sent, since those before could not be.
    pub fn held_back(&mut self, offset: i64) {
        let sending = self.take_sending(offset);
        self.core.outputs_not_sent(sending, self.now);
        self.pump();
    }

    pub fn give_back(&mut self, offsets: &[i64]) {
        self.end_at(0, offsets, false, |payload| Verdict::Returned { payload });
    }

    /// Takes records of slot 0 back from their busy worker.
    pub fn take_back(&mut self, offsets: &[i64]) {
        let mut tasks = Vec::new();
        let mut worker = WorkerIndex(0);
        for offset in offsets {
            let (of, task) = self.out.remove(&(0, *offset)).expect("at a worker");
            worker = of.expect("a pinned worker");
            tasks.push(task);
        }
        self.core
            .taken_back(RouteId(0), worker, &mut tasks, self.now);
        self.pump();
    }

    pub fn release(&mut self, offset: i64) {
        self.core.release(PartitionSlot(0), at(offset), self.now);
        self.pump();
    }

    /// Time passes, and the core is told.
    pub fn wait(&mut self, delay: Duration) {
        self.now = self.now.after(delay);
        self.core.tick(self.now);
        self.pump();
        assert!(
            self.core.next_deadline() > self.now,
            "a tick leaves nothing due"
        );
    }

    /// Calls the core and carries out what it asks.
    pub fn with<T>(&mut self, call: impl FnOnce(&mut Core<u64, G>, Timestamp) -> T) -> T {
        let result = call(&mut self.core, self.now);
        self.pump();
        result
    }

    pub fn last_plan(&self) -> &CommitPlan {
        self.plans.last().expect("a plan")
    }

    /// The map of slot 0 in the latest plan.
    pub fn planned(&self) -> &HoleMap {
        &self
            .last_plan()
            .partitions
            .iter()
            .find(|partition| partition.slot.0 == 0)
            .expect("slot 0")
            .map
    }

    /// The broker answers the latest plan, each partition the same.
    pub fn answer(&mut self, answer: CommitAnswer) {
        self.answer_each(|_| answer);
    }

    pub fn answer_each(&mut self, answer: impl Fn(u32) -> CommitAnswer) {
        let plan = self.last_plan().clone();
        let partitions = plan
            .partitions
            .iter()
            .map(|partition| {
                let text = CommitMap::new(&partition.map, &plan.limits).with(&Offer::Nothing);
                PartitionAnswer::new(partition, &text, answer(partition.slot.0))
            })
            .collect();
        let finished = CommitFinished {
            plan: plan.id,
            partitions,
            took: Duration::ZERO,
        };
        match self.carried.take() {
            Some(staged) => {
                self.with(|core, now| core.transaction_finished(&finished, staged, now));
            }
            None => self.with(|core, now| core.commit_finished(&finished, now)),
        }
    }

    /// The handlers of records of slot 0 are done, each with outputs of `bytes` for a transaction.
    pub fn stage(&mut self, offsets: &[i64], bytes: u32) {
        self.end_at(0, offsets, false, |payload| Verdict::Staged {
            payload,
            update: None,
            bytes,
        });
    }

    /// Offsets of slot 0 in the transaction under way.
    pub fn carried(&self) -> Vec<i64> {
        let staged = self.carried.iter().flatten().flatten();
        let of_slot = staged.filter(|staged| staged.at.slot.0 == 0);
        of_slot.map(|staged| staged.at.offset.get()).collect()
    }

    /// The broker refuses what this record of slot 0 writes: nothing of the transaction is stored.
    pub fn refuse(&mut self, offset: i64) {
        let staged = self.carried.iter_mut().flatten().flatten();
        for staged in staged.filter(|staged| staged.at.offset.get() == offset) {
            staged.refused = true;
        }
        self.answer(CommitAnswer::Repeat);
    }

    /// Whether back-pressure has paused the slot.
    pub fn is_paused(&self, slot: u32) -> bool {
        let status = self.core.status();
        let mut parts = status.partitions.iter();
        parts.any(|part| part.slot == PartitionSlot(slot) && part.paused)
    }

    pub fn is_blocked(&self) -> bool {
        self.core.status().partitions[0].blocked_by_map
    }

    /// Record 0 of slot 0 is done and committed, so that the next commit is an interval away.
    pub fn begin(&mut self) {
        self.arrive(&[(0, "first")]);
        self.done(&[0]);
        assert_eq!(self.plans.len(), 1, "the first change is committed at once");
        self.answer(CommitAnswer::Stored);
        self.plans.clear();
    }

    /// Makes the handler known as fast: `count` records of own keys run and are done, from `first` on.
    pub fn warm_up(&mut self, first: i64, count: i64) {
        for offset in first..first + count {
            self.arrive(&[(offset, &format!("warm-{offset}"))]);
            self.done(&[offset]);
        }
    }
}
