//! What a person sees of the gate: what is held and for what, and how much is known.

use keyway_core::PartitionSlot;
use keyway_offsets::Offset;

use super::{CausalGate, Counters, StampError};
use crate::Channel;

/// The gate at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CausalStatus {
    /// Records that are held.
    pub held: usize,
    /// The lowest held record of each partition, by slot.
    pub heads: Vec<HeldRecord>,
    /// Channels of which something is known.
    pub frontier_channels: usize,
    /// Bytes of a stamp.
    pub stamp_bytes: usize,
    /// Bytes of the largest shard of an owned partition.
    pub shard_bytes: usize,
    /// Why nothing can be sent, if that is so.
    pub sends_refused: Option<StampError>,
    /// What has happened.
    pub counters: Counters,
}

/// A record that waits for its causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRecord {
    /// The partition.
    pub slot: PartitionSlot,
    /// The record.
    pub offset: Offset,
    /// What it needs still. Empty for one whose header can't be read.
    pub blockers: Vec<Blocker>,
}

/// What a held record needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// On which channel.
    pub channel: Channel,
    /// Everything below this has to be settled.
    pub needed_below: Offset,
    /// Everything below this is.
    pub settled_below: Offset,
    /// Where the channel is.
    pub whose: Whose,
}

/// Where a gated channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Owned by this member.
    Local,
    /// Owned by another member: what it commits counts.
    Foreign,
    /// Nothing is known of it: not assigned to anybody that has committed, or not there.
    Unseen,
}

impl Whose {
    /// As in the status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Foreign => "foreign",
            Self::Unseen => "unseen",
        }
    }
}

impl CausalGate {
    /// How it stands.
    pub fn status(&self) -> CausalStatus {
        let mut heads: Vec<(PartitionSlot, Offset)> = Vec::new();
        for ((slot, offset), _) in self.channels.held() {
            match heads.iter_mut().find(|(head, _)| *head == slot) {
                Some(head) => head.1 = head.1.min(offset),
                None => heads.push((slot, offset)),
            }
        }
        heads.sort_unstable();
        let (frontier_channels, stamp_bytes) = self.frontier.size();
        CausalStatus {
            held: self.channels.held_count(),
            heads: heads
                .into_iter()
                .map(|(slot, offset)| HeldRecord {
                    slot,
                    offset,
                    blockers: self.blockers(slot, offset),
                })
                .collect(),
            frontier_channels,
            stamp_bytes,
            shard_bytes: self.frontier.largest_shard().map_or(0, |(_, bytes)| bytes),
            sends_refused: self.may_stamp().err(),
            counters: self.counters,
        }
    }

    /// What a held record needs still.
    pub fn blockers(&self, slot: PartitionSlot, offset: Offset) -> Vec<Blocker> {
        let needs = self.channels.needs((slot, offset)).iter();
        needs
            .map(|need| {
                let settled_below = self.channels.settled_below(need.channel);
                let whose = match self.committed.contains_key(&need.channel) {
                    _ if self.owns(need.channel) => Whose::Local,
                    true => Whose::Foreign,
                    false => Whose::Unseen,
                };
                Blocker {
                    channel: need.channel,
                    needed_below: need.end,
                    settled_below: settled_below.unwrap_or(Offset::ZERO),
                    whose,
                }
            })
            .filter(|blocker| blocker.settled_below < blocker.needed_below)
            .collect()
    }
}
