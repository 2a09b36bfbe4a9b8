//! The end in order: commit, let finish what shall finish, commit again, leave.
//!
//! Both ways commit first, go on committing while they wait, and commit at the end, so that a kill in between
//! repeats only what was running. A drain becomes a stop shortly before its time is up: as long as handlers are called
//! there is always something new to commit, and what they are at then would run again.

use std::time::{Duration, Instant};

use keyway_core::{CommitReason, Timestamp};

use super::{PollLoop, log_refusal};
use crate::kafka::{LeaveOutcome, StaticMember};
use crate::stop::{Report, StopReason};
use crate::workers::guarded;

/// An end that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shutdown {
    /// Finish what is buffered, or only what runs.
    finish: Finish,
    /// When nothing more is started.
    starts_until: Instant,
    deadline: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    Buffered,
    Running,
}

/// How long leaving the group may take beyond the rest: the coordinator answers in milliseconds if at all.
const LEAVE: Duration = Duration::from_secs(5);

/// How long the workers' threads may take to end once nothing is to run: they are inside no handler then.
const JOIN: Duration = Duration::from_secs(1);

/// How long before its time is up a drain starts nothing more: enough for most handlers to return.
const LAST_OF_A_DRAIN: Duration = Duration::from_secs(1);

/// For how long a drain of so much time starts what is buffered: all of it but the last tenth, or the last second.
pub(crate) fn starts_within(drain: Duration) -> Duration {
    drain - LAST_OF_A_DRAIN.min(drain / 10)
}

impl Shutdown {
    pub(super) fn drain(deadline: Instant) -> Self {
        let now = Instant::now();
        Self {
            finish: Finish::Buffered,
            starts_until: now + starts_within(deadline.saturating_duration_since(now)),
            deadline,
        }
    }

    pub(super) fn stop(deadline: Instant) -> Self {
        Self {
            finish: Finish::Running,
            starts_until: Instant::now(),
            deadline,
        }
    }
}

impl PollLoop {
    /// Begins an end, or makes the one under way shorter: a stop ends a drain.
    pub(super) fn begin_shutdown(&mut self, wanted: Shutdown, now: Timestamp) {
        let first = self.state.shutdown.is_none();
        match &mut self.state.shutdown {
            Some(under_way) => {
                if wanted.finish == Finish::Buffered || under_way.finish == Finish::Running {
                    under_way.starts_until = under_way.starts_until.min(wanted.starts_until);
                    under_way.deadline = under_way.deadline.min(wanted.deadline);
                    return;
                }
                *under_way = wanted;
            }
            None => self.state.shutdown = Some(wanted),
        }
        tracing::info!(finish = ?wanted.finish, "ending");
        match wanted.finish {
            Finish::Buffered => self.core.begin_drain(now),
            Finish::Running => {
                self.core.begin_stop();
                self.take_all_back(now);
            }
        }
        if first {
            let assigned: Vec<_> = self
                .slots
                .assigned()
                .map(|(_, name)| name.clone())
                .collect();
            if !assigned.is_empty() {
                log_refusal(self.source.pause(&assigned));
            }
            self.core.commit_now(CommitReason::Shutdown, None, now);
        }
        self.carry_out(now);
    }

    /// Says whether the end has come.
    pub(super) fn progress_shutdown(&mut self, now: Timestamp) -> bool {
        let Some(mut shutdown) = self.state.shutdown else {
            return false;
        };
        if shutdown.finish == Finish::Buffered && Instant::now() >= shutdown.starts_until {
            shutdown = Shutdown::stop(shutdown.deadline);
            self.begin_shutdown(shutdown, now);
        }
        let time_is_up = Instant::now() >= shutdown.deadline;
        let finished = match shutdown.finish {
            Finish::Buffered => {
                let left = shutdown
                    .starts_until
                    .saturating_duration_since(Instant::now());
                self.core.is_drained(now.after(left))
            }
            Finish::Running => self.core.is_all_quiet(),
        };
        if !finished && !time_is_up {
            return false;
        }
        self.core.begin_last_commit();
        if self.core.is_all_settled() {
            return true;
        }
        if Instant::now() >= shutdown.deadline + self.commit_timeout {
            tracing::warn!("the last commit has no answer in time: what it held may run again");
            return true;
        }
        self.core.commit_now(CommitReason::Shutdown, None, now);
        self.carry_out(now);
        false
    }

    /// What is left to do after the last turn.
    pub(super) fn end(mut self) -> Result<Report, StopReason> {
        let now = self.now();
        if self.state.abandoned {
            self.source.abandon();
            for pool in &mut self.pools {
                pool.close();
            }
            return Err(StopReason::Abandoned);
        }
        let mut report = self.report(now);
        // The last word of the status, and of the metrics after the end: not ready.
        self.state.published_at = Timestamp::ZERO;
        self.publish(now);
        self.end_rebalancing();
        let assigned: Vec<_> = self
            .slots
            .assigned()
            .map(|(slot, name)| (slot, name.clone()))
            .collect();
        for (_, name) in &assigned {
            if let Some(observer) = &self.observer {
                guarded(|| observer.revoked(name));
            }
        }
        self.let_go(&assigned);
        let outcome = self
            .source
            .leave(Instant::now() + LEAVE, StaticMember::Stays);
        match &outcome {
            LeaveOutcome::Left => {}
            LeaveOutcome::Unfinished => {
                tracing::warn!("leaving the group goes on behind the scenes");
            }
            LeaveOutcome::Fatal(error) => tracing::warn!(%error, "the group was not left"),
        }
        let deadline = Instant::now() + JOIN;
        report.left_running = self.pools.iter_mut().map(|pool| pool.join(deadline)).sum();
        match self.state.stop_reason.take() {
            Some(reason) => Err(reason),
            None => Ok(report),
        }
    }

    fn report(&self, now: Timestamp) -> Report {
        let counters = self.core.counters();
        let (open, _) = self.core.load();
        let running = match (self.state.first_received, self.state.last_completion) {
            (Some(first), Some(last)) => last.since(first),
            _ => Duration::ZERO,
        };
        Report {
            records: counters.completed,
            failed: counters.failed,
            commits: counters.commits,
            running,
            assigned: self
                .state
                .first_assigned
                .map_or(Duration::ZERO, |first| now.since(first)),
            fetched_bytes: self.source.fetched_bytes(),
            left_open: open,
            left_running: 0,
            all_committed: self.core.is_all_committed() && !self.state.left_uncommitted,
        }
    }
}
