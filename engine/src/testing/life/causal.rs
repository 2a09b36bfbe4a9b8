//! Causal delivery in a test: the group is this one member, and a topic's id follows from its name.

use keyway_causal::{Channel, GroupPartition, TopicId};
use keyway_core::PartitionSlot;

use super::{Life, Log};
use crate::causal::Stamp;
use crate::kafka::TopicPartition;
use crate::stop::StopReason;

/// The id that a topic has in a [`TestEngine`](crate::testing::TestEngine): its name, as far as it goes.
pub fn topic_id(topic: &str) -> TopicId {
    let mut bytes = [0xff; 16];
    for (index, byte) in topic.bytes().enumerate() {
        bytes[index % 16] ^= byte.rotate_left((index / 16) as u32);
    }
    TopicId::new(bytes).unwrap_or_else(|| TopicId::new([0xff; 16]).expect("not zero"))
}

impl Life {
    /// What the gate is to know before the partition is assigned.
    pub(super) fn tell_gate(&mut self, log: &Log, slot: PartitionSlot, partition: &TopicPartition) {
        let Some(gate) = self.core.gate_mut().as_causal_mut() else {
            return;
        };
        for topic in &self.subscription {
            gate.add_topic(topic, topic_id(topic), log.partitions(topic));
        }
        let number = u32::try_from(partition.partition).unwrap_or(0);
        if let Some(channel) = Channel::new(topic_id(&partition.topic), number) {
            gate.bind(slot, channel);
        }
        let commits = log.commits();
        let committed = commits.map(|(partition, offset, rider)| GroupPartition {
            topic: partition.topic.to_string(),
            partition: u32::try_from(partition.partition).unwrap_or(0),
            committed: offset,
            rider,
        });
        gate.read_group(&committed.collect::<Vec<_>>());
    }

    /// Stops where the gate says so.
    pub(super) fn heed_gate(&mut self) {
        let gate = self.core.gate_mut().as_causal_mut();
        if let Some(stop) = gate.and_then(|gate| gate.take_stop()) {
            self.stop_because(StopReason::Causal(stop));
        }
    }

    /// The stamp of what is sent now, `Some(None)` without causal delivery. Where nothing may be sent the member stops.
    pub(super) fn stamp(&mut self) -> Option<Stamp> {
        let Some(gate) = self.core.gate_mut().as_causal_mut() else {
            return Some(None);
        };
        match gate.stamp() {
            Ok(stamp) => Some(Some(stamp)),
            Err(refused) => {
                self.stop_because(StopReason::SendingRefused(refused));
                None
            }
        }
    }
}
