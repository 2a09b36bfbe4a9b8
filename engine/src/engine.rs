//! A running engine in the hands of its user.

use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use keyway_core::{Leases, RouteId};

use crate::causal::CausalReader;
use crate::commits::{Committer, Composer, Owned, Transactor, TransactorState};
use crate::context::Member;
use crate::health::{ALIVE_WITHIN, Health, NotReady, Pulse};
use crate::kafka::{
    ClientError, GroupClient, Outsider, Source, SourceConfig, TopicPartition, transaction_timeout,
};
use crate::limits::Limits;
use crate::poll::{
    Commits, Inbound, InboxSender, Looker, LoopState, PollLoop, Questions, RestorePolicy, Restorer,
    Tokens, Watch, Which, Writes, inbox, panic_text,
};
use crate::riders::Texts;
use crate::route::Route;
use crate::settings::Settings;
use crate::status::Status;
use crate::stop::{CommitError, End, Report, StopReason};
use crate::workers::{RouteContext, Wake, WorkerPool, WorkersError, reports};
use crate::writer::{ProducerKind, Producers, Writer};

/// Why an engine could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// librdkafka refuses the configuration.
    #[error("the Kafka client can't be made: {0}")]
    Client(#[from] ClientError),
    /// The operating system gives no more threads.
    #[error("could not start a thread or a runtime: {0}")]
    Threads(#[source] std::io::Error),
    /// The workers can't be started.
    #[error("could not start the workers: {0}")]
    Workers(String),
}

impl From<WorkersError> for StartError {
    fn from(error: WorkersError) -> Self {
        StartError::Workers(error.to_string())
    }
}

/// A running engine.
///
/// Its methods never wait, but for [`Engine::wait`] and [`Engine::commit`], which say so. Dropping it asks it
/// to stop, within 10 s, and does not wait either.
#[derive(Debug)]
pub struct Engine {
    inbox: InboxSender,
    limits: Limits,
    status: Arc<Mutex<Arc<Status>>>,
    pulse: Arc<Pulse>,
    end: Arc<End>,
}

/// The bound of the stop that a drop asks for.
const DROP_WITHIN: Duration = Duration::from_secs(10);

impl Engine {
    pub(crate) fn start(settings: Settings) -> Result<Self, StartError> {
        let mut source_config = SourceConfig::new(
            settings.client.client.clone(),
            settings.subscription.clone(),
        );
        source_config.token_refresh = settings.token_provider.is_some();
        let fences = settings.client.client.get("group.instance.id").is_none();
        let (source, group, waker) = Source::open(&source_config)?;
        let wake_for_reports = Arc::new(Wake::new({
            let waker = waker.clone();
            move || waker.wake()
        }));
        let wake_for_messages = Arc::new(Wake::new(move || waker.wake()));
        let (sender, inbox) = inbox(wake_for_messages);
        let (report_sender, reports) = reports(wake_for_reports);

        let leases = Arc::new(Leases::default());
        let member = Member::new(Arc::clone(&leases)).keeping_failures(settings.has_dead_letters());
        let member = member.staging_outputs(settings.commit.transactional);
        let member = Arc::new(member);
        let runtime = tokio::runtime::Handle::try_current().ok();
        let mut pools = Vec::with_capacity(settings.routes.len());
        let watch = |route: &Route| Watch {
            stuck_after: route.stuck_after,
            replace: route.replace_stuck,
        };
        let watches = settings.routes.iter().map(watch).collect();
        for (index, route) in settings.routes.iter().enumerate() {
            let context = RouteContext {
                route: RouteId(index as u16),
                member: Arc::clone(&member),
                reports: report_sender.clone(),
                observer: settings.observer.clone(),
                timeout: route.timeout,
            };
            pools.push(WorkerPool::start(
                route.handler.clone(),
                route.concurrency,
                context,
                runtime.clone(),
            )?);
        }
        let owned = Arc::new(Owned::default());
        settings.riders.announce();
        let guard = settings.riders.guard().map_err(StartError::Threads)?;
        let composer = Composer {
            owned: Arc::clone(&owned),
            observer: settings.observer.clone(),
            texts: Texts::new(settings.riders.clone(), guard),
        };
        let commits = start_commits(
            &settings,
            composer,
            &group,
            runtime.as_ref(),
            &member,
            &sender,
        )
        .map_err(StartError::Threads)?;
        let restores = Restorer {
            group: group.clone(),
            policy: RestorePolicy {
                start: settings.start,
                bad_metadata: settings.bad_metadata,
                maps_without_epoch: settings.maps_without_epoch,
                max_window: settings.limits.max_window,
            },
            inbox: sender.clone(),
        }
        .start()
        .map_err(StartError::Threads)?;

        let looks = Looker {
            group: group.clone(),
            inbox: sender.clone(),
        }
        .start()
        .map_err(StartError::Threads)?;
        let questions = start_causal(&settings, &group, &sender)?;
        let named = settings.subscription.iter();
        let named = named.filter(|topic| !topic.starts_with('^'));
        let named_topics = named.map(|topic| topic.as_str().into()).collect();

        let writes = start_writer(&settings, runtime.as_ref(), &owned, &member, &sender)?;
        let tokens = settings.token_provider.clone().map(|provider| Tokens {
            provider,
            runtime,
            taker: group.clone(),
        });
        let mut core = settings.core(leases);
        let seed = RandomState::new().hash_one(0_u8);
        let rates = settings.rates(seed);
        rates.apply_to(&mut core);
        let slots = settings.slots(seed);
        let limits = Limits::new(&settings, {
            let sender = sender.clone();
            move |change| sender.send(Inbound::Limit(change))
        });
        let status = Arc::new(Mutex::new(Arc::new(Status::default())));
        let pulse = Arc::new(Pulse::new(member.clock().clone()));
        let poll = PollLoop {
            core,
            source,
            group,
            slots,
            member,
            pools,
            rates,
            watches,
            reports,
            inbox,
            commits,
            restores,
            looks,
            questions,
            named_topics,
            owned,
            writes,
            tokens,
            observer: settings.observer,
            riders: settings.riders,
            status: Arc::clone(&status),
            pulse: Arc::clone(&pulse),
            revoke_wait: settings.revoke_wait,
            commit_timeout: settings.commit_timeout,
            record_limit: settings.record_limit,
            fences,
            state: LoopState::default(),
        };
        let end = Arc::new(End::default());
        let engine = Self {
            inbox: sender,
            limits,
            status,
            pulse,
            end: Arc::clone(&end),
        };
        std::thread::Builder::new()
            .name("keyway-poll".to_owned())
            .spawn(move || {
                // The loop is gone afterwards, so nothing half done of it can be seen.
                let result = catch_unwind(AssertUnwindSafe(|| poll.run()));
                end.set(
                    result.unwrap_or_else(|panic| Err(StopReason::Defect(panic_text(&*panic)))),
                );
            })
            .map_err(StartError::Threads)?;
        Ok(engine)
    }

    /// What the engine is doing: a snapshot, at most a quarter of a second old.
    pub fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether it lives and may be counted on, for the probes of a supervisor. From any thread and at any time: it
    /// waits for nobody, and a poll thread that stands still shows.
    pub fn health(&self) -> Health {
        let health = self.status().health.clone();
        if self.end.has_come() {
            return Health {
                alive: false,
                not_ready: vec![NotReady::Ended],
                ..health
            };
        }
        let last_turn = self.pulse.last();
        Health {
            alive: last_turn <= ALIVE_WITHIN,
            last_turn,
            ..health
        }
    }

    /// Asks the engine to take in nothing more, finish what is buffered, commit and leave the group, within
    /// `within`; what is not finished by then stays incomplete. Does not wait for a retry that is due later. Starts
    /// nothing more in the last tenth of `within`, at most its last second, so that what runs can end.
    /// Returns at once; see [`Engine::wait`].
    pub fn drain(&self, within: Duration) {
        self.inbox.send(Inbound::Drain {
            deadline: Instant::now() + within,
        });
    }

    /// Asks the engine to start nothing more, finish what runs, commit and leave the group, within `within`.
    /// Ends a drain that is under way. Returns at once; see [`Engine::wait`].
    pub fn stop(&self, within: Duration) {
        self.inbox.send(Inbound::Stop {
            deadline: Instant::now() + within,
        });
    }

    /// Pauses partitions: nothing of them is fetched and nothing starts until they are resumed; what runs is finished,
    /// and commits go on. Partitions that are not assigned, or do not exist, are paused when they come to this member.
    /// A drain does not wait for what is paused. Returns at once.
    pub fn pause(&self, partitions: &[TopicPartition]) {
        self.inbox
            .send(Inbound::Pause(Which::Some(partitions.to_vec())));
    }

    /// Ends the pause of partitions, also where all were paused. Returns at once.
    pub fn resume(&self, partitions: &[TopicPartition]) {
        self.inbox
            .send(Inbound::Resume(Which::Some(partitions.to_vec())));
    }

    /// Pauses all partitions, those that come later too; see [`Engine::pause`].
    pub fn pause_all(&self) {
        self.inbox.send(Inbound::Pause(Which::All));
    }

    /// Ends every pause.
    pub fn resume_all(&self) {
        self.inbox.send(Inbound::Resume(Which::All));
    }

    /// Changes rates and concurrency while the engine runs.
    pub fn limits(&self) -> Limits {
        self.limits.clone()
    }

    /// Commits now, and waits until all that was complete at the call is acknowledged. Blocks the thread, so
    /// async code calls it through `spawn_blocking`.
    ///
    /// # Errors
    /// When that did not happen within `within`, or the engine has ended.
    pub fn commit(&self, within: Duration) -> Result<(), CommitError> {
        let (reply, answer) = crossbeam_channel::bounded(1);
        let deadline = Instant::now() + within;
        if !self.inbox.send(Inbound::Commit { deadline, reply }) {
            return Err(CommitError::Ended);
        }
        // A turn of the poll thread longer, so that its own answer is the one that is heard.
        match answer.recv_deadline(deadline + Duration::from_secs(1)) {
            Ok(result) => result,
            Err(crossbeam_channel::RecvTimeoutError::Timeout) => Err(CommitError::TimedOut),
            Err(crossbeam_channel::RecvTimeoutError::Disconnected) => Err(CommitError::Ended),
        }
    }

    /// Waits for the engine's end. Blocks the thread; see [`Engine::finished`] for async code.
    ///
    /// # Errors
    /// The reason, when it ended without being asked to.
    pub fn wait(&self) -> Result<Report, StopReason> {
        self.end.wait()
    }

    /// Waits for the engine's end without blocking a thread.
    ///
    /// # Errors
    /// The reason, when it ended without being asked to.
    pub async fn finished(&self) -> Result<Report, StopReason> {
        self.end.finished().await
    }

    /// The end, if it has come.
    pub fn ended(&self) -> Option<Result<Report, StopReason>> {
        self.end.get()
    }

    /// Breaks the engine off as a crash would: no last commit, no revoke, no leaving. For tests and
    /// demonstrations of what a crash costs; the group notices after its session timeout.
    pub fn abandon(&self) {
        self.inbox.send(Inbound::Abandon);
    }
}

/// Starts the thread that commits.
fn start_commits(
    settings: &Settings,
    composer: Composer,
    group: &GroupClient,
    runtime: Option<&tokio::runtime::Handle>,
    member: &Arc<Member>,
    inbox: &InboxSender,
) -> std::io::Result<Commits> {
    let (group, inbox) = (group.clone(), inbox.clone());
    let timeout = settings.commit_timeout;
    let Some(id) = settings.transactional_id.clone() else {
        let committer = Committer {
            group,
            composer,
            timeout,
            inbox,
        };
        return committer.start().map(Commits::Plain);
    };
    tracing::info!(id, "outputs and offsets go in transactions");
    let client = &settings.client.client;
    let transactor = Transactor {
        producers: Producers::new(
            ProducerKind::Transactional { id },
            client.clone(),
            settings.token_provider.clone(),
            runtime.cloned(),
        ),
        group,
        composer,
        timeout,
        transaction_timeout: transaction_timeout(client),
        member: Arc::clone(member),
        inbox,
        state: TransactorState::default(),
    };
    transactor.start().map(Commits::Transactional)
}

/// Starts the thread that asks for the causal layer, where there is one.
fn start_causal(
    settings: &Settings,
    group: &GroupClient,
    inbox: &InboxSender,
) -> Result<Questions, StartError> {
    let Some(causal) = &settings.causal else {
        return Ok(None);
    };
    // Its tokens are the member's alone.
    let beside = match settings.token_provider {
        Some(_) => None,
        None => Some(causal.beside(false)?),
    };
    let reader = CausalReader {
        group: beside
            .as_ref()
            .map_or_else(|| group.clone(), Outsider::group),
        beside,
        settings: causal.clone(),
        max_window: settings.limits.max_window,
        inbox: inbox.clone(),
    };
    reader.start().map(Some).map_err(StartError::Threads)
}

/// Starts the thread that sends outputs and writes dead letters.
fn start_writer(
    settings: &Settings,
    runtime: Option<&tokio::runtime::Handle>,
    owned: &Arc<Owned>,
    member: &Arc<Member>,
    inbox: &InboxSender,
) -> Result<Writes, StartError> {
    let client = &settings.client.client;
    let writer = Writer::new(
        client.clone(),
        settings.token_provider.clone(),
        runtime.cloned(),
        Arc::clone(owned),
        Arc::clone(member),
        settings.observer.clone(),
        inbox.clone(),
    );
    // In transactions they are written by whoever commits.
    let writer = match settings.has_dead_letters() && !settings.commit.transactional {
        true => writer.opened()?,
        // Whether a handler has outputs shows when it returns some.
        false => writer,
    };
    let jobs = writer.start().map_err(StartError::Threads)?;
    let group = client.get("group.id").unwrap_or_default();
    Ok(Writes::new(jobs, group.into()))
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.end.get().is_none() {
            self.stop(DROP_WITHIN);
        }
    }
}
