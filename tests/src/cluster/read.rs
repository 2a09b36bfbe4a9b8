//! All that a reader finds in a topic: of committed data, or of all data.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers as _};
use rdkafka::{Message as _, Offset, TopicPartitionList};

use super::{Cluster, PATIENCE, unique};

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Where it lies.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// `None` is no key.
    pub key: Option<Vec<u8>>,
    /// `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// In the record's order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since 1970.
    pub timestamp: Option<i64>,
}

impl Cluster {
    /// Reads the topic from its start to its end, committed data only: ordered within each partition.
    pub fn read(&self, topic: &str) -> Vec<Received> {
        read_topic(self.client(), topic, self.partitions(topic))
    }

    /// As [`read`](Self::read), with the records of transactions that were aborted or are open.
    pub fn read_uncommitted(&self, topic: &str) -> Vec<Received> {
        let mut client = self.client();
        client.set("isolation.level", "read_uncommitted");
        read_topic(client, topic, self.partitions(topic))
    }
}

/// As [`Cluster::read`], of a topic with so many partitions, wherever its brokers are.
pub fn read_topic(mut client: ClientConfig, topic: &str, partitions: i32) -> Vec<Received> {
    let consumer: BaseConsumer = client
        .set("group.id", unique("keyway-tests-reader"))
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "50")
        .create()
        .expect("a consumer needs no network to be created");
    let mut open = partitions;
    let mut list = TopicPartitionList::new();
    for partition in 0..open {
        list.add_partition_offset(topic, partition, Offset::Beginning)
            .expect("`Beginning` is an offset");
    }
    consumer
        .assign(&list)
        .expect("the list names partitions that are there");
    let mut read = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    while open > 0 {
        assert!(
            Instant::now() < deadline,
            "{topic}: no end of {open} partitions after {PATIENCE:?}"
        );
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(message)) => read.push(received(&message)),
            Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) => panic!("{topic} was not read: {error}"),
        }
    }
    read
}

fn received(message: &BorrowedMessage<'_>) -> Received {
    let headers = message
        .headers()
        .into_iter()
        .flat_map(|headers| headers.iter());
    Received {
        timestamp: message.timestamp().to_millis(),
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers
            .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
            .collect(),
    }
}
