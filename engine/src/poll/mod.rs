//! The poll thread: it owns the source and the core, and nothing else does.
//!
//! ```text
//!   one turn:  inbox and reports --> core --> commands carried out
//!              wait: source.poll (woken by reports and messages), or for a report while full
//!              records --> core --> commands carried out
//!              events  --> rebalance
//! ```
//!
//! Nothing here waits for a broker or a handler: commits and restores are asked of threads of their own, and
//! their answers come back through the inbox.

mod calls;
mod causal;
mod commits;
mod deliver;
mod denials;
mod health;
mod identities;
mod inbox;
mod letters;
mod look;
mod outputs;
mod pauses;
mod rebalance;
mod repeats;
mod restore;
mod shutdown;
mod slots;
mod tokens;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use keyway_core::{
    Arrival, Command, CommitMark, CommitReason, Core, PartitionSlot, RouteId, Task, Timestamp,
    WorkerIndex,
};
use keyway_offsets::Offset;

use self::calls::Calls;
pub(crate) use self::calls::Watch;
use self::causal::CausalState;
pub(crate) use self::causal::Questions;
pub(crate) use self::commits::Commits;
use self::denials::Denials;
use self::identities::Identities;
pub(crate) use self::inbox::{Inbound, Inbox, InboxSender, inbox};
pub(crate) use self::look::{Look, Looker};
use self::outputs::SendError;
pub(crate) use self::outputs::Writes;
use self::pauses::Pauses;
pub(crate) use self::pauses::Which;
use self::rebalance::Rebalancing;
use self::repeats::Repeats;
pub(crate) use self::restore::{RestoreJob, RestorePolicy, Restorer};
use self::shutdown::Shutdown;
pub(crate) use self::shutdown::starts_within;
pub(crate) use self::slots::{Slots, panic_text};
pub(crate) use self::tokens::{TokenProvider, Tokens, token_provider};
use crate::causal::EngineGate;
use crate::circuit::CircuitStatus;
use crate::commits::Owned;
use crate::context::Member;
use crate::health::Pulse;
use crate::kafka::{ClientError, GroupClient, NativeRecord, Source, SourceEvent, TopicPartition};
use crate::limits::{Change, Rates};
use crate::metrics::{self, Published};
use crate::observer::Observer;
use crate::record::Message;
use crate::riders::RiderSettings;
use crate::status::{PartitionStatus, RouteStatus, Status};
use crate::stop::{CommitError, Report, StopReason};
use crate::workers::{Reports, WorkerPool};

/// Most records taken in one turn: enough that what a turn costs is shared by many, few enough that reports
/// are looked at every few hundred microseconds.
const POLL_RECORDS: usize = 1_000;

/// The longest sleep, so that a lost wake-up could only ever cost this much.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// While a worker is inside an attempt with others queued behind it, it is looked at this often.
const LOOK_AT_WORKERS: Duration = Duration::from_millis(1);

/// Between two status snapshots.
const STATUS_EVERY: Duration = Duration::from_millis(250);

/// Everything that the poll thread is made of.
pub(crate) struct PollLoop {
    pub(crate) core: Core<Message, EngineGate>,
    pub(crate) source: Source,
    pub(crate) group: GroupClient,
    pub(crate) slots: Slots,
    pub(crate) member: Arc<Member>,
    pub(crate) pools: Vec<WorkerPool>,
    pub(crate) rates: Rates,
    /// When the calls of each route are stuck.
    pub(crate) watches: Vec<Watch>,
    pub(crate) reports: Reports,
    pub(crate) inbox: Inbox,
    pub(crate) commits: Commits,
    pub(crate) restores: Sender<RestoreJob>,
    pub(crate) looks: Sender<Look>,
    /// Who is asked what the causal layer has to know.
    pub(crate) questions: Questions,
    /// Topics subscribed to by their names.
    pub(crate) named_topics: Vec<Arc<str>>,
    pub(crate) owned: Arc<Owned>,
    /// Who sends outputs and writes dead letters.
    pub(crate) writes: Writes,
    /// Who is asked for OAUTHBEARER's tokens.
    pub(crate) tokens: Option<Tokens<GroupClient>>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    pub(crate) riders: RiderSettings,
    pub(crate) status: Arc<Mutex<Arc<Status>>>,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) revoke_wait: Duration,
    pub(crate) commit_timeout: Duration,
    pub(crate) record_limit: Option<u64>,
    /// Whether the group protocol gives fences: not to a static member, whose restart leaves the generation.
    pub(crate) fences: bool,
    pub(crate) state: LoopState,
}

/// What changes from turn to turn.
#[derive(Default)]
pub(crate) struct LoopState {
    rebalancing: Rebalancing,
    causal: CausalState,
    shutdown: Option<Shutdown>,
    stop_reason: Option<StopReason>,
    /// A partition left while the engine was ending, and something complete of it was not committed.
    left_uncommitted: bool,
    abandoned: bool,
    /// What the user has paused.
    pauses: Pauses,
    /// Those who wait for a commit, with what they mean by it.
    commit_waiters: Vec<CommitWaiter>,
    records: Vec<NativeRecord>,
    arrivals: Vec<Arrival<Message>>,
    /// Partitions of which the rest of a poll's records was given back.
    given_back: Vec<PartitionSlot>,
    taken_back: Vec<Task<Message>>,
    looked_at_workers: Timestamp,
    published: Published,
    published_at: Timestamp,
    active_at: Timestamp,
    last_completed: u64,
    first_assigned: Option<Timestamp>,
    first_received: Option<Timestamp>,
    last_completion: Option<Timestamp>,
    denials: Denials,
    calls: Calls,
    /// The cluster has been asked for its topics.
    looking: bool,
    identities: Identities,
    /// Why outputs could not be sent, by topic.
    send_errors: BTreeMap<String, SendError>,
    /// Why the last dead letter could not be written, and since when none could.
    letter_error: Option<(ClientError, Timestamp)>,
    repeats: Repeats,
    full_since_poll: Timestamp,
}

struct CommitWaiter {
    mark: CommitMark,
    deadline: Instant,
    reply: Sender<Result<(), CommitError>>,
}

impl PollLoop {
    /// Runs until the end.
    pub(crate) fn run(mut self) -> Result<Report, StopReason> {
        loop {
            let now = self.now();
            self.pulse.beat(now);
            self.take_messages(now);
            self.take_reports(now);
            if now >= self.core.next_deadline() {
                self.core.tick(now);
            }
            self.carry_out(now);
            self.progress_causal(now);
            self.heed_causal(now);
            self.progress_rebalance(now);
            self.stop_at_limit(now);
            if self.progress_shutdown(now) || self.state.abandoned {
                break;
            }
            self.free_queues(now);
            self.carry_out(now);
            self.answer_commit_waiters(now);
            self.publish(now);
            self.receive();
            self.take_events();
        }
        self.end()
    }

    fn now(&self) -> Timestamp {
        self.member.clock().now()
    }

    fn take_messages(&mut self, now: Timestamp) {
        while let Some(message) = self.inbox.next() {
            match message {
                Inbound::Committed(finished) => self.committed(&finished, now),
                Inbound::Transacted(transacted) => self.transacted(*transacted, now),
                Inbound::Restored(answer) => self.take_restored(answer, now),
                Inbound::Causal(answer) => self.take_causal(answer, now),
                Inbound::Looked(topics) => {
                    self.state.looking = false;
                    if let Some(topics) = topics {
                        self.state.denials.answered(&topics);
                    }
                }
                Inbound::Identified(answer) => self.take_identities(&answer, now),
                Inbound::Drain { deadline } => self.begin_shutdown(Shutdown::drain(deadline), now),
                Inbound::Stop { deadline } => self.begin_shutdown(Shutdown::stop(deadline), now),
                Inbound::Commit { deadline, reply } => self.request_commit(deadline, reply, now),
                Inbound::OutputsAcknowledged { sent, healed } => {
                    self.outputs_acknowledged(sent, &healed, now);
                }
                Inbound::OutputsFailed { sending, failure } => {
                    self.outputs_failed(sending, failure, now);
                }
                Inbound::OutputsNotSent(sending) => self.core.outputs_not_sent(sending, now),
                Inbound::LetterWritten(at) => self.letter_written(at, now),
                Inbound::LetterFailed {
                    letter,
                    topic,
                    error,
                } => self.letter_failed(letter, &topic, error, now),
                Inbound::Pause(which) => {
                    self.state.pauses.pause(&which);
                    self.apply_pauses(now);
                }
                Inbound::Resume(which) => {
                    self.state.pauses.resume(&which);
                    self.apply_pauses(now);
                }
                Inbound::Limit(change) => self.change_limit(&change, now),
                Inbound::Abandon => self.state.abandoned = true,
            }
        }
    }

    fn change_limit(&mut self, change: &Change, now: Timestamp) {
        tracing::info!(?change, "a limit changes");
        match change {
            Change::Concurrency(route, calls) => self.core.set_concurrency(*route, *calls, now),
            _ => self.rates.change(change, &mut self.core, now),
        }
    }

    /// Brings what is assigned in line with what the user has paused.
    pub(super) fn apply_pauses(&mut self, now: Timestamp) {
        let assigned: Vec<_> = self
            .slots
            .assigned()
            .map(|(slot, name)| (slot, self.state.pauses.holds(name)))
            .collect();
        for (slot, is_paused) in assigned {
            match is_paused {
                true => self.core.pause_by_user(slot),
                false => self.core.resume_by_user(slot, now),
            }
        }
    }

    fn take_reports(&mut self, now: Timestamp) {
        while let Some(report) = self.reports.try_next() {
            self.take_report(report, now);
        }
        let completed = self.core.counters().completed;
        if completed != self.state.last_completed {
            self.state.last_completed = completed;
            self.state.last_completion = Some(now);
        }
    }

    fn take_report(&mut self, report: keyway_core::Report<Message>, now: Timestamp) {
        let spent = self.core.completed(report, now);
        self.reports.recycle(spent);
    }

    fn carry_out(&mut self, now: Timestamp) {
        self.tell_of_holds();
        let (mut pause, mut resume, mut take_back) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(command) = self.core.next_command() {
            match command {
                Command::Dispatch {
                    route,
                    worker,
                    work,
                } => {
                    if let Some(spent) = self.pools[route.index()].dispatch(worker, work) {
                        self.core.recycle(spent);
                    }
                }
                Command::Reopen {
                    route,
                    worker,
                    lane,
                } => self.pools[route.index()].reopen(worker, lane),
                Command::TakeBack { route, worker } => take_back.push((route, worker)),
                Command::Retire { route, worker } => self.pools[route.index()].retire(worker),
                Command::Commit(plan) => self.commit(plan),
                Command::Transact(transaction) => self.transact(transaction, now),
                // The later of the two holds.
                Command::Pause(slot) => {
                    let name = self.slots.partition(slot).clone();
                    resume.retain(|resumed| *resumed != name);
                    pause.push(name);
                }
                Command::Resume(slot) => {
                    let name = self.slots.partition(slot).clone();
                    pause.retain(|paused| *paused != name);
                    resume.push(name);
                }
                Command::Stop(cause) => {
                    if let Some(reason) = self.slots.stop_reason(cause) {
                        self.stop_because(reason, now);
                    }
                }
                Command::Circuit { route, state } => self.slots.circuit_turned(route, state, now),
                Command::OnHold { at, without_topic } => self.slots.on_hold(&at, without_topic),
                Command::PassedOver { at, payload } => {
                    let observer = self.observer.as_deref();
                    self.slots.passed_over(&at, payload, observer, &self.member);
                }
                Command::Send(sending) => self.send_outputs(sending, now),
                Command::WriteDeadLetter(letter) => self.write_letter(letter, now),
                Command::StateLost {
                    slot,
                    offset,
                    fault,
                } => self.slots.state_lost(slot, offset, fault),
                other => tracing::error!(?other, "a command that this engine does not know"),
            }
        }
        if !self.writes.give_over() {
            // It ends only after this thread, unless it has met a defect: nothing with outputs would ever be complete.
            self.stop_because(StopReason::Defect("the writer has ended".to_owned()), now);
        }
        if !pause.is_empty() {
            tracing::debug!(?pause, "paused by back-pressure");
            log_refusal(self.source.pause(&pause));
        }
        // While it stops the member fetches nothing.
        if !resume.is_empty() && self.state.shutdown.is_none() {
            tracing::debug!(?resume, "fetched again");
            log_refusal(self.source.resume(&resume));
        }
        for (route, worker) in take_back {
            self.take_back(route, worker, now);
        }
    }

    /// Begins an orderly end for a reason that [`Engine::wait`](crate::Engine::wait) will give.
    fn stop_because(&mut self, reason: StopReason, now: Timestamp) {
        if self.state.stop_reason.is_none() {
            tracing::error!(%reason, "the engine stops");
            self.state.stop_reason = Some(reason);
        }
        self.begin_shutdown(Shutdown::stop(Instant::now() + self.commit_timeout), now);
    }

    /// Takes back what is queued behind a slow attempt.
    fn free_queues(&mut self, now: Timestamp) {
        if now.since(self.state.looked_at_workers) < LOOK_AT_WORKERS {
            return;
        }
        self.state.looked_at_workers = now;
        while let Some((route, worker)) = self.core.next_laden(|route, worker| {
            let since = self.pools[route.index()].running_since(worker);
            since.is_some_and(|since| now.since(since) >= LOOK_AT_WORKERS)
        }) {
            self.take_back(route, worker, now);
        }
    }

    /// Takes back what a worker has not started.
    ///
    /// The core is told of it before it is told of any result that came with it or lies in the channel. With a
    /// result first it would let the rest of that record's lane follow to the worker, past the records that are
    /// in this function's hands.
    fn take_back(&mut self, route: RouteId, worker: WorkerIndex, now: Timestamp) {
        let mut tasks = std::mem::take(&mut self.state.taken_back);
        self.pools[route.index()].take_back(worker, &mut tasks);
        self.core.taken_back(route, worker, &mut tasks, now);
        self.state.taken_back = tasks;
        // What the worker had finished makes room there, for which the core may send more: it is looked at, and
        // taken back from, again.
        self.take_reports(now);
        self.carry_out(now);
    }

    /// Takes back everything that is queued, so that what leaves does not wait behind what stays.
    fn take_all_back(&mut self, now: Timestamp) {
        for route in 0..self.pools.len() {
            let route = RouteId(route as u16);
            for worker in 0..self.core.workers(route) {
                let worker = WorkerIndex(worker);
                if self.core.holds_more_than_one(route, worker) {
                    self.take_back(route, worker, now);
                }
            }
        }
    }

    /// Waits for records, a wake-up or a deadline, and takes what came.
    fn receive(&mut self) {
        let now = self.now();
        let timeout = self.sleep_time(now);
        let mut records = std::mem::take(&mut self.state.records);
        if self.core.is_full() {
            // One record now and then, so that the client's callbacks are served.
            // An acknowledgement of outputs does not end this wait.
            let timeout = match self.core.is_writing() {
                true => timeout.min(LOOK_AT_WORKERS),
                false => timeout,
            };
            let deadline = Instant::now() + timeout;
            if let Some(report) = self.reports.next_before(deadline) {
                self.take_report(report, self.now());
            }
            let now = self.now();
            if now.since(self.state.full_since_poll) >= LONGEST_SLEEP {
                self.state.full_since_poll = now;
                self.source.poll(1, Duration::ZERO, &mut records);
            }
        } else {
            // Nobody waits for a report unless something may follow from it.
            let awaits_reports = self.awaits_reports();
            let may_sleep = (!awaits_reports || self.reports.may_sleep()) && self.inbox.may_sleep();
            let timeout = if may_sleep { timeout } else { Duration::ZERO };
            let most = POLL_RECORDS.min(self.core.room_for_records());
            self.source.poll(most, timeout, &mut records);
            self.reports.awake();
            self.inbox.awake();
        }
        if !records.is_empty() {
            let now = self.now();
            self.take_reports(now);
            self.deliver(&mut records, now);
            self.carry_out(now);
        }
        self.state.records = records;
    }

    fn awaits_reports(&self) -> bool {
        let (records, running) = self.core.load();
        records > running
            || self.core.has_outputs()
            || self.state.shutdown.is_some()
            || self.state.rebalancing.is_under_way()
            || self.record_limit.is_some()
            || self.core.commits_at_once()
    }

    fn sleep_time(&self, now: Timestamp) -> Duration {
        let mut sleep = self.core.next_deadline().since(now).min(LONGEST_SLEEP);
        if self.core.is_laden() {
            sleep = sleep.min(LOOK_AT_WORKERS);
        }
        sleep
    }

    /// Takes the events that came with the records, after them.
    fn take_events(&mut self) {
        let now = self.now();
        while let Some(event) = self.source.next_event() {
            match event {
                SourceEvent::Assign(_) | SourceEvent::Revoke(_) | SourceEvent::Lost(_) => {
                    self.take_rebalance(event, now);
                }
                SourceEvent::EndOfPartition { tp, offset } => {
                    self.take_position(&tp, offset, now);
                }
                SourceEvent::OffsetOutOfRange { tp, offset, error } => {
                    self.state.denials.read(&tp);
                    tracing::warn!(partition = %tp, offset, %error, "the position is not in the log: restoring anew");
                    self.restore_anew(&[tp], false, now);
                }
                SourceEvent::TokenRefresh => {
                    // Without a provider librdkafka does not ask.
                    if let Some(tokens) = &self.tokens {
                        tokens.ask();
                    }
                }
                SourceEvent::PartitionError { tp, error } => {
                    self.take_error(error, Some(&tp), now);
                }
                SourceEvent::Error(error) => self.take_error(error, None, now),
            }
        }
    }

    fn take_position(&mut self, partition: &TopicPartition, offset: i64, now: Timestamp) {
        self.state.denials.read(partition);
        let Some(slot) = self.slots.find(partition) else {
            return;
        };
        if let (Some(epoch), Some(offset)) = (self.slots.epoch(slot), Offset::new(offset)) {
            self.core.position_reached(slot, epoch, offset, now);
        }
    }

    fn take_error(
        &mut self,
        error: ClientError,
        partition: Option<&TopicPartition>,
        now: Timestamp,
    ) {
        let is_news = self.state.denials.note(&error, partition, now);
        let kind = match &error {
            ClientError::Transient { .. } | ClientError::Closed => "transient",
            ClientError::Denied { .. } => "denied",
            ClientError::Fatal { .. } => "fatal",
        };
        ::metrics::counter!(metrics::CLIENT_ERRORS, "kind" => kind).increment(1);
        match error {
            ClientError::Denied { .. } if is_news => {
                tracing::error!(%error, ?partition, "denied; tried again until it works");
            }
            ClientError::Denied { .. } => {}
            ClientError::Fatal { .. } => self.stop_because(StopReason::Client(error), now),
            ClientError::Transient { ref code, .. } => {
                if self.state.repeats.say(code.number, now) {
                    tracing::warn!(%error, "the client goes on trying");
                }
            }
            ClientError::Closed => tracing::warn!(%error, "the client goes on trying"),
        }
    }

    fn request_commit(
        &mut self,
        deadline: Instant,
        reply: Sender<Result<(), CommitError>>,
        now: Timestamp,
    ) {
        // What a handler has finished counts, also where its worker has not come to report it.
        self.take_all_back(now);
        self.take_reports(now);
        let mark = self.core.mark();
        self.core.commit_now(CommitReason::Requested, None, now);
        self.state.commit_waiters.push(CommitWaiter {
            mark,
            deadline,
            reply,
        });
    }

    fn answer_commit_waiters(&mut self, now: Timestamp) {
        let core = &self.core;
        self.state.commit_waiters.retain(|waiter| {
            let answer = if core.is_stored(&waiter.mark) {
                Ok(())
            } else if Instant::now() >= waiter.deadline {
                Err(CommitError::TimedOut)
            } else {
                return true;
            };
            // Whoever asked may have gone.
            let _ = waiter.reply.send(answer);
            false
        });
        if !self.state.commit_waiters.is_empty() {
            self.core.commit_now(CommitReason::Requested, None, now);
            self.carry_out(now);
        }
    }

    fn stop_at_limit(&mut self, now: Timestamp) {
        if self
            .record_limit
            .is_some_and(|limit| self.core.counters().completed >= limit)
        {
            self.begin_shutdown(Shutdown::stop(Instant::now() + self.commit_timeout), now);
        }
    }

    fn publish(&mut self, now: Timestamp) {
        if !self.core.is_idle()
            || self.state.first_assigned.is_none()
            || self.state.rebalancing.is_under_way()
        {
            self.state.active_at = now;
        }
        if now.since(self.state.published_at) < STATUS_EVERY {
            return;
        }
        self.state.published_at = now;
        self.try_again(now);
        self.identify(now);
        self.watch_calls(now);
        let status = self.make_status(now);
        let counters = self.core.counters();
        self.state.published.publish(&status, &counters);
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(status);
    }

    fn route_status(&self, route: &keyway_core::RouteStatus, now: Timestamp) -> RouteStatus {
        RouteStatus {
            topic: self.slots.topic_of_route(route.route).map(str::to_owned),
            concurrency: route.concurrency,
            circuit: route.circuit.map(|state| CircuitStatus::of(state, now)),
            leaving: route.leaving,
        }
    }

    fn make_status(&mut self, now: Timestamp) -> Status {
        let causal = self.causal_status(now);
        let core = self.core.status();
        let counters = core.counters;
        let letters_out: usize = core.partitions.iter().map(|part| part.letters_out).sum();
        let letters_waiting: usize = core
            .partitions
            .iter()
            .map(|part| part.letters_waiting)
            .sum();
        let letter_error = self.letter_error(&core).map(|(error, _)| error);
        let idle = (self.core.is_idle()
            && self.state.first_assigned.is_some()
            && !self.state.rebalancing.is_under_way())
        .then(|| {
            let last = self.state.last_completion.unwrap_or(Timestamp::ZERO);
            now.since(self.state.active_at.max(last))
        });
        Status {
            partitions: core
                .partitions
                .iter()
                .map(|part| PartitionStatus {
                    partition: self.slots.partition(part.slot).clone(),
                    base: part.map.base().get(),
                    highest_complete: part.map.highest_complete(),
                    holes: part.map.hole_count(),
                    log_end: self.source.log_end(self.slots.partition(part.slot)),
                    identified: self.state.identities.knows(self.slots.partition(part.slot)),
                    buffered: part.buffered,
                    running: part.running,
                    on_hold: part.on_hold,
                    sending: part.sends_out,
                    dead_letters: part.letters_out + part.letters_waiting,
                    paused: part.paused,
                    paused_by_user: part.paused_by_user,
                    paced: part.paced,
                    lanes_paced: part.lanes_paced,
                    revoking: part.revoking,
                    blocked_by_map: part.blocked_by_map,
                    lanes_behind_map: part.lanes_behind_map,
                    map_chars: part.map_chars,
                    uncommitted: part.dirty,
                    uncommitted_for: part.uncommitted_since.map(|since| now.since(since)),
                    commit_denied: part.commit_denied,
                    stale_lanes: part.stale_lanes,
                })
                .collect(),
            routes: core
                .routes
                .iter()
                .map(|route| self.route_status(route, now))
                .collect(),
            paced: core.paced,
            restoring: self.state.rebalancing.restoring(),
            restoring_for: self.state.rebalancing.restoring_for(now),
            stopping: self.state.shutdown.is_some(),
            full: core.full,
            reserve_open: core.reserve_open,
            buffered: core.records,
            buffered_bytes: core.bytes,
            running: core.running,
            lanes: core.lanes,
            retries: core.retries,
            retries_due: core.retries_due,
            stuck: self.state.calls.stuck(),
            replaced: self.state.calls.replaced(),
            oldest_running: self.state.calls.oldest(now),
            completed: counters.completed,
            failed: counters.failed,
            sent: counters.sent,
            sends_failed: counters.sends_failed,
            sending: core.partitions.iter().map(|part| part.sends_out).sum(),
            output_bytes: core.output_bytes,
            staged: core.staged,
            outputs_full: core.outputs_full,
            send_error: self.send_errors(now).last().map(|why| why.error.clone()),
            dead_letters: counters.dead_letters,
            dead_letters_being_written: letters_out,
            dead_letters_waiting: letters_waiting,
            dead_letter_error: letter_error.cloned(),
            commits: counters.commits,
            metadata_limit: core.limits.cap_chars,
            idle_for: idle,
            causal,
            health: self.make_health(&core, now),
        }
    }
}

/// What librdkafka refuses of these it will say again as an event where it matters.
fn log_refusal(result: Result<(), ClientError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "the client refused");
    }
}
