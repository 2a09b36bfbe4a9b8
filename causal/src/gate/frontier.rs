//! What the member and its group have seen: the frontier, of which stamps are made and which the shards keep.
//!
//! ```text
//!   headers of received records ──┐
//!   shards of the whole group ────┼──> everything known ──> stamp of each send
//!   offsets started here ─────────┘          |
//!                                            '── of channels outside the subscription, and in no shard yet
//!                                                   '──> shards of the partitions owned here
//! ```
//!
//! What is known of channels that the group consumes needs no place in a shard: those records come again, or their
//! partition's own shard says how far they are complete. The rest would be forgotten with the process, so some owned
//! partition's commit carries it, and whoever owns that partition next carries it on.

use std::sync::Arc;

use hashbrown::HashMap;
use keyway_core::{Mutant, PartitionSlot, mutated};
use keyway_offsets::Offset;

use crate::{Causes, Channel, Position, Shard, TopicCauses, TopicId};

/// The frontier of a member.
#[derive(Debug, Default)]
pub(super) struct Frontier {
    /// All that is known, but for the offsets in `slots`.
    known: Causes,
    /// What shards say that are not of partitions owned here, as they were last read or acknowledged.
    elsewhere: Causes,
    /// By slot; `None` for a slot that is not owned.
    slots: Vec<Option<Owned>>,
    /// By channel, the slot whose shard carries it.
    homes: HashMap<Channel, PartitionSlot>,
    /// The header of the next send, while nothing has changed.
    stamp: Option<Arc<[u8]>>,
    /// Some shard has changed since this was last asked.
    has_news: bool,
}

/// One owned partition.
#[derive(Debug)]
struct Owned {
    channel: Channel,
    /// What its commits carry: what was learned of other topics, and the highest offset that is complete.
    shard: Shard,
    /// Everything below it is complete.
    base: Offset,
    /// Highest offset that was started here.
    started: Option<Position>,
    /// What the broker has acknowledged of what was learned.
    acknowledged: Causes,
    /// Grows with each change of what was learned.
    version: u64,
    in_flight: Option<u64>,
    stored: Option<u64>,
}

impl Frontier {
    /// The header of a send that is issued now.
    pub(super) fn stamp(&mut self) -> Arc<[u8]> {
        if let Some(stamp) = &self.stamp {
            return Arc::clone(stamp);
        }
        for owned in self.slots.iter().flatten() {
            let seen = match owned.started {
                _ if mutated(Mutant::StampWithoutRunning) => owned.shard.highest_complete,
                _ if mutated(Mutant::StampByWatermark) => {
                    Offset::new(owned.base.get() - 1).and_then(|below| below.try_into().ok())
                }
                started => started,
            };
            if let Some(position) = seen {
                self.known.merge(owned.channel, position);
            }
        }
        let stamp: Arc<[u8]> = self.known.encode().into();
        self.stamp = Some(Arc::clone(&stamp));
        stamp
    }

    /// How many channels are known, and the bytes of a stamp.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.known.len(), self.known.encoded_len())
    }

    /// Learns of a position. Says whether the channel is a new one.
    pub(super) fn learn(&mut self, channel: Channel, position: Position, is_gated: bool) -> bool {
        let channels = self.known.len();
        if mutated(Mutant::MergeTakesLatest) {
            self.known.remove(channel);
        }
        if self.known.merge(channel, position) {
            self.stamp = None;
            if !is_gated {
                self.place(channel, position);
            }
        }
        self.known.len() > channels
    }

    /// Learns of what a header says of a topic. Says whether some channel is a new one.
    pub(super) fn receive(&mut self, causes: &TopicCauses<'_>, is_gated: bool) -> bool {
        let topic = causes.topic();
        if mutated(Mutant::MergeTakesLatest) {
            for (partition, _) in causes.entries() {
                self.known.remove(Channel::valid(topic, partition));
            }
        }
        let channels = self.known.len();
        let mut raised = Vec::new();
        let has_changed = self
            .known
            .merge_topic(topic, causes.entries(), |partition, position| {
                if !is_gated {
                    raised.push((Channel::valid(topic, partition), position));
                }
            });
        if has_changed {
            self.stamp = None;
        }
        for (channel, position) in raised {
            self.place(channel, position);
        }
        self.known.len() > channels
    }

    /// The record is on its way to a handler.
    pub(super) fn started(&mut self, slot: PartitionSlot, offset: Offset) {
        if let Some(owned) = self.owned_mut(slot) {
            raise(&mut owned.started, offset);
            self.stamp = None;
        }
    }

    pub(super) fn completed(&mut self, slot: PartitionSlot, offset: Offset) {
        if let Some(owned) = self.owned_mut(slot) {
            raise(&mut owned.shard.highest_complete, offset);
        }
    }

    /// What the shard of a partition says that is owned elsewhere, or by nobody.
    pub(super) fn read(
        &mut self,
        shard: &Shard,
        partition: u32,
        is_gated: impl Fn(TopicId) -> bool,
    ) {
        if is_gated(shard.topic) {
            self.elsewhere.merge_all(&shard.learned);
        }
        // Where nobody consumes its topic any more its offsets expire, and the shard with them: then it is kept here.
        for (channel, position) in shard.learned.iter() {
            self.learn(channel, position, is_gated(channel.topic()));
        }
        if let (Some(channel), Some(position)) =
            (Channel::new(shard.topic, partition), shard.highest_complete)
        {
            self.learn(channel, position, is_gated(shard.topic));
        }
    }

    /// The partition is owned from now on, with the shard that its last owner wrote; one that says that something is lost
    /// is written anew where that `is_accepted`, or the next owner would have to accept it again.
    pub(super) fn begin(
        &mut self,
        slot: PartitionSlot,
        channel: Channel,
        baseline: Offset,
        shard: Option<Shard>,
        is_accepted: bool,
        is_gated: impl Fn(TopicId) -> bool,
    ) {
        if self.slots.len() <= slot.index() {
            self.slots.resize_with(slot.index() + 1, || None);
        }
        let is_as_written = |shard: &Shard| !(shard.is_lossy && is_accepted);
        let is_written = shard.as_ref().is_some_and(is_as_written);
        let mut shard = shard.unwrap_or_else(|| Shard {
            topic: channel.topic(),
            baseline,
            highest_complete: None,
            learned: Causes::default(),
            is_lossy: false,
        });
        let known: Vec<_> = shard.learned.iter().collect();
        if let Some(position) = shard.highest_complete {
            self.learn(channel, position, true);
        }
        let acknowledged = shard.learned.clone();
        if mutated(Mutant::NoCustody) {
            shard.learned = Causes::default();
        }
        self.slots[slot.index()] = Some(Owned {
            channel,
            shard,
            base: Offset::ZERO,
            started: None,
            acknowledged,
            version: 0,
            in_flight: None,
            // Every commit carries a shard, so that one without is known to be lost: the first one too.
            stored: is_written.then_some(0),
        });
        self.has_news = true;
        for (channel, position) in known {
            if !mutated(Mutant::NoCustody) {
                self.homes.entry(channel).or_insert(slot);
            }
            self.learn(channel, position, is_gated(channel.topic()));
        }
        if !mutated(Mutant::NoCustody) {
            self.place_all(is_gated);
        }
    }

    /// The partition is not owned any more: what the broker has of its shard is whoever's it is next, and what it has not
    /// finds another place.
    pub(super) fn end(&mut self, slot: PartitionSlot, is_gated: impl Fn(TopicId) -> bool) {
        let Some(owned) = self.slots.get_mut(slot.index()).and_then(Option::take) else {
            return;
        };
        for position in [owned.started, owned.shard.highest_complete]
            .into_iter()
            .flatten()
        {
            self.known.merge(owned.channel, position);
        }
        self.elsewhere.merge_all(&owned.acknowledged);
        self.homes.retain(|_, home| *home != slot);
        self.place_all(is_gated);
    }

    /// A topic is gone, and what the shards of its partitions said went with them.
    pub(super) fn forget_topic(&mut self, topic: TopicId) {
        self.known.remove_topic(topic);
        self.elsewhere = Causes::default();
        self.stamp = None;
        for owned in self.slots.iter_mut().flatten() {
            owned.shard.learned.remove_topic(topic);
        }
    }

    /// Whatever is in no shard yet is put into one.
    pub(super) fn place_all(&mut self, is_gated: impl Fn(TopicId) -> bool) {
        let outside = self.known.iter();
        let outside: Vec<_> = outside
            .filter(|(channel, _)| !is_gated(channel.topic()))
            .collect();
        for (channel, position) in outside {
            self.place(channel, position);
        }
    }

    /// Puts a position into the shard of an owned partition, unless one elsewhere has it: where the channel is already,
    /// else where there is most room.
    fn place(&mut self, channel: Channel, position: Position) {
        if self.elsewhere.covers(channel, position) || mutated(Mutant::LearnedNotWritten) {
            return;
        }
        let slots = self.slots.iter().enumerate();
        let slots = slots.filter_map(|(index, owned)| Some((index, owned.as_ref()?)));
        let home = self.homes.get(&channel).map(|slot| slot.index());
        let roomiest = || slots.min_by_key(|(_, owned)| owned.shard.learned.len());
        let Some(index) = home.or_else(|| roomiest().map(|(index, _)| index)) else {
            return;
        };
        if let Some(owned) = &mut self.slots[index] {
            self.homes.insert(channel, PartitionSlot(index as u32));
            if owned.shard.learned.merge(channel, position) {
                owned.version += 1;
                self.has_news = true;
            }
        }
    }

    /// Whether some shard has changed since this was last asked.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// What a commit of this moment writes beside the partition's map.
    pub(super) fn shard(&mut self, slot: PartitionSlot, is_lossy: bool) -> Option<Vec<u8>> {
        let owned = self.owned_mut(slot)?;
        owned.in_flight = Some(owned.version);
        owned.shard.is_lossy = is_lossy;
        Some(match mutated(Mutant::OwnHighestLeftOut) {
            false => owned.shard.encode(),
            true => {
                let shard = owned.shard.clone();
                let highest_complete = None;
                Shard {
                    highest_complete,
                    ..shard
                }
                .encode()
            }
        })
    }

    /// Bytes of the partition's shard.
    pub(super) fn shard_bytes(&self, slot: PartitionSlot) -> Option<usize> {
        let owned = self.slots.get(slot.index())?.as_ref()?;
        Some(owned.shard.encoded_len())
    }

    /// The partition whose shard is the largest, and its bytes.
    pub(super) fn largest_shard(&self) -> Option<(Channel, usize)> {
        let owned = self.slots.iter().flatten();
        owned
            .map(|owned| (owned.channel, owned.shard.encoded_len()))
            .max_by_key(|(_, bytes)| *bytes)
    }

    /// Everything below `base` is complete. Says whether that is something new.
    pub(super) fn settled(&mut self, slot: PartitionSlot, base: Offset) -> bool {
        let owned = self.owned_mut(slot);
        owned.is_some_and(|owned| std::mem::replace(&mut owned.base, base) != base)
    }

    /// Whether the broker lacks something of the partition's shard.
    pub(super) fn owes(&self, slot: PartitionSlot) -> bool {
        let owned = self.slots.get(slot.index()).and_then(Option::as_ref);
        owned.is_some_and(|owned| owned.stored != Some(owned.version))
    }

    /// What became of the shard that was last written.
    pub(super) fn answered(&mut self, slot: PartitionSlot, is_stored: bool) {
        if let Some(owned) = self.owned_mut(slot) {
            if let (Some(version), true) = (owned.in_flight.take(), is_stored) {
                owned.stored = Some(version);
                if version == owned.version {
                    owned.acknowledged = owned.shard.learned.clone();
                }
            }
        }
    }

    /// Every shard has to be written once more.
    pub(super) fn touch_all(&mut self) {
        for owned in self.slots.iter_mut().flatten() {
            owned.version += 1;
        }
        self.has_news = true;
    }

    pub(super) fn channel(&self, slot: PartitionSlot) -> Option<Channel> {
        let owned = self.slots.get(slot.index())?.as_ref()?;
        Some(owned.channel)
    }

    pub(super) fn owned(&self) -> impl Iterator<Item = Channel> + '_ {
        self.slots.iter().flatten().map(|owned| owned.channel)
    }

    fn owned_mut(&mut self, slot: PartitionSlot) -> Option<&mut Owned> {
        self.slots.get_mut(slot.index())?.as_mut()
    }
}

fn raise(position: &mut Option<Position>, offset: Offset) {
    if let Ok(offset) = Position::try_from(offset) {
        *position = (*position).max(Some(offset));
    }
}
