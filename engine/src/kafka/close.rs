//! The end of a client: leave the group, wait until nothing is in use, destroy.
//!
//! ```text
//!   Source::leave (bounded, on the poll thread)
//!        |
//!   Source dropped --> closer thread: leave, if not done --> calls and records gone? --> destroy
//!                                                              | not within the bound
//!                                                              v
//!                                                      given up: leaked and logged
//! ```
//! Nobody waits for the closer, so it may take as long as librdkafka wants: destroying a client hangs
//! while a broker is away.

use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::TopicPartition;
use super::errors::ClientError;
use super::group::Shared;
use super::native::{Batch, Stashed};
use super::rebalance::Rebalance;

/// Whether a static member (`group.instance.id`) gives its place up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StaticMember {
    /// It stays a member, so that it gets its partitions back when it returns within the session
    /// timeout.
    Stays,
    /// It leaves. With `group.protocol=consumer` librdkafka can only say that it will return, so that
    /// it stays all the same, until its session ends.
    Leaves,
}

/// How leaving went.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LeaveOutcome {
    /// Everything was given back, and the coordinator was told, if it could be reached.
    Left,
    /// Not within the deadline; it goes on behind the scenes.
    Unfinished,
    /// librdkafka does not leave after a fatal error.
    Fatal(ClientError),
}

/// Where a native client is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum CloseState {
    /// In use.
    #[default]
    Open,
    /// The source is gone; records or calls remain, or librdkafka is still at it.
    Closing,
    /// Destroyed.
    Closed,
    /// Not destroyed, and it never will be: records outlived the bound.
    Leaked,
}

/// The state, and whoever waits for it.
#[derive(Debug, Default)]
pub(super) struct Closing {
    state: Mutex<CloseState>,
    changed: Condvar,
}

impl Closing {
    fn set(&self, state: CloseState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.changed.notify_all();
    }
}

/// Tells tests what becomes of a native client.
#[cfg(test)]
#[derive(Clone, Debug)]
pub(crate) struct CloseWatch(Arc<Closing>);

#[cfg(test)]
impl CloseWatch {
    pub(super) fn new(closing: Arc<Closing>) -> Self {
        Self(closing)
    }

    /// The state now.
    pub(crate) fn state(&self) -> CloseState {
        *self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the client is destroyed or given up, at most `timeout`; answers the state.
    pub(crate) fn wait(&self, timeout: Duration) -> CloseState {
        let state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let going =
            |state: &mut CloseState| matches!(state, CloseState::Open | CloseState::Closing);
        *self
            .0
            .changed
            .wait_timeout_while(state, timeout, going)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}

/// How long the closer goes on leaving when the source did not, or not to the end.
const LEAVE_BOUND: Duration = Duration::from_secs(10);
/// How long one look at the queue takes while leaving.
const SERVE: Duration = Duration::from_millis(20);
/// How often the closer looks whether anything is still in use.
const LOOK: Duration = Duration::from_millis(10);

/// Leaves the group. The caller is the only one who polls.
pub(super) fn leave(
    shared: &Shared,
    rebalance: &mut Rebalance,
    deadline: Instant,
    statics: StaticMember,
) -> LeaveOutcome {
    let client = &shared.client;
    shared.lock().leaving = true;
    let mut server = Server {
        shared,
        rebalance,
        batch: Batch::default(),
    };
    server.rebalance.answer_with_nothing(shared, false);

    let leaves = statics == StaticMember::Leaves && !shared.consumer_protocol;
    if leaves && !client.left() && client.unsubscribe().is_ok() {
        // A static member that closes stays; one that unsubscribes leaves. Its member id is empty
        // once the goodbye is on its way.
        let gone = || client.membership().is_none_or(|(id, _)| id.is_empty());
        while !gone() && Instant::now() < deadline {
            server.serve(false);
        }
    }
    // A second start, by the closer after an unfinished `leave`, is refused; only the first matters.
    if let Some(failure) = client.fatal() {
        return LeaveOutcome::Fatal(ClientError::of(failure));
    }
    if mem::replace(&mut shared.lock().closing, true) {
        server.rebalance.answer_with_nothing(shared, true);
    } else if let Err(failure) = client.begin_close() {
        return LeaveOutcome::Fatal(ClientError::of(failure));
    }
    while !client.left() {
        if Instant::now() >= deadline {
            return LeaveOutcome::Unfinished;
        }
        server.serve(true);
    }
    LeaveOutcome::Left
}

/// Serves the consumer queue while leaving: records are dropped, rebalances answered with nothing.
struct Server<'s> {
    shared: &'s Shared,
    rebalance: &'s mut Rebalance,
    batch: Batch,
}

impl Server<'_> {
    fn serve(&mut self, closing: bool) {
        const BATCH: usize = 1_000;
        let (mut records, mut failures) = (Vec::new(), Vec::new());
        self.shared
            .client
            .receive(&mut self.batch, BATCH, SERVE, &mut records, &mut failures);
        for stashed in self.shared.client.stashed() {
            match stashed {
                Stashed::Assign { protocol, .. } => self.rebalance.assign_announced(protocol),
                Stashed::Revoke {
                    partitions,
                    protocol,
                    ..
                } => {
                    let partitions = partitions
                        .into_iter()
                        .map(|(topic, partition)| TopicPartition::new(topic, partition))
                        .collect();
                    self.rebalance.revoke_announced(protocol, partitions);
                }
                Stashed::Error { .. } | Stashed::Statistics(_) | Stashed::TokenRefresh => {}
            }
            self.rebalance.answer_with_nothing(self.shared, closing);
        }
    }
}

/// Whether the coordinator is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Farewell {
    /// Leave the group.
    #[default]
    Leave,
    /// Vanish as a crashed process does: the group notices after the session timeout.
    None,
}

/// Starts the closer of a source that is gone.
pub(super) fn start(
    shared: Arc<Shared>,
    rebalance: Rebalance,
    bound: Duration,
    farewell: Farewell,
) {
    shared.closing.set(CloseState::Closing);
    shared.lock().leaving = true;
    let kept = Arc::clone(&shared);
    let closer = thread::Builder::new()
        .name("keyway-close".to_owned())
        .spawn(move || close(shared, rebalance, bound, farewell));
    if let Err(error) = closer {
        give_up(
            kept,
            &format!("no thread could be started to close it: {error}"),
        );
    }
}

fn close(shared: Arc<Shared>, mut rebalance: Rebalance, bound: Duration, farewell: Farewell) {
    match farewell {
        Farewell::Leave => {
            leave(
                &shared,
                &mut rebalance,
                Instant::now() + LEAVE_BOUND,
                StaticMember::Stays,
            );
        }
        Farewell::None => shared.lock().leaving = true,
    }
    let client = &shared.client;
    client.refuse_calls();
    let deadline = Instant::now() + bound;
    while !client.quiet() {
        if Instant::now() >= deadline {
            let live = client.live();
            give_up(
                shared,
                &format!("{live} records are still held {bound:?} after the source was closed"),
            );
            return;
        }
        thread::sleep(LOOK);
    }
    shared.forget_unanswered();
    client.destroy();
    shared.closing.set(CloseState::Closed);
}

/// Keeps the client for ever: records point to it.
fn give_up(shared: Arc<Shared>, reason: &str) {
    tracing::error!(
        group = shared.group_id,
        reason,
        "the Kafka client is not freed"
    );
    shared.client.refuse_calls();
    shared.closing.set(CloseState::Leaked);
    mem::forget(shared);
}
