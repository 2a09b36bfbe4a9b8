//! What an observer may see of the core at one moment.

use std::time::Duration;

use keyway_offsets::{HoleMap, Limits};

use crate::circuit::{Circuit, CircuitState};
use crate::core::Core;
use crate::gate::Gate;
use crate::ids::{PartitionSlot, RouteId, Timestamp};
use crate::lanes::{LaneState, Waiting};
use crate::partition::Phase;

/// What has happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Records received and not complete yet at that time.
    pub received: u64,
    /// Records that arrived again and were passed over because the restored map says that they are complete.
    pub skipped_complete: u64,
    /// Records that arrived twice under one assignment.
    pub repeated: u64,
    /// Records completed.
    pub completed: u64,
    /// Of these, passed over by the handler's choice.
    pub skipped: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Records whose last attempt failed.
    pub exhausted: u64,
    /// Times that a circuit opened because attempts failed.
    pub circuits_opened: u64,
    /// Records completed by the acknowledgement of their outputs.
    pub sent: u64,
    /// Times that outputs of a record could not be sent.
    pub sends_failed: u64,
    /// Records completed by a dead letter.
    pub dead_letters: u64,
    /// Times that a dead letter could not be written.
    pub dead_letters_failed: u64,
    /// Results that came after their assignment had ended.
    pub late_results: u64,
    /// Records taken back from a worker that was busy with another.
    pub taken_back: u64,
    /// Commit plans made.
    pub plans: u64,
    /// Commit requests that the broker acknowledged for at least one partition.
    pub commits: u64,
    /// Maps that did not fit and were left out of a commit.
    pub maps_stripped: u64,
    /// Times that a smaller cap of the metadata was learned from the broker.
    pub caps_learned: u64,
    /// Times that a partition was paused.
    pub pauses: u64,
}

/// One assigned partition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionStatus {
    /// Which partition.
    pub slot: PartitionSlot,
    /// Base, highest complete offset and holes.
    pub map: HoleMap,
    /// One past the highest offset received.
    pub next: i64,
    /// Records received and not complete.
    pub buffered: usize,
    /// Their bytes.
    pub buffered_bytes: usize,
    /// Records at workers.
    pub running: usize,
    /// Records whose last attempt has failed and that are not tried again under this assignment.
    pub on_hold: usize,
    /// Records whose outputs are being sent.
    pub sends_out: usize,
    /// Dead letters that are being written.
    pub letters_out: usize,
    /// Dead letters that could not be written and wait for another try.
    pub letters_waiting: usize,
    /// Whether fetching is paused.
    pub paused: bool,
    /// Whether the user paused it: nothing is fetched, and nothing starts.
    pub paused_by_user: bool,
    /// Lanes whose next record waits for its time, for the sake of the pace.
    pub lanes_paced: usize,
    /// Whether nothing of it starts for a while, for the sake of the pace.
    pub paced: bool,
    /// Whether it is about to leave.
    pub revoking: bool,
    /// Whether records above the highest complete one wait because the hole map is too long.
    pub blocked_by_map: bool,
    /// Lanes that wait because the hole map might outgrow the limit if they ran.
    pub lanes_behind_map: usize,
    /// Characters of the hole map's text when it was last judged.
    pub map_chars: usize,
    /// Whether something is not committed yet.
    pub dirty: bool,
    /// When the oldest completion that is not committed came, at the latest; `None` without one.
    pub uncommitted_since: Option<Timestamp>,
    /// Whether the broker denies commits.
    pub commit_denied: bool,
    /// Lanes that wait for an attempt of an ended assignment to finish.
    pub stale_lanes: usize,
}

/// One route.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteStatus {
    /// Which route.
    pub route: RouteId,
    /// Mean time of an attempt, lately.
    pub mean_service: Duration,
    /// Records that one worker may hold at the moment.
    pub depth: u32,
    /// Calls at once.
    pub concurrency: u32,
    /// Where its circuit stands, if it has one.
    pub circuit: Option<CircuitState>,
    /// Workers that were one too many and have not finished.
    pub leaving: usize,
}

/// The core at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// Assigned partitions, by slot.
    pub partitions: Vec<PartitionStatus>,
    /// The routes.
    pub routes: Vec<RouteStatus>,
    /// Records in the core and at workers.
    pub records: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Records at workers.
    pub running: usize,
    /// Lanes that hold a record.
    pub lanes: usize,
    /// Lanes that wait for another attempt.
    pub retries: usize,
    /// Whether nothing at all starts for a while, for the sake of the pace.
    pub paced: bool,
    /// Records whose next attempt is due and waits for a worker.
    pub retries_due: usize,
    /// Whether the buffers are full.
    pub full: bool,
    /// Whether they have been full for so long that partitions which hold little are fetched all the same.
    pub reserve_open: bool,
    /// What outputs that are being sent count.
    pub output_bytes: usize,
    /// Records that are done and wait for the transaction that makes them complete, the one under way included.
    pub staged: usize,
    /// Whether no record starts until some of them are acknowledged.
    pub outputs_full: bool,
    /// Limits of the metadata as learned.
    pub limits: Limits,
    /// What has happened since the start.
    pub counters: Counters,
}

impl<P, G: Gate<P>> Core<P, G> {
    /// What has happened since the start.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Records in the core and at workers, and how many of them are at workers.
    pub fn load(&self) -> (usize, usize) {
        (self.totals.records, self.totals.out)
    }

    /// A snapshot. Its cost follows the partitions, the words of their windows and the lanes.
    pub fn status(&self) -> Status {
        let mut stale = vec![0; self.partitions.len()];
        let mut paced = vec![0; self.partitions.len()];
        let (mut retries, mut retries_due) = (0, 0);
        let is_retry = |waiting: &Waiting<P>| waiting.task.at.attempt > 1;
        for lane in self.lanes.iter() {
            match lane.state {
                LaneState::Paced(_) => paced[lane.slot.index()] += 1,
                LaneState::Due(_) => retries += 1,
                LaneState::Ready => {
                    retries_due += usize::from(lane.waiting.front().is_some_and(is_retry));
                }
                _ => {}
            }
            let epoch = self.partitions[lane.slot.index()].epoch;
            if lane.out > 0 && lane.out_epoch != epoch {
                stale[lane.slot.index()] += 1;
            }
        }
        let partitions = self
            .partitions
            .iter()
            .enumerate()
            .filter(|(_, partition)| partition.phase != Phase::Vacant)
            .map(|(index, partition)| PartitionStatus {
                slot: PartitionSlot(index as u32),
                map: partition.tracker.snapshot(),
                next: partition.tracker.next().get(),
                buffered: partition.buffered,
                buffered_bytes: partition.buffered_bytes,
                running: partition.out,
                on_hold: partition.on_hold,
                sends_out: partition.sends_out,
                letters_out: partition.letters_out,
                letters_waiting: partition.letters_waiting,
                paused: partition.paused,
                paused_by_user: partition.paused_by_user,
                lanes_paced: paced[index],
                paced: partition.paced_until.is_some(),
                revoking: partition.phase == Phase::Revoking,
                blocked_by_map: partition.map.over_threshold,
                lanes_behind_map: partition.behind_map.len(),
                map_chars: partition.map.chars,
                dirty: partition.is_dirty(),
                uncommitted_since: Some(partition.committed.since)
                    .filter(|since| *since != Timestamp::NEVER),
                commit_denied: partition.committed.denied,
                stale_lanes: stale[index],
            })
            .collect();
        let routes = self
            .routes
            .iter()
            .enumerate()
            .map(|(index, route)| RouteStatus {
                route: RouteId(index as u16),
                mean_service: route.service.mean(),
                depth: route.depth(),
                concurrency: route.calls,
                circuit: route.circuit.as_ref().map(Circuit::state),
                leaving: route.leaving().count(),
            })
            .collect();
        Status {
            partitions,
            routes,
            records: self.totals.records,
            bytes: self.totals.bytes,
            running: self.totals.out,
            lanes: self.lanes.len(),
            retries,
            retries_due,
            paced: self.pacing.member_until.is_some(),
            reserve_open: self.totals.reserve_open,
            full: self.is_full(),
            output_bytes: self.totals.output_bytes,
            staged: self.totals.staged,
            outputs_full: self.waits_for_outputs
                || self.totals.output_bytes >= self.config.buffers.output_bytes,
            limits: self.commits.limits,
            counters: self.counters,
        }
    }
}
