//! A member whose every step is taken by hand, and what the broker has of its group.
//!
//! The group consumes topic `a` with two partitions and topic `b` with one: slots 0, 1 and 2. Topic `x` is consumed by
//! others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use keyway_causal::{
    CarriesCauses, CausalConfig, CausalGate, CausalStop, Causes, CausesError, CausesView, Channel,
    GroupPartition, HEADER, Position, StampError, TopicId, find_causes,
};
use keyway_core::{
    Arrival, BufferConfig, Command, CommitAnswer, CommitConfig, CommitFinished, CommitPlan,
    CommitReason, Core, CoreConfig, Epoch, Finished, LaneId, Leases, PartitionAnswer,
    PartitionPlan, PartitionSlot, PlanId, PlannedRider, Report, Restored, RetryPolicy, RiderSource,
    RouteConfig, RouteId, Sending, Sent, Shape, StopCause, Task, Timestamp, Verdict,
};
use keyway_offsets::{HoleMap, Limits, Offset};
use keyway_rider::{CommitMap, CommitText, Offer, Rider, RiderBytes};

pub(crate) const A0: u32 = 0;
pub(crate) const A1: u32 = 1;
pub(crate) const B0: u32 = 2;

pub(crate) fn id(number: u8) -> TopicId {
    TopicId::new([number; 16]).expect("not the id of no topic")
}

pub(crate) fn channel(topic: u8, partition: u32) -> Channel {
    Channel::new(id(topic), partition).expect("a partition")
}

pub(crate) fn a0() -> Channel {
    channel(1, 0)
}

pub(crate) fn a1() -> Channel {
    channel(1, 1)
}

pub(crate) fn b0() -> Channel {
    channel(2, 0)
}

/// A channel that the group does not consume.
pub(crate) fn x0() -> Channel {
    channel(9, 0)
}

pub(crate) fn at(offset: i64) -> Offset {
    Offset::new(offset).expect("an offset")
}

pub(crate) fn position(offset: i64) -> Position {
    Position::new(offset).expect("a position")
}

/// A header's value.
pub(crate) fn causes(entries: &[(Channel, i64)]) -> Vec<u8> {
    let mut causes = Causes::new();
    for (channel, offset) in entries {
        causes.merge(*channel, position(*offset));
    }
    causes.encode()
}

/// What a handler gets: the values of the header of causes, of which there should be one at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Payload(pub(crate) Vec<Vec<u8>>);

impl CarriesCauses for Payload {
    fn causes(&self) -> Result<Option<CausesView<'_>>, CausesError> {
        let name: &[u8] = HEADER.as_bytes();
        find_causes(self.0.iter().map(|value| (name, Some(&value[..]))))
    }
}

/// What the group has committed, by slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Committed(pub(crate) BTreeMap<u32, (Offset, String)>);

impl Committed {
    pub(crate) fn base(&self, slot: u32) -> Option<i64> {
        self.0.get(&slot).map(|(offset, _)| offset.get())
    }

    pub(crate) fn is_complete(&self, slot: u32, offset: i64) -> bool {
        let read = self.0.get(&slot).map(|(base, text)| read(*base, text).0);
        read.is_some_and(|map| map.is_complete(at(offset)))
    }

    /// The texts go without their maps, and keep their shards.
    pub(crate) fn strip_maps(&mut self) {
        for (base, text) in self.0.values_mut() {
            let (_, rider) = read(*base, text);
            let shard = RiderBytes::new(rider.bytes().unwrap_or_default().to_vec());
            let none = CommitMap::new(&HoleMap::caught_up(*base), &Limits::default());
            *text = none.with(&Offer::Rider(shard.expect("a shard"))).text;
        }
    }

    /// The text of a partition becomes one that some other program wrote.
    pub(crate) fn replace(&mut self, slot: u32, text: &str) {
        self.0.get_mut(&slot).expect("committed").1 = text.to_owned();
    }
}

fn encode(part: &PartitionPlan) -> CommitText {
    let PlannedRider::Gate(shard) = &part.rider else {
        panic!("{} goes without a shard", part.slot);
    };
    let map = CommitMap::new(&part.map, &Limits::default()).giving_way_to(shard.len());
    let rider = RiderBytes::new(shard.clone()).expect("a shard");
    map.with(&Offer::Rider(rider))
}

pub(crate) fn read(base: Offset, text: &str) -> (HoleMap, Rider) {
    let read = keyway_rider::read(base, text.as_bytes(), Limits::default().max_window);
    let map = read
        .map
        .map_or_else(|_| HoleMap::caught_up(base), |decoded| decoded.map);
    (map, read.rider)
}

/// What a bench begins with.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) topics: Vec<(&'static str, TopicId, u32)>,
    pub(crate) calls: u32,
    pub(crate) records: usize,
    /// Characters of a commit's text.
    pub(crate) cap_chars: usize,
    pub(crate) config: CausalConfig,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            topics: vec![("a", id(1), 2), ("b", id(2), 1)],
            calls: 8,
            records: 100_000,
            cap_chars: 4_096,
            config: CausalConfig::default(),
        }
    }
}

/// One member.
pub(crate) struct Bench {
    pub(crate) core: Core<Payload, CausalGate>,
    setup: Setup,
    now: Timestamp,
    epochs: BTreeMap<u32, Epoch>,
    runs: Vec<VecDeque<Task<Payload>>>,
    pub(crate) sends: Vec<Sending<Payload>>,
    pub(crate) plan: Option<CommitPlan>,
    pub(crate) core_stop: Option<StopCause>,
    pub(crate) stop: Option<CausalStop>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Setup::default())
    }

    /// A member that owns everything of a group without commits.
    pub(crate) fn owning_all() -> Self {
        let mut bench = Self::new();
        for slot in [A0, A1, B0] {
            bench.assign(slot, &Committed::default());
        }
        bench
    }

    pub(crate) fn with(setup: Setup) -> Self {
        let config = CoreConfig {
            routes: vec![RouteConfig {
                shape: Shape::Pool {
                    concurrency: setup.calls,
                },
                batch: None,
                retry: RetryPolicy::fixed(Duration::from_secs(1)),
                circuit: None,
                dead_letters: false,
            }],
            limits: Limits::default().lowered_to(setup.cap_chars),
            buffers: BufferConfig {
                partition_records: setup.records,
                total_records: setup.records,
                ..BufferConfig::default()
            },
            // Nobody commits unless a case says so.
            commit: CommitConfig {
                interval: Duration::from_secs(1 << 30),
                ..CommitConfig::default()
            },
            riders: RiderSource::None,
        };
        let gate = CausalGate::new(setup.config.clone());
        let mut core = Core::with_gate(config, Arc::new(Leases::default()), gate);
        let slots: u32 = setup
            .topics
            .iter()
            .map(|(_, _, partitions)| partitions)
            .sum();
        for _ in 0..slots {
            core.add_partition(RouteId(0)).expect("a slot");
        }
        Self {
            core,
            setup,
            now: Timestamp::from_nanos(1),
            epochs: BTreeMap::new(),
            runs: Vec::new(),
            sends: Vec::new(),
            plan: None,
            core_stop: None,
            stop: None,
        }
    }

    fn channels(&self) -> Vec<(&'static str, Channel)> {
        let topics = self.setup.topics.iter();
        let channels = topics.flat_map(|(name, id, partitions)| {
            (0..*partitions).filter_map(move |p| Some((*name, Channel::new(*id, p)?)))
        });
        channels.collect()
    }

    /// Reads what all have committed, as before each assignment.
    pub(crate) fn read_group(&mut self, committed: &Committed) {
        let channels = self.channels();
        let group = committed.0.iter().map(|(slot, (base, text))| {
            let (topic, channel) = channels[*slot as usize];
            GroupPartition {
                topic: topic.to_owned(),
                partition: channel.partition(),
                committed: *base,
                rider: read(*base, text).1,
            }
        });
        let group: Vec<_> = group.collect();
        let topics = self.setup.topics.clone();
        let gate = self.core.gate_mut();
        for (name, id, partitions) in topics {
            gate.add_topic(name, id, partitions);
        }
        gate.read_group(&group);
        for (slot, (_, channel)) in channels.into_iter().enumerate() {
            gate.bind(PartitionSlot(slot as u32), channel);
        }
    }

    pub(crate) fn assign(&mut self, slot: u32, committed: &Committed) {
        self.assign_at(slot, committed, 0);
    }

    /// Where nothing is committed it begins at `first`.
    pub(crate) fn assign_at(&mut self, slot: u32, committed: &Committed, first: i64) {
        self.read_group(committed);
        let base = committed.0.get(&slot);
        let restored = Restored {
            committed: base.map(|(base, _)| *base),
            start: base.map_or(at(first), |(base, _)| *base),
            map: base.map(|(base, text)| read(*base, text).0),
            leader_epoch: None,
            rider: base.map_or(Rider::None, |(base, text)| read(*base, text).1),
        };
        let epoch = self.core.assigned(PartitionSlot(slot), &restored, self.now);
        self.epochs.insert(slot, epoch);
        self.pump();
    }

    pub(crate) fn lose(&mut self, slot: u32) {
        self.core.lost(PartitionSlot(slot));
        self.epochs.remove(&slot);
        self.pump();
    }

    /// Records of a partition arrive: offset and causes. Each is a lane of its own. Says how many found room.
    pub(crate) fn give(&mut self, slot: u32, records: &[(i64, &[(Channel, i64)])]) -> usize {
        let payloads = records.iter();
        let payloads = payloads.map(|(offset, named)| (*offset, Payload(vec![causes(named)])));
        self.give_payloads(slot, payloads.collect())
    }

    pub(crate) fn give_payloads(&mut self, slot: u32, records: Vec<(i64, Payload)>) -> usize {
        let given = records.len();
        let mut arrivals = records
            .into_iter()
            .map(|(offset, payload)| Arrival {
                offset: at(offset),
                lane: LaneId(u64::from(slot) << 32 | offset as u64),
                bytes: 1,
                leader_epoch: None,
                payload,
            })
            .collect();
        let epoch = self.epochs[&slot];
        self.core
            .records(PartitionSlot(slot), epoch, &mut arrivals, self.now);
        self.pump();
        given - arrivals.len()
    }

    pub(crate) fn position_reached(&mut self, slot: u32, position: i64) {
        let epoch = self.epochs[&slot];
        self.core
            .position_reached(PartitionSlot(slot), epoch, at(position), self.now);
        self.pump();
    }

    /// Another member's progress is read.
    pub(crate) fn foreign(&mut self, channel: Channel, committed: Option<i64>) {
        let gate = self.core.gate_mut();
        gate.foreign_committed(channel, committed.map(at), keyway_causal::Reading::First);
        self.core.pass_gate(self.now);
        self.pump();
    }

    pub(crate) fn pump(&mut self) {
        while let Some(command) = self.core.next_command() {
            match command {
                Command::Dispatch { work, .. } => {
                    let (keyway_core::Work::Records(tasks) | keyway_core::Work::Batch(tasks)) =
                        work;
                    self.runs.push(tasks.into());
                }
                Command::Send(sending) => self.sends.push(sending),
                Command::Commit(plan) => {
                    assert!(self.plan.is_none(), "two plans at once");
                    self.plan = Some(plan);
                }
                Command::Stop(cause) => self.core_stop = Some(cause),
                _ => {}
            }
        }
        if let Some(stop) = self.core.gate_mut().take_stop() {
            self.stop.get_or_insert(stop);
        }
    }

    /// Whether the record is in its handler.
    pub(crate) fn runs(&self, slot: u32, offset: i64) -> bool {
        self.run(slot, offset).is_some()
    }

    fn run(&self, slot: u32, offset: i64) -> Option<usize> {
        self.runs.iter().position(|run| {
            let front = run.front();
            front.is_some_and(|task| (task.at.slot.0, task.at.offset.get()) == (slot, offset))
        })
    }

    /// Everything that is in handlers.
    pub(crate) fn running(&self) -> Vec<(u32, i64)> {
        let fronts = self.runs.iter().filter_map(|run| run.front());
        fronts
            .map(|task| (task.at.slot.0, task.at.offset.get()))
            .collect()
    }

    fn end(&mut self, slot: u32, offset: i64, verdict: impl FnOnce(Payload) -> Verdict<Payload>) {
        let run = self
            .run(slot, offset)
            .unwrap_or_else(|| panic!("{slot}@{offset} runs"));
        let task = self.runs[run].pop_front().expect("it runs");
        if self.runs[run].is_empty() {
            self.runs.remove(run);
        }
        let finished = vec![Finished {
            at: task.at,
            verdict: verdict(task.payload),
        }];
        let report = Report {
            route: RouteId(0),
            worker: None,
            finished,
            busy: Duration::ZERO,
            slow: 0,
            batch_failed: false,
        };
        self.core.completed(report, self.now);
        self.pump();
    }

    pub(crate) fn finish(&mut self, slot: u32, offset: i64) {
        self.end(slot, offset, |_| Verdict::Done);
    }

    pub(crate) fn fail(&mut self, slot: u32, offset: i64) {
        self.end(slot, offset, |payload| Verdict::Failed {
            payload,
            after: None,
        });
    }

    /// Finished, with an output that is on its way then.
    pub(crate) fn finish_with_output(&mut self, slot: u32, offset: i64) {
        self.end(slot, offset, |payload| Verdict::Outputs {
            payload,
            update: None,
            bytes: 1,
        });
        assert!(
            self.sends
                .iter()
                .any(|sending| sending.at.offset.get() == offset)
        );
    }

    /// The broker has the output.
    pub(crate) fn acknowledge(&mut self) {
        let sending = self.sends.remove(0);
        let (at, update, bytes) = (sending.at, sending.update, sending.bytes);
        self.core
            .outputs_acknowledged(Sent { at, update, bytes }, self.now);
        self.pump();
    }

    /// The header of a send of this moment.
    pub(crate) fn try_stamp(&mut self) -> Result<Causes, StampError> {
        let stamp = self.core.gate_mut().stamp()?;
        Ok(Causes::decode(&stamp).expect("a header"))
    }

    pub(crate) fn stamp(&mut self) -> Causes {
        self.try_stamp().expect("it may send")
    }

    /// Plans a commit, for the sake of these partitions or of all.
    pub(crate) fn plan(&mut self, slots: Option<&[u32]>) -> Option<&CommitPlan> {
        let slots: Option<Vec<_>> =
            slots.map(|slots| slots.iter().map(|slot| PartitionSlot(*slot)).collect());
        self.core
            .commit_now(CommitReason::Requested, slots.as_deref(), self.now);
        self.pump();
        self.plan.as_ref()
    }

    /// Whether there would be another one.
    pub(crate) fn plan_again(&mut self) -> Option<PlanId> {
        self.core
            .commit_now(CommitReason::Requested, None, self.now)
    }

    /// What the broker would have if it stored the plan.
    pub(crate) fn texts(&self) -> Committed {
        let plan = self.plan.as_ref().expect("a plan");
        let texts = plan.partitions.iter();
        let texts = texts.map(|part| (part.slot.0, (part.map.base(), encode(part).text)));
        Committed(texts.collect())
    }

    /// The broker answers the plan: `answer` says what becomes of each partition.
    pub(crate) fn answer(
        &mut self,
        committed: &mut Committed,
        answer: impl Fn(u32) -> CommitAnswer,
    ) {
        let plan = self.plan.take().expect("a plan");
        let mut partitions = Vec::new();
        for part in &plan.partitions {
            let text = encode(part);
            let answer = answer(part.slot.0);
            if answer == CommitAnswer::Stored {
                committed
                    .0
                    .insert(part.slot.0, (part.map.base(), text.text.clone()));
            }
            partitions.push(PartitionAnswer::new(part, &text, answer));
        }
        let finished = CommitFinished {
            plan: plan.id,
            partitions,
            took: Duration::ZERO,
        };
        self.core.commit_finished(&finished, self.now);
        self.pump();
    }

    /// Commits all there is, and the broker stores it. From then on nothing is committed by itself for long.
    pub(crate) fn commit(&mut self, committed: &mut Committed) {
        self.wait(Duration::ZERO);
        while self.plan.is_some() || self.plan(None).is_some() {
            self.answer(committed, |_| CommitAnswer::Stored);
        }
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.core.tick(self.now);
        self.pump();
    }
}
