//! Every metric's name, once, with its unit and labels. They go through the `metrics` facade, so that the
//! embedder picks the exporter. Counters are published a few times a second from the core's own counts: no
//! record pays for them.

use keyway_core::Counters;
use metrics::{counter, gauge};

use crate::status::{RouteStatus, Status};

/// Records received from the log and not complete yet at that time.
pub const RECORDS_RECEIVED: &str = "keyway_records_received_total";
/// Records completed.
pub const RECORDS_COMPLETED: &str = "keyway_records_completed_total";
/// Records passed over because the restored hole map says that they are complete.
pub const RECORDS_SKIPPED_COMPLETE: &str = "keyway_records_skipped_complete_total";
/// Attempts that failed.
pub const ATTEMPTS_FAILED: &str = "keyway_attempts_failed_total";
/// Records whose last attempt failed.
pub const RECORDS_EXHAUSTED: &str = "keyway_records_exhausted_total";
/// Results dropped because their assignment had ended.
pub const LATE_RESULTS: &str = "keyway_late_results_total";
/// Commit requests acknowledged for at least one partition.
pub const COMMITS: &str = "keyway_commits_total";
/// Commit answers by partition that were no success. Label `answer`.
pub const COMMIT_REFUSALS: &str = "keyway_commit_refusals_total";
/// Committed metadata that was not used. Label `reason`.
pub const METADATA_DISCARDED: &str = "keyway_metadata_discarded_total";
/// Hole maps left out of a commit because they did not fit.
pub const METADATA_STRIPPED: &str = "keyway_metadata_stripped_total";
/// Bytes of the riders in acknowledged commits, a histogram.
pub const RIDER_BYTES: &str = "keyway_rider_bytes";
/// Acknowledged commits of a partition that went without its rider. Label `reason`: no_room, map_stripped (a state
/// without its map would count records twice), no_supplier, state_lost, not_asked (the time was used up before), or a
/// supplier's failure.
pub const RIDER_DROPPED: &str = "keyway_rider_dropped_total";
/// Riders that the application could not give. Label `reason`: panicked, timed_out, busy (an earlier call has not
/// returned), empty, oversized; wrong_update and state_panicked for a handler's update that a state could not take.
pub const RIDER_SUPPLIER_FAILURES: &str = "keyway_rider_supplier_failures_total";
/// Bytes of the hole map for each offset that it covers, a histogram. Not recorded for a caught-up commit.
pub const METADATA_DENSITY: &str = "keyway_metadata_density";
/// Characters of the whole text by the characters that the broker takes, a histogram. Not recorded for a caught-up
/// commit.
pub const METADATA_HEADROOM: &str = "keyway_metadata_headroom";
/// Times that a smaller cap of the metadata was learned from the broker.
pub const METADATA_CAP_LEARNED: &str = "keyway_metadata_cap_learned_total";
/// Times that a partition was paused by back-pressure.
pub const PAUSES: &str = "keyway_pauses_total";
/// Errors of the Kafka client. Label `kind`: transient, denied, fatal.
pub const CLIENT_ERRORS: &str = "keyway_client_errors_total";
/// Times that a circuit opened because attempts failed.
pub const CIRCUITS_OPENED: &str = "keyway_circuits_opened_total";
/// Routes that a circuit holds at the moment, those that make a probe included.
pub const ROUTES_HELD: &str = "keyway_routes_held";
/// Keys whose next record waits for a moment because of the rate of a key.
pub const LANES_PACED: &str = "keyway_lanes_paced";
/// Partitions of which nothing starts for a moment because of their topic's rate.
pub const PARTITIONS_PACED: &str = "keyway_partitions_paced";
/// Records in the engine.
pub const RECORDS_BUFFERED: &str = "keyway_records_buffered";
/// Bytes of these.
pub const BYTES_BUFFERED: &str = "keyway_bytes_buffered";
/// Records handed to workers.
pub const RECORDS_RUNNING: &str = "keyway_records_running";
/// Partitions whose records above the highest complete one wait for the hole map to shrink.
pub const PARTITIONS_BLOCKED_BY_MAP: &str = "keyway_partitions_blocked_by_map";
/// Partitions assigned.
pub const PARTITIONS_ASSIGNED: &str = "keyway_partitions_assigned";

/// Publishes what has changed since the last time.
#[derive(Debug, Default)]
pub(crate) struct Published {
    last: Counters,
}

impl Published {
    pub(crate) fn publish(&mut self, status: &Status, now: Counters) {
        let last = std::mem::replace(&mut self.last, now);
        for (name, now, last) in [
            (RECORDS_RECEIVED, now.received, last.received),
            (RECORDS_COMPLETED, now.completed, last.completed),
            (
                RECORDS_SKIPPED_COMPLETE,
                now.skipped_complete,
                last.skipped_complete,
            ),
            (ATTEMPTS_FAILED, now.failed, last.failed),
            (RECORDS_EXHAUSTED, now.exhausted, last.exhausted),
            (CIRCUITS_OPENED, now.circuits_opened, last.circuits_opened),
            (LATE_RESULTS, now.late_results, last.late_results),
            (COMMITS, now.commits, last.commits),
            (METADATA_STRIPPED, now.maps_stripped, last.maps_stripped),
            (METADATA_CAP_LEARNED, now.caps_learned, last.caps_learned),
            (PAUSES, now.pauses, last.pauses),
        ] {
            if now > last {
                counter!(name).increment(now - last);
            }
        }
        let blocked = status
            .partitions
            .iter()
            .filter(|partition| partition.blocked_by_map)
            .count();
        let held = |route: &&RouteStatus| route.circuit.is_some_and(|circuit| circuit.holds());
        let held = status.routes.iter().filter(held).count();
        let parts = status.partitions.iter();
        let paced = parts.clone().filter(|part| part.paced).count();
        let lanes: usize = parts.map(|part| part.lanes_paced).sum();
        gauge!(ROUTES_HELD).set(held as f64);
        gauge!(PARTITIONS_PACED).set(paced as f64);
        gauge!(LANES_PACED).set(lanes as f64);
        gauge!(RECORDS_BUFFERED).set(status.buffered as f64);
        gauge!(BYTES_BUFFERED).set(status.buffered_bytes as f64);
        gauge!(RECORDS_RUNNING).set(status.running as f64);
        gauge!(PARTITIONS_ASSIGNED).set(status.partitions.len() as f64);
        gauge!(PARTITIONS_BLOCKED_BY_MAP).set(blocked as f64);
    }
}
