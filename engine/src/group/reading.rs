//! The records of a topic, for somebody who looks: no group is joined, and nothing is committed.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Group, GroupError};
use crate::causality::TopicId;
use crate::kafka::{LogRange, TopicPartition};
use crate::record::Record;

const ABOUT: &str = "the topic's records";

impl Group {
    /// The partitions of a topic, in order; none when there is no such topic, or no right to it.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn partitions_of(&self, topic: &str) -> Result<Vec<TopicPartition>, GroupError> {
        let all = self.ask("the cluster's topics", |left| {
            self.outsider.partitions(left)
        })?;
        let is_its = |partition: &TopicPartition| &*partition.topic == topic;
        Ok(all.into_iter().filter(is_its).collect())
    }

    /// The id of a topic, by which causes name it ([`CausalClock`](crate::causality::CausalClock)); none when there is no
    /// such topic, or no right to it, or the brokers give topics no ids, as those before 2.8.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn topic_id(&self, topic: &str) -> Result<Option<TopicId>, GroupError> {
        let named = [Arc::from(topic)];
        let ids = self.ask("the topic's id", |left| {
            self.outsider.group().topic_ids(&named, left)
        })?;
        let id = ids.into_iter().find_map(|(_, id)| id.ok());
        Ok(id.and_then(|id| TopicId::new(id.bytes())))
    }

    /// Visits the records that these partitions hold now, from the offset given with each on, those of a partition in
    /// order, until all have been seen or the visitor breaks off. What an open transaction has written, and what lies behind
    /// it, is not among them.
    ///
    /// # Errors
    /// When nothing came within the bound of one request, or a partition can't be read.
    pub fn read(
        &self,
        from: &[(TopicPartition, i64)],
        mut visit: impl FnMut(&Record) -> ControlFlow<()>,
    ) -> Result<(), GroupError> {
        let partitions: Vec<_> = from
            .iter()
            .map(|(partition, _)| partition.clone())
            .collect();
        let ranges = self.ask("where the logs begin and end", |left| {
            self.outsider.log_ranges(&partitions, left)
        })?;
        let mut wanted = Vec::with_capacity(from.len());
        for ((partition, range), (_, start)) in ranges.into_iter().zip(from) {
            let range = range.map_err(|error| self.failed(ABOUT, error))?;
            let start = range.start.max(*start);
            wanted.push((partition, LogRange { start, ..range }));
        }
        let failed = |error| self.failed(ABOUT, error);
        let mut reading = self.outsider.read(&wanted).map_err(failed)?;
        loop {
            let records = reading.next(self.timeout).map_err(failed)?;
            if records.is_empty() {
                return Ok(());
            }
            for native in records {
                if visit(&Record::alone(native.into())).is_break() {
                    return Ok(());
                }
            }
        }
    }
}
