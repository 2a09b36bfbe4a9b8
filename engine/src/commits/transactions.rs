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

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use keyway_core::{
    Carried, CommitAnswer, CommitFinished, PartitionAnswer, Staged, TaskRef, Transaction,
};

use super::{Composer, judge_not_sent, refused};
use crate::context::Member;
use crate::dead_letters::{DeadLetters, Origin};
use crate::kafka::{
    ClientError, CommitCode, CommitOffset, DeniedWhat, GroupClient, NotWritten, ProducerEvent,
    StepError, TopicPartition,
};
use crate::metrics;
use crate::poll::{Inbound, InboxSender};
use crate::record::{Message, Record};
use crate::riders::Made;
use crate::workers::guarded;
use crate::writer::{Producers, note_failure, produce_letter, produce_outputs};

/// Between two questions for what has become of a transaction.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// While messages are given to librdkafka its reports are taken after each so many.
const LOOK_FOR_REPORTS: u64 = 1_000;

/// A missing topic is asked for before the next try, and so long an answer is waited for.
const TOPIC_ANSWER: Duration = Duration::from_secs(1);

/// Between two warnings that transactions are aborted.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// Topics of which something is remembered: beyond, all of it is forgotten, which costs a question or a status line.
const MOST_TOPICS: usize = 1_000;

/// A transaction with the names of its partitions, in its order.
pub(crate) struct TransactionJob {
    pub(crate) transaction: Transaction<Message>,
    pub(crate) names: Vec<TopicPartition>,
    /// Where the dead letters of each partition go.
    pub(crate) letters: Vec<Option<DeadLetters>>,
    pub(crate) origin: Origin,
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
    /// Topics that have refused something and taken nothing since.
    failing: HashSet<String>,
    /// Of these, topics that were missing: asked for before the next try.
    missing: BTreeSet<String>,
    /// Topics of the plan that the group's coordinator did not know: left out until they are seen.
    unknown: HashSet<Arc<str>>,
    warned_at: Option<Instant>,
}

/// How far a transaction got.
enum Outcome {
    Committed,
    /// Nothing of it is or will be stored: an answer for each partition that was in it.
    Aborted(Vec<CommitAnswer>),
    /// It may be stored.
    InDoubt,
}

/// One partition of a transaction.
struct Part<'j> {
    /// Its place in the plan.
    index: usize,
    offset: CommitOffset<'j>,
}

/// The messages of one transaction.
struct Writing {
    /// The number of its first record.
    first: u64,
    /// Without a report.
    open: usize,
    /// By the record's number.
    refused: Vec<(u64, NotWritten)>,
    /// Why the transaction can't be committed, though no record is to blame.
    broken: Option<ClientError>,
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
            let job = match jobs.recv_timeout(WARN_EVERY) {
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
        } = job;
        let made = self.composer.compose(&plan, &names);
        self.look_for_unknown(&names);
        let mut answers: Vec<CommitAnswer> = made
            .iter()
            .zip(&names)
            .map(|(made, name)| match made {
                made if made.is_unchanged => CommitAnswer::Unchanged,
                _ if self.state.unknown.contains(&name.topic) => CommitAnswer::Denied,
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
        let mut refusals = Vec::new();
        if !parts.is_empty() && self.can_be_told(&made, &parts) {
            let mut outcome =
                self.attempt(&plan, &parts, &mut staged, &letters, &origin, &mut refusals);
            if let Outcome::InDoubt = outcome {
                outcome = Outcome::Aborted(self.find_out(&plan, &parts, jobs));
            }
            let found = match outcome {
                Outcome::Aborted(answers) => answers,
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
        let healed = match is_stored && !self.state.failing.is_empty() {
            true => self.healed(&staged, &letters, &answers),
            false => Vec::new(),
        };
        for refusal in &refusals {
            self.note_refusal(&refusal.failure);
        }
        let partitions = plan.partitions.iter().zip(&made).zip(answers);
        let finished = CommitFinished {
            plan: plan.id,
            partitions: partitions
                .map(|((part, made), answer)| PartitionAnswer::new(part, &made.text, answer))
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
        letters: &[Option<DeadLetters>],
        origin: &Origin,
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
        let writing = self.write(&indexes, staged, letters, origin);
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
        if let Err(error) = sent {
            match error.is_without_return() {
                true => self.give_up_producer(),
                false => self.abort(),
            }
            return Outcome::Aborted(self.judge_offsets(&error, parts));
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

    /// Writes what these partitions' records carry, each lane's records in their order, and waits for every report.
    fn write(
        &mut self,
        indexes: &[usize],
        staged: &mut [Vec<Staged<Message>>],
        letters: &[Option<DeadLetters>],
        origin: &Origin,
    ) -> Writing {
        self.look_for_missing();
        let mut writing = Writing {
            first: self.state.last_number + 1,
            open: 0,
            refused: Vec::new(),
            broken: None,
        };
        let Transactor {
            producers, member, ..
        } = self;
        let mut number = self.state.last_number;
        'parts: for index in indexes {
            for staged in &mut staged[*index] {
                number += 1;
                let producer = match producers.current() {
                    Ok(producer) => producer,
                    Err(error) => {
                        writing.broken.get_or_insert(error);
                        break 'parts;
                    }
                };
                let (taken, failure) = match &staged.carried {
                    Carried::Nothing => continue,
                    Carried::Outputs(message) => {
                        message.read_outputs(|outputs| produce_outputs(producer, number, outputs))
                    }
                    // The core asks for no letter where its route has no topic.
                    Carried::Letter { .. } => match (letter_of(staged, member), &letters[*index]) {
                        (Some(record), Some(to)) => {
                            let written =
                                produce_letter(producer, number, &record, to, origin, member);
                            (usize::from(written.is_ok()), written.err())
                        }
                        _ => continue,
                    },
                };
                writing.open += taken;
                if let Some(failure) = failure {
                    writing.note(number, failure);
                }
                if number % LOOK_FOR_REPORTS == 0 {
                    writing.take(producers, Duration::ZERO);
                }
                if writing.broken.is_some() {
                    break 'parts;
                }
            }
        }
        self.state.last_number = number;
        // librdkafka gives every message a report within this time.
        let deadline = Instant::now() + self.transaction_timeout * 2;
        while writing.open > 0 {
            writing.take(&self.producers, ASK_AGAIN);
            if Instant::now() >= deadline {
                writing.broken.get_or_insert(ClientError::no_answer());
                break;
            }
        }
        writing
    }

    /// Marks the records whose messages were refused, and notes what their dead letters will tell.
    fn mark_refused(
        &self,
        indexes: &[usize],
        staged: &mut [Vec<Staged<Message>>],
        first: u64,
        mut failures: Vec<(u64, NotWritten)>,
        refusals: &mut Vec<Refusal>,
    ) {
        failures.sort_by_key(|(number, _)| *number);
        failures.dedup_by_key(|(number, _)| *number);
        let mut failures = failures.into_iter().peekable();
        let mut number = first;
        for index in indexes {
            for staged in &mut staged[*index] {
                let failed = failures.next_if(|(failed, _)| *failed == number);
                number += 1;
                let Some((_, failure)) = failed else { continue };
                staged.refused = true;
                let is_letter = matches!(staged.carried, Carried::Letter { .. });
                let carried = std::mem::replace(&mut staged.carried, Carried::Nothing);
                staged.carried = match carried {
                    Carried::Outputs(message) => Carried::Outputs(note_failure(
                        &staged.at,
                        message,
                        &format!("an output could not be sent to {failure}"),
                        &self.member,
                        self.composer.observer.as_deref(),
                    )),
                    other => other,
                };
                refusals.push(Refusal {
                    at: staged.at,
                    is_letter,
                    failure,
                });
            }
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

    /// The coordinator gives one reason for all partitions.
    fn judge_offsets(&mut self, error: &StepError, parts: &[Part<'_>]) -> Vec<CommitAnswer> {
        let answer = self.judge(error);
        let others = vec![CommitAnswer::Repeat; parts.len()];
        if error.is_missing_topic() {
            for part in parts {
                self.state.unknown.insert(Arc::clone(&part.offset.tp.topic));
            }
            let names: Vec<_> = parts.iter().map(|part| part.offset.tp.clone()).collect();
            self.look_for_unknown(&names);
            let is_unknown = |part: &Part<'_>| self.state.unknown.contains(&part.offset.tp.topic);
            return parts
                .iter()
                .map(|part| match is_unknown(part) {
                    true => CommitAnswer::Denied,
                    false => CommitAnswer::Repeat,
                })
                .collect();
        }
        if answer != CommitAnswer::TooLarge {
            return vec![answer; parts.len()];
        }
        // The longest text is one that is too long.
        let longest = (0..parts.len()).max_by_key(|at| parts[*at].offset.metadata.len());
        let mut answers = others;
        if let Some(longest) = longest {
            answers[longest] = CommitAnswer::TooLarge;
        }
        answers
    }

    /// Of the topics that the coordinator did not know those are forgotten which are there.
    fn look_for_unknown(&mut self, names: &[TopicPartition]) {
        let unknown = &mut self.state.unknown;
        if !names.iter().any(|name| unknown.contains(&name.topic)) {
            return;
        }
        match self.group.topics(self.timeout) {
            Ok(topics) => unknown.retain(|topic| !topics.iter().any(|name| **name == **topic)),
            // Then the coordinator is asked.
            Err(_) => unknown.clear(),
        }
    }

    /// A topic that has been made since it was missing is known from then on.
    fn look_for_missing(&mut self) {
        let missing = std::mem::take(&mut self.state.missing);
        if let (Some(topic), Ok(producer)) = (missing.first(), self.producers.current()) {
            producer.look_for(topic, TOPIC_ANSWER);
        }
    }

    fn note_refusal(&mut self, failure: &NotWritten) {
        if self.state.failing.len() >= MOST_TOPICS {
            self.state.failing.clear();
            self.state.missing.clear();
        }
        self.state.failing.insert(failure.topic.clone());
        if let ClientError::Denied {
            what: DeniedWhat::MissingTopic(topic),
            ..
        } = &failure.error
        {
            self.state.missing.insert(topic.clone());
        }
    }

    /// Topics that had refused something, and were written to.
    fn healed(
        &mut self,
        staged: &[Vec<Staged<Message>>],
        letters: &[Option<DeadLetters>],
        answers: &[CommitAnswer],
    ) -> Vec<String> {
        let mut healed = Vec::new();
        let mut took = |topic: &str| {
            if let Some(topic) = self.state.failing.take(topic) {
                healed.push(topic);
            }
        };
        let parts = staged.iter().zip(letters).zip(answers);
        for ((staged, to), _) in parts.filter(|(_, answer)| **answer == CommitAnswer::Stored) {
            for staged in staged {
                match &staged.carried {
                    Carried::Nothing => {}
                    Carried::Outputs(message) => message.read_outputs(|outputs| {
                        outputs.iter().for_each(|output| took(output.topic()));
                    }),
                    Carried::Letter { .. } => to.iter().for_each(|to| took(to.topic())),
                }
            }
        }
        healed
    }

    /// Tells the observer of dead letters: before they can be seen, and again where they have to be written again.
    fn tell_letters(&self, staged: &mut [Staged<Message>]) {
        let Some(observer) = self.composer.observer.as_deref() else {
            return;
        };
        for record in staged
            .iter_mut()
            .filter_map(|staged| letter_of(staged, &self.member))
        {
            guarded(|| observer.dead(&record));
        }
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

/// The record of which a dead letter is staged.
pub(crate) fn letter_of(staged: &mut Staged<Message>, member: &Arc<Member>) -> Option<Record> {
    let carried = std::mem::replace(&mut staged.carried, Carried::Nothing);
    let (record, carried) = match carried {
        Carried::Letter { payload, tries } => {
            let shared = payload.into_shared();
            let payload = Message::Shared(Arc::clone(&shared));
            let record = Message::Shared(shared);
            let record = Record::new(record, &staged.at, 0, Arc::clone(member));
            (Some(record), Carried::Letter { payload, tries })
        }
        other => (None, other),
    };
    staged.carried = carried;
    record
}

fn take_tokens(producers: &Producers, events: &[ProducerEvent]) {
    if events
        .iter()
        .any(|event| matches!(event, ProducerEvent::TokenRefresh))
    {
        producers.ask_for_token();
    }
}

impl Writing {
    fn take(&mut self, producers: &Producers, timeout: Duration) {
        let events = producers.poll(timeout);
        take_tokens(producers, &events);
        for event in events {
            if let ProducerEvent::Delivered { number, result } = event {
                // What an earlier transaction has left was taken with its abort, or is of no interest.
                if number < self.first {
                    continue;
                }
                self.open = self.open.saturating_sub(1);
                if let Err(failure) = result {
                    self.note(number, failure);
                }
            }
        }
    }

    fn note(&mut self, number: u64, failure: NotWritten) {
        match failure.error.is_of_the_message() {
            true => self.refused.push((number, failure)),
            false => {
                self.broken.get_or_insert(failure.error);
            }
        }
    }
}
