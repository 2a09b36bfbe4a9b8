//! A producer's transactions: each step either done, to be given up, or of unknown outcome.
//!
//! ```text
//!   take over --> begin --> messages, all reported --> offsets --> commit --> begin ..
//!       ^                        |                        |          |
//!       |                        '------- abort ----------'          | no definite answer
//!       '---------------- another producer of the same id -----------'
//! ```
//!
//! librdkafka works on a step in the background and is asked for its end again and again; meanwhile the producer's events
//! have to be taken, or it waits for that.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka_sys::rd_kafka_resp_err_t as Rd;

use super::errors::{ClientError, CommitCode, ErrorCode};
use super::group::{CommitOffset, GroupClient, NotSent, joined, list_with};
use super::native::{Failure, GroupMetadata, StepFailure};
use super::producer::{Producer, ProducerEvent};

/// How long one question for a step's end waits before the producer's events are looked at.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// How much longer than it was told librdkafka may take for its answer.
const BEYOND: Duration = Duration::from_secs(2);

/// The step of an error that says that librdkafka has not come back.
const NO_RETURN: &str = "offsets, of which librdkafka has lost track";

/// Why a step has failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{what}: {error}")]
pub(crate) struct StepError {
    pub(crate) what: &'static str,
    pub(crate) error: ClientError,
}

impl StepError {
    fn of(what: &'static str, failure: Failure) -> Self {
        Self {
            what,
            error: ClientError::of(failure),
        }
    }

    /// An error of the client in this step.
    pub(crate) fn client(what: &'static str, error: ClientError) -> Self {
        Self { what, error }
    }

    /// What it says of a commit, where it is a coordinator's word about offsets.
    pub(crate) fn code(&self) -> CommitCode {
        let number = self.error.code().map(|code| code.number);
        CommitCode::of(number.unwrap_or(Rd::RD_KAFKA_RESP_ERR__DESTROY as i32), "")
    }

    /// The producer is in a call that does not return.
    pub(crate) fn is_without_return(&self) -> bool {
        self.what == NO_RETURN
    }

    /// Nobody has answered: the request may be on its way still.
    pub(crate) fn has_no_answer(&self) -> bool {
        let without = [
            Rd::RD_KAFKA_RESP_ERR__TIMED_OUT,
            Rd::RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE,
            Rd::RD_KAFKA_RESP_ERR__TRANSPORT,
            Rd::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        ];
        let number = self.error.code().map(|code| code.number);
        without.iter().any(|code| Some(*code as i32) == number)
    }

    /// The coordinator does not know a topic (any more), whichever of those in the transaction it is.
    pub(crate) fn is_missing_topic(&self) -> bool {
        self.error.code().is_some_and(ErrorCode::is_missing_topic)
    }
}

/// The member that a transaction's offsets are of.
pub(crate) struct TransactionMember(GroupMetadata);

impl GroupClient {
    /// This member as of now, for one transaction. `guard` runs under the group lock, as in
    /// [`GroupClient::commit`]: whether what is to be committed is still this member's. Never asked again inside the
    /// transaction: after a rebalance the answer is a new valid one, also for partitions that are somebody else's by then.
    ///
    /// # Errors
    /// Why nothing is to be sent.
    pub(crate) fn member_for(
        &self,
        guard: impl FnOnce() -> bool,
    ) -> Result<TransactionMember, NotSent> {
        self.under_lock(guard, |client| {
            joined(client)
                .and_then(|_| client.group_metadata())
                .map(TransactionMember)
                .ok_or(NotSent::NotAMember)
        })
    }
}

impl Producer {
    /// Takes its transactional id over; what was open under it is committed or aborted then, one way or the other.
    ///
    /// # Errors
    /// When that is not so by `deadline`, or can't be.
    pub(crate) fn take_over(
        &self,
        deadline: Instant,
        events: &mut Vec<ProducerEvent>,
    ) -> Result<(), StepError> {
        self.step("take over", deadline, events, |timeout| {
            self.native.init_transactions(timeout)
        })
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// When the producer is not ready for one.
    pub(crate) fn begin(&self) -> Result<(), StepError> {
        let begun = self.native.begin_transaction();
        begun.map_err(|failed| StepError::of("begin", failed.failure))
    }

    /// Adds offsets to the transaction.
    ///
    /// # Errors
    /// The coordinator's reason, without saying which partition it is about; the transaction has to be aborted. Or that
    /// the call has not returned, though it ought to have: then this producer is of no use any more.
    pub(crate) fn send_offsets(
        &self,
        offsets: &[CommitOffset<'_>],
        member: TransactionMember,
        timeout: Duration,
    ) -> Result<(), StepError> {
        let step = "offsets";
        let list = list_with(offsets).map_err(|failure| StepError::of(step, failure))?;
        let (reply, answer) = crossbeam_channel::bounded(1);
        let native = Arc::clone(&self.native);
        // librdkafka (2.12.1) waits for the coordinator's answer without a bound, and forgets about it when the broker
        // that it asked leaves the cluster: so on a thread of its own, which stays with the producer then.
        let asked = thread::Builder::new()
            .name("keyway-offsets".to_owned())
            .spawn(move || {
                let sent = native.send_offsets(&list, &member.0, timeout);
                // The last to hold the producer must not be this thread, unless nobody waits any more.
                drop(native);
                let _ = reply.send(sent);
            });
        if asked.is_err() {
            return Err(StepError::client(step, ClientError::no_answer()));
        }
        match answer.recv_timeout(timeout + BEYOND) {
            // Not resumed: librdkafka has tried it again by itself for as long.
            Ok(sent) => sent.map_err(|failed| StepError::of(step, failed.failure)),
            Err(_) => Err(StepError::client(NO_RETURN, ClientError::no_answer())),
        }
    }

    /// Commits the transaction, of which every message was reported.
    ///
    /// # Errors
    /// When it is not known to be committed by `deadline`: it may be all the same.
    pub(crate) fn commit(
        &self,
        deadline: Instant,
        events: &mut Vec<ProducerEvent>,
    ) -> Result<(), StepError> {
        self.step("commit", deadline, events, |timeout| {
            self.native.commit_transaction(timeout)
        })
    }

    /// Aborts the transaction, with what of it was not sent.
    ///
    /// # Errors
    /// When it is not aborted by `deadline`. It is never committed, and ends with whoever takes the id over.
    pub(crate) fn abort(
        &self,
        deadline: Instant,
        events: &mut Vec<ProducerEvent>,
    ) -> Result<(), StepError> {
        self.step("abort", deadline, events, |timeout| {
            self.native.abort_transaction(timeout)
        })
    }

    fn step(
        &self,
        what: &'static str,
        deadline: Instant,
        events: &mut Vec<ProducerEvent>,
        ask: impl Fn(Duration) -> Result<(), StepFailure>,
    ) -> Result<(), StepError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let asked = ask(ASK_AGAIN.min(left));
            events.extend(self.poll(Duration::ZERO));
            match asked {
                Ok(()) => return Ok(()),
                Err(failed) if failed.is_retriable && !left.is_zero() => {}
                Err(failed) => return Err(StepError::of(what, failed.failure)),
            }
        }
    }
}
