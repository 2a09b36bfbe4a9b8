//! Bytes fetched, from librdkafka's statistics.
//!
//! `rxbytes` of a partition counts the keys and values of the records that were parsed out of its
//! fetches (uncompressed; no headers, no framing), control records excepted, and it counts what is
//! thrown away later as well. It starts again at 0 when librdkafka forgets a partition and meets it
//! anew. So the sum is kept here, by what each report adds.

use std::collections::HashMap;

use rdkafka::{ClientContext, Statistics};

/// The running sum over all partitions, those that left included.
#[derive(Debug, Default)]
pub(super) struct FetchedBytes {
    /// What the statistics have said so far.
    reported: u64,
    /// What the polls have returned: a lower bound between two reports.
    received: u64,
    last: HashMap<String, HashMap<i32, u64>>,
}

impl FetchedBytes {
    /// A poll returned records with so many bytes of keys and values.
    pub(super) fn received(&mut self, bytes: u64) {
        self.received += bytes;
    }

    /// The sum so far.
    pub(super) fn total(&self) -> u64 {
        self.reported.max(self.received)
    }

    /// Adds one report; text that is not a report is ignored.
    pub(super) fn report(&mut self, json: &[u8]) {
        for (topic, statistics) in parse(json).map(|s| s.topics).unwrap_or_default() {
            for (partition, statistics) in statistics.partitions {
                self.add(&topic, partition, statistics.rxbytes);
            }
        }
    }

    fn add(&mut self, topic: &str, partition: i32, now: u64) {
        if !self.last.contains_key(topic) {
            self.last.insert(topic.to_owned(), HashMap::new());
        }
        let Some(seen) = self.last.get_mut(topic) else {
            return;
        };
        let before = seen.insert(partition, now).unwrap_or(0);
        self.reported += if now >= before { now - before } else { now };
    }
}

/// rdkafka parses the statistics in its own callback only, so that is what is called.
fn parse(json: &[u8]) -> Option<Statistics> {
    struct Parsed(std::sync::Mutex<Option<Statistics>>);
    impl ClientContext for Parsed {
        fn stats(&self, statistics: Statistics) {
            if let Ok(mut place) = self.0.lock() {
                *place = Some(statistics);
            }
        }
    }
    let parsed = Parsed(std::sync::Mutex::new(None));
    parsed.stats_raw(json);
    parsed.0.into_inner().ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_starts_again_at_zero_is_added() {
        let mut fetched = FetchedBytes::default();
        for (reported, total) in [(100, 100), (150, 150), (150, 150), (20, 170), (30, 180)] {
            fetched.add("t", 0, reported);
            assert_eq!(fetched.total(), total);
        }
        fetched.add("t", 1, 5);
        fetched.received(7);
        assert_eq!(fetched.total(), 185);
    }

    #[test]
    fn what_was_received_counts_until_it_is_reported() {
        let mut fetched = FetchedBytes::default();
        fetched.received(40);
        assert_eq!(fetched.total(), 40);
        fetched.report(b"not JSON");
        assert_eq!(fetched.total(), 40);
    }
}
