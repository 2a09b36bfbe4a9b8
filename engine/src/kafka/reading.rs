//! A topic read from here to there by somebody who joins no group and commits nothing.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka_sys::rd_kafka_resp_err_t as Rd;

use super::TopicPartition;
use super::admin::Outsider;
use super::errors::ClientError;
use super::group::LogRange;
use super::native::{Batch, MessageFailure, NativeRecord, PartitionList};

/// Records taken at once.
const AT_ONCE: usize = 1_000;

/// Partitions that are being read.
pub(crate) struct Reading<'o> {
    outsider: &'o Outsider,
    /// One past the last offset that is wanted of each partition that has not come to its end.
    open: HashMap<TopicPartition, i64>,
    batch: Batch,
    records: Vec<NativeRecord>,
    failures: Vec<MessageFailure>,
}

impl Outsider {
    /// Begins to read these offsets of these partitions, as they are there now: what an open transaction wrote, and
    /// what is behind it, is not among them.
    ///
    /// # Errors
    /// When librdkafka refuses it.
    pub(crate) fn read(
        &self,
        ranges: &[(TopicPartition, LogRange)],
    ) -> Result<Reading<'_>, ClientError> {
        let ranges = ranges.iter().filter(|(_, range)| range.start < range.end);
        let open: HashMap<_, _> = ranges
            .clone()
            .map(|(tp, range)| (tp.clone(), range.end))
            .collect();
        let mut list = PartitionList::with_capacity(open.len());
        for (tp, range) in ranges {
            list.push(&tp.topic, tp.partition, range.start, None, &[])
                .map_err(ClientError::of)?;
        }
        self.client()
            .assign_all(Some(&list))
            .map_err(ClientError::of)?;
        Ok(Reading {
            outsider: self,
            open,
            batch: Batch::default(),
            records: Vec::new(),
            failures: Vec::new(),
        })
    }
}

impl Reading<'_> {
    /// The next records; none when all has been read.
    ///
    /// # Errors
    /// When nothing came for so long, or a partition can't be read.
    pub(crate) fn next(&mut self, timeout: Duration) -> Result<Vec<NativeRecord>, ClientError> {
        let deadline = Instant::now() + timeout;
        while !self.open.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            self.outsider.client().receive(
                &mut self.batch,
                AT_ONCE,
                left,
                &mut self.records,
                &mut self.failures,
            );
            // Before the failures: the end of a partition comes behind its last records, and may come with them.
            let records = std::mem::take(&mut self.records);
            let wanted: Vec<_> = records
                .into_iter()
                .filter(|record| self.is_wanted(record))
                .collect();
            for failure in std::mem::take(&mut self.failures) {
                self.take_failure(failure)?;
            }
            if !wanted.is_empty() {
                return Ok(wanted);
            }
            if left.is_zero() {
                return Err(ClientError::no_answer());
            }
        }
        Ok(Vec::new())
    }

    /// Notes how far its partition has come.
    fn is_wanted(&mut self, record: &NativeRecord) -> bool {
        let tp = TopicPartition::new(record.topic_name(), record.partition());
        let Some(end) = self.open.get(&tp).copied() else {
            return false;
        };
        if record.offset() + 1 >= end {
            self.open.remove(&tp);
        }
        record.offset() < end
    }

    fn take_failure(&mut self, failed: MessageFailure) -> Result<(), ClientError> {
        let MessageFailure {
            failure,
            topic,
            partition,
            ..
        } = failed;
        let topic = topic.as_deref();
        if failure.code == Rd::RD_KAFKA_RESP_ERR__PARTITION_EOF as i32 {
            let tp = TopicPartition::new(topic.unwrap_or_default(), partition);
            self.open.remove(&tp);
            return Ok(());
        }
        let error = ClientError::about(failure, topic);
        match topic {
            // The client tries on by itself after what is about no partition.
            None => {
                tracing::debug!(%error, "while a topic is read");
                Ok(())
            }
            Some(_) => Err(error),
        }
    }
}
