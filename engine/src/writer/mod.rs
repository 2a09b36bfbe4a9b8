//! The thread that gets to the broker what is written on a record's account: its outputs, and its dead letter.
//!
//! ```text
//!   core --Send, WriteDeadLetter--> writer's thread --> producer --> broker
//!     ^                                   |                |
//!     '--- acknowledged, or failed -------'<--- reports ---'
//! ```
//!
//! It holds only so much in librdkafka at once; the rest waits here, and is of records that the core counts in its
//! buffers. What fails goes back to the core, which decides what follows. When the engine has ended the thread throws
//! away what has no report yet: its records are incomplete, and whoever has their partition next runs them again.
//!
//! - `job` what is written for one record, from the first message to the last report
//! - `lanes` one record of a lane after the other
//! - `producers` the producer, and another one in its place

mod job;
mod lanes;
mod producers;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use keyway_core::{DeadLetter, Sending, Sent, TaskRef};
use rdkafka::ClientConfig;
use tokio::runtime::Handle;

use self::job::Open;
pub(crate) use self::job::{Job, LetterJob, produce_letter, produce_outputs};
use self::lanes::SendLanes;
pub(crate) use self::producers::{ProducerKind, Producers};
use crate::commits::Owned;
use crate::context::Member;
use crate::kafka::{ClientError, DeniedWhat, NotWritten, ProducerEvent};
use crate::observer::Observer;
use crate::poll::{Inbound, InboxSender, TokenProvider};
use crate::record::{Message, Record};
use crate::workers::guarded;

/// Messages in librdkafka's hands at once: enough to fill its batches, few enough that they are no matter.
const MOST_MESSAGES: usize = 10_000;

/// Their bytes; a larger job goes alone.
const MOST_BYTES: usize = 8 << 20;

/// While messages are under way their reports are waited for this long before new jobs are looked for.
const LOOK_FOR_REPORTS: Duration = Duration::from_millis(1);

/// Without jobs the producer is looked after this often, for the sake of its tokens.
const LOOK_IDLE: Duration = Duration::from_secs(1);

/// A missing topic is asked for at most this often, and so long an answer is waited for: what goes to other topics
/// waits meanwhile.
const LOOK_FOR_TOPIC: Duration = Duration::from_millis(250);
const TOPIC_ANSWER: Duration = Duration::from_secs(1);

/// Why outputs were not sent which nothing was wrong with.
pub(crate) const HELD_BACK: &str =
    "the record before it in its batch runs again, and its outputs come after that one's";

const ASSIGNMENT_OVER: &str = "its partition has left this member before its outputs were sent";

/// Topics of which something is remembered: beyond, all of it is forgotten, which costs a question or a status line.
const MOST_TOPICS: usize = 1_000;

/// What the thread works with.
pub(crate) struct Writer {
    producers: Producers,
    owned: Arc<Owned>,
    member: Arc<Member>,
    observer: Option<Arc<dyn Observer>>,
    inbox: InboxSender,
    /// Not yet in librdkafka's hands.
    waiting: VecDeque<Job>,
    /// Outputs behind those of the record before them in their lane.
    behind: SendLanes,
    /// In librdkafka's hands, by the number that each message of the job has.
    open: HashMap<u64, Open>,
    /// Messages of these without a report, and the bytes of these jobs.
    messages: usize,
    bytes: usize,
    last_number: u64,
    /// Topics that have refused outputs and taken none since.
    failing: HashSet<String>,
    /// Of these, topics that have taken some, and the poll thread was not told yet.
    healed: Vec<String>,
    /// Topics that were missing at the last try, asked for before the next.
    missing: HashSet<String>,
    looked_for_topic: Option<Instant>,
    /// Acknowledged and not yet told to the poll thread.
    acknowledged: Vec<Sent>,
}

impl Writer {
    /// A writer whose producer is made when there is something to write.
    pub(crate) fn new(
        config: ClientConfig,
        provider: Option<TokenProvider>,
        runtime: Option<Handle>,
        owned: Arc<Owned>,
        member: Arc<Member>,
        observer: Option<Arc<dyn Observer>>,
        inbox: InboxSender,
    ) -> Self {
        Self {
            producers: Producers::new(ProducerKind::Plain, config, provider, runtime),
            owned,
            member,
            observer,
            inbox,
            waiting: VecDeque::new(),
            behind: SendLanes::default(),
            open: HashMap::new(),
            messages: 0,
            bytes: 0,
            last_number: 0,
            failing: HashSet::new(),
            healed: Vec::new(),
            missing: HashSet::new(),
            looked_for_topic: None,
            acknowledged: Vec::new(),
        }
    }

    /// Makes the producer now, so that a configuration which librdkafka refuses shows at the start.
    ///
    /// # Errors
    /// When it does.
    pub(crate) fn opened(mut self) -> Result<Self, ClientError> {
        self.producers.current()?;
        Ok(self)
    }

    /// Starts the thread; it ends when the sender is dropped.
    pub(crate) fn start(self) -> std::io::Result<Sender<Vec<Job>>> {
        // Bounded by the core's buffers, which hold each of these records.
        let (sender, jobs) = crossbeam_channel::unbounded();
        std::thread::Builder::new()
            .name("keyway-writer".to_owned())
            .spawn(move || self.run(&jobs))?;
        Ok(sender)
    }

    fn run(mut self, jobs: &Receiver<Vec<Job>>) {
        while self.take_jobs(jobs) {
            while self.messages < MOST_MESSAGES && self.bytes < MOST_BYTES {
                let Some(job) = self.waiting.pop_front() else {
                    break;
                };
                self.write(job);
            }
            let timeout = match self.open.is_empty() {
                true => Duration::ZERO,
                false => LOOK_FOR_REPORTS,
            };
            self.take_reports(timeout);
            self.tell_acknowledged();
        }
        // First the records, which the consumer's end waits for, then the producer, whose end may take its time.
        self.waiting.clear();
        self.behind.clear();
        self.open.clear();
        self.producers.drop_current();
    }

    /// Takes what is to be written. Says whether the engine is still there.
    fn take_jobs(&mut self, jobs: &Receiver<Vec<Job>>) -> bool {
        if self.open.is_empty() && self.waiting.is_empty() {
            match jobs.recv_timeout(LOOK_IDLE) {
                Ok(together) => self.enter(together),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        loop {
            match jobs.try_recv() {
                Ok(together) => self.enter(together),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn enter(&mut self, together: Vec<Job>) {
        for job in together {
            self.waiting.extend(self.behind.enter(job));
        }
    }

    fn write(&mut self, job: Job) {
        if let Some(reason) = self.producers.drop_fatal() {
            self.fail_open(&reason);
        }
        if let Job::Outputs(outputs) = &job {
            if !self.owned.holds(&outputs.sending.at) {
                return self.assignment_over(job);
            }
        }
        self.look_for_missing(&job);
        let failing = &self.failing;
        let tried: Vec<String> = match failing.is_empty() {
            true => Vec::new(),
            false => {
                let topics = job.topics().filter(|topic| failing.contains(*topic));
                topics.map(str::to_owned).collect()
            }
        };
        let number = self.last_number + 1;
        let mut open = match self.producers.current() {
            Ok(producer) => job.write(producer, number, &self.member),
            Err(error) => job.refused(error),
        };
        open.tried = tried;
        if open.messages == 0 {
            return self.ended(open);
        }
        self.last_number = number;
        self.messages += open.messages;
        self.bytes += open.bytes;
        self.open.insert(number, open);
    }

    /// Of what the producer had there is no report any more.
    fn fail_open(&mut self, reason: &ClientError) {
        (self.messages, self.bytes) = (0, 0);
        for (_, mut open) in std::mem::take(&mut self.open) {
            open.failure.get_or_insert_with(|| NotWritten {
                error: reason.clone(),
                topic: open.topic.as_ref().to_owned(),
            });
            self.ended(open);
        }
    }

    /// A topic that has been made since it was missing is known from then on.
    fn look_for_missing(&mut self, job: &Job) {
        if self.missing.is_empty() {
            return;
        }
        let now = Instant::now();
        let is_soon = |at: Instant| now.saturating_duration_since(at) < LOOK_FOR_TOPIC;
        if self.looked_for_topic.is_some_and(is_soon) {
            return;
        }
        let mut topics = job.topics();
        if let Some(topic) = topics.find(|topic| self.missing.remove(*topic)) {
            if let Ok(producer) = self.producers.current() {
                producer.look_for(topic, TOPIC_ANSWER);
            }
            self.looked_for_topic = Some(Instant::now());
        }
    }

    fn take_reports(&mut self, timeout: Duration) {
        for event in self.producers.poll(timeout) {
            match event {
                ProducerEvent::Delivered { number, result } => self.take_report(number, result),
                ProducerEvent::TokenRefresh => self.producers.ask_for_token(),
            }
        }
    }

    fn take_report(&mut self, number: u64, result: Result<(), NotWritten>) {
        let Some(open) = self.open.get_mut(&number) else {
            return;
        };
        self.messages -= 1;
        if open.report(result) {
            if let Some(open) = self.open.remove(&number) {
                self.bytes -= open.bytes;
                self.ended(open);
            }
        }
    }

    fn ended(&mut self, open: Open) {
        let Open {
            job,
            failure,
            tried,
            ..
        } = open;
        let error = failure.as_ref().map(|failure| &failure.error);
        if let Some(ClientError::Denied {
            what: DeniedWhat::MissingTopic(topic),
            ..
        }) = error
        {
            note(&mut self.missing, topic);
        }
        match (job, failure) {
            (Job::Outputs(job), None) => {
                for topic in tried {
                    if self.failing.remove(&topic) {
                        self.healed.push(topic);
                    }
                }
                self.sent(job.sending);
            }
            (Job::Outputs(job), Some(failure)) => self.not_sent(job.sending, failure),
            (Job::Letter(job), None) => self.letter_written(job.letter),
            (Job::Letter(job), Some(failure)) => {
                self.inbox.send(Inbound::LetterFailed {
                    letter: job.letter,
                    topic: job.to.topic().into(),
                    error: failure.error,
                });
            }
        }
    }

    fn sent(&mut self, sending: Sending<Message>) {
        let Sending {
            at,
            payload,
            update,
            bytes,
            ..
        } = sending;
        self.tell(&at, payload, |observer, record| observer.done(record));
        self.acknowledged.push(Sent { at, update, bytes });
        if let Some(next) = self.behind.sent(at.lane) {
            self.waiting.push_front(next);
        }
    }

    fn not_sent(&mut self, sending: Sending<Message>, failure: NotWritten) {
        note(&mut self.failing, &failure.topic);
        let lane = sending.at.lane;
        let text = format!("an output could not be sent to {failure}");
        let sending = self.failed(sending, &text);
        self.inbox.send(Inbound::OutputsFailed { sending, failure });
        let behind: Vec<_> = self.behind.failed(lane).collect();
        for sending in behind {
            let sending = self.failed(sending, HELD_BACK);
            self.inbox.send(Inbound::OutputsNotSent(sending));
        }
    }

    fn failed(&self, sending: Sending<Message>, error: &str) -> Sending<Message> {
        fail_attempt(sending, error, &self.member, self.observer.as_deref())
    }

    /// Nothing of it has reached librdkafka, and whoever has the partition now runs the record again.
    fn assignment_over(&mut self, job: Job) {
        let Job::Outputs(job) = job else {
            return;
        };
        let lane = job.sending.at.lane;
        let behind: Vec<_> = self.behind.failed(lane).collect();
        for sending in std::iter::once(job.sending).chain(behind) {
            let sending = self.failed(sending, ASSIGNMENT_OVER);
            self.inbox.send(Inbound::OutputsNotSent(sending));
        }
    }

    fn letter_written(&self, letter: DeadLetter<Message>) {
        let DeadLetter { at, payload, .. } = letter;
        self.tell(&at, payload, |observer, record| observer.dead(record));
        self.inbox.send(Inbound::LetterWritten(at));
    }

    fn tell(&self, at: &TaskRef, payload: Message, what: impl FnOnce(&dyn Observer, &Record)) {
        tell(self.observer.as_deref(), at, payload, &self.member, what);
    }

    fn tell_acknowledged(&mut self) {
        if !self.acknowledged.is_empty() {
            self.inbox.send(Inbound::OutputsAcknowledged {
                sent: std::mem::take(&mut self.acknowledged),
                healed: std::mem::take(&mut self.healed),
            });
        }
    }
}

fn note(topics: &mut HashSet<String>, topic: &str) {
    if topics.len() >= MOST_TOPICS {
        topics.clear();
    }
    topics.insert(topic.to_owned());
}

/// Tells that an attempt has failed, and notes it with its record.
pub(crate) fn fail_attempt(
    sending: Sending<Message>,
    error: &str,
    member: &Arc<Member>,
    observer: Option<&dyn Observer>,
) -> Sending<Message> {
    Sending {
        payload: note_failure(&sending.at, sending.payload, error, member, observer),
        ..sending
    }
}

/// The same, of an attempt whose outputs stood on the stage.
pub(crate) fn note_failure(
    at: &TaskRef,
    payload: Message,
    error: &str,
    member: &Arc<Member>,
    observer: Option<&dyn Observer>,
) -> Message {
    let payload = tell(observer, at, payload, member, |observer, record| {
        observer.failed(record, error);
    });
    match member.keeps_failures() {
        true => payload.with_failure(member.clock().wall_millis(), error),
        false => payload,
    }
}

/// Tells the observer of a record, and gives it back.
pub(crate) fn tell(
    observer: Option<&dyn Observer>,
    at: &TaskRef,
    payload: Message,
    member: &Arc<Member>,
    what: impl FnOnce(&dyn Observer, &Record),
) -> Message {
    let Some(observer) = observer else {
        return payload;
    };
    let record = Record::new(payload, at, 0, Arc::clone(member));
    guarded(|| what(observer, &record));
    record.into_parts().0
}
