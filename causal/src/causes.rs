//! A set of causes that grows.
//!
//! The one idea: an entry stands for every record of its channel at or below its position, so that one entry a channel is
//! enough, and merging keeps the greater of two. Entries are kept in the order of the header; what is merged comes in that
//! order too, which makes merging a walk along both.

use std::ops::Range;

use crate::channel::{Channel, Position};
use crate::error::CausesError;
use crate::topic::TopicId;
use crate::varint;
use crate::view::{CausesView, POSITION_BYTES, TOPIC_BYTES, VERSION};

/// A partition and the position in it.
type Entry = (u32, Position);

/// A set of causes: at most one position for each channel. Without limit: whoever sends it compares
/// [`encoded_len`](Self::encoded_len) with a budget first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Causes {
    /// Ascending.
    groups: Vec<Group>,
}

/// The entries of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    topic: TopicId,
    /// Ascending by partition, one at least.
    entries: Vec<Entry>,
}

impl Causes {
    /// No causes.
    pub const fn new() -> Self {
        Self { groups: Vec::new() }
    }

    /// The causes that a header's value names.
    ///
    /// # Errors
    /// As [`CausesView::parse`]. What is allocated is bounded by the bytes that are there.
    pub fn decode(value: &[u8]) -> Result<Self, CausesError> {
        CausesView::parse(value).map(Self::from)
    }

    /// The header's value. Equal sets have equal values.
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.encoded_len());
        self.encode_into(&mut value);
        value
    }

    /// Appends the header's value to `to`.
    pub fn encode_into(&self, to: &mut Vec<u8>) {
        to.push(VERSION);
        varint::write(self.groups.len() as u64, to);
        for Group { topic, entries } in &self.groups {
            to.extend_from_slice(&topic.bytes());
            varint::write(entries.len() as u64, to);
            for &(partition, position) in entries {
                varint::write(partition.into(), to);
                to.extend_from_slice(&position.get().to_be_bytes());
            }
        }
    }

    /// Bytes of the header's value.
    pub fn encoded_len(&self) -> usize {
        let groups = self.groups.iter().map(|Group { entries, .. }| {
            let partitions: usize = entries
                .iter()
                .map(|&(partition, _)| varint::len(partition.into()))
                .sum();
            TOPIC_BYTES
                + varint::len(entries.len() as u64)
                + partitions
                + entries.len() * POSITION_BYTES
        });
        size_of_val(&VERSION) + varint::len(self.groups.len() as u64) + groups.sum::<usize>()
    }

    /// The position on `channel`, if there is an entry.
    pub fn get(&self, channel: Channel) -> Option<Position> {
        let entries = self.entries(channel.topic());
        let at = place(entries, channel.partition()).ok()?;
        Some(entries[at].1)
    }

    /// Whether there is an entry on `channel` at or above `position`, which then says the same and more.
    pub fn covers(&self, channel: Channel, position: Position) -> bool {
        self.get(channel).is_some_and(|own| own >= position)
    }

    /// Adds an entry, or raises the one that is there; whether something changed. Never lowers one.
    pub fn merge(&mut self, channel: Channel, position: Position) -> bool {
        let entry = (channel.partition(), position);
        let at = match self.group(channel.topic()) {
            Ok(at) => at,
            Err(at) => {
                let group = Group {
                    topic: channel.topic(),
                    entries: vec![entry],
                };
                self.groups.insert(at, group);
                return true;
            }
        };
        let entries = &mut self.groups[at].entries;
        match place(entries, channel.partition()) {
            Ok(at) => raise(&mut entries[at].1, position),
            Err(at) => {
                entries.insert(at, entry);
                true
            }
        }
    }

    /// Merges each entry of `other`; whether something changed.
    pub fn merge_all(&mut self, other: &Self) -> bool {
        let mut has_changed = false;
        for (topic, entries) in other.topics() {
            has_changed |= self.merge_topic(topic, entries.iter().copied(), |_, _| {});
        }
        has_changed
    }

    /// Merges each entry of a header; whether something changed.
    pub fn merge_header(&mut self, header: &CausesView<'_>) -> bool {
        let mut has_changed = false;
        for group in header.topics() {
            has_changed |= self.merge_topic(group.topic(), group.entries(), |_, _| {});
        }
        has_changed
    }

    /// Merges entries of one topic that ascend by partition, one at least; whether something changed. What is raised, or is
    /// new, is told to `raised`.
    pub(crate) fn merge_topic(
        &mut self,
        topic: TopicId,
        entries: impl Iterator<Item = Entry>,
        mut raised: impl FnMut(u32, Position),
    ) -> bool {
        match self.group(topic) {
            Ok(at) => merge_entries(&mut self.groups[at].entries, entries, raised),
            Err(at) => {
                let entries: Vec<_> = entries
                    .inspect(|(partition, position)| raised(*partition, *position))
                    .collect();
                self.groups.insert(at, Group { topic, entries });
                true
            }
        }
    }

    /// Takes the entry on `channel` out.
    pub fn remove(&mut self, channel: Channel) {
        let Ok(group) = self.group(channel.topic()) else {
            return;
        };
        let entries = &mut self.groups[group].entries;
        if let Ok(at) = place(entries, channel.partition()) {
            entries.remove(at);
            if entries.is_empty() {
                self.groups.remove(group);
            }
        }
    }

    /// Takes all entries on channels of `topic` out.
    pub fn remove_topic(&mut self, topic: TopicId) {
        if let Ok(at) = self.group(topic) {
            self.groups.remove(at);
        }
    }

    /// Takes out all entries but those for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(Channel, Position) -> bool) {
        self.groups.retain_mut(|Group { topic, entries }| {
            entries
                .retain(|&(partition, position)| keep(Channel::valid(*topic, partition), position));
            !entries.is_empty()
        });
    }

    /// All entries, ascending by channel.
    pub fn iter(&self) -> impl Iterator<Item = (Channel, Position)> {
        self.topics().flat_map(|(topic, entries)| {
            entries
                .iter()
                .map(move |&(partition, position)| (Channel::valid(topic, partition), position))
        })
    }

    /// The topics, ascending, each with its partitions, ascending, and the position in each.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = (TopicId, &[(u32, Position)])> {
        let groups = self.groups.iter();
        groups.map(|Group { topic, entries }| (*topic, entries.as_slice()))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| group.entries.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Adds a topic that is above all that are there, with entries that ascend, one at least.
    pub(crate) fn push_topic(&mut self, topic: TopicId, entries: Vec<(u32, Position)>) {
        debug_assert!(!entries.is_empty() && entries.is_sorted_by(|one, next| one.0 < next.0));
        debug_assert!(self.groups.last().is_none_or(|last| last.topic < topic));
        self.groups.push(Group { topic, entries });
    }

    fn entries(&self, topic: TopicId) -> &[Entry] {
        self.group(topic).map_or(&[], |at| &self.groups[at].entries)
    }

    /// Where `topic` is, or would be.
    fn group(&self, topic: TopicId) -> Result<usize, usize> {
        self.groups
            .binary_search_by_key(&topic, |group| group.topic)
    }
}

impl From<CausesView<'_>> for Causes {
    fn from(view: CausesView<'_>) -> Self {
        let groups = view.topics().map(|group| {
            // As many as there are pairs, which were seen.
            let mut entries = Vec::with_capacity(group.len());
            entries.extend(group.entries());
            Group {
                topic: group.topic(),
                entries,
            }
        });
        Self {
            groups: groups.collect(),
        }
    }
}

/// In any order; of two on one channel the greater counts.
impl FromIterator<(Channel, Position)> for Causes {
    fn from_iter<I: IntoIterator<Item = (Channel, Position)>>(entries: I) -> Self {
        let mut all: Vec<_> = entries.into_iter().collect();
        all.sort_unstable();
        let mut causes = Self::new();
        for (channel, position) in all {
            let entry = (channel.partition(), position);
            match causes.groups.last_mut() {
                Some(group) if group.topic == channel.topic() => match group.entries.last_mut() {
                    Some(last) if last.0 == entry.0 => *last = entry,
                    _ => group.entries.push(entry),
                },
                _ => causes.groups.push(Group {
                    topic: channel.topic(),
                    entries: vec![entry],
                }),
            }
        }
        causes
    }
}

impl Extend<(Channel, Position)> for Causes {
    fn extend<I: IntoIterator<Item = (Channel, Position)>>(&mut self, entries: I) {
        self.merge_all(&entries.into_iter().collect());
    }
}

/// Merges entries that ascend into `own`; whether something changed.
fn merge_entries(
    own: &mut Vec<Entry>,
    other: impl Iterator<Item = Entry>,
    mut raised: impl FnMut(u32, Position),
) -> bool {
    let mut has_changed = false;
    let mut new = Vec::new();
    let mut at = 0;
    for entry in other {
        let (partition, position) = entry;
        at = skip(own, at..own.len(), |own| own.0 < partition);
        match own.get_mut(at) {
            Some(own) if own.0 == partition => {
                if raise(&mut own.1, position) {
                    raised(partition, position);
                    has_changed = true;
                }
                at += 1;
            }
            _ => new.push(entry),
        }
    }
    if let Some(first) = new.first().copied() {
        for (partition, position) in &new {
            raised(*partition, *position);
        }
        let is_behind = own.last().is_none_or(|last| last.0 < first.0);
        own.append(&mut new);
        if !is_behind {
            // A stable sort merges two runs in one walk.
            own.sort_by_key(|entry| entry.0);
        }
        has_changed = true;
    }
    has_changed
}

fn raise(own: &mut Position, position: Position) -> bool {
    let is_higher = position > *own;
    if is_higher {
        *own = position;
    }
    is_higher
}

/// The first place in `range` that is not `before`. Most often it is the first one.
fn skip<T>(all: &[T], range: Range<usize>, before: impl Fn(&T) -> bool) -> usize {
    let start = range.start;
    match all.get(start) {
        Some(first) if before(first) => start + all[range].partition_point(before),
        _ => start,
    }
}

/// Where `partition` is, or would be.
fn place(entries: &[Entry], partition: u32) -> Result<usize, usize> {
    // Partitions ascend from 0, so that none is further back than its number says, and with no gap it is there.
    let most = usize::try_from(partition).unwrap_or(usize::MAX);
    match entries.get(most) {
        Some(entry) if entry.0 == partition => Ok(most),
        _ => {
            let below = &entries[..most.min(entries.len())];
            below.binary_search_by_key(&partition, |entry| entry.0)
        }
    }
}
