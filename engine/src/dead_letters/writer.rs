//! The thread that gets letters to the broker.
//!
//! It holds only so many letters in librdkafka at once; the others wait here, and are the records that the core counts
//! in its buffers. When the engine has ended it throws away what has no report yet: its records
//! are incomplete, and whoever has their partition next runs them again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use keyway_core::DeadLetter;
use rdkafka::ClientConfig;
use tokio::runtime::Handle;

use super::letter::{Letter, Origin};
use crate::context::Member;
use crate::kafka::{ClientError, DeniedWhat, Producer, ProducerEvent, ProducerTokens};
use crate::observer::Observer;
use crate::poll::{Inbound, InboxSender, TokenProvider, Tokens};
use crate::record::{Message, Record};
use crate::workers::guarded;

/// A letter to write.
#[derive(Debug)]
pub(crate) struct LetterJob {
    pub(crate) letter: DeadLetter<Message>,
    pub(crate) topic: Arc<str>,
    pub(crate) origin: Origin,
}

/// Letters in librdkafka's hands at once: enough to fill its batches, few enough that copies of them are no matter.
const MOST_LETTERS: usize = 1_000;

/// Their bytes, of keys and values; a larger letter goes alone.
const MOST_BYTES: usize = 8 << 20;

/// While letters are under way their reports are waited for this long before new letters are looked for.
const LOOK_FOR_REPORTS: Duration = Duration::from_millis(5);

/// Without letters the producer is looked after this often, for the sake of its tokens.
const LOOK_IDLE: Duration = Duration::from_secs(1);

/// A missing topic is asked for at most this often, and so long an answer is waited for: letters for other topics
/// wait meanwhile.
const LOOK_FOR_TOPIC: Duration = Duration::from_millis(250);
const TOPIC_ANSWER: Duration = Duration::from_secs(1);

/// What the thread works with.
pub(crate) struct Writer {
    producer: Producer,
    /// For a producer in place of one that met a fatal error.
    config: ClientConfig,
    tokens: Option<Tokens<ProducerTokens>>,
    member: Arc<Member>,
    observer: Option<Arc<dyn Observer>>,
    inbox: InboxSender,
    /// Not yet in librdkafka's hands.
    waiting: VecDeque<LetterJob>,
    /// In librdkafka's hands, by number, each with its size.
    written: HashMap<u64, (usize, LetterJob)>,
    /// The sum of their sizes.
    bytes: usize,
    last_number: u64,
    /// Topics that were missing at the last try, asked for before the next.
    missing: HashSet<Arc<str>>,
    looked_for_topic: Option<Instant>,
}

impl Writer {
    /// Makes the producer.
    ///
    /// # Errors
    /// When librdkafka refuses the configuration.
    pub(crate) fn open(
        config: ClientConfig,
        provider: Option<TokenProvider>,
        runtime: Option<Handle>,
        member: Arc<Member>,
        observer: Option<Arc<dyn Observer>>,
        inbox: InboxSender,
    ) -> Result<Self, ClientError> {
        let producer = Producer::open(&config, provider.is_some())?;
        Ok(Self {
            tokens: provider.map(|provider| Tokens {
                provider,
                runtime,
                taker: producer.token_taker(),
            }),
            producer,
            config,
            member,
            observer,
            inbox,
            waiting: VecDeque::new(),
            written: HashMap::new(),
            bytes: 0,
            last_number: 0,
            missing: HashSet::new(),
            looked_for_topic: None,
        })
    }

    /// Starts the thread; it ends when the sender is dropped.
    pub(crate) fn start(self) -> std::io::Result<Sender<LetterJob>> {
        // Bounded by the core's buffers, which hold each of these records.
        let (sender, jobs) = crossbeam_channel::unbounded();
        std::thread::Builder::new()
            .name("keyway-letters".to_owned())
            .spawn(move || self.run(&jobs))?;
        Ok(sender)
    }

    fn run(mut self, jobs: &Receiver<LetterJob>) {
        while self.take_jobs(jobs) {
            while self.written.len() < MOST_LETTERS && self.bytes < MOST_BYTES {
                let Some(job) = self.waiting.pop_front() else {
                    break;
                };
                self.write(job);
            }
            let timeout = match self.written.is_empty() {
                true => Duration::ZERO,
                false => LOOK_FOR_REPORTS,
            };
            self.take_reports(timeout);
        }
        // First the records, which the consumer's end waits for, then the producer, whose end may take its time.
        self.waiting.clear();
        self.written.clear();
        self.producer.close();
    }

    /// Takes what is to be written. Says whether the engine is still there.
    fn take_jobs(&mut self, jobs: &Receiver<LetterJob>) -> bool {
        if self.written.is_empty() && self.waiting.is_empty() {
            match jobs.recv_timeout(LOOK_IDLE) {
                Ok(job) => self.waiting.push_back(job),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        loop {
            match jobs.try_recv() {
                Ok(job) => self.waiting.push_back(job),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn write(&mut self, job: LetterJob) {
        if let Some(reason) = self.producer.fatal() {
            self.replace_producer(&reason);
        }
        if self.missing.contains(&job.topic) {
            self.look_for(&job.topic);
        }
        let LetterJob {
            letter: DeadLetter { at, payload, tries },
            topic,
            origin,
        } = job;
        let record = Record::new(payload, &at, 0, Arc::clone(&self.member));
        let (number, size) = (self.last_number + 1, record.size());
        let result = {
            let letter = Letter::of(&record, &origin);
            let headers = letter.headers();
            self.producer
                .produce(&letter.outgoing(&topic, &headers), number)
        };
        let (payload, _) = record.into_parts();
        let job = LetterJob {
            letter: DeadLetter { at, payload, tries },
            topic,
            origin,
        };
        match result {
            Ok(()) => {
                self.last_number = number;
                self.bytes += size;
                self.written.insert(number, (size, job));
            }
            Err(error) => self.failed(job, error),
        }
    }

    /// A topic that has been made since is known from then on.
    fn look_for(&mut self, topic: &Arc<str>) {
        let now = Instant::now();
        let is_soon = |at: Instant| now.saturating_duration_since(at) < LOOK_FOR_TOPIC;
        if self.looked_for_topic.is_some_and(is_soon) {
            return;
        }
        self.producer.look_for(topic, TOPIC_ANSWER);
        self.looked_for_topic = Some(Instant::now());
    }

    fn take_reports(&mut self, timeout: Duration) {
        let written = &self.written;
        let topic = |number| Some(Arc::clone(&written.get(&number)?.1.topic));
        for event in self.producer.poll(timeout, topic) {
            match event {
                ProducerEvent::Delivered { number, result } => {
                    let Some((size, job)) = self.written.remove(&number) else {
                        continue;
                    };
                    self.bytes -= size;
                    match result {
                        Ok(()) => self.succeeded(job),
                        Err(error) => self.failed(job, error),
                    }
                }
                ProducerEvent::TokenRefresh => {
                    if let Some(tokens) = &self.tokens {
                        tokens.ask();
                    }
                }
            }
        }
    }

    fn succeeded(&mut self, job: LetterJob) {
        let DeadLetter { at, payload, .. } = job.letter;
        self.missing.remove(&job.topic);
        if let Some(observer) = self.observer.as_deref() {
            let record = Record::new(payload, &at, 0, Arc::clone(&self.member));
            guarded(|| observer.dead(&record));
        }
        self.inbox.send(Inbound::LetterWritten(at));
    }

    fn failed(&mut self, job: LetterJob, error: ClientError) {
        let is_missing = matches!(
            error,
            ClientError::Denied {
                what: DeniedWhat::MissingTopic(_),
                ..
            }
        );
        if is_missing {
            self.missing.insert(Arc::clone(&job.topic));
        }
        self.inbox.send(Inbound::LetterFailed {
            letter: job.letter,
            topic: job.topic,
            error,
        });
    }

    /// After a fatal error nothing is sent any more: another producer takes over, and what this one has no report of
    /// has failed. Not before there is a letter to write, so that a cluster which refuses producers is not asked for
    /// ever.
    fn replace_producer(&mut self, reason: &ClientError) {
        tracing::warn!(%reason, "the producer of dead letters can't go on: another one takes over");
        let producer = match Producer::open(&self.config, self.tokens.is_some()) {
            Ok(producer) => producer,
            Err(error) => {
                tracing::error!(%error, "no other producer for dead letters");
                return;
            }
        };
        if let Some(tokens) = &mut self.tokens {
            tokens.taker = producer.token_taker();
        }
        std::mem::replace(&mut self.producer, producer).close();
        self.bytes = 0;
        for (_, job) in std::mem::take(&mut self.written).into_values() {
            self.failed(job, reason.clone());
        }
    }
}
