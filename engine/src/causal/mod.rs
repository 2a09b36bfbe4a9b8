//! Causal delivery, as an embedder asks for it.
//!
//! A record starts only when every record that caused it is done, and every record that is sent names what caused it.
//! What decides is [`keyway_causal`]; here is what it needs of a cluster.
//!
//! ```text
//!   settings: Causal --> gate: CausalGate in the core <-- poll thread
//!                                                             |  ^
//!                         what others have committed, topic ids |  | facts
//!                                                             v  |
//!                                                           reader --> brokers
//! ```

mod gate;
mod headers;
mod reader;
mod rebuild;
mod status;

use keyway_causal::CausalConfig;
use keyway_offsets::Limits;
use rdkafka::ClientConfig;

use crate::kafka::{ClientError, Outsider};

pub(crate) use self::gate::EngineGate;
pub(crate) use self::headers::{Stamp, stamped};
pub(crate) use self::reader::{CausalAnswer, CausalReader, Facts, Question};
pub use self::status::{CausalStatus, Cause, HeldHead};

/// Causal delivery: [`Builder::causal`](crate::Builder::causal).
///
/// ```
/// use keyway::Causal;
///
/// let causal = Causal::default().causes_budget(64 << 10);
/// # let _ = causal;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Causal {
    config: CausalConfig,
    pub(crate) dead_letters_settle: bool,
    pub(crate) rebuild_lost_frontier: bool,
}

impl Causal {
    /// Most bytes of the header `parsley.causes`, read or written: 256 KiB by default, a quarter of what brokers take as a
    /// record. The engine stops with its own reason before a producer fails.
    #[must_use]
    pub fn causes_budget(mut self, bytes: usize) -> Self {
        self.config.causes_budget = bytes;
        self
    }

    /// Sends although commits of the group carry no causal shard: what the group had learned of topics that it does not
    /// consume may be lost, and what is sent may name too few causes. To be given once, by somebody who knows that nothing
    /// is lost, as with a group that begins with causal delivery; after that all commits carry a shard.
    #[must_use]
    pub fn accept_lost_frontier(mut self) -> Self {
        self.config.accept_lost_frontier = true;
        self
    }

    /// Gathers what the group had learned again where commits carry no causal shard: everything that the group has read is
    /// read once more, before anything is assigned, which takes as long as that takes. It needs all of it: where a log does
    /// not begin at 0 any more, or the group has read a topic that it does not read now, the loss stays.
    #[must_use]
    pub fn rebuild_lost_frontier(mut self) -> Self {
        self.rebuild_lost_frontier = true;
        self
    }

    /// Runs this record as one without causes although its header can't be read. Sending is refused from then on, as what
    /// it would have named is not known, unless [`Causal::accept_lost_frontier`] is given too.
    #[must_use]
    pub fn accept_undecodable(mut self, topic: &str, partition: i32, offset: i64) -> Self {
        if let Ok(partition) = u32::try_from(partition) {
            let record = (topic.to_owned(), partition, offset);
            self.config.undecodable_accepted.insert(record);
        }
        self
    }

    /// A topic that joins what the group consumes is read from behind those of its records whose effects the group has
    /// processed: they are never delivered, which is said in the log. Without it the engine stops with
    /// [`CausalStop::ChannelJoined`](crate::causality::CausalStop::ChannelJoined).
    #[must_use]
    pub fn skip_joined(mut self) -> Self {
        self.config.skip_joined = true;
        self
    }

    /// A dead letter completes its record here too, so that what it caused goes on. Without it a route with dead letters
    /// is refused: what depends on a record that was given up would start although its cause was never processed.
    #[must_use]
    pub fn dead_letters_settle(mut self) -> Self {
        self.dead_letters_settle = true;
        self
    }
}

/// Causal delivery as it was checked.
#[derive(Clone, Debug)]
pub(crate) struct CausalSettings {
    pub(crate) causal: Causal,
    /// As the user gave it, for a client beside the group.
    pub(crate) client: ClientConfig,
}

impl CausalSettings {
    /// The gate, whose shards have to fit in a commit's metadata.
    pub(crate) fn gate(&self, limits: &Limits, observed: bool) -> EngineGate {
        let config = CausalConfig {
            shard_budget: keyway_rider::most_bytes(limits),
            ..self.causal.config.clone()
        };
        EngineGate::causal(config, observed)
    }

    /// A client beside the group. Unless it is to be `stable` it answers what is committed while transactions are open.
    pub(crate) fn beside(&self, stable: bool) -> Result<Outsider, ClientError> {
        // The member's own client has been made of the same.
        Outsider::open(&self.client, stable).map_err(|_| ClientError::Closed)?
    }
}
