//! Records into a topic: acknowledged by all replicas, in order, and with the offsets they got.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use rdkafka::{ClientConfig, ClientContext, Message as _};

use super::{Cluster, PATIENCE, unique};
use crate::wait;

/// A record to be produced. A tuple `(partition, key, value)` is one, too: `(Some(0), Some("key"), "value")`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// `None`: by the key's hash, as every client would.
    pub partition: Option<i32>,
    /// `None` is no key, which is not the same as an empty one.
    pub key: Option<Vec<u8>>,
    /// `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// In order; names may repeat.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since 1970; `None`: now.
    pub timestamp: Option<i64>,
}

impl Record {
    /// With one more header.
    pub fn header(mut self, name: &str, value: Option<&[u8]>) -> Record {
        self.headers
            .push((name.to_owned(), value.map(<[u8]>::to_vec)));
        self
    }
}

impl<K: Into<Vec<u8>>, V: Into<Vec<u8>>> From<(Option<i32>, Option<K>, V)> for Record {
    fn from((partition, key, value): (Option<i32>, Option<K>, V)) -> Record {
        Record {
            partition,
            key: key.map(Into::into),
            value: Some(value.into()),
            ..Record::default()
        }
    }
}

/// Where a record came to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Produced {
    /// The partition that was asked for, or that the key chose.
    pub partition: i32,
    /// The offset that the broker gave.
    pub offset: i64,
}

impl Cluster {
    /// Produces the records and answers where each lies, in the order of the records.
    pub fn produce<R: Into<Record>>(
        &self,
        topic: &str,
        records: impl IntoIterator<Item = R>,
    ) -> Vec<Produced> {
        send(self.producer(), topic, records)
    }

    /// One for all calls: a new one needs a second for its producer id.
    pub(super) fn producer(&self) -> &Producer {
        self.producer
            .get_or_init(|| producer(self.client().set("enable.idempotence", "true")))
    }

    /// Produces the records in one transaction and commits or aborts it. Either way they take up offsets, and so does
    /// the marker that follows them in each partition.
    pub fn produce_transaction<R: Into<Record>>(
        &self,
        topic: &str,
        records: impl IntoIterator<Item = R>,
        commit: bool,
    ) -> Vec<Produced> {
        let producer = producer(
            self.client()
                .set("transactional.id", unique("keyway-tests")),
        );
        producer
            .init_transactions(PATIENCE)
            .expect("a transactional id of our own is free");
        producer
            .begin_transaction()
            .expect("the producer is initialised");
        let placed = send(&producer, topic, records);
        let ended = match commit {
            true => producer.commit_transaction(PATIENCE),
            false => producer.abort_transaction(PATIENCE),
        };
        ended.unwrap_or_else(|error| panic!("the transaction on {topic} did not end: {error}"));
        self.await_markers(topic, &placed);
        placed
    }

    /// Takes a transactional id over, as another process with the same one would: whoever had it is fenced, and what was
    /// open under it is aborted.
    pub fn take_over(&self, transactional_id: &str) {
        let producer = producer(self.client().set("transactional.id", transactional_id));
        producer
            .init_transactions(PATIENCE)
            .unwrap_or_else(|error| panic!("{transactional_id} was not taken over: {error}"));
    }

    /// The coordinator answers before it has written the markers.
    fn await_markers(&self, topic: &str, placed: &[Produced]) {
        let mut last: BTreeMap<i32, i64> = BTreeMap::new();
        for at in placed {
            let offset = last.entry(at.partition).or_insert(at.offset);
            *offset = at.offset.max(*offset);
        }
        wait::until("the transaction's markers", PATIENCE, || {
            let ends = self.end_offsets(topic);
            let is_there = |(partition, offset): (&i32, &i64)| {
                usize::try_from(*partition)
                    .ok()
                    .and_then(|partition| ends.get(partition))
                    .is_some_and(|end| *end > offset + 1)
            };
            last.iter().all(is_there).then_some(())
        });
    }
}

type Outcome = Result<Produced, String>;

/// What became of the records of one call, by their place in the order.
type Outcomes = Mutex<Vec<Option<Outcome>>>;

pub(super) type Producer = BaseProducer<Deliveries>;

/// Each record carries where its outcome is to be noted.
pub(super) struct Deliveries;

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<(Arc<Outcomes>, usize)>;

    fn delivery(&self, result: &DeliveryResult<'_>, noted: Self::DeliveryOpaque) {
        let outcome = match result {
            Ok(record) => Ok(Produced {
                partition: record.partition(),
                offset: record.offset(),
            }),
            Err((error, _)) => Err(error.to_string()),
        };
        let (outcomes, place) = *noted;
        outcomes.lock().expect("nobody panics while holding it")[place] = Some(outcome);
    }
}

fn producer(config: &mut ClientConfig) -> Producer {
    config
        .set("acks", "all")
        .set("linger.ms", "5")
        .set("batch.size", "1000000")
        .set("queue.buffering.max.messages", "1000000")
        // A node that was paused does not answer; another one may.
        .set("request.timeout.ms", "3000")
        .create_with_context(Deliveries)
        .expect("a producer needs no network to be created")
}

/// Sends the records and waits until every one is acknowledged.
fn send<R: Into<Record>>(
    producer: &Producer,
    topic: &str,
    records: impl IntoIterator<Item = R>,
) -> Vec<Produced> {
    let outcomes: Arc<Outcomes> = Arc::default();
    for (place, record) in records.into_iter().enumerate() {
        outcomes
            .lock()
            .expect("nobody panics while holding it")
            .push(None);
        let record: Record = record.into();
        let noted = Box::new((Arc::clone(&outcomes), place));
        let mut message = BaseRecord::<[u8], [u8], _>::with_opaque_to(topic, noted);
        message.partition = record.partition;
        message.key = record.key.as_deref();
        message.payload = record.value.as_deref();
        message.timestamp = record.timestamp;
        if !record.headers.is_empty() {
            let add = |headers: OwnedHeaders, (name, value): &(String, Option<Vec<u8>>)| {
                headers.insert(Header {
                    key: name,
                    value: value.as_deref(),
                })
            };
            message.headers = Some(record.headers.iter().fold(OwnedHeaders::new(), add));
        }
        let deadline = Instant::now() + PATIENCE;
        while let Err((error, back)) = producer.send(message) {
            let full = matches!(
                error,
                KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)
            );
            assert!(
                full && Instant::now() < deadline,
                "a record for {topic} was not taken: {error}"
            );
            message = back;
            producer.poll(Duration::from_millis(10));
        }
    }
    producer
        .flush(PATIENCE)
        .unwrap_or_else(|error| panic!("records for {topic} were not acknowledged: {error}"));
    let outcomes = std::mem::take(&mut *outcomes.lock().expect("nobody panics while holding it"));
    let placed = |outcome: Option<Outcome>| {
        let outcome = outcome.expect("after a flush every record was reported");
        outcome.unwrap_or_else(|error| panic!("a record for {topic} was refused: {error}"))
    };
    outcomes.into_iter().map(placed).collect()
}
