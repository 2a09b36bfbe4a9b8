//! What an operator may see of a running engine.

use std::time::Duration;

use crate::causal::CausalStatus;
use crate::circuit::CircuitStatus;
use crate::health::Health;
use crate::kafka::{ClientError, TopicPartition};

/// The engine at one moment, at most a quarter of a second ago.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Status {
    /// Assigned partitions.
    pub partitions: Vec<PartitionStatus>,
    /// The routes: that of the topics without one of their own first, if there is such.
    pub routes: Vec<RouteStatus>,
    /// Partitions that are assigned and wait for what the group had committed.
    pub restoring: Vec<TopicPartition>,
    /// For how long the first of them has been waited for.
    pub restoring_for: Option<Duration>,
    /// Whether the engine is about to stop.
    pub stopping: bool,
    /// Whether nothing starts for a moment because of [`Builder::rate`](crate::Builder::rate).
    pub paced: bool,
    /// Whether the buffers are full, so that nothing more is fetched.
    pub full: bool,
    /// Whether the buffers have been full for so long that partitions which hold little are fetched all the same.
    pub reserve_open: bool,
    /// Records in the engine.
    pub buffered: usize,
    /// Their bytes, as the buffers count them.
    pub buffered_bytes: usize,
    /// Records at workers.
    pub running: usize,
    /// Lanes that hold a record.
    pub lanes: usize,
    /// Keys whose next record waits for another attempt.
    pub retries: usize,
    /// Records whose next attempt is due and waits for a free call.
    pub retries_due: usize,
    /// Calls that have lasted longer than [`Route::stuck_after`](crate::Route::stuck_after).
    pub stuck: usize,
    /// Of these, calls in whose place another may be made.
    pub replaced: usize,
    /// For how long the oldest call has been running.
    pub oldest_running: Option<Duration>,
    /// Records completed since the start.
    pub completed: u64,
    /// Attempts that failed since the start.
    pub failed: u64,
    /// Records completed since the start by the acknowledgement of their outputs.
    pub sent: u64,
    /// Times that outputs of a record could not be sent.
    pub sends_failed: u64,
    /// Records whose outputs are being sent.
    pub sending: usize,
    /// Records that are done and wait for the transaction that makes them complete, the one under way included.
    pub staged: usize,
    /// What outputs that are being sent, or staged, count: their bytes, and 256 for each.
    pub output_bytes: usize,
    /// No record starts until some of them are acknowledged: they are more than a sixteenth of the memory budget.
    pub outputs_full: bool,
    /// Why outputs could not be sent to a topic; cleared when some were, or none are sent there any more for 5 minutes.
    pub send_error: Option<ClientError>,
    /// Records completed by a dead letter since the start.
    pub dead_letters: u64,
    /// Records whose dead letter is being written.
    pub dead_letters_being_written: usize,
    /// Records whose dead letter could not be written and waits for its next try.
    pub dead_letters_waiting: usize,
    /// Why the last of these could not; cleared when a letter was written, or none waits any more.
    pub dead_letter_error: Option<ClientError>,
    /// Commit requests acknowledged since the start.
    pub commits: u64,
    /// Characters that the broker takes beside an offset, as far as known.
    pub metadata_limit: usize,
    /// For how long nothing has been received, at a worker, or waiting for an attempt; `None` before the
    /// first assignment, and while there is something.
    pub idle_for: Option<Duration>,
    /// Causal delivery, where there is such.
    pub causal: Option<CausalStatus>,
    /// What a probe is told, as of this moment; see [`Engine::health`](crate::Engine::health) for one that knows
    /// when the poll thread stands still.
    pub health: Health,
}

/// One route.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RouteStatus {
    /// The topic that it belongs to; `None` for the default route.
    pub topic: Option<String>,
    /// Calls at once.
    pub concurrency: u32,
    /// Where its circuit stands, if it has one.
    pub circuit: Option<CircuitStatus>,
    /// Calls beyond, of before the concurrency was lowered, that have not returned.
    pub leaving: usize,
}

/// What may hold a partition: labels of the metric `keyway_partitions_paused`.
pub(crate) const PAUSE_REASONS: [&str; 4] = ["user", "partition_buffer", "total_buffer", "map"];

/// One assigned partition.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PartitionStatus {
    /// Which one.
    pub partition: TopicPartition,
    /// What a commit would carry: the lowest incomplete offset, or one past the highest received.
    pub base: i64,
    /// The highest complete offset, at least `base - 1`.
    pub highest_complete: i64,
    /// Incomplete offsets between the two.
    pub holes: u64,
    /// One past the last offset of the log, as the last fetch said: while nothing is fetched it stands still. `None`
    /// before the first fetch.
    pub log_end: Option<i64>,
    /// Whether the topic's id is known, so that a new life of the topic is noticed. Older brokers do not tell it.
    pub identified: bool,
    /// Records received and not complete.
    pub buffered: usize,
    /// Records at workers.
    pub running: usize,
    /// Records whose last attempt has failed, and that are not tried again under this assignment
    /// ([`Exhausted::Hold`](crate::Exhausted::Hold)).
    pub on_hold: usize,
    /// Records whose outputs are being sent. Their keys wait.
    pub sending: usize,
    /// Records whose dead letter is not acknowledged yet: being written, or waiting for another try. Their keys wait.
    pub dead_letters: usize,
    /// Whether fetching is paused by back-pressure.
    pub paused: bool,
    /// Whether [`Engine::pause`](crate::Engine::pause) holds it.
    pub paused_by_user: bool,
    /// Whether nothing of it starts for a moment because of its topic's rate.
    pub paced: bool,
    /// Keys whose next record waits for a moment because of the rate of a key.
    pub lanes_paced: usize,
    /// Whether it is about to leave this member.
    pub revoking: bool,
    /// Whether records above the highest complete one wait because the hole map is too long.
    pub blocked_by_map: bool,
    /// Keys whose next record waits because the hole map might outgrow the limit if it ran.
    pub lanes_behind_map: usize,
    /// Characters of the hole map's text.
    pub map_chars: usize,
    /// Whether something complete is not committed yet.
    pub uncommitted: bool,
    /// For how long the oldest completion has waited for its commit.
    pub uncommitted_for: Option<Duration>,
    /// Whether the broker denies commits.
    pub commit_denied: bool,
    /// Lanes that wait for an attempt of an ended assignment to finish.
    pub stale_lanes: usize,
}

impl PartitionStatus {
    /// Offsets of the log that are not complete: those above the highest complete one, and the holes below it. Offsets
    /// without a record (markers, compaction) count until the reading has passed them. `None` before the first fetch.
    pub fn lag(&self) -> Option<u64> {
        let above = self
            .log_end?
            .saturating_sub(self.highest_complete.saturating_add(1));
        Some(u64::try_from(above).unwrap_or(0) + self.holes)
    }

    /// Why nothing of it is fetched, or nothing above its highest complete offset starts: of [`PAUSE_REASONS`].
    pub(crate) fn pauses(&self, reserve_open: bool) -> impl Iterator<Item = &'static str> {
        let [user, partition_buffer, total_buffer, map] = PAUSE_REASONS;
        let by_buffers = match reserve_open {
            true => total_buffer,
            false => partition_buffer,
        };
        [
            (self.paused_by_user, user),
            (self.paused, by_buffers),
            (self.blocked_by_map, map),
        ]
        .into_iter()
        .filter_map(|(holds, reason)| holds.then_some(reason))
    }
}

impl Status {
    /// The [`PartitionStatus::lag`] of all partitions together, those without one left out.
    pub fn lag(&self) -> u64 {
        self.partitions
            .iter()
            .filter_map(PartitionStatus::lag)
            .sum()
    }

    /// For how long the oldest completion of all partitions has waited for its commit.
    pub fn commit_age(&self) -> Option<Duration> {
        let ages = self
            .partitions
            .iter()
            .filter_map(|part| part.uncommitted_for);
        ages.max()
    }
}
