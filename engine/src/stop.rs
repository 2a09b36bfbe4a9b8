//! How an engine ends, and how its end is waited for.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use keyway_causal::{CausalStop, StampError};

use crate::kafka::{ClientError, TopicPartition};

/// What an engine did, when it ended because it was asked to.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Distinct records completed.
    pub records: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Commit requests that were acknowledged.
    pub commits: u64,
    /// From the first record received to the end of the last handler.
    pub running: Duration,
    /// From the first assignment to the end.
    pub assigned: Duration,
    /// Bytes fetched, as librdkafka counts them (with `statistics.interval.ms` set; otherwise those of the
    /// records received).
    pub fetched_bytes: u64,
    /// Records that were received and are not complete.
    pub left_open: usize,
    /// Handlers that had not returned within the bound and were left behind.
    pub left_running: usize,
    /// Whether all that was complete is committed.
    pub all_committed: bool,
}

/// Why an engine ended without being asked to.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// A handler returned [`Outcome::Stop`](crate::Outcome::Stop). The record stays incomplete.
    #[error("the handler stopped the engine at {partition}, offset {offset}: {reason}")]
    Handler {
        /// Partition of the record.
        partition: TopicPartition,
        /// Offset of the record.
        offset: i64,
        /// The handler's reason.
        reason: String,
    },
    /// The last attempt at a record failed, and the policy is [`Exhausted::Stop`](crate::Exhausted::Stop). The
    /// record stays incomplete.
    #[error("the engine stopped at {partition}, offset {offset}: {attempts} attempts have failed")]
    Exhausted {
        /// Partition of the record.
        partition: TopicPartition,
        /// Offset of the record.
        offset: i64,
        /// Attempts made.
        attempts: u32,
    },
    /// The client can't go on: usually another member with the same static identity, or a configuration that
    /// the broker refuses.
    #[error("the Kafka client can't go on: {0}")]
    Client(#[from] ClientError),
    /// Committed metadata can't be used, and the policy is [`BadMetadata::Fail`](crate::BadMetadata::Fail).
    /// Clear it, or start with the policy `Ignore`, which repeats what was complete above the offset.
    #[error(
        "the metadata committed for {partition} at offset {offset} can't be used ({reason}): {detail}"
    )]
    BadMetadata {
        /// Which partition.
        partition: TopicPartition,
        /// The committed offset.
        offset: i64,
        /// Name of the fault, as `keyway metadata decode` gives it, or `past_log_end`, `no_leader_epoch`.
        reason: &'static str,
        /// The fault in words.
        detail: String,
    },
    /// The function given to `lane_by` panicked, so the order of its records is not known.
    #[error("the function that chooses lanes panicked at {partition}, offset {offset}: {panic}")]
    LaneFunction {
        /// Partition of the record.
        partition: TopicPartition,
        /// Offset of the record.
        offset: i64,
        /// The panic's text.
        panic: String,
    },
    /// More partitions were assigned over the engine's life than it has slots for.
    #[error(
        "more than {limit} partitions were assigned over the life of this engine; start it anew"
    )]
    TooManyPartitions {
        /// The number of slots.
        limit: usize,
    },
    /// Causal delivery can't go on: what it would promise does not hold.
    #[error("causal delivery: {0}")]
    Causal(#[from] CausalStop),
    /// A record was to be sent, and its stamp would have named too little. The record stays incomplete. Accept the loss
    /// with [`Causal::accept_lost_frontier`](crate::Causal::accept_lost_frontier) where there is none.
    #[error("nothing may be sent: {0}")]
    SendingRefused(StampError),
    /// With causal delivery: records that were neither processed nor kept. What they caused could start although they
    /// never ran. Raise the topic's retention; to go on, commit the log's start for the partition.
    #[error(
        "{partition} begins at {log_start}, and the group has got to {committed} only: the records between were deleted unread"
    )]
    PositionsDiscardedUnread {
        /// Which partition.
        partition: TopicPartition,
        /// The committed offset.
        committed: i64,
        /// Where the log begins.
        log_start: i64,
    },
    /// With causal delivery: the broker has stored a part of a commit and does not take the rest, so that an effect may be
    /// committed whose cause is not. The cause runs again at the next start.
    #[error("the broker took a part of a commit, and not that of {partition}")]
    CutTorn {
        /// A partition of the rest.
        partition: TopicPartition,
    },
    /// Broken off by [`Engine::abandon`](crate::Engine::abandon).
    #[error("broken off: nothing was committed and the group was not left")]
    Abandoned,
    /// A defect of the engine: its thread panicked. Nothing was committed at the end.
    #[error("a defect of the engine: its poll thread panicked: {0}")]
    Defect(String),
}

/// Why [`Engine::commit`](crate::Engine::commit) did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Not within the time given. The engine goes on trying.
    #[error("the commit was not acknowledged in time; it is tried further")]
    TimedOut,
    /// The engine has ended.
    #[error("the engine has ended")]
    Ended,
}

/// The end of an engine, once it is there.
#[derive(Debug, Default)]
pub(crate) struct End {
    result: Mutex<Option<Result<Report, StopReason>>>,
    blocking: Condvar,
    waiting: tokio::sync::Notify,
}

impl End {
    fn lock(&self) -> MutexGuard<'_, Option<Result<Report, StopReason>>> {
        match self.result.lock() {
            Ok(result) => result,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// The engine has ended; the first to say so is believed.
    pub(crate) fn set(&self, result: Result<Report, StopReason>) {
        self.lock().get_or_insert(result);
        self.blocking.notify_all();
        self.waiting.notify_waiters();
    }

    pub(crate) fn has_come(&self) -> bool {
        self.lock().is_some()
    }

    pub(crate) fn get(&self) -> Option<Result<Report, StopReason>> {
        self.lock().clone()
    }

    pub(crate) fn wait(&self) -> Result<Report, StopReason> {
        let mut result = self.lock();
        loop {
            if let Some(result) = &*result {
                return result.clone();
            }
            result = match self.blocking.wait(result) {
                Ok(result) => result,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
    }

    pub(crate) async fn finished(&self) -> Result<Report, StopReason> {
        loop {
            let notified = self.waiting.notified();
            tokio::pin!(notified);
            // Registered before the look, so that an end in between is not missed.
            notified.as_mut().enable();
            if let Some(result) = self.get() {
                return result;
            }
            notified.await;
        }
    }
}
