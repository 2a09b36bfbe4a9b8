//! Records that compress well, in batches as large as producers make them.

use std::cell::Cell;
use std::time::Duration;

use keyway::rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use keyway_tests::cluster::Cluster;

use crate::PATIENCE;

/// Bytes of a value.
const VALUE: usize = 1_000;

/// Of these, digits without a pattern: the whole takes about a seventh when it is packed, as logs and JSON do.
const DIGITS: u64 = 128;

/// Writes batches of records as they come, compressed.
pub(crate) struct Writer {
    producer: BaseProducer,
    written: Cell<u64>,
}

impl Writer {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let mut client = cluster.client();
        client
            .set("compression.codec", "lz4")
            .set("linger.ms", "50")
            .set("enable.idempotence", "true")
            .set("queue.buffering.max.messages", "1000000");
        Self {
            producer: client.create().expect("a producer"),
            written: Cell::new(0),
        }
    }

    /// Appends a record with a value of [`VALUE`] bytes.
    pub(crate) fn append(&self, topic: &str, partition: i32, key: &str) {
        self.append_value(topic, partition, key, &self.next_value());
    }

    pub(crate) fn append_value(&self, topic: &str, partition: i32, key: &str, value: &[u8]) {
        let mut record = BaseRecord::to(topic)
            .partition(partition)
            .key(key)
            .payload(value);
        while let Err((_, back)) = self.producer.send(record) {
            self.producer.poll(Duration::from_millis(10));
            record = back;
        }
        self.producer.poll(Duration::ZERO);
    }

    fn next_value(&self) -> [u8; VALUE] {
        let mut value = [b'v'; VALUE];
        for (place, digit) in value.iter_mut().zip(0..DIGITS) {
            // SplitMix64 again and again: one number for each digit.
            let n = self.written.get() * DIGITS + digit;
            let mut mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            *place = b'0' + ((mixed ^ (mixed >> 31)) % 10) as u8;
        }
        self.written.set(self.written.get() + 1);
        value
    }

    pub(crate) fn flush(&self) {
        self.producer.flush(PATIENCE).expect("delivered");
    }
}

/// A topic with so many records in each partition, one partition's after the other's.
pub(crate) fn topic(cluster: &Cluster, partitions: i32, records: u64) -> String {
    let topic = cluster.unique("backlog");
    cluster.create_topic(&topic, partitions, &[]);
    let writer = Writer::new(cluster);
    for partition in 0..partitions {
        for n in 0..records {
            writer.append(&topic, partition, &format!("key-{partition}-{}", n % 100));
        }
    }
    writer.flush();
    topic
}
