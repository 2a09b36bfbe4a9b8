//! The simulated broker: the logs of all channels, what the group has committed, and its generation.

use keyway_causal::{Channel, GroupPartition, TopicId};
use keyway_offsets::{HoleMap, Offset};
use keyway_rider::Rider;

use crate::bits::Bits;
use crate::scenario::Scenario;

/// What stands at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Record(usize),
    /// The marker of a transaction, or a record of one that was aborted.
    Marker,
    /// A record that compaction took away.
    Gone,
}

/// One channel and its log, which begins at offset 0.
#[derive(Debug)]
pub(crate) struct Chan {
    pub(crate) topic: String,
    pub(crate) channel: Channel,
    pub(crate) log: Vec<Entry>,
}

impl Chan {
    pub(crate) fn end(&self) -> i64 {
        self.log.len() as i64
    }

    pub(crate) fn entry(&self, offset: i64) -> Option<Entry> {
        let index = usize::try_from(offset).ok()?;
        self.log.get(index).copied()
    }
}

/// What the group has committed for a partition.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    pub(crate) offset: Offset,
    pub(crate) text: String,
    /// The oracle's: which records of the partition the shard in it stands for.
    pub(crate) complete: Bits,
    /// The oracle's: it has no shard, or one that says that others had none.
    pub(crate) is_lost: bool,
}

impl Committed {
    pub(crate) fn map(&self, limits: &keyway_offsets::Limits) -> HoleMap {
        let read = keyway_rider::read(self.offset, self.text.as_bytes(), limits.max_window);
        read.map
            .map_or_else(|_| HoleMap::caught_up(self.offset), |decoded| decoded.map)
    }

    pub(crate) fn rider(&self, limits: &keyway_offsets::Limits) -> Rider {
        keyway_rider::read(self.offset, self.text.as_bytes(), limits.max_window).rider
    }
}

/// One cluster with one group. Channels below `gated` are what the group consumes.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) chans: Vec<Chan>,
    pub(crate) gated: usize,
    pub(crate) topics: Vec<(String, TopicId, u32)>,
    pub(crate) committed: Vec<Option<Committed>>,
    /// Times that a commit of the partition was stored.
    pub(crate) stores: Vec<u64>,
    pub(crate) owner: Vec<Option<usize>>,
    pub(crate) generation: u64,
    /// Where the group's reading begins.
    pub(crate) begins_at: Vec<i64>,
}

impl Broker {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut chans = Vec::new();
        let mut topics = Vec::new();
        let gated = scenario.gated.iter().map(|count| (*count, true));
        let ungated = scenario.ungated.iter().map(|count| (*count, false));
        for (index, (partitions, is_gated)) in gated.chain(ungated).enumerate() {
            let name = format!("t{index}");
            let id = TopicId::new([index as u8 + 1; 16]).expect("not the id of no topic");
            for partition in 0..partitions {
                chans.push(Chan {
                    topic: name.clone(),
                    channel: Channel::new(id, partition).expect("a partition's number"),
                    log: Vec::new(),
                });
            }
            if is_gated {
                topics.push((name, id, partitions));
            }
        }
        let gated = scenario.gated.iter().sum::<u32>() as usize;
        Self {
            chans,
            gated,
            topics,
            committed: vec![None; gated],
            stores: vec![0; gated],
            owner: vec![None; gated],
            generation: 0,
            begins_at: vec![0; gated],
        }
    }

    pub(crate) fn index_of(&self, channel: Channel) -> Option<usize> {
        self.chans.iter().position(|chan| chan.channel == channel)
    }

    /// What all partitions of the group have committed, as a member reads it.
    pub(crate) fn group(&self, limits: &keyway_offsets::Limits) -> Vec<GroupPartition> {
        let all = self.committed.iter().zip(&self.chans);
        let all = all.filter_map(|(committed, chan)| Some((committed.as_ref()?, chan)));
        all.map(|(committed, chan)| GroupPartition {
            topic: chan.topic.clone(),
            partition: chan.channel.partition(),
            committed: committed.offset,
            rider: committed.rider(limits),
        })
        .collect()
    }
}
