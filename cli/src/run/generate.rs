//! `--brokers mock`: a broker inside the process, filled with generated records.

use std::time::Duration;

use keyway::ClientConfig;
use keyway::rdkafka::error::{KafkaError, RDKafkaErrorCode};
use keyway::rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use keyway::testing::MockBroker;

use super::args::Args;
use super::config;
use crate::refusal::Refusal;

/// The group, unless one is named.
pub(super) const GROUP: &str = "keyway-run";

/// The topic, unless one is named.
const TOPIC: &str = "generated";

/// Partitions of each topic, unless so many records need more.
const PARTITIONS: u64 = 4;

/// The mock broker throws a partition's oldest records away beyond 5 MiB, as they were sent. These values
/// compress to a tenth or less.
const PARTITION_BYTES: u64 = 16 * 1024 * 1024;

/// What the protocol adds to a record's key and value.
const RECORD_OVERHEAD_BYTES: u64 = 16;

/// The broker is in the same process.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// What to fill the broker with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generate {
    records: u64,
    /// 0 for null keys.
    keys: u64,
    value_bytes: usize,
}

impl Default for Generate {
    fn default() -> Self {
        Self {
            records: 10_000,
            keys: 100,
            value_bytes: 100,
        }
    }
}

impl Generate {
    /// Reads `N,KEYS,SIZE`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',').map(str::trim);
        let numbers = (parts.next(), parts.next(), parts.next(), parts.next());
        let (Some(records), Some(keys), Some(value_bytes), None) = numbers else {
            return Err("not of the form N,KEYS,SIZE".to_owned());
        };
        let fault = |what: &str| format!("{what} is not a number");
        Ok(Self {
            records: records.parse().map_err(|_| fault("N"))?,
            keys: keys.parse().map_err(|_| fault("KEYS"))?,
            value_bytes: value_bytes.parse().map_err(|_| fault("SIZE"))?,
        })
    }

    /// Partitions of each topic, so that nothing is thrown away.
    fn partitions(&self) -> u64 {
        let record = self.value_bytes as u64 + RECORD_OVERHEAD_BYTES;
        let bytes = self.records.saturating_mul(record);
        bytes.div_ceil(PARTITION_BYTES).max(PARTITIONS)
    }
}

/// The broker and what it was filled with.
pub(super) struct MockWorld {
    broker: MockBroker,
    topics: Vec<String>,
}

impl MockWorld {
    /// Starts and fills a broker, if the options ask for one.
    pub(super) fn start(args: &Args) -> Result<Option<Self>, Refusal> {
        if !config::wants_mock(args) {
            return match args.generate {
                None => Ok(None),
                Some(_) => Err(Refusal::BadInput(
                    "--generate fills a broker inside the process: it needs --brokers mock"
                        .to_owned(),
                )),
            };
        }
        let mut topics = args.topics.clone();
        if topics.is_empty() {
            topics.push(TOPIC.to_owned());
        }
        topics.sort();
        topics.dedup();
        Self::fill(topics, args.generate.unwrap_or_default())
            .map(Some)
            .map_err(|fault| Refusal::Failed(format!("the mock broker: {fault}")))
    }

    fn fill(topics: Vec<String>, generate: Generate) -> Result<Self, String> {
        let broker = MockBroker::start(1).map_err(|error| error.to_string())?;
        let partitions = generate.partitions();
        for topic in &topics {
            let partitions = i32::try_from(partitions).map_err(|_| "too many records")?;
            broker
                .create_topic(topic, partitions)
                .map_err(|error| error.to_string())?;
        }
        let world = Self { broker, topics };
        let kept = world
            .produce(generate, partitions)
            .map_err(|error| error.to_string())?;
        if kept == generate.records {
            Ok(world)
        } else {
            Err(format!("keeps {kept} of {} records", generate.records))
        }
    }

    /// For `bootstrap.servers`.
    pub(super) fn bootstrap(&self) -> String {
        self.broker.bootstrap()
    }

    /// The topics that were filled.
    pub(super) fn topics(&self) -> &[String] {
        &self.topics
    }

    /// Deals the records out in turn: to keys, and with their keys to topics and partitions. Returns how many
    /// the broker holds then.
    fn produce(&self, generate: Generate, partitions: u64) -> Result<u64, KafkaError> {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", self.bootstrap())
            .set("compression.type", "lz4")
            .set("linger.ms", "20")
            .create()?;
        let value = vec![b'.'; generate.value_bytes];
        let topics = self.topics.len() as u64;
        for number in 0..generate.records {
            let (place, key) = match generate.keys {
                0 => (number, None),
                keys => (number % keys, Some(format!("key-{}", number % keys))),
            };
            let topic = &self.topics[(place % topics) as usize];
            let mut record = BaseRecord::to(topic)
                .partition((place / topics % partitions) as i32)
                .payload(&value);
            if let Some(key) = &key {
                record = record.key(key);
            }
            send(&producer, record)?;
        }
        producer.flush(DELIVERY_TIMEOUT)?;
        let mut kept = 0;
        for topic in &self.topics {
            for partition in 0..partitions {
                let (first, end) = producer.client().fetch_watermarks(
                    topic,
                    partition as i32,
                    DELIVERY_TIMEOUT,
                )?;
                kept += end.abs_diff(first);
            }
        }
        Ok(kept)
    }
}

/// Sends a record, and waits for room when the queue is full.
fn send(
    producer: &BaseProducer,
    mut record: BaseRecord<'_, String, Vec<u8>>,
) -> Result<(), KafkaError> {
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                producer.poll(Duration::from_millis(10));
                record = refused;
            }
            Err((error, _)) => return Err(error),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_are_needed() {
        let generate = Generate::parse("10, 0,8").unwrap();
        assert_eq!(
            (generate.records, generate.keys, generate.value_bytes),
            (10, 0, 8)
        );
        for text in ["", "1", "1,2", "1,2,3,4", "1,2,x", "-1,2,3"] {
            assert!(Generate::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn many_bytes_are_spread_over_more_partitions() {
        let partitions = |text| Generate::parse(text).unwrap().partitions();
        assert_eq!(partitions("1000,10,100"), 4);
        assert!(partitions("10000000,10,100") >= 60);
    }
}
