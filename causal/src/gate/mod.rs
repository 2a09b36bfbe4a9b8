//! Causal delivery for one member: a record starts once everything that its header names is settled, and every send is
//! stamped with what the member and its group have seen.
//!
//! ```text
//!             header                       base of owned partitions,
//!               |                          commits of the others
//!               v                                 v
//!   record -> admit --(all settled)--> Ready   channels --> next_freed
//!               |  \--(something is not)-> Held --^
//!               v
//!            frontier --> stamp (each send), shard (each commit)
//! ```
//!
//! [`CausalGate`] is the gate of a [`Core`](keyway_core::Core). What it has to be told beside what the core tells: which
//! topics the group consumes ([`CausalGate::add_topic`]), which channel a slot is ([`CausalGate::bind`]), what all
//! partitions of the group have committed ([`CausalGate::read_group`]) at each assignment, and of those channels for which
//! records wait and that other members own ([`CausalGate::foreign_waited_for`]) what is committed now
//! ([`CausalGate::foreign_committed`]).
//!
//! A decision depends on the header, the gated channels and what is settled. There is no clock here: no held record is
//! ever let go because time has passed.

mod channels;
mod frontier;
mod status;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use keyway_core::{Admission, Gate, Mutant, PartitionSlot, Restored, mutated};
use keyway_offsets::Offset;
use keyway_rider::Rider;
use thiserror::Error;

use self::channels::{Channels, Heard, Record};
use self::frontier::Frontier;
pub use self::status::{Blocker, CausalStatus, HeldRecord, Whose};
use crate::{Causes, CausesError, CausesView, Channel, Position, Shard, TopicId};

/// A record whose causes can be read.
pub trait CarriesCauses {
    /// The causes that its header names; `None` for a record without one.
    ///
    /// # Errors
    /// When there is a header and it can't be read, or there are several.
    fn causes(&self) -> Result<Option<CausesView<'_>>, CausesError>;

    /// There were some, and they are not asked for again: what was made for reading them may go.
    fn causes_were_read(&mut self) {}
}

/// What a member does about causes where there is a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CausalConfig {
    /// Most bytes of a header, read or written. 256 KiB: a quarter of what brokers take as a record by default.
    pub causes_budget: usize,
    /// Most bytes of a shard: what a commit's metadata has room for.
    pub shard_budget: usize,
    /// Sending goes on though what the group had learned may be lost: its stamps may name too little.
    pub accept_lost_frontier: bool,
    /// A channel that joins what the group consumes is read from behind the records whose effects are out, and those are
    /// never delivered. Without it the member refuses to start.
    pub skip_joined: bool,
    /// Records whose header can't be read, by topic, partition and offset, and that count as if they had none. Sending is refused from then on, unless
    /// the loss is accepted too.
    pub undecodable_accepted: BTreeSet<(String, u32, i64)>,
}

/// The default of [`CausalConfig::causes_budget`].
pub const CAUSES_BUDGET: usize = 256 << 10;

/// The default of [`CausalConfig::shard_budget`]: the 4,096 characters that brokers take as metadata by default, without
/// the envelope.
pub const SHARD_BUDGET: usize = 3_069;

impl Default for CausalConfig {
    fn default() -> Self {
        Self {
            causes_budget: CAUSES_BUDGET,
            shard_budget: SHARD_BUDGET,
            accept_lost_frontier: false,
            skip_joined: false,
            undecodable_accepted: BTreeSet::new(),
        }
    }
}

/// Why a member with causal delivery has to stop: to go on would be to promise too much.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CausalStop {
    /// The header of a record can't be read, so that its causes, and those of all that is sent from now on, are unknown.
    /// Usually an application has set the header itself, or a dead-letter tool has copied it. Comes again at each start
    /// until the record is accepted by name.
    #[error(
        "the causes of {channel}@{offset} can't be read ({fault}); accept that record by name to go on without them"
    )]
    Undecodable {
        /// Where it is.
        channel: Channel,
        /// Its offset.
        offset: i64,
        /// What is wrong.
        fault: CausesError,
    },
    /// A header is longer than [`CausalConfig::causes_budget`].
    #[error(
        "the causes of {channel}@{offset} take {bytes} bytes, and the budget is {budget}; raise it, or look for who names so many channels"
    )]
    HeaderTooLarge {
        /// Where it is.
        channel: Channel,
        /// Its offset.
        offset: i64,
        /// Its bytes.
        bytes: usize,
        /// The budget.
        budget: usize,
    },
    /// A stamp would be longer than [`CausalConfig::causes_budget`].
    #[error(
        "what was seen takes {bytes} bytes as a header, and the budget is {budget}: {channels} channels; raise it, or split the group"
    )]
    FrontierTooLarge {
        /// Channels that are known.
        channels: usize,
        /// Bytes of a stamp.
        bytes: usize,
        /// The budget.
        budget: usize,
    },
    /// What is to ride beside the maps of this member's partitions does not fit any more.
    #[error(
        "what the group has learned of other topics takes {bytes} bytes beside {channel}'s offset, and there is room for {budget}: raise the brokers' offset.metadata.max.bytes and the metadata limit, or let the group have more partitions"
    )]
    ShardTooLarge {
        /// The partition with the largest shard.
        channel: Channel,
        /// Its bytes.
        bytes: usize,
        /// What there is room for.
        budget: usize,
    },
    /// A topic of the group was deleted and made again under its name: what was committed is of another one.
    #[error(
        "the topic {name} is another one ({now}) than the group has read ({before}); what it has committed there is worth nothing"
    )]
    TopicReplaced {
        /// Its name.
        name: String,
        /// The id in the group's commits.
        before: TopicId,
        /// The id now.
        now: TopicId,
    },
    /// A channel joins what the group consumes, and records of it at or below this position are causes of what the group
    /// has processed already: they can't be delivered in order any more.
    #[error(
        "{channel} is consumed from now on, and the effects of its records up to {position} are out already: allow them to be skipped, or leave the topic out"
    )]
    ChannelJoined {
        /// The channel.
        channel: Channel,
        /// Up to where its effects are out.
        position: Position,
    },
    /// A committed offset went down: somebody has reset it, and what was complete is not any more.
    #[error(
        "the committed offset of {channel} went from {from} down to {to}: the group's progress was reset while it ran"
    )]
    CommittedWentDown {
        /// The channel.
        channel: Channel,
        /// What it was.
        from: i64,
        /// What it is; -1 for none.
        to: i64,
    },
}

/// Why nothing can be sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StampError {
    /// What the group has learned of other channels is not known yet.
    #[error("what the group has committed was not read yet")]
    NotRead,
    /// What the group has learned of other channels is lost, so that a stamp would name too little.
    #[error(
        "a commit of {channel} carries no causal shard: what the group had learned may be lost, and nothing is sent until that is accepted"
    )]
    FrontierLost {
        /// A partition whose commit carries none.
        channel: Channel,
    },
}

/// What one partition of the group has committed.
#[derive(Clone, Debug)]
pub struct GroupPartition {
    /// The topic's name.
    pub topic: String,
    /// Partition.
    pub partition: u32,
    /// The committed offset.
    pub committed: Offset,
    /// What rides beside it.
    pub rider: Rider,
}

impl GroupPartition {
    /// The shard that its commit carries.
    pub fn shard(&self) -> Option<Shard> {
        match &self.rider {
            Rider::Present(bytes) => Shard::decode(bytes).ok(),
            _ => None,
        }
    }

    /// Whether its commit carries a shard to which nothing is missing.
    pub fn is_whole(&self) -> bool {
        self.shard().is_some_and(|shard| !shard.is_lossy)
    }
}

/// Whether an answer about committed offsets is the first about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It is.
    First,
    /// The one before said less than was known, and no request of that time is under way any more.
    Again,
}

/// The gate of a member with causal delivery.
#[derive(Debug, Default)]
pub struct CausalGate {
    config: CausalConfig,
    channels: Channels,
    frontier: Frontier,
    /// The channel of each slot, owned or not.
    slots: Vec<Option<Channel>>,
    /// Names of the topics that the group consumes.
    names: BTreeMap<String, TopicId>,
    /// What the broker is known to have, of gated channels.
    committed: BTreeMap<Channel, Offset>,
    /// Those of which less was read than that.
    suspects: BTreeSet<Channel>,
    /// Channels that have joined what the group consumes, and up to where their effects are out.
    joined: BTreeMap<Channel, Position>,
    /// Partitions whose commits carry no shard.
    lost: BTreeSet<Channel>,
    /// Partitions with a record whose causes were accepted unread: no reading of the group makes that good.
    unread: BTreeSet<Channel>,
    /// What their shards would say was gathered again, at the latest reading.
    is_rebuilt: bool,
    /// The group's commits have been read.
    is_read: bool,
    freed: VecDeque<Record>,
    stop: Option<CausalStop>,
    /// Where merging waits for the start, by a mutant.
    unmerged: BTreeMap<Record, Causes>,
    counters: Counters,
}

/// What has happened since the member began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records that were held.
    pub held: u64,
    /// Records that were held and let through.
    pub freed: u64,
    /// Stamps made for sends.
    pub stamps: u64,
}

impl CausalGate {
    /// A gate without channels.
    pub fn new(config: CausalConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// The group consumes this topic, which has so many partitions by now. To be called again when it has more.
    pub fn add_topic(&mut self, name: &str, id: TopicId, partitions: u32) {
        match self.names.get(name) {
            Some(before) if *before != id => {
                let before = *before;
                self.stop_because(CausalStop::TopicReplaced {
                    name: name.to_owned(),
                    before,
                    now: id,
                });
                return;
            }
            _ => {
                self.names.insert(name.to_owned(), id);
            }
        }
        self.channels.add_topic(id, partitions);
    }

    /// The id of a topic that the group consumes.
    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        self.names.get(name).copied()
    }

    /// The name of a topic that the group consumes.
    pub fn topic_name(&self, id: TopicId) -> Option<&str> {
        let mut names = self.names.iter();
        names.find_map(|(name, its)| (*its == id).then_some(name.as_str()))
    }

    /// The configuration.
    pub fn config(&self) -> &CausalConfig {
        &self.config
    }

    /// What has happened since the member began.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The slot is this channel's. To be called before its first assignment.
    pub fn bind(&mut self, slot: PartitionSlot, channel: Channel) {
        if self.slots.len() <= slot.index() {
            self.slots.resize(slot.index() + 1, None);
        }
        self.slots[slot.index()] = Some(channel);
    }

    /// What all partitions of the group have committed, of all its topics: to be told at each assignment, before
    /// [`Core::assigned`](keyway_core::Core::assigned).
    pub fn read_group(&mut self, partitions: &[GroupPartition]) {
        self.is_read = true;
        self.lost.clear();
        self.is_rebuilt = false;
        if mutated(Mutant::OtherShardsIgnored) {
            return;
        }
        for read in partitions {
            let id = self.names.get(&read.topic).copied();
            match (read.shard(), id) {
                (Some(shard), id) => {
                    if let Some(now) = id.filter(|id| *id != shard.topic) {
                        self.stop_because(CausalStop::TopicReplaced {
                            name: read.topic.clone(),
                            before: shard.topic,
                            now,
                        });
                        continue;
                    }
                    let channel = Channel::new(shard.topic, read.partition);
                    if let Some(channel) = channel.filter(|_| shard.is_lossy) {
                        self.lost.insert(channel);
                    }
                    let channels = &self.channels;
                    self.frontier
                        .read(&shard, read.partition, |topic| channels.is_gated(topic));
                }
                (None, Some(id)) => {
                    if let Some(channel) = Channel::new(id, read.partition) {
                        if !mutated(Mutant::LostIsEmpty) {
                            self.lost.insert(channel);
                        }
                    }
                }
                // A topic that the group does not consume, in a commit of some other program.
                (None, None) => {}
            }
            if let Some(channel) = id.and_then(|id| Channel::new(id, read.partition)) {
                self.foreign_committed(channel, Some(read.committed), Reading::First);
            }
        }
        self.look_for_joined(partitions);
        self.check_size();
    }

    /// What the group had learned, gathered again from all that it has read: nothing is lost any more.
    pub fn rebuilt(&mut self, causes: &Causes) {
        for (channel, position) in causes.iter() {
            let is_gated = self.channels.is_gated(channel.topic());
            self.frontier.learn(channel, position, is_gated);
        }
        self.lost.clear();
        self.is_rebuilt = true;
        self.frontier.touch_all();
        self.check_size();
    }

    /// A channel that some shard names, and in which the group has committed nothing, was not consumed before.
    fn look_for_joined(&mut self, partitions: &[GroupPartition]) {
        for read in partitions {
            let Some(shard) = read.shard() else {
                continue;
            };
            for (channel, position) in shard.learned.iter() {
                let is_new = self.channels.is_gated(channel.topic())
                    && !self.committed.contains_key(&channel);
                if is_new && self.config.skip_joined {
                    let joined = self.joined.entry(channel).or_insert(position);
                    *joined = (*joined).max(position);
                } else if is_new {
                    self.stop_because(CausalStop::ChannelJoined { channel, position });
                }
            }
        }
    }

    /// Where reading of a channel begins that has joined what the group consumes: behind what has effects already.
    pub fn joins_behind(&self, slot: PartitionSlot) -> Option<Offset> {
        let position = self.joined.get(&self.channel(slot)?)?;
        Some(position.next())
    }

    /// Channels of other members for which some record waits: what is committed of them is to be read, and told to
    /// [`CausalGate::foreign_committed`].
    pub fn foreign_waited_for(&self) -> Vec<Channel> {
        if self.channels.held_count() == 0 {
            return Vec::new();
        }
        let owned: BTreeSet<_> = self.frontier.owned().collect();
        let waited_for = self.channels.waited_for();
        waited_for
            .filter(|channel| !owned.contains(channel))
            .collect()
    }

    /// What the group has committed of a channel by now; `None` for nothing. Less than before may be an old answer: the
    /// channel is a suspect then, to be read again after the time of a request. Says whether it is more than was known.
    pub fn foreign_committed(
        &mut self,
        channel: Channel,
        committed: Option<Offset>,
        reading: Reading,
    ) -> bool {
        let before = self.committed.get(&channel).copied();
        if self.owns(channel) {
            // What this member has committed meanwhile is newer than any answer.
            return false;
        }
        if before > committed {
            if reading == Reading::First {
                self.suspects.insert(channel);
                return false;
            }
            self.stop_because(CausalStop::CommittedWentDown {
                channel,
                from: before.map_or(-1, Offset::get),
                to: committed.map_or(-1, Offset::get),
            });
            return false;
        }
        self.suspects.remove(&channel);
        let (Some(committed), true) = (committed, self.channels.is_gated(channel.topic())) else {
            return false;
        };
        self.committed.insert(channel, committed);
        self.settle(channel, committed);
        before < Some(committed)
    }

    /// Channels whose committed offset was read as less than before: to be read [`Reading::Again`] once every request that
    /// was under way then is over.
    pub fn suspects(&self) -> impl Iterator<Item = Channel> + '_ {
        self.suspects.iter().copied()
    }

    fn owns(&self, channel: Channel) -> bool {
        self.frontier.owned().any(|owned| owned == channel)
    }

    /// The topic is confirmed to be deleted: nothing waits for it any more, and nothing names it.
    pub fn topic_deleted(&mut self, topic: TopicId) {
        let mut freed = Vec::new();
        self.channels.settle_all(topic, &mut freed);
        self.free(freed);
        self.frontier.forget_topic(topic);
        let channels = &self.channels;
        self.frontier.place_all(|topic| channels.is_gated(topic));
    }

    /// The header of a send that is issued now.
    ///
    /// # Errors
    /// When it would name too little.
    pub fn stamp(&mut self) -> Result<Arc<[u8]>, StampError> {
        self.may_stamp()?;
        self.counters.stamps += 1;
        Ok(self.frontier.stamp())
    }

    /// Whether a stamp of this moment would name enough.
    ///
    /// # Errors
    /// When it would not.
    pub fn may_stamp(&self) -> Result<(), StampError> {
        if !self.is_read {
            return Err(StampError::NotRead);
        }
        match self.lost.first().or(self.unread.first()) {
            Some(channel) if !self.config.accept_lost_frontier => {
                Err(StampError::FrontierLost { channel: *channel })
            }
            _ => Ok(()),
        }
    }

    /// Why the member has to stop, if it has to; asked once after each event.
    pub fn take_stop(&mut self) -> Option<CausalStop> {
        self.stop.take()
    }

    fn stop_because(&mut self, stop: CausalStop) {
        self.stop.get_or_insert(stop);
    }

    fn settle(&mut self, channel: Channel, end: Offset) {
        let mut freed = Vec::new();
        self.channels.settle_below(channel, end, &mut freed);
        self.free(freed);
    }

    fn free(&mut self, freed: Vec<Record>) {
        self.counters.freed += freed.len() as u64;
        self.freed.extend(freed);
    }

    fn channel(&self, slot: PartitionSlot) -> Option<Channel> {
        self.slots.get(slot.index()).copied().flatten()
    }

    /// Takes over what a header says, of a record that is not admitted.
    fn merge(&mut self, causes: &CausesView<'_>) {
        let mut is_larger = false;
        for group in causes.topics() {
            let is_gated = self.channels.is_gated(group.topic());
            is_larger |= self.frontier.receive(&group, is_gated);
        }
        if is_larger {
            self.check_size();
        }
    }

    fn check_size(&mut self) {
        let (channels, bytes) = self.frontier.size();
        let budget = self.config.causes_budget;
        if bytes > budget {
            self.stop_because(CausalStop::FrontierTooLarge {
                channels,
                bytes,
                budget,
            });
        }
    }

    /// Where a mutant says that what this member can't know holds nothing.
    fn settle_by_mutant(&mut self, causes: &CausesView<'_>) {
        let foreign = mutated(Mutant::ForeignIgnored);
        if !foreign && !mutated(Mutant::UnknownIsSettled) {
            return;
        }
        for (channel, position) in causes.iter() {
            let is_unknown = !self.committed.contains_key(&channel);
            let settled = self.channels.settled_below(channel);
            let is_less = settled.is_some_and(|settled| settled < position.next());
            if is_less && !self.owns(channel) && (foreign || is_unknown) {
                self.settle(channel, position.next());
            }
        }
    }

    /// Reads a record's header, and takes it over. `Err` where the record may not run.
    fn read<'a, P: CarriesCauses>(
        &mut self,
        channel: Channel,
        offset: Offset,
        payload: &'a P,
    ) -> Result<Option<CausesView<'a>>, ()> {
        let causes = match payload.causes() {
            Ok(causes) => causes,
            Err(_) if mutated(Mutant::UndecodableIsNone) => None,
            Err(fault) => {
                let topic = self.topic_name(channel.topic()).unwrap_or_default();
                let record = (topic.to_owned(), channel.partition(), offset.get());
                if self.config.undecodable_accepted.contains(&record) {
                    self.unread.insert(channel);
                    self.frontier.touch_all();
                    return Ok(None);
                }
                self.stop_because(CausalStop::Undecodable {
                    channel,
                    offset: offset.get(),
                    fault,
                });
                return Err(());
            }
        };
        let bytes = causes.map_or(0, |causes| causes.as_bytes().len());
        if bytes > self.config.causes_budget {
            self.stop_because(CausalStop::HeaderTooLarge {
                channel,
                offset: offset.get(),
                bytes,
                budget: self.config.causes_budget,
            });
            return Err(());
        }
        Ok(causes)
    }
}

impl<P: CarriesCauses> Gate<P> for CausalGate {
    fn admit(&mut self, slot: PartitionSlot, offset: Offset, payload: &mut P) -> Admission {
        let record = (slot, offset);
        let Some(channel) = self.channel(slot) else {
            debug_assert!(false, "a slot is bound before it is assigned");
            return Admission::Held;
        };
        let causes = match self.read(channel, offset, payload) {
            Ok(Some(causes)) => causes,
            Ok(None) => return Admission::Ready,
            Err(()) => {
                self.channels.hold_forever(record);
                return Admission::Held;
            }
        };
        if mutated(Mutant::NoMergeOnReceipt) {
            let causes = Causes::decode(causes.as_bytes()).unwrap_or_default();
            self.unmerged.insert(record, causes);
        }
        self.settle_by_mutant(&causes);
        let frontier = &mut self.frontier;
        let mut is_larger = false;
        let is_held = self
            .channels
            .admit(record, channel, &causes, &mut |heard| match heard {
                _ if mutated(Mutant::NoMergeOnReceipt) => {}
                Heard::Gated(channel, position) => {
                    is_larger |= frontier.learn(channel, position, true);
                }
                Heard::Outside(group) => is_larger |= frontier.receive(&group, false),
            });
        payload.causes_were_read();
        if is_larger {
            self.check_size();
        }
        match is_held {
            true => {
                self.counters.held += 1;
                Admission::Held
            }
            false => Admission::Ready,
        }
    }

    fn learn(&mut self, slot: PartitionSlot, offset: Offset, payload: &P) {
        if mutated(Mutant::SkippedNotMerged) {
            return;
        }
        if let Some(channel) = self.channel(slot) {
            if let Ok(Some(causes)) = self.read(channel, offset, payload) {
                self.merge(&causes);
            }
        }
    }

    fn begun(&mut self, slot: PartitionSlot, base: Offset, restored: &Restored) {
        let Some(channel) = self.channel(slot) else {
            return;
        };
        let shard = match &restored.rider {
            Rider::Present(bytes) => Shard::decode(bytes).ok(),
            _ => None,
        };
        let is_lost = restored.committed.is_some() && shard.is_none() && !self.is_rebuilt;
        if is_lost && !mutated(Mutant::LostIsEmpty) {
            self.lost.insert(channel);
        }
        let channels = &self.channels;
        let is_accepted = self.config.accept_lost_frontier;
        self.frontier
            .begin(slot, channel, base, shard, is_accepted, |topic| {
                channels.is_gated(topic)
            });
        self.frontier.settled(slot, base);
        if let Some(committed) = restored.committed {
            self.committed.insert(channel, committed);
        }
        self.settle(channel, base);
    }

    fn ended(&mut self, slot: PartitionSlot) {
        self.channels.forget(slot);
        self.freed.retain(|(freed, _)| *freed != slot);
        let channels = &self.channels;
        self.frontier.end(slot, |topic| channels.is_gated(topic));
        if let Some(channel) = self.channel(slot) {
            // What is complete here and not committed runs again elsewhere.
            let committed = self.committed.get(&channel).copied();
            self.settle(channel, committed.unwrap_or(Offset::ZERO));
        }
    }

    fn started(&mut self, slot: PartitionSlot, offset: Offset) {
        self.frontier.started(slot, offset);
        if mutated(Mutant::NoMergeOnReceipt) {
            if let Some(causes) = self.unmerged.remove(&(slot, offset)) {
                for (channel, position) in causes.iter() {
                    let is_gated = self.channels.is_gated(channel.topic());
                    self.frontier.learn(channel, position, is_gated);
                }
            }
        }
        if let (true, Some(channel)) = (mutated(Mutant::GateOnStarted), self.channel(slot)) {
            self.settle(channel, offset.next());
        }
    }

    fn completed(&mut self, slot: PartitionSlot, offset: Offset) {
        self.frontier.completed(slot, offset);
        if let (true, Some(channel)) = (mutated(Mutant::GateByMembership), self.channel(slot)) {
            self.settle(channel, offset.next());
        }
    }

    fn settled(&mut self, slot: PartitionSlot, base: Offset) {
        let by_mutant = mutated(Mutant::GateByMembership) || mutated(Mutant::GateOnStarted);
        if self.frontier.settled(slot, base) && !by_mutant {
            if let Some(channel) = self.frontier.channel(slot) {
                self.settle(channel, base);
            }
        }
    }

    fn committed(&mut self, slot: PartitionSlot, base: Offset) {
        if let Some(channel) = self.frontier.channel(slot) {
            self.committed.insert(channel, base);
        }
    }

    fn next_freed(&mut self) -> Option<(PartitionSlot, Offset)> {
        self.freed.pop_front()
    }

    fn keeps_cut(&self) -> bool {
        true
    }

    fn rider(&mut self, slot: PartitionSlot) -> Option<Vec<u8>> {
        let is_lost = !self.lost.is_empty() || !self.unread.is_empty();
        let is_lossy = is_lost && !self.config.accept_lost_frontier;
        self.frontier.shard(slot, is_lossy)
    }

    fn riders_fit(&mut self, room: usize) -> bool {
        self.config.shard_budget = room;
        let largest = self.frontier.largest_shard();
        match largest.filter(|(_, bytes)| *bytes > room) {
            None => true,
            Some((channel, bytes)) => {
                self.stop_because(CausalStop::ShardTooLarge {
                    channel,
                    bytes,
                    budget: room,
                });
                false
            }
        }
    }

    fn rider_chars(&self, slot: PartitionSlot) -> usize {
        let bytes = self.frontier.shard_bytes(slot);
        bytes.map_or(0, keyway_rider::rider_chars)
    }

    fn owes_rider(&self, slot: PartitionSlot) -> bool {
        self.frontier.owes(slot)
    }

    fn take_news(&mut self) -> bool {
        self.frontier.take_news()
    }

    fn rider_answered(&mut self, slot: PartitionSlot, is_stored: bool) {
        self.frontier.answered(slot, is_stored);
    }
}
