//! Where each assigned partition stands, as far as records were delivered.
//!
//! librdkafka keeps a position of its own for this, and two faults of it (2.12.1, the batch call) are
//! mended here:
//!
//! - **An end-of-partition event counts as a record.** The event at offset N moves librdkafka's
//!   position to N + 1. It goes back to that position after a pause, and it pauses by itself while a
//!   rebalance is answered. So the record at N would be skipped. After each pause the partitions that
//!   stand at such an end are moved back to N ([`Positions::skipped`]). A fetch of N + 1 that was out
//!   before that is answered with "out of range": no loss of a position either, but the same fault
//!   ([`Positions::overshot`]).
//!   It is so as well where records were given back ([`Positions::step_back`]): librdkafka has delivered them. Until it is
//!   moved, nothing of the partition is delivered, no record and no end: either would tell that there was nothing before.
//! - **The position is behind while a batch is taken out.** A pause in that moment makes librdkafka
//!   deliver the batch's records again. They are dropped here ([`Positions::admit`]).
//!
//! Records come in runs of one partition, so that the price is a comparison for each record and a
//! look-up for each run.

use std::collections::HashMap;

use super::TopicPartition;
use super::native::NativeRecord;
use super::record::PartitionToken;
use super::source::Start;

/// The positions of the assigned partitions.
#[derive(Debug, Default)]
pub(super) struct Positions {
    partitions: HashMap<TopicPartition, usize>,
    /// A token is known from a partition's first record on, and forgotten when it goes.
    tokens: HashMap<PartitionToken, usize>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Some partition may be owed a move.
    owing: bool,
    last: Option<(PartitionToken, usize)>,
}

#[derive(Debug)]
struct Slot {
    tp: TopicPartition,
    /// The next offset to deliver: all below it were, or don't exist.
    next: i64,
    /// An end was reported at `next`, and nothing was delivered since.
    at_end: bool,
    /// librdkafka has to be moved to `next` before anything counts.
    owed: bool,
}

impl Positions {
    /// Partitions start, or are moved.
    pub(super) fn set(&mut self, starts: &[Start]) {
        for Start { tp, offset, .. } in starts {
            let slot = Slot {
                tp: tp.clone(),
                next: *offset,
                at_end: false,
                owed: false,
            };
            match self.partitions.get(tp) {
                Some(&index) => self.slots[index] = slot,
                None => {
                    let index = self.free.pop().unwrap_or(self.slots.len());
                    if index == self.slots.len() {
                        self.slots.push(slot);
                    } else {
                        self.slots[index] = slot;
                    }
                    self.partitions.insert(tp.clone(), index);
                }
            }
        }
    }

    /// Partitions go.
    pub(super) fn remove(&mut self, partitions: &[TopicPartition]) {
        for tp in partitions {
            if let Some(index) = self.partitions.remove(tp) {
                self.free.push(index);
                self.tokens.retain(|_, slot| *slot != index);
            }
        }
        self.last = None;
    }

    /// All partitions go.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Keeps of the records behind `from` those that are new, and moves the positions.
    pub(super) fn admit(&mut self, records: &mut Vec<NativeRecord>, from: usize) {
        let mut repeated = 0;
        for index in from..records.len() {
            let record = &records[index];
            let token = record.partition_token();
            let slot = match self.last {
                Some((last, slot)) if last == token => Some(slot),
                _ => self.find(token, record),
            };
            // One that is not assigned, as far as is known, passes: the engine has no slot for it.
            if let Some(slot) = slot.map(|slot| &mut self.slots[slot]) {
                if slot.owed || record.offset() < slot.next {
                    repeated += 1;
                    continue;
                }
                slot.next = record.offset() + 1;
                slot.at_end = false;
            }
            if repeated > 0 {
                records.swap(index - repeated, index);
            }
        }
        if repeated > 0 {
            tracing::debug!(repeated, "records were delivered twice and are dropped");
            records.truncate(records.len() - repeated);
        }
    }

    fn find(&mut self, token: PartitionToken, record: &NativeRecord) -> Option<usize> {
        let slot = match self.tokens.get(&token) {
            Some(&slot) => slot,
            None => {
                let tp = TopicPartition::new(record.topic_name(), record.partition());
                let slot = *self.partitions.get(&tp)?;
                self.tokens.insert(token, slot);
                slot
            }
        };
        self.last = Some((token, slot));
        Some(slot)
    }

    /// An end was reported.
    pub(super) fn end(&mut self, tp: &TopicPartition, offset: i64) {
        let Some(&index) = self.partitions.get(tp) else {
            return;
        };
        let slot = &mut self.slots[index];
        // An end behind the position is of a fetch from before a seek.
        if offset >= slot.next && !slot.owed {
            slot.next = offset;
            slot.at_end = true;
        }
    }

    /// Where librdkafka would skip a record after a pause of these partitions.
    pub(super) fn skipped<'a>(
        &self,
        partitions: impl Iterator<Item = &'a TopicPartition>,
    ) -> Vec<Start> {
        partitions
            .filter_map(|tp| self.partitions.get(tp))
            .map(|&index| &self.slots[index])
            .filter(|slot| slot.at_end || slot.owed)
            .map(Slot::start)
            .collect()
    }

    /// What was delivered from `offset` on is to be delivered again.
    pub(super) fn step_back(&mut self, tp: &TopicPartition, offset: i64) {
        if let Some(&index) = self.partitions.get(tp) {
            let slot = &mut self.slots[index];
            if offset < slot.next {
                slot.next = offset;
                slot.at_end = false;
            }
            slot.owed = true;
            self.owing = true;
        }
    }

    /// Whether librdkafka has to be moved before anything of the partition counts.
    pub(super) fn is_owed(&self, tp: &TopicPartition) -> bool {
        self.owing
            && self
                .partitions
                .get(tp)
                .is_some_and(|&index| self.slots[index].owed)
    }

    /// The partitions that are owed a move.
    pub(super) fn owed(&self) -> Vec<Start> {
        match self.owing {
            true => self
                .partitions
                .values()
                .map(|&index| &self.slots[index])
                .filter(|slot| slot.owed)
                .map(Slot::start)
                .collect(),
            false => Vec::new(),
        }
    }

    /// librdkafka was moved.
    pub(super) fn moved(&mut self, starts: &[Start]) {
        for start in starts {
            if let Some(&index) = self.partitions.get(&start.tp) {
                self.slots[index].owed = false;
            }
        }
        self.owing = self.owing
            && self
                .partitions
                .values()
                .any(|&index| self.slots[index].owed);
    }

    /// Where the partition stands at an end, if librdkafka asked for an `offset` beyond it, which nobody told it to.
    pub(super) fn overshot(&self, tp: &TopicPartition, offset: i64) -> Option<Start> {
        let slot = &self.slots[*self.partitions.get(tp)?];
        (slot.at_end && offset > slot.next).then(|| slot.start())
    }

    /// These partitions with their positions, those of them that are assigned.
    pub(super) fn of(&self, partitions: &[TopicPartition]) -> Vec<Start> {
        let indices = partitions.iter().filter_map(|tp| self.partitions.get(tp));
        indices.map(|&index| self.slots[index].start()).collect()
    }

    /// Every partition with its position.
    pub(super) fn all(&self) -> Vec<Start> {
        self.partitions
            .values()
            .map(|&index| self.slots[index].start())
            .collect()
    }

    /// The assigned partitions.
    pub(super) fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.partitions.keys()
    }
}

impl Slot {
    fn start(&self) -> Start {
        Start {
            tp: self.tp.clone(),
            offset: self.next,
            leader_epoch: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::RecordParts;

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    fn start(partition: i32, offset: i64) -> Start {
        Start {
            tp: tp(partition),
            offset,
            leader_epoch: None,
        }
    }

    /// Records of one topic; all share its name, so that tokens are what they are for received ones.
    fn records(topic: &std::sync::Arc<str>, offsets: &[(i32, i64)]) -> Vec<NativeRecord> {
        let made = |&(partition, offset)| {
            NativeRecord::made(RecordParts::new(topic.clone(), partition, offset))
        };
        offsets.iter().map(made).collect()
    }

    fn offsets(records: &[NativeRecord]) -> Vec<(i32, i64)> {
        records
            .iter()
            .map(|record| (record.partition(), record.offset()))
            .collect()
    }

    #[test]
    fn what_was_delivered_is_not_delivered_again() {
        let topic = "t".into();
        let mut positions = Positions::default();
        positions.set(&[start(0, 5), start(1, 0)]);
        let mut delivered = records(&topic, &[(0, 5), (0, 6), (1, 0), (0, 9)]);
        positions.admit(&mut delivered, 0);
        assert_eq!(delivered.len(), 4);

        let mut again = records(
            &topic,
            &[(0, 1), (0, 6), (0, 10), (1, 0), (1, 1), (0, 9), (0, 11)],
        );
        positions.admit(&mut again, 1);
        // What stood in front of the batch is none of its business.
        assert_eq!(offsets(&again), [(0, 1), (0, 10), (1, 1), (0, 11)]);
    }

    #[test]
    fn a_move_delivers_again_and_a_partition_that_went_is_forgotten() {
        let topic = "t".into();
        let mut positions = Positions::default();
        positions.set(&[start(0, 0), start(1, 0)]);
        positions.admit(&mut records(&topic, &[(0, 7), (1, 7)]), 0);
        positions.set(&[start(0, 3)]);
        positions.remove(&[tp(1)]);
        positions.set(&[start(2, 0)]);
        let mut after = records(&topic, &[(0, 2), (0, 3), (1, 1), (2, 0)]);
        positions.admit(&mut after, 0);
        assert_eq!(offsets(&after), [(0, 3), (1, 1), (2, 0)]);
    }

    #[test]
    fn an_end_without_a_record_since_is_where_librdkafka_would_skip() {
        let topic = "t".into();
        let mut positions = Positions::default();
        positions.set(&[start(0, 0), start(1, 4), start(2, 0)]);
        positions.end(&tp(0), 0);
        positions.end(&tp(1), 8);
        positions.end(&tp(2), 0);
        positions.admit(&mut records(&topic, &[(2, 0)]), 0);
        let all = [tp(0), tp(1), tp(2), tp(3)];
        assert_eq!(positions.skipped(all.iter()), [start(0, 0), start(1, 8)]);
        positions.end(&tp(1), 2);
        assert_eq!(positions.skipped([tp(1)].iter()), [start(1, 8)]);
    }

    #[test]
    fn what_was_given_back_is_delivered_again_and_nothing_counts_before_the_move() {
        let topic = "t".into();
        let mut positions = Positions::default();
        positions.set(&[start(0, 0), start(1, 0)]);
        positions.admit(&mut records(&topic, &[(0, 0), (0, 1), (0, 2), (1, 0)]), 0);
        positions.step_back(&tp(0), 1);
        // What librdkafka had prefetched, and the end behind it, would jump over what was given back.
        let mut stale = records(&topic, &[(0, 3), (1, 1)]);
        positions.admit(&mut stale, 0);
        assert_eq!(offsets(&stale), [(1, 1)]);
        positions.end(&tp(0), 4);
        assert!(positions.is_owed(&tp(0)) && !positions.is_owed(&tp(1)));
        assert_eq!(positions.owed(), [start(0, 1)]);
        assert_eq!(positions.skipped([tp(0), tp(1)].iter()), [start(0, 1)]);

        positions.moved(&[start(0, 1)]);
        assert_eq!(positions.owed(), []);
        let mut again = records(&topic, &[(0, 1), (0, 2), (0, 3)]);
        positions.admit(&mut again, 0);
        assert_eq!(again.len(), 3);
    }

    #[test]
    fn a_partition_that_went_is_owed_nothing() {
        let mut positions = Positions::default();
        positions.set(&[start(0, 5)]);
        positions.step_back(&tp(0), 3);
        positions.remove(&[tp(0)]);
        assert_eq!(positions.owed(), []);
        positions.set(&[start(0, 3)]);
        assert!(!positions.is_owed(&tp(0)));
    }

    #[test]
    fn only_an_offset_beyond_an_end_was_asked_for_by_nobody() {
        let mut positions = Positions::default();
        positions.set(&[start(0, 500), start(1, 0)]);
        positions.end(&tp(1), 8);
        // A start that is not in the log, and an end that the log has lost since.
        assert_eq!(positions.overshot(&tp(0), 500), None);
        assert_eq!(positions.overshot(&tp(1), 8), None);
        assert_eq!(positions.overshot(&tp(1), 9), Some(start(1, 8)));
        assert_eq!(positions.overshot(&tp(2), 9), None);
    }
}
