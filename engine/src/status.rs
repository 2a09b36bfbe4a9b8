//! What an operator may see of a running engine.

use std::time::Duration;

use crate::circuit::CircuitStatus;
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
    /// Whether the engine is about to stop.
    pub stopping: bool,
    /// Whether nothing starts for a moment because of [`Builder::rate`](crate::Builder::rate).
    pub paced: bool,
    /// Whether the buffers are full, so that nothing more is fetched.
    pub full: bool,
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
    /// Records completed since the start.
    pub completed: u64,
    /// Attempts that failed since the start.
    pub failed: u64,
    /// Commit requests acknowledged since the start.
    pub commits: u64,
    /// Characters that the broker takes beside an offset, as far as known.
    pub metadata_limit: usize,
    /// For how long nothing has been received, at a worker, or waiting for an attempt; `None` before the
    /// first assignment, and while there is something.
    pub idle_for: Option<Duration>,
    /// An error of the client that lasts until somebody changes something; cleared when it heals.
    pub denied: Option<ClientError>,
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
    /// Records received and not complete.
    pub buffered: usize,
    /// Records at workers.
    pub running: usize,
    /// Records whose last attempt has failed, and that are not tried again under this assignment
    /// ([`Exhausted::Hold`](crate::Exhausted::Hold)).
    pub on_hold: usize,
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
    /// Whether the broker denies commits.
    pub commit_denied: bool,
    /// Lanes that wait for an attempt of an ended assignment to finish.
    pub stale_lanes: usize,
}
