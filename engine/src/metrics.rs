//! Every metric's name, once, with its unit and labels. They go through the `metrics` facade, so that the
//! embedder picks the exporter. Counters are published a few times a second from the core's own counts: no
//! record pays for them.

use std::collections::HashMap;

use keyway_core::Counters;
use metrics::{Gauge, counter, gauge};

use crate::causal::CausalStatus;
use crate::health::NotReady;
use crate::kafka::TopicPartition;
use crate::status::{PAUSE_REASONS, PartitionStatus, RouteStatus, Status};

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
/// Records completed by the acknowledgement of their outputs.
pub const RECORDS_SENT: &str = "keyway_records_sent_total";
/// Times that outputs of a record could not be sent; that is a failed attempt.
pub const SEND_FAILURES: &str = "keyway_send_failures_total";
/// Records completed by a dead letter.
pub const DEAD_LETTERS: &str = "keyway_dead_letters_total";
/// Times that a dead letter could not be written; it is tried again.
pub const DEAD_LETTER_FAILURES: &str = "keyway_dead_letter_failures_total";
/// Results dropped because their assignment had ended.
pub const LATE_RESULTS: &str = "keyway_late_results_total";
/// Commit requests acknowledged for at least one partition.
pub const COMMITS: &str = "keyway_commits_total";
/// Transactions of which there is an answer. Label `outcome`: committed, aborted.
pub const TRANSACTIONS: &str = "keyway_transactions_total";
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
/// Records whose outputs are being sent.
pub const RECORDS_SENDING: &str = "keyway_records_sending";
/// Records that are done and wait for their transaction.
pub const RECORDS_STAGED: &str = "keyway_records_staged";
/// What outputs that are being sent, or wait for their transaction, count: their bytes, and 256 for each.
pub const OUTPUT_BYTES: &str = "keyway_output_bytes";
/// Records whose dead letter is not acknowledged yet: being written, or waiting for another try.
pub const DEAD_LETTERS_OPEN: &str = "keyway_dead_letters_open";
/// Partitions whose records above the highest complete one wait for the hole map to shrink.
pub const PARTITIONS_BLOCKED_BY_MAP: &str = "keyway_partitions_blocked_by_map";
/// Partitions of which nothing is fetched, or nothing above the highest complete offset starts. Label `reason`: user,
/// partition_buffer, total_buffer, map; one partition may have several.
pub const PARTITIONS_PAUSED: &str = "keyway_partitions_paused";
/// Offsets of a partition's log that are not complete, as far as the last fetch knows its end. Labels `topic` and
/// `partition`.
pub const LAG: &str = "keyway_lag_offsets";
/// The same, of all assigned partitions together.
pub const LAG_TOTAL: &str = "keyway_lag_total_offsets";
/// For how long the oldest completion has waited for its commit, in seconds; 0 when all is committed.
pub const COMMIT_AGE: &str = "keyway_commit_age_seconds";
/// For how long the oldest call of a handler has been running, in seconds; 0 without one.
pub const OLDEST_RUNNING: &str = "keyway_oldest_running_seconds";
/// For how long assigned partitions have waited for what the group had committed, in seconds; 0 when none waits.
pub const RESTORING: &str = "keyway_restoring_seconds";
/// Records that wait for another attempt, those on hold included.
pub const RETRIES_WAITING: &str = "keyway_retries_waiting";
/// Records whose next attempt is due and waits for a free call.
pub const RETRIES_DUE: &str = "keyway_retries_due";
/// Calls of handlers that do not return.
pub const CALLS_STUCK: &str = "keyway_calls_stuck";
/// Of these, calls in whose place another may be made.
pub const CALLS_REPLACED: &str = "keyway_calls_replaced";
/// Whether the member is ready: 1, or 0.
pub const READY: &str = "keyway_ready";
/// Why it is not: 1 for each reason that holds, else 0. Label `reason`:
/// [`NotReady::name`](crate::NotReady::name).
pub const NOT_READY: &str = "keyway_not_ready";
/// Partitions assigned.
pub const PARTITIONS_ASSIGNED: &str = "keyway_partitions_assigned";

/// Records that wait for their causes.
pub const CAUSAL_HELD: &str = "keyway_causal_held";
/// For how long the longest of them has waited, in seconds; 0 when none does.
pub const CAUSAL_LONGEST_HOLD: &str = "keyway_causal_longest_hold_seconds";
/// Channels that a stamp names.
pub const CAUSAL_FRONTIER_CHANNELS: &str = "keyway_causal_frontier_channels";
/// Bytes of a stamp: of the header `parsley.causes` of what is sent.
pub const CAUSAL_STAMP_BYTES: &str = "keyway_causal_stamp_bytes";
/// Bytes of the largest causal shard beside an offset.
pub const CAUSAL_SHARD_BYTES: &str = "keyway_causal_shard_bytes";
/// Whether sending is refused because what was learned may be lost: 1, or 0.
pub const CAUSAL_SENDS_REFUSED: &str = "keyway_causal_sends_refused";

/// Publishes what has changed since the last time.
#[derive(Default)]
pub(crate) struct Published {
    last: Counters,
    /// Held, so that a partition's series is looked up once.
    lags: HashMap<TopicPartition, Gauge>,
}

impl Published {
    pub(crate) fn publish(&mut self, status: &Status, now: &Counters) {
        self.counters(now);
        self.lags(status);
        loads(status);
        if let Some(causal) = &status.causal {
            causality(causal);
        }
        states(status);
    }

    fn counters(&mut self, now: &Counters) {
        let last = std::mem::replace(&mut self.last, *now);
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
            (RECORDS_SENT, now.sent, last.sent),
            (SEND_FAILURES, now.sends_failed, last.sends_failed),
            (DEAD_LETTERS, now.dead_letters, last.dead_letters),
            (
                DEAD_LETTER_FAILURES,
                now.dead_letters_failed,
                last.dead_letters_failed,
            ),
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
    }

    fn lags(&mut self, status: &Status) {
        gauge!(LAG_TOTAL).set(status.lag() as f64);
        let lags = &mut self.lags;
        for (partition, lag) in status
            .partitions
            .iter()
            .filter_map(|part| Some((&part.partition, part.lag()?)))
        {
            if !lags.contains_key(partition) {
                let topic = partition.topic.to_string();
                let number = partition.partition.to_string();
                let series = gauge!(LAG, "topic" => topic, "partition" => number);
                lags.insert(partition.clone(), series);
            }
            lags[partition].set(lag as f64);
        }
        if lags.len() > status.partitions.len() {
            let is_left = |partition: &TopicPartition| {
                !status
                    .partitions
                    .iter()
                    .any(|part| part.partition == *partition)
            };
            // Whoever has it now tells of it.
            lags.retain(|partition, series| {
                let left = is_left(partition);
                if left {
                    series.set(0.0);
                }
                !left
            });
        }
    }
}

/// How much there is of everything.
fn loads(status: &Status) {
    let parts = status.partitions.iter();
    let blocked = parts.clone().filter(|part| part.blocked_by_map);
    let paced = parts.clone().filter(|part| part.paced);
    let held = |route: &&RouteStatus| route.circuit.is_some_and(|circuit| circuit.holds());
    for (name, value) in [
        (RECORDS_BUFFERED, status.buffered),
        (BYTES_BUFFERED, status.buffered_bytes),
        (RECORDS_RUNNING, status.running),
        (PARTITIONS_ASSIGNED, status.partitions.len()),
        (PARTITIONS_BLOCKED_BY_MAP, blocked.count()),
        (PARTITIONS_PACED, paced.count()),
        (LANES_PACED, parts.map(|part| part.lanes_paced).sum()),
        (ROUTES_HELD, status.routes.iter().filter(held).count()),
        (RECORDS_SENDING, status.sending),
        (RECORDS_STAGED, status.staged),
        (OUTPUT_BYTES, status.output_bytes),
        (
            DEAD_LETTERS_OPEN,
            status.dead_letters_being_written + status.dead_letters_waiting,
        ),
        (RETRIES_WAITING, status.retries),
        (RETRIES_DUE, status.retries_due),
        (CALLS_STUCK, status.stuck),
        (CALLS_REPLACED, status.replaced),
    ] {
        gauge!(name).set(value as f64);
    }
    for (name, value) in [
        (COMMIT_AGE, status.commit_age()),
        (OLDEST_RUNNING, status.oldest_running),
        (RESTORING, status.restoring_for),
    ] {
        gauge!(name).set(value.unwrap_or_default().as_secs_f64());
    }
}

fn causality(causal: &CausalStatus) {
    for (name, value) in [
        (CAUSAL_HELD, causal.held),
        (CAUSAL_FRONTIER_CHANNELS, causal.frontier_channels),
        (CAUSAL_STAMP_BYTES, causal.stamp_bytes),
        (CAUSAL_SHARD_BYTES, causal.shard_bytes),
        (
            CAUSAL_SENDS_REFUSED,
            usize::from(causal.sends_refused.is_some()),
        ),
    ] {
        gauge!(name).set(value as f64);
    }
    let longest = causal.longest_hold.unwrap_or_default();
    gauge!(CAUSAL_LONGEST_HOLD).set(longest.as_secs_f64());
}

/// What holds, as 1 or 0.
fn states(status: &Status) {
    let flag = |holds: bool| f64::from(u8::from(holds));
    gauge!(READY).set(flag(status.health.is_ready()));
    for name in NotReady::NAMES {
        let holds = status.health.not_ready.iter().any(|why| why.name() == name);
        gauge!(NOT_READY, "reason" => name).set(flag(holds));
    }
    for reason in PAUSE_REASONS {
        let is_paused =
            |part: &&PartitionStatus| part.pauses(status.reserve_open).any(|why| why == reason);
        let paused = status.partitions.iter().filter(is_paused).count();
        gauge!(PARTITIONS_PAUSED, "reason" => reason).set(paused as f64);
    }
}
