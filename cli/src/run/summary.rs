//! The closing JSON line and the exit code.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use keyway::{Report, Status};
use serde::Serialize;

use super::handlers::Gauge;
use super::watch::{Cause, End};
use crate::exit;

/// What was done, in the names of the contract.
#[derive(Debug, Serialize)]
struct Summary {
    records: u64,
    seconds: f64,
    seconds_total: f64,
    rate: f64,
    commits: u64,
    failed: u64,
    max_running: u64,
    fetched_bytes: u64,
    processed_bytes: u64,
}

impl Summary {
    fn of_report(report: &Report, gauge: &Gauge) -> Self {
        Self {
            records: report.records,
            seconds: report.running.as_secs_f64(),
            seconds_total: report.assigned.as_secs_f64(),
            rate: rate(report.records, report.running),
            commits: report.commits,
            failed: report.failed,
            max_running: gauge.max_running(),
            fetched_bytes: report.fetched_bytes,
            processed_bytes: gauge.done_bytes(),
        }
    }

    /// What is known of an engine that had to stop: its last status, and the time since its start.
    fn of_status(status: &Status, elapsed: Duration, gauge: &Gauge) -> Self {
        Self {
            records: status.completed,
            seconds: elapsed.as_secs_f64(),
            seconds_total: elapsed.as_secs_f64(),
            rate: rate(status.completed, elapsed),
            commits: status.commits,
            failed: status.failed,
            max_running: gauge.max_running(),
            fetched_bytes: gauge.done_bytes(),
            processed_bytes: gauge.done_bytes(),
        }
    }
}

/// Records a second; 0 when there was no time, since JSON has no other number for it.
fn rate(records: u64, time: Duration) -> f64 {
    if time.is_zero() {
        0.0
    } else {
        records as f64 / time.as_secs_f64()
    }
}

/// Prints the closing line and says how it went.
pub(super) fn conclude(end: &End, status: &Status, gauge: &Gauge) -> ExitCode {
    let summary = match &end.result {
        Ok(report) => Summary::of_report(report, gauge),
        Err(reason) => {
            eprintln!("keyway: {reason}");
            Summary::of_status(status, end.elapsed, gauge)
        }
    };
    let printed = serde_json::to_string(&summary)
        .map_err(io::Error::from)
        .and_then(|line| writeln!(io::stdout(), "{line}"));
    if let Err(error) = printed {
        eprintln!("keyway: the closing line can't be printed: {error}");
    }
    if let Some(fault) = &end.fault {
        eprintln!("keyway: {fault}");
        return exit::negative();
    }
    match &end.result {
        Ok(report) if is_success(end.cause, report) => exit::SUCCESS,
        _ => exit::negative(),
    }
}

fn is_success(cause: Cause, report: &Report) -> bool {
    let orderly = report.all_committed && report.left_running == 0;
    match cause {
        Cause::Idle => orderly && report.left_open == 0,
        // Records that were received and not asked for are no failure.
        Cause::Engine | Cause::Signal => orderly,
        Cause::Fault => false,
    }
}
