//! How far each gated channel is settled, and which held records wait for it.
//!
//! ```text
//!   settled below 5:  [0 1 2 3 4] 5 6 7 8          a channel
//!                                       |
//!                       held until settled below 9: the record whose header says 8
//! ```
//!
//! A held record waits at one channel at a time. When that channel is settled far enough the record moves on to the
//! next that is not, so that holding and freeing cost a heap's logarithm, however many are held.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use hashbrown::HashMap;
use keyway_core::{Mutant, PartitionSlot, mutated};
use keyway_offsets::Offset;

use crate::{CausesView, Channel, Position, TopicCauses, TopicId};

/// A held record: the partition by its slot, and the offset.
pub(super) type Record = (PartitionSlot, Offset);

/// What a held record still needs: everything below `end` settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) channel: Channel,
    pub(super) end: Offset,
}

/// What a header says.
pub(super) enum Heard<'a> {
    /// Of a channel that is gated, more than the headers before it.
    Gated(Channel, Position),
    /// Of a topic that is not.
    Outside(TopicCauses<'a>),
}

/// All gated channels.
#[derive(Debug, Default)]
pub(super) struct Channels {
    /// Ascending, as the topics of a header are.
    topics: Vec<GatedTopic>,
    /// What each held record still needs; the last is the one at which it waits.
    held: HashMap<Record, Vec<Need>>,
}

#[derive(Debug)]
struct GatedTopic {
    id: TopicId,
    /// It was deleted: nothing of it will ever come.
    is_gone: bool,
    /// By number, for as many as the topic is known to have.
    partitions: Vec<State>,
    /// Those that some header has named beyond these: nothing is known about them.
    unknown: BTreeMap<u32, State>,
}

#[derive(Debug)]
struct State {
    settled_below: Offset,
    /// Headers have named everything below it, and were heard.
    named_below: Offset,
    waiting: BinaryHeap<Reverse<(Offset, Record)>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            settled_below: Offset::ZERO,
            named_below: Offset::ZERO,
            waiting: BinaryHeap::new(),
        }
    }
}

/// No topic has more partitions by far; a number beyond it comes from a header, not from a cluster.
const MOST_PARTITIONS: u32 = 1 << 20;

impl Channels {
    /// From now on the topic's channels are gated; it has at least `partitions` of them.
    pub(super) fn add_topic(&mut self, id: TopicId, partitions: u32) {
        let index = match self.find(id) {
            Ok(index) => index,
            Err(index) => {
                let topic = GatedTopic {
                    id,
                    is_gone: false,
                    partitions: Vec::new(),
                    unknown: BTreeMap::new(),
                };
                self.topics.insert(index, topic);
                index
            }
        };
        let topic = &mut self.topics[index];
        for partition in topic.partitions.len() as u32..partitions.min(MOST_PARTITIONS) {
            let state = topic.unknown.remove(&partition);
            topic.partitions.push(state.unwrap_or_default());
        }
    }

    pub(super) fn is_gated(&self, topic: TopicId) -> bool {
        self.find(topic).is_ok()
    }

    fn find(&self, id: TopicId) -> Result<usize, usize> {
        self.topics.binary_search_by_key(&id, |topic| topic.id)
    }

    /// Everything of the channel below it is settled; zero where nothing is known of it. `None` for a channel that is
    /// not gated.
    pub(super) fn settled_below(&self, channel: Channel) -> Option<Offset> {
        let topic = &self.topics[self.find(channel.topic()).ok()?];
        Some(topic.settled_below(channel.partition()))
    }

    /// How many are held.
    pub(super) fn held_count(&self) -> usize {
        self.held.len()
    }

    /// What is held, and what each needs still, in no order.
    pub(super) fn held(&self) -> impl Iterator<Item = (Record, &[Need])> {
        self.held
            .iter()
            .map(|(record, needs)| (*record, needs.as_slice()))
    }

    /// What a held record needs still; nothing for one that is not held.
    pub(super) fn needs(&self, record: Record) -> &[Need] {
        self.held.get(&record).map_or(&[], Vec::as_slice)
    }

    /// Holds the record unless everything that it needs is settled, and tells what its header says to `heard` where that may
    /// be new. `own` is the record's channel. One walk, since most records need nothing and say little that is new.
    pub(super) fn admit(
        &mut self,
        record: Record,
        own: Channel,
        causes: &CausesView<'_>,
        heard: &mut impl FnMut(Heard<'_>),
    ) -> bool {
        let mut needs = Vec::new();
        let mut from = 0;
        for group in causes.topics() {
            let id = group.topic();
            // Both ascend.
            let topic = match self.topics[from..].binary_search_by_key(&id, |topic| topic.id) {
                Ok(index) => {
                    from += index;
                    &mut self.topics[from]
                }
                Err(_) => {
                    heard(Heard::Outside(group));
                    continue;
                }
            };
            for (partition, position) in group.entries() {
                // Most entries end here.
                let known = topic.partitions.get(partition as usize);
                if known.is_some_and(|state| state.has_nothing_of(position)) {
                    continue;
                }
                let channel = Channel::valid(id, partition);
                if topic.is_new(partition, position) || mutated(Mutant::MergeTakesLatest) {
                    heard(Heard::Gated(channel, position));
                }
                let end = match channel == own {
                    true if mutated(Mutant::OwnChannelIgnored) => Offset::ZERO,
                    // What comes after the record can't be its cause.
                    true => position.next().min(record.1),
                    false => position.next(),
                };
                if topic.settled_below(partition) < end && !topic.is_gone {
                    needs.push(Need { channel, end });
                }
            }
        }
        if needs.is_empty() {
            return false;
        }
        self.wait(record, &needs);
        self.held.insert(record, needs);
        true
    }

    /// Holds the record for good: what it needs can't be read.
    pub(super) fn hold_forever(&mut self, record: Record) {
        self.held.insert(record, Vec::new());
    }

    /// The record waits at the last of its needs.
    fn wait(&mut self, record: Record, needs: &[Need]) {
        if let Some(need) = needs.last() {
            if let Ok(index) = self.find(need.channel.topic()) {
                let state = self.topics[index].state(need.channel.partition());
                state.waiting.push(Reverse((need.end, record)));
            }
        }
    }

    /// Everything of the channel below `end` is settled; gives what that frees to `freed`. It may be less than before,
    /// where what was known is not true any more.
    pub(super) fn settle_below(&mut self, channel: Channel, end: Offset, freed: &mut Vec<Record>) {
        let Ok(index) = self.find(channel.topic()) else {
            return;
        };
        self.topics[index].state(channel.partition()).settled_below = end;
        self.free(index, channel.partition(), freed);
    }

    /// The topic was deleted: nothing of it will ever come.
    pub(super) fn settle_all(&mut self, topic: TopicId, freed: &mut Vec<Record>) {
        let Ok(index) = self.find(topic) else {
            return;
        };
        self.topics[index].is_gone = true;
        let known = 0..self.topics[index].partitions.len() as u32;
        let unknown: Vec<u32> = self.topics[index].unknown.keys().copied().collect();
        for partition in known.chain(unknown) {
            self.free(index, partition, freed);
        }
    }

    fn free(&mut self, index: usize, partition: u32, freed: &mut Vec<Record>) {
        loop {
            let is_gone = self.topics[index].is_gone;
            let state = self.topics[index].state(partition);
            let first = state.waiting.peek();
            let Some(Reverse((_, record))) =
                first.filter(|Reverse((end, _))| is_gone || *end <= state.settled_below)
            else {
                return;
            };
            let record = *record;
            state.waiting.pop();
            self.move_on(record, freed);
        }
    }

    /// What the record waited for is settled: it waits for the next of its needs, or is free.
    fn move_on(&mut self, record: Record, freed: &mut Vec<Record>) {
        // Of a record that was forgotten meanwhile the heap still tells.
        let Some(mut needs) = self.held.remove(&record) else {
            return;
        };
        while let Some(need) = needs.last() {
            if !self.is_met(need) {
                self.wait(record, &needs);
                self.held.insert(record, needs);
                return;
            }
            needs.pop();
        }
        freed.push(record);
    }

    fn is_met(&self, need: &Need) -> bool {
        let Ok(index) = self.find(need.channel.topic()) else {
            return true;
        };
        let topic = &self.topics[index];
        topic.is_gone || topic.settled_below(need.channel.partition()) >= need.end
    }

    /// What of a partition was held is forgotten.
    pub(super) fn forget(&mut self, slot: PartitionSlot) {
        self.held.retain(|(held, _), _| *held != slot);
        for topic in &mut self.topics {
            let states = topic
                .partitions
                .iter_mut()
                .chain(topic.unknown.values_mut());
            for state in states.filter(|state| !state.waiting.is_empty()) {
                state
                    .waiting
                    .retain(|Reverse((_, (held, _)))| *held != slot);
            }
        }
    }

    /// Channels at which some record waits.
    pub(super) fn waited_for(&self) -> impl Iterator<Item = Channel> + '_ {
        self.topics.iter().flat_map(|topic| {
            let known = topic.partitions.iter().enumerate();
            let known = known.map(|(partition, state)| (partition as u32, state));
            let unknown = topic.unknown.iter().map(|(number, state)| (*number, state));
            known
                .chain(unknown)
                .filter(|(_, state)| !state.waiting.is_empty())
                .filter_map(|(partition, _)| Channel::new(topic.id, partition))
        })
    }
}

impl State {
    /// Whether a header that says so holds nothing and says nothing new.
    fn has_nothing_of(&self, position: Position) -> bool {
        let position = position.get();
        position < self.settled_below.get()
            && position < self.named_below.get()
            && !mutated(Mutant::MergeTakesLatest)
    }
}

impl GatedTopic {
    /// Whether no header before has named so much, and remembers that one has. Of partitions that the topic is not known to
    /// have nothing is remembered.
    fn is_new(&mut self, partition: u32, position: Position) -> bool {
        let Some(state) = self.partitions.get_mut(partition as usize) else {
            return true;
        };
        let named_below = state.named_below.max(position.next());
        std::mem::replace(&mut state.named_below, named_below) < named_below
    }

    fn settled_below(&self, partition: u32) -> Offset {
        let known = self.partitions.get(partition as usize);
        let state = known.or_else(|| self.unknown.get(&partition));
        state.map_or(Offset::ZERO, |state| state.settled_below)
    }

    fn state(&mut self, partition: u32) -> &mut State {
        match (partition as usize) < self.partitions.len() {
            true => &mut self.partitions[partition as usize],
            false => self.unknown.entry(partition).or_default(),
        }
    }
}
