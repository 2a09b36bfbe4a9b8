//! What a handler says about a record, and how plain results become that.

use std::fmt;
use std::time::Duration;

use keyway_rider::Update;

use crate::output::Output;

/// A reason in words, for the person who reads the log.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Reason(Box<str>);

impl Reason {
    /// The words.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The reason that an error gives. The alternate form makes error types that can do so (`anyhow`) name
    /// their causes too.
    pub(crate) fn of(error: impl fmt::Display) -> Self {
        Self(format!("{error:#}").into())
    }
}

impl From<&str> for Reason {
    fn from(words: &str) -> Self {
        Self(words.into())
    }
}

impl From<String> for Reason {
    fn from(words: String) -> Self {
        Self(words.into())
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.0.into()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What became of a record, as its handler sees it.
///
/// A handler may return anything that converts: `()` is [`Outcome::Done`], and a `Result` is its `Ok` or, for
/// an `Err`, [`Outcome::Failed`] with the error's text. A panic counts as a failed attempt.
///
/// Where errors mean different things, the handler says what:
///
/// ```
/// use std::time::Duration;
/// use keyway::{Outcome, Record};
///
/// # #[derive(Debug)]
/// enum ChargeError { Busy, AlreadyCharged, Malformed, WrongKey, Other(String) }
///
/// impl ChargeError {
///     fn outcome(self) -> Outcome {
///         match self {
///             Self::Busy => Outcome::Retry { after: Some(Duration::from_secs(30)) },
///             Self::AlreadyCharged => Outcome::Skip,
///             Self::Malformed => Outcome::DeadLetter("no order in there".into()),
///             Self::WrongKey => Outcome::Stop("no record can be charged with this key".into()),
///             Self::Other(error) => Outcome::Failed(error.into()),
///         }
///     }
/// }
/// # fn charge(_: &Record) -> Result<(), ChargeError> { Ok(()) }
///
/// let handler = |record: &Record| match charge(record) {
///     Ok(()) => Outcome::Done,
///     Err(error) => error.outcome(),
/// };
/// # let _ = keyway::Route::handler(handler);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is done; nothing of it is to run again.
    Done,
    /// As [`Outcome::Done`], with what the record brings to the [`RiderState`](crate::RiderState) of its
    /// partition; see [`Outcome::done_with`].
    DoneWith(Update),
    /// It is done, and these records are to be sent. It counts as complete once the broker has acknowledged all of
    /// them, and its lane waits until then, so that outputs of one key follow its records. When one can't be sent the
    /// attempt has failed, with all that follows a failed attempt: the next one sends all of them anew. An empty list
    /// is [`Outcome::Done`].
    ///
    /// As one outcome for a whole batch ([`BatchOutcome::All`]) they are sent once for *each* record of it.
    Send(Vec<Output>),
    /// As [`Outcome::Send`], with what the record brings to the [`RiderState`](crate::RiderState) of its partition
    /// when it counts as complete; see [`Outcome::done_with`].
    SendWith(Vec<Output>, Update),
    /// Try again, after a delay of the handler's choice or, for `None`, of the route's retry policy. The lane
    /// waits for it.
    Retry {
        /// Delay before the next attempt.
        after: Option<Duration>,
    },
    /// As [`Outcome::Retry`] after the policy's delay, with the reason for the log and the
    /// [`Observer`](crate::Observer).
    Failed(Reason),
    /// The attempt failed, and no further one is worth making: what follows is what the route's
    /// [`Retry`](crate::Retry) does after a last attempt. Until it says otherwise that is
    /// [`Exhausted::Hold`](crate::Exhausted::Hold).
    GiveUp(Reason),
    /// The attempt failed, and the record is to be written to the route's dead-letter topic
    /// ([`Route::dead_letters`](crate::Route::dead_letters)). It counts as complete once the broker has acknowledged
    /// that; its lane waits until then. Where the route has no such topic the record is on hold.
    DeadLetter(Reason),
    /// Pass over it: it counts as complete.
    Skip,
    /// Stop the engine. The record stays incomplete, and is the first to run at the next start.
    Stop(Reason),
}

impl Outcome {
    /// Done, and this is what it brings to the state of its partition, of the type that
    /// [`Builder::rider_state`](crate::Builder::rider_state) keeps. The state changes when the record counts as
    /// complete, so that the rider of a commit, its offset and its map always agree.
    ///
    /// One outcome for a whole batch ([`BatchOutcome::All`]) brings the update once for *each* record of it: what a
    /// batch brings as a whole belongs to one of its records, with [`BatchOutcome::Each`].
    pub fn done_with<U: Send + Sync + 'static>(update: U) -> Self {
        Self::DoneWith(Update::new(update))
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Outcome::Send(vec![output])
    }
}

impl From<Vec<Output>> for Outcome {
    fn from(outputs: Vec<Output>) -> Self {
        Outcome::Send(outputs)
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Outcome::Done
    }
}

impl<E: fmt::Display> From<Result<(), E>> for Outcome {
    fn from(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(Reason::of(error)),
        }
    }
}

impl<E: fmt::Display> From<Result<Output, E>> for Outcome {
    fn from(result: Result<Output, E>) -> Self {
        result.map(Outcome::from).into()
    }
}

impl<E: fmt::Display> From<Result<Vec<Output>, E>> for Outcome {
    fn from(result: Result<Vec<Output>, E>) -> Self {
        result.map(Outcome::from).into()
    }
}

impl<E: fmt::Display> From<Result<Outcome, E>> for Outcome {
    fn from(result: Result<Outcome, E>) -> Self {
        result.unwrap_or_else(|error| Outcome::Failed(Reason::of(error)))
    }
}

/// What became of a batch, as its handler sees it.
///
/// A batch handler may return anything that converts: one outcome for each record, in the order of the
/// records; one outcome for all of them; `()`; or a `Result` of these, whose `Err` is a failure of the whole.
///
/// What is said of each record is believed. After a failure of the whole (also a panic, or a number of
/// outcomes that is not the number of records) the next attempt is made with smaller batches, until the bad
/// record stands alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchOutcome {
    /// One for each record, in the order of the records.
    Each(Vec<Outcome>),
    /// The same for every record. [`Outcome::Retry`] repeats them without making the batch smaller: the
    /// handler knows that no record of it is to blame.
    All(Outcome),
    /// The batch failed as a whole.
    Failed(Reason),
}

impl From<()> for BatchOutcome {
    fn from((): ()) -> Self {
        BatchOutcome::All(Outcome::Done)
    }
}

impl From<Outcome> for BatchOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Failed(reason) => BatchOutcome::Failed(reason),
            outcome => BatchOutcome::All(outcome),
        }
    }
}

impl From<Vec<Outcome>> for BatchOutcome {
    fn from(outcomes: Vec<Outcome>) -> Self {
        BatchOutcome::Each(outcomes)
    }
}

impl<E: fmt::Display> From<Result<(), E>> for BatchOutcome {
    fn from(result: Result<(), E>) -> Self {
        Outcome::from(result).into()
    }
}

impl<E: fmt::Display> From<Result<Outcome, E>> for BatchOutcome {
    fn from(result: Result<Outcome, E>) -> Self {
        Outcome::from(result).into()
    }
}

impl<E: fmt::Display> From<Result<Vec<Outcome>, E>> for BatchOutcome {
    fn from(result: Result<Vec<Outcome>, E>) -> Self {
        match result {
            Ok(outcomes) => outcomes.into(),
            Err(error) => BatchOutcome::Failed(Reason::of(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_results_convert() {
        assert_eq!(Outcome::from(()), Outcome::Done);
        assert_eq!(Outcome::from(Ok::<(), &str>(())), Outcome::Done);
        assert_eq!(
            Outcome::from(Ok::<Outcome, &str>(Outcome::Skip)),
            Outcome::Skip
        );
        assert_eq!(
            Outcome::from(Err::<(), _>("no route")),
            Outcome::Failed("no route".into())
        );
        assert_eq!(BatchOutcome::from(()), BatchOutcome::All(Outcome::Done));
        assert_eq!(
            BatchOutcome::from(Err::<(), _>("no route")),
            BatchOutcome::Failed("no route".into())
        );
        assert_eq!(
            BatchOutcome::from(Err::<Vec<Outcome>, _>("no route")),
            BatchOutcome::Failed("no route".into())
        );
    }

    #[test]
    fn a_batch_asked_to_wait_did_not_fail_as_a_whole() {
        let wait = Outcome::Retry {
            after: Some(Duration::from_secs(3)),
        };
        assert_eq!(BatchOutcome::from(wait.clone()), BatchOutcome::All(wait));
        assert_eq!(
            BatchOutcome::from(Outcome::Failed("bad".into())),
            BatchOutcome::Failed("bad".into())
        );
    }
}
