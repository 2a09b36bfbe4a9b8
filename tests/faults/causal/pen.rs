//! A producer of its own for each who writes: a record is acknowledged before the next one, within milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keyway_tests::cluster::Cluster;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, ProducerContext};
use rdkafka::{ClientContext, Message as _};

use crate::crew::PATIENCE;

const UNKNOWN: i64 = -1;
const REFUSED: i64 = -2;

pub(super) struct Pen(BaseProducer<Offsets>);

/// Each record carries where its offset is to be noted.
struct Offsets;

impl ClientContext for Offsets {}

impl ProducerContext for Offsets {
    type DeliveryOpaque = Box<Arc<AtomicI64>>;

    fn delivery(&self, result: &DeliveryResult<'_>, offset: Self::DeliveryOpaque) {
        let found = match result {
            Ok(record) => record.offset(),
            Err(_) => REFUSED,
        };
        offset.store(found, Ordering::Relaxed);
    }
}

impl Pen {
    pub(super) fn new(cluster: &Cluster) -> Pen {
        let producer = cluster
            .client()
            .set("acks", "all")
            .set("linger.ms", "0")
            .create_with_context(Offsets);
        Pen(producer.expect("a producer needs no network to be created"))
    }

    /// Writes one record, and answers its offset.
    pub(super) fn write(
        &self,
        topic: &str,
        partition: i32,
        (key, value): (&str, &str),
        header: Option<(&str, &[u8])>,
    ) -> i64 {
        let offset = Arc::new(AtomicI64::new(UNKNOWN));
        let mut record = BaseRecord::with_opaque_to(topic, Box::new(Arc::clone(&offset)))
            .partition(partition)
            .key(key)
            .payload(value);
        if let Some((key, value)) = header {
            record = record.headers(OwnedHeaders::new().insert(Header {
                key,
                value: Some(value),
            }));
        }
        let sent = self.0.send(record).map_err(|(error, _)| error);
        sent.unwrap_or_else(|error| panic!("a record for {topic} was not taken: {error}"));
        let deadline = Instant::now() + PATIENCE;
        while offset.load(Ordering::Relaxed) == UNKNOWN {
            assert!(Instant::now() < deadline, "no answer from {topic}");
            // With a time to wait it takes all of that, and much of a core, whatever has come by then.
            self.0.poll(Duration::ZERO);
            thread::sleep(Duration::from_millis(1));
        }
        let offset = offset.load(Ordering::Relaxed);
        assert_ne!(offset, REFUSED, "a record for {topic} was refused");
        offset
    }
}
