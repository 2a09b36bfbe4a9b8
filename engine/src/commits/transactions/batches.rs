//! How much of a topic goes to its broker at once, where it has refused a batch for its size.
//!
//! librdkafka gives all messages of a batch the broker's one answer, and a transaction's batches are full. So that a batch is
//! too large says nothing of a record that was not alone in it: the transaction is aborted, and from the next one on half as
//! much of that topic is under way at once, until either all of it is taken or a record that is too large stands alone.

use std::collections::HashMap;

/// librdkafka's `batch.size`: no batch is larger, whatever is under way.
const BATCH_BYTES: usize = 1_000_000;

/// By topic, what may be under way at once, and what is.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Most bytes, of topics whose brokers have refused a batch.
    most: HashMap<String, usize>,
    under_way: HashMap<String, UnderWay>,
}

#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    records: usize,
    bytes: usize,
    /// The number of the latest record.
    latest: u64,
}

impl Batches {
    /// Everything that was under way is reported.
    pub(super) fn reported(&mut self) {
        for under_way in self.under_way.values_mut() {
            *under_way = UnderWay::default();
        }
    }

    /// Whether what is under way has to be reported before this is sent.
    pub(super) fn is_full_for(&self, topic: &str, bytes: usize) -> bool {
        let under_way = self.under_way.get(topic);
        match (self.most.get(topic), under_way) {
            (Some(most), Some(under_way)) => {
                under_way.records > 0 && under_way.bytes.saturating_add(bytes) > *most
            }
            _ => false,
        }
    }

    /// A message of record `number` is on its way.
    pub(super) fn add(&mut self, topic: &str, number: u64, bytes: usize) {
        if !self.under_way.contains_key(topic) {
            self.under_way.insert(topic.to_owned(), UnderWay::default());
        }
        if let Some(under_way) = self.under_way.get_mut(topic) {
            // Messages of one record share its lot.
            under_way.records += usize::from(under_way.records == 0 || under_way.latest != number);
            under_way.latest = number;
            under_way.bytes = under_way.bytes.saturating_add(bytes);
        }
    }

    /// Whether a batch of the topic may hold messages of several records.
    pub(super) fn is_shared(&self, topic: &str) -> bool {
        let under_way = self.under_way.get(topic);
        under_way.is_some_and(|under_way| under_way.records > 1)
    }

    /// A shared batch of the topic was too large: less goes together from now on.
    pub(super) fn halve(&mut self, topic: &str) {
        let under_way = self.under_way.get(topic).copied().unwrap_or_default();
        let most = self.most.entry(topic.to_owned()).or_insert(BATCH_BYTES);
        *most = (*most).min(under_way.bytes) / 2;
        tracing::warn!(
            topic,
            bytes = *most,
            "a batch was too large for the broker: the transaction is made anew with smaller ones"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stands_alone_is_to_blame_and_nobody_else() {
        let mut batches = Batches::default();
        batches.add("a", 1, 500_000);
        batches.add("a", 1, 100_000);
        assert!(!batches.is_shared("a"), "all of it is one record's");
        batches.add("a", 2, 1_000);
        assert!(batches.is_shared("a"));
        assert!(!batches.is_shared("b"), "of which nothing is under way");
    }

    #[test]
    fn less_and_less_goes_together_until_one_is_alone() {
        let mut batches = Batches::default();
        let mut together = Vec::new();
        loop {
            batches.reported();
            let mut records = 0;
            while records < 1_000 && !batches.is_full_for("a", 1_000) {
                batches.add("a", records, 1_000);
                records += 1;
            }
            together.push(records);
            if !batches.is_shared("a") {
                break;
            }
            batches.halve("a");
        }
        assert_eq!(together, [1_000, 500, 250, 125, 62, 31, 15, 7, 3, 1]);
        assert!(!batches.is_full_for("b", 1_000), "others are not bounded");
    }
}
