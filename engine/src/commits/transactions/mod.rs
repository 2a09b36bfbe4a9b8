//! Commits with outputs: offsets, texts, outputs and dead letters of a plan are stored in one transaction, or none is.
//!
//! ```text
//!   plan, staged --> member under the lock --> begin --> outputs, reported --> offsets --> commit --> stored
//!        ^                                                  |                     |           |
//!        +------- aborted: all of it comes back <-----------'---------------------'           | no definite answer
//!        '------- not stored <--- what the group has now <--- the id taken over <-------------'
//! ```
//!
//! A transaction is begun, filled and ended here, in one go: no handler holds one open. The group's word for who this
//! member is is read once for each, before anything is sent, under the lock that a change of the assignment takes.
//!
//! - `writing` the messages of one transaction, from the first to the last report
//! - `batches` how much goes to a broker at once that has refused a batch for its size
//! - `topics` what is remembered of topics that refuse
//! - `refused_offsets` which partition a refusal is about, and how much text the broker takes

mod batches;
mod refused_offsets;
mod topics;
mod writing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use keyway_core::{CommitAnswer, CommitFinished, PartitionAnswer, Staged, TaskRef, Transaction};

use self::batches::Batches;
use self::topics::Topics;
pub(crate) use self::writing::letter_of;
use super::{Composer, judge_not_sent, refused};
use crate::causal::Stamp;
use crate::context::Member;
use crate::dead_letters::{DeadLetters, Origin};
use crate::kafka::{
    ClientError, CommitCode, CommitOffset, GroupClient, NotWritten, ProducerEvent, StepError,
    TopicPartition,
};
use crate::metrics;
use crate::poll::{Inbound, InboxSender};
use crate::record::Message;
use crate::riders::Made;
use crate::writer::Producers;

/// Between two questions for what has become of a transaction.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Without jobs the producer is looked after this often, for the sake of its tokens.
const LOOK_IDLE: Duration = Duration::from_secs(1);

/// Between two warnings that transactions are aborted.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// A transaction with the names of its partitions, in its order.
pub(crate) struct TransactionJob {
    pub(crate) transaction: Transaction<Message>,
    pub(crate) names: Vec<TopicPartition>,
    /// Where the dead letters of each partition go.
    pub(crate) letters: Vec<Option<DeadLetters>>,
    pub(crate) origin: Origin,
    pub(crate) stamp: Stamp,
}

/// What is written, beside the records' own.
pub(super) struct Beside {
    /// Where the dead letters of each partition go.
    letters: Vec<Option<DeadLetters>>,
    origin: Origin,
    stamp: Stamp,
}

/// What a transaction came to.
#[derive(Debug)]
pub(crate) struct Transacted {
    pub(crate) finished: CommitFinished,
    /// What it carried, for each partition of its plan.
    pub(crate) staged: Vec<Vec<Staged<Message>>>,
    /// What brokers have refused.
    pub(crate) refusals: Vec<Refusal>,
    /// Topics that had refused something, and took what they were given now.
    pub(crate) healed: Vec<String>,
}

/// Something that a broker has refused, and would again.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) at: TaskRef,
    pub(crate) is_letter: bool,
    pub(crate) failure: NotWritten,
}

/// What the thread works with.
pub(crate) struct Transactor {
    pub(crate) producers: Producers,
    pub(crate) group: GroupClient,
    pub(crate) composer: Composer,
    /// How long one answer of a coordinator is waited for.
    pub(crate) timeout: Duration,
    /// How long a transaction may be open.
    pub(crate) transaction_timeout: Duration,
    pub(crate) member: Arc<Member>,
    pub(crate) inbox: InboxSender,
    pub(crate) state: TransactorState,
}

/// What changes from transaction to transaction.
#[derive(Debug, Default)]
pub(crate) struct TransactorState {
    /// The producer there is has taken its id over.
    is_ready: bool,
    /// The number of the last record that was written.
    last_number: u64,
    topics: Topics,
    batches: Batches,
    warned_at: Option<Instant>,
}

/// How far a transaction got.
enum Outcome {
    Committed,
    /// Nothing of it is or will be stored: an answer for each partition that was in it.
    Aborted(Vec<CommitAnswer>),
    /// The same, since the text of this part is longer than the broker takes: so long it takes them, if that was found out.
    TooLarge {
        longest: usize,
        takes: Option<usize>,
    },
    /// It may be stored.
    InDoubt,
}

/// One partition of a transaction.
struct Part<'j> {
    /// Its place in the plan.
    index: usize,
    offset: CommitOffset<'j>,
}

impl Transactor {
    /// Starts the thread; it ends when the sender is dropped.
    pub(crate) fn start(self) -> std::io::Result<Sender<TransactionJob>> {
        // Never more than one plan is under way.
        let (sender, jobs) = crossbeam_channel::unbounded();
        std::thread::Builder::new()
            .name("keyway-transact".to_owned())
            .spawn(move || self.run(&jobs))?;
        Ok(sender)
    }

    fn run(mut self, jobs: &Receiver<TransactionJob>) {
        loop {
            let job = match jobs.recv_timeout(LOOK_IDLE) {
                Ok(job) => job,
                Err(RecvTimeoutError::Timeout) => {
                    // For the sake of its tokens.
                    self.take_idle_events();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let transacted = self.transact(job, jobs);
            if !self.inbox.send(Inbound::Transacted(Box::new(transacted))) {
                break;
            }
        }
        self.producers.drop_current();
    }

    fn transact(&mut self, job: TransactionJob, jobs: &Receiver<TransactionJob>) -> Transacted {
        let started = Instant::now();
        let TransactionJob {
            transaction: Transaction { plan, mut staged },
            names,
            letters,
            origin,
            stamp,
        } = job;
        let made = self.composer.compose(&plan, &names);
        self.look_for_unknown(&names);
        let mut answers: Vec<CommitAnswer> = made
            .iter()
            .zip(&names)
            .map(|(made, name)| match made {
                made if made.is_unchanged => CommitAnswer::Unchanged,
                _ if self.state.topics.unknown.contains(&name.topic) => CommitAnswer::Denied,
                _ => CommitAnswer::Repeat,
            })
            .collect();
        let parts: Vec<Part<'_>> = (0..made.len())
            .filter(|index| answers[*index] == CommitAnswer::Repeat)
            .map(|index| Part {
                index,
                offset: made[index].offset(&plan.partitions[index], &names[index]),
            })
            .collect();
        let (mut refusals, mut takes) = (Vec::new(), None);
        let beside = Beside {
            letters,
            origin,
            stamp,
        };
        if !parts.is_empty() && self.can_be_told(&made, &parts) {
            let mut outcome = self.attempt(&plan, &parts, &mut staged, &beside, &mut refusals);
            if let Outcome::InDoubt = outcome {
                outcome = Outcome::Aborted(self.find_out(&plan, &parts, jobs));
            }
            let found = match outcome {
                Outcome::Aborted(answers) => answers,
                Outcome::TooLarge {
                    longest,
                    takes: found,
                } => {
                    takes = found;
                    let too_large = |at| match at == longest {
                        true => CommitAnswer::TooLarge,
                        false => CommitAnswer::Repeat,
                    };
                    (0..parts.len()).map(too_large).collect()
                }
                Outcome::Committed | Outcome::InDoubt => vec![CommitAnswer::Stored; parts.len()],
            };
            for (part, answer) in parts.iter().zip(found) {
                answers[part.index] = answer;
            }
        }
        for part in &parts {
            if answers[part.index] == CommitAnswer::Stored {
                let (plan_part, made) = (&plan.partitions[part.index], &made[part.index]);
                self.composer
                    .note_stored(&plan, plan_part, made, &part.offset);
            }
        }
        let is_stored = answers.contains(&CommitAnswer::Stored);
        let outcome = if is_stored { "committed" } else { "aborted" };
        ::metrics::counter!(metrics::TRANSACTIONS, "outcome" => outcome).increment(1);
        let healed = match is_stored && !self.state.topics.failing.is_empty() {
            true => self.healed(&staged, &beside.letters, &answers),
            false => Vec::new(),
        };
        for refusal in &refusals {
            self.note_refusal(&refusal.failure);
        }
        let partitions = plan.partitions.iter().zip(&made).zip(answers);
        let finished = CommitFinished {
            plan: plan.id,
            partitions: partitions
                .map(|((part, made), answer)| PartitionAnswer {
                    takes: takes.filter(|_| answer == CommitAnswer::TooLarge),
                    ..PartitionAnswer::new(part, &made.text, answer)
                })
                .collect(),
            took: started.elapsed(),
        };
        Transacted {
            finished,
            staged,
            refusals,
            healed,
        }
    }

    /// A map that was left out would have outputs written twice after a restart. The core plans no such transaction.
    fn can_be_told(&self, made: &[Made], parts: &[Part<'_>]) -> bool {
        let told = parts.iter().all(|part| !made[part.index].text.stripped);
        if !told {
            tracing::error!("a transaction without its hole map was planned, and is not made");
        }
        told
    }

    fn attempt(
        &mut self,
        plan: &keyway_core::CommitPlan,
        parts: &[Part<'_>],
        staged: &mut [Vec<Staged<Message>>],
        beside: &Beside,
        refusals: &mut Vec<Refusal>,
    ) -> Outcome {
        let all = |answer: CommitAnswer| Outcome::Aborted(vec![answer; parts.len()]);
        if self.producers.drop_fatal().is_some() {
            self.state.is_ready = false;
        }
        if let Err(error) = self.make_ready() {
            return all(self.judge(&error));
        }
        let planned = parts.iter().map(|part| &plan.partitions[part.index]);
        let owned = Arc::clone(&self.composer.owned);
        let member = match self.group.member_for(|| owned.holds_all(planned)) {
            Ok(member) => member,
            Err(why) => {
                refused("not_sent");
                return all(judge_not_sent(&why));
            }
        };
        let begun = match self.producers.current() {
            Ok(producer) => producer.begin(),
            Err(error) => Err(StepError::client("begin", error)),
        };
        if let Err(error) = begun {
            self.give_up_producer();
            return all(self.judge(&error));
        }
        let indexes: Vec<usize> = parts.iter().map(|part| part.index).collect();
        let writing = self.write(&indexes, staged, beside);
        if !writing.refused.is_empty() {
            self.abort();
            let first = writing.first;
            self.mark_refused(&indexes, staged, first, writing.refused, refusals);
            refused("outputs");
            return all(CommitAnswer::Repeat);
        }
        // After a refusal the rest is thrown away, which is nobody's fault.
        if let Some(error) = writing.broken {
            self.abort();
            let error = StepError::client("outputs", error);
            return all(self.judge(&error));
        }
        let offsets: Vec<CommitOffset<'_>> = parts.iter().map(|part| part.offset.clone()).collect();
        // Half of what the transaction may take: the other half is for its end.
        let timeout = self.timeout.min(self.transaction_timeout / 2);
        let sent = match self.producers.current() {
            Ok(producer) => producer.send_offsets(&offsets, member, timeout),
            Err(error) => Err(StepError::client("offsets", error)),
        };
        if let Err(error) = &sent {
            self.end_refused(&sent);
            return self.judge_offsets(error, plan, parts);
        }
        for index in indexes {
            self.tell_letters(&mut staged[index]);
        }
        let deadline = Instant::now() + self.timeout;
        let mut events = Vec::new();
        let committed = match self.producers.current() {
            Ok(producer) => producer.commit(deadline, &mut events),
            Err(error) => Err(StepError::client("commit", error)),
        };
        self.take_tokens(&events);
        match committed {
            Ok(()) => Outcome::Committed,
            Err(error) => {
                tracing::warn!(%error, "no definite answer to a transaction: its outcome is looked up");
                Outcome::InDoubt
            }
        }
    }

    /// A producer that has its id to itself.
    fn make_ready(&mut self) -> Result<(), StepError> {
        if self.state.is_ready {
            return Ok(());
        }
        let deadline = Instant::now() + self.timeout;
        let mut events = Vec::new();
        let taken_over = match self.producers.current() {
            Ok(producer) => producer.take_over(deadline, &mut events),
            Err(error) => Err(StepError::client("take over", error)),
        };
        self.take_tokens(&events);
        match taken_over {
            Ok(()) => self.state.is_ready = true,
            // It goes on trying, but does not recover from a refusal.
            Err(ref error) if error.error.is_transient() && !self.producers.has_fatal() => {}
            Err(_) => self.give_up_producer(),
        }
        taken_over
    }

    fn give_up_producer(&mut self) {
        self.producers.let_go();
        self.state.is_ready = false;
    }

    /// Nothing of the transaction is to be stored, whose offsets were answered like this.
    fn end_refused(&mut self, offsets: &Result<(), StepError>) {
        match offsets {
            // Offsets that arrive late would go into the next transaction of this producer's epoch, in place of its own: the
            // next who takes the id over has another.
            Err(error) if error.is_without_return() || error.has_no_answer() => {
                self.give_up_producer();
            }
            _ => self.abort(),
        }
    }

    /// What was sent is never committed: either the broker is told, or the next who takes the id over ends it.
    fn abort(&mut self) {
        let deadline = Instant::now() + self.timeout;
        let mut events = Vec::new();
        let aborted = match self.producers.current() {
            Ok(producer) => producer.abort(deadline, &mut events),
            Err(error) => Err(StepError::client("abort", error)),
        };
        self.take_tokens(&events);
        if let Err(error) = aborted {
            tracing::debug!(%error, "another producer takes over");
            self.give_up_producer();
        }
    }

    /// Takes the id over, which ends the transaction one way or the other, and compares what the group has now with the
    /// plan. Goes on until there is an answer, or nobody waits for one: nothing of these partitions may be written again
    /// before it is known.
    fn find_out(
        &mut self,
        plan: &keyway_core::CommitPlan,
        parts: &[Part<'_>],
        jobs: &Receiver<TransactionJob>,
    ) -> Vec<CommitAnswer> {
        let names: Vec<TopicPartition> = parts.iter().map(|part| part.offset.tp.clone()).collect();
        self.give_up_producer();
        loop {
            let owned = &self.composer.owned;
            let mut planned = parts.iter().map(|part| &plan.partitions[part.index]);
            if !planned.any(|part| owned.holds_all(std::iter::once(part))) {
                // Whoever has them now restores what became of it.
                return vec![CommitAnswer::Superseded; parts.len()];
            }
            if let Some(answers) = self.look_up(&names, parts) {
                return answers;
            }
            let ended = match jobs.recv_timeout(ASK_AGAIN) {
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) | Ok(_) => true,
            };
            if ended {
                return vec![CommitAnswer::Superseded; parts.len()];
            }
        }
    }

    fn look_up(
        &mut self,
        names: &[TopicPartition],
        parts: &[Part<'_>],
    ) -> Option<Vec<CommitAnswer>> {
        if self.producers.drop_fatal().is_some() {
            self.state.is_ready = false;
        }
        if let Err(error) = self.make_ready() {
            self.warn(&error);
            return None;
        }
        let committed = match self.group.committed(names, self.timeout) {
            Ok(committed) => committed,
            Err(ClientError::Closed) => return Some(vec![CommitAnswer::Superseded; parts.len()]),
            Err(error) => {
                tracing::debug!(%error, "what the group has is not known yet");
                return None;
            }
        };
        let committed: Result<Vec<_>, _> = committed
            .into_iter()
            .map(|(_, committed)| committed)
            .collect();
        let committed = committed
            .inspect_err(|error| tracing::debug!(%error, "what the group has is not known yet"))
            .ok()?;
        let answers = parts.iter().zip(committed).map(|(part, stored)| {
            let is_plan = stored.offset == Some(part.offset.offset)
                && stored.metadata == part.offset.metadata.as_bytes();
            match is_plan {
                true => CommitAnswer::Stored,
                false => CommitAnswer::Repeat,
            }
        });
        let answers: Vec<_> = answers.collect();
        tracing::info!(?answers, "the outcome of a transaction was looked up");
        Some(answers)
    }

    fn judge(&mut self, error: &StepError) -> CommitAnswer {
        self.warn(error);
        let (answer, name) = match error.code() {
            CommitCode::Drop(_) => (CommitAnswer::Superseded, "superseded"),
            CommitCode::Lost(_) => (CommitAnswer::MemberLost, "member_lost"),
            CommitCode::TooLarge(_) => (CommitAnswer::TooLarge, "too_large"),
            CommitCode::Denied(..) => (CommitAnswer::Denied, "denied"),
            CommitCode::Retry(_) => (CommitAnswer::Repeat, "repeat"),
            CommitCode::Success | CommitCode::Other(_) => (CommitAnswer::Repeat, "other"),
        };
        refused(name);
        answer
    }

    /// Says that transactions do not come about, now and then.
    fn warn(&mut self, error: &StepError) {
        let now = Instant::now();
        let is_soon = |at: Instant| now.saturating_duration_since(at) < WARN_EVERY;
        if self.state.warned_at.is_some_and(is_soon) {
            tracing::debug!(%error, "a transaction was not made");
        } else {
            self.state.warned_at = Some(now);
            tracing::warn!(%error, "a transaction was not made: it is tried again");
        }
    }

    fn take_idle_events(&mut self) {
        let events = self.producers.poll(Duration::ZERO);
        self.take_tokens(&events);
    }

    fn take_tokens(&self, events: &[ProducerEvent]) {
        take_tokens(&self.producers, events);
    }
}

fn take_tokens(producers: &Producers, events: &[ProducerEvent]) {
    if events
        .iter()
        .any(|event| matches!(event, ProducerEvent::TokenRefresh))
    {
        producers.ask_for_token();
    }
}
