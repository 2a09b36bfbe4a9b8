//! What an operator may see of causal delivery.

use std::time::Duration;

use crate::kafka::{ClientError, TopicPartition};

/// Causal delivery at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CausalStatus {
    /// Records that wait for their causes.
    pub held: usize,
    /// The lowest of them in each partition, and what it waits for.
    pub heads: Vec<HeldHead>,
    /// For how long the longest of these has waited, as far as it was looked at: four times a second.
    pub longest_hold: Option<Duration>,
    /// Records that have ever waited.
    pub held_total: u64,
    /// Channels of which something is known: what a stamp names.
    pub frontier_channels: usize,
    /// Bytes of a stamp.
    pub stamp_bytes: usize,
    /// The most that it may have: [`Causal::causes_budget`](crate::Causal::causes_budget).
    pub causes_budget: usize,
    /// Bytes of the largest shard beside an offset.
    pub shard_bytes: usize,
    /// The most that it may have.
    pub shard_budget: usize,
    /// Stamps made since the start.
    pub stamps: u64,
    /// Why nothing may be sent.
    pub sends_refused: Option<String>,
    /// What the group had learned is being gathered again, before anything is assigned: so many records were read so far.
    pub rebuilding: Option<u64>,
    /// How often what stayed was restored anew, since a partition had left without its last commit.
    pub demotions: u64,
    /// Why the latest question about the group had no answer.
    pub failure: Option<ClientError>,
}

/// A record that waits for its causes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldHead {
    /// Its partition.
    pub partition: TopicPartition,
    /// Its offset.
    pub offset: i64,
    /// For how long it has been seen to wait.
    pub waits_for: Duration,
    /// What has to be settled first; nothing for one whose header can't be read.
    pub blockers: Vec<Cause>,
}

/// What a held record needs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cause {
    /// The channel.
    pub partition: TopicPartition,
    /// Everything up to this offset has to be settled.
    pub needed: i64,
    /// Everything up to this offset is; -1 for nothing.
    pub settled: i64,
    /// Where the channel is: `local` to this member, `foreign` (another member's: what is committed counts), or `unseen`
    /// (nothing is committed, or there is no such partition).
    pub whose: &'static str,
}
