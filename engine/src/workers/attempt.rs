//! One attempt: what happens around a handler's call, whatever thread it is on.
//!
//! ```text
//!   admitted? -> started -> handler, panics caught -> done or failed -> verdict
//! ```

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use keyway_core::{Finished, Task, TaskRef, Verdict};
use keyway_rider::Update;

use crate::context::Member;
use crate::handler::{BatchFn, EachFn};
use crate::observer::Observer;
use crate::outcome::{BatchOutcome, Outcome};
use crate::output::{self, Output};
use crate::record::{Message, Record, SharedRecord};

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Ended {
    Done,
    DoneWith(Update),
    /// Done when these are sent.
    Outputs(Vec<Output>, Option<Update>),
    Skipped,
    Failed {
        after: Option<Duration>,
        error: String,
    },
    GivenUp {
        error: String,
    },
    DeadLetter {
        error: String,
    },
    Stop {
        reason: String,
    },
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Ended::Done,
            Outcome::DoneWith(update) => Ended::DoneWith(update),
            Outcome::Send(outputs) if outputs.is_empty() => Ended::Done,
            Outcome::SendWith(outputs, update) if outputs.is_empty() => Ended::DoneWith(update),
            Outcome::Send(outputs) => Ended::Outputs(outputs, None),
            Outcome::SendWith(outputs, update) => Ended::Outputs(outputs, Some(update)),
            Outcome::Skip => Ended::Skipped,
            Outcome::Retry { after } => Ended::Failed {
                after,
                error: "the handler asked for another attempt".to_owned(),
            },
            Outcome::Failed(reason) => Ended::Failed {
                after: None,
                error: reason.into(),
            },
            Outcome::GiveUp(reason) => Ended::GivenUp {
                error: reason.into(),
            },
            Outcome::DeadLetter(reason) => Ended::DeadLetter {
                error: reason.into(),
            },
            Outcome::Stop(reason) => Ended::Stop {
                reason: reason.into(),
            },
        }
    }
}

impl Ended {
    pub(super) fn failed(error: String) -> Self {
        Ended::Failed { after: None, error }
    }

    /// Tells log and observer; before the result is reported. Both are the user's code, and what they do does
    /// not change the result.
    pub(super) fn announce(&self, observer: Option<&dyn Observer>, record: &Record) {
        match (self, observer) {
            (Ended::Done | Ended::DoneWith(_) | Ended::Skipped, None) => {}
            // The writer tells of it, when they are sent.
            (Ended::Outputs(..), _) if !record.stages_outputs() => {}
            (Ended::Outputs(..), None) => {}
            (Ended::Done | Ended::DoneWith(_) | Ended::Outputs(..), Some(observer)) => {
                guarded(|| observer.done(record));
            }
            (Ended::Skipped, Some(observer)) => guarded(|| observer.skipped(record)),
            (
                Ended::Failed { error, .. }
                | Ended::GivenUp { error }
                | Ended::DeadLetter { error },
                _,
            ) => guarded(|| {
                tracing::warn!(
                    topic = record.topic(),
                    partition = record.partition(),
                    offset = record.offset(),
                    attempt = record.attempt(),
                    error,
                    "attempt failed"
                );
                tell_failed(observer, record, error);
            }),
            (Ended::Stop { reason }, _) => guarded(|| {
                tracing::error!(
                    topic = record.topic(),
                    partition = record.partition(),
                    offset = record.offset(),
                    attempt = record.attempt(),
                    reason,
                    "the handler asked the engine to stop"
                );
                tell_failed(observer, record, reason);
            }),
        }
    }

    /// The verdict for the core. The payload of a finished record is destroyed here, on the worker.
    pub(super) fn verdict(self, payload: Message, member: &Member) -> Verdict<Message> {
        let noted = |payload: Message, error: &str| match member.keeps_failures() {
            true => payload.with_failure(member.clock().wall_millis(), error),
            false => payload,
        };
        match self {
            Ended::Done => Verdict::Done,
            Ended::DoneWith(update) => Verdict::DoneWith(update),
            Ended::Outputs(outputs, update) => {
                let bytes = output::weight(&outputs);
                let payload = payload.with_outputs(outputs);
                match member.stages_outputs() {
                    true => Verdict::Staged {
                        payload,
                        update,
                        bytes,
                    },
                    false => Verdict::Outputs {
                        payload,
                        update,
                        bytes,
                    },
                }
            }
            Ended::Skipped => Verdict::Skipped,
            Ended::Failed { after, error } => Verdict::Failed {
                payload: noted(payload, &error),
                after,
            },
            Ended::GivenUp { error } => Verdict::GiveUp {
                payload: noted(payload, &error),
            },
            Ended::DeadLetter { error } => Verdict::DeadLetter {
                payload: noted(payload, &error),
            },
            Ended::Stop { reason } => Verdict::Stop { payload, reason },
        }
    }
}

fn tell_failed(observer: Option<&dyn Observer>, record: &Record, error: &str) {
    if let Some(observer) = observer {
        observer.failed(record, error);
    }
}

/// Runs code of the user that is not the handler.
pub(crate) fn guarded(tell: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(tell)) {
        let panic = panic_text(panic);
        // Even the log may be what panicked.
        let _ = catch_unwind(|| tracing::error!(panic, "an observer or a subscriber of the log"));
    }
}

/// The words of a panic.
pub(crate) fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let words = match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(words), _) => (*words).to_owned(),
        (_, Some(words)) => words.clone(),
        _ => "a value that is no text".to_owned(),
    };
    // What was thrown is the user's, and may panic again when it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
    format!("panicked: {words}")
}

/// Runs one record. `member` is lent to the record for the call.
#[inline]
pub(super) fn run_each(
    handler: &EachFn,
    observer: Option<&dyn Observer>,
    task: Task<Message>,
    fence: u64,
    member: Arc<Member>,
) -> (Finished<Message>, Arc<Member>) {
    let at = task.at;
    let record = Record::new(task.payload, &at, fence, member);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        if let Some(observer) = observer {
            observer.started(&record);
        }
        handler(&record)
    }));
    let ended = match outcome {
        Ok(outcome) => Ended::from(outcome),
        Err(panic) => Ended::failed(panic_text(panic)),
    };
    ended.announce(observer, &record);
    let (payload, member) = record.into_parts();
    (
        Finished {
            at,
            verdict: ended.verdict(payload, &member),
        },
        member,
    )
}

/// A record of a batch, as the worker keeps it during the call.
pub(super) struct Kept {
    pub(super) at: TaskRef,
    pub(super) fence: u64,
    pub(super) native: Arc<SharedRecord>,
}

impl Kept {
    pub(super) fn new(task: Task<Message>, fence: u64) -> Self {
        Self {
            at: task.at,
            fence,
            native: task.payload.into_shared(),
        }
    }

    /// The record for the handler.
    pub(super) fn record(&self, member: &Arc<Member>) -> Record {
        Record::new(
            Message::Shared(Arc::clone(&self.native)),
            &self.at,
            self.fence,
            Arc::clone(member),
        )
    }

    /// The end of an attempt that had the record by value.
    pub(super) fn ended(
        self,
        ended: Ended,
        observer: Option<&dyn Observer>,
        member: Arc<Member>,
    ) -> (Finished<Message>, Arc<Member>) {
        let record = Record::new(Message::Shared(self.native), &self.at, self.fence, member);
        ended.announce(observer, &record);
        let (payload, member) = record.into_parts();
        (
            Finished {
                at: self.at,
                verdict: ended.verdict(payload, &member),
            },
            member,
        )
    }
}

/// Tells the observer that the records of a batch start.
///
/// # Panics
/// When the observer does; the caller counts that as the attempt's failure.
pub(super) fn announce_batch(observer: Option<&dyn Observer>, records: &[Record]) {
    if let Some(observer) = observer {
        records.iter().for_each(|record| observer.started(record));
    }
}

/// What a batch came to.
#[derive(Debug)]
pub(super) struct BatchResult {
    pub(super) finished: Vec<Finished<Message>>,
    /// It failed as a whole.
    pub(super) failed: bool,
}

/// Turns what was said of a batch, or the text of its panic, into a result for each record.
pub(super) fn settle_batch(
    outcome: Result<BatchOutcome, String>,
    kept: Vec<Kept>,
    observer: Option<&dyn Observer>,
    member: &Arc<Member>,
) -> BatchResult {
    let number = kept.len();
    let mut failed = false;
    let mut whole = |error: String| -> Vec<Ended> {
        failed = true;
        (0..number).map(|_| Ended::failed(error.clone())).collect()
    };
    let ended: Vec<Ended> = match outcome {
        Ok(BatchOutcome::Each(outcomes)) if outcomes.len() == number => {
            outcomes.into_iter().map(Ended::from).collect()
        }
        Ok(BatchOutcome::Each(outcomes)) => whole(format!(
            "the handler returned {} outcomes for a batch of {number} records",
            outcomes.len()
        )),
        Ok(BatchOutcome::All(outcome)) => {
            (0..number).map(|_| Ended::from(outcome.clone())).collect()
        }
        Ok(BatchOutcome::Failed(reason)) => whole(reason.into()),
        Err(panic) => whole(panic),
    };
    let mut member = Arc::clone(member);
    let mut finished = Vec::with_capacity(number);
    for (kept, ended) in kept.into_iter().zip(ended) {
        let result;
        (result, member) = kept.ended(ended, observer, member);
        finished.push(result);
    }
    BatchResult { finished, failed }
}

/// Runs a batch, all of whose records were admitted.
pub(super) fn run_batch(
    handler: &BatchFn,
    observer: Option<&dyn Observer>,
    kept: Vec<Kept>,
    member: &Arc<Member>,
) -> BatchResult {
    let records: Vec<Record> = kept.iter().map(|kept| kept.record(member)).collect();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        announce_batch(observer, &records);
        handler(records)
    }));
    settle_batch(outcome.map_err(panic_text), kept, observer, member)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{World, in_words};
    use super::*;

    fn settle(world: &World, outcome: Result<BatchOutcome, String>) -> (Vec<String>, bool) {
        let kept = world
            .tasks(&[(1, 0), (2, 0), (3, 1)])
            .into_iter()
            .map(|task| Kept::new(task, 0));
        let result = settle_batch(
            outcome,
            kept.collect(),
            Some(&*world.journal),
            &world.member,
        );
        (
            result.finished.iter().map(in_words).collect(),
            result.failed,
        )
    }

    #[test]
    fn what_is_said_of_each_record_of_a_batch_is_believed() {
        let world = World::new();
        let each = vec![Outcome::Done, Outcome::Failed("late".into()), Outcome::Skip];
        let (results, failed) = settle(&world, Ok(each.into()));
        assert_eq!(results, ["1 done", "2 failed", "3 skipped"]);
        assert!(!failed);
        assert_eq!(
            world.journal.lines(),
            ["done 1", "failed 2: late", "done 3"]
        );
        assert_eq!(world.live_messages(), 0, "the results are gone too");
    }

    #[test]
    fn one_outcome_goes_for_all() {
        let world = World::new();
        assert_eq!(
            settle(&world, Ok(().into())),
            (vec_of(["1 done", "2 done", "3 done"]), false)
        );
        let wait = Outcome::Retry {
            after: Some(Duration::from_secs(2)),
        };
        let waits = [
            "1 failed, after 2s",
            "2 failed, after 2s",
            "3 failed, after 2s",
        ];
        assert_eq!(settle(&world, Ok(wait.into())), (vec_of(waits), false));
    }

    #[test]
    fn an_error_a_panic_or_a_wrong_number_fails_the_whole() {
        let world = World::new();
        let failed = (vec_of(["1 failed", "2 failed", "3 failed"]), true);
        assert_eq!(settle(&world, Ok(Err::<(), _>("bad").into())), failed);
        assert_eq!(settle(&world, Err("panicked: bad".to_owned())), failed);
        assert_eq!(settle(&world, Ok(vec![Outcome::Done].into())), failed);
        let last = world.journal.lines().pop();
        let expected = "failed 3: the handler returned 1 outcomes for a batch of 3 records";
        assert_eq!(last.as_deref(), Some(expected));
    }

    #[test]
    fn the_words_of_a_panic_survive() {
        let text = |panic: fn()| panic_text(catch_unwind(panic).expect_err("it panics"));
        assert_eq!(text(|| panic!("plain")), "panicked: plain");
        assert_eq!(text(|| panic!("number {}", 3)), "panicked: number 3");
        assert_eq!(
            text(|| std::panic::panic_any(3)),
            "panicked: a value that is no text"
        );
    }

    fn vec_of(words: [&str; 3]) -> Vec<String> {
        words.map(str::to_owned).to_vec()
    }
}
