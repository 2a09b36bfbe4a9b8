//! What a group has committed, and commits by somebody who knows nothing of Keyway.

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use super::{Cluster, PATIENCE, foreign_commit};
use crate::wait;

/// A group's committed position in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The partition.
    pub partition: i32,
    /// The committed offset: the first that is not complete.
    pub offset: i64,
    /// The commit's metadata as the broker gave it back, whatever it is; empty when there is none.
    pub metadata: Vec<u8>,
    /// The leader epoch that the commit carried, if it carried one.
    pub leader_epoch: Option<i32>,
}

impl Cluster {
    /// What the group has committed in the topic; partitions without a commit are left out. Waits for open
    /// transactions, as a restore does.
    pub fn committed(&self, group: &str, topic: &str) -> Vec<Committed> {
        let consumer = self.outsider(group);
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, self.partitions(topic) - 1);
        let found = wait::until("the group's committed offsets", PATIENCE, || {
            consumer.committed_offsets(list.clone(), PATIENCE).ok()
        });
        foreign_commit::entries(&found)
    }

    /// Commits as some other program would: any bytes as metadata, of any length.
    ///
    /// The group must have no members; the coordinator refuses an outsider otherwise.
    pub fn commit_as_other_program(
        &self,
        group: &str,
        topic: &str,
        partition: i32,
        offset: i64,
        metadata: &[u8],
    ) -> Result<(), RDKafkaErrorCode> {
        self.commit_all_as_other_program(group, topic, &[(partition, offset, metadata)])
    }

    /// As [`commit_as_other_program`](Self::commit_as_other_program), of many partitions in one request: partition,
    /// offset and metadata of each.
    pub fn commit_all_as_other_program(
        &self,
        group: &str,
        topic: &str,
        commits: &[(i32, i64, &[u8])],
    ) -> Result<(), RDKafkaErrorCode> {
        let consumer = self.outsider(group);
        let mut list = TopicPartitionList::new();
        for &(partition, offset, _) in commits {
            list.add_partition_offset(topic, partition, Offset::Offset(offset))
                .expect("an offset from a test is valid");
        }
        let texts: Vec<&[u8]> = commits.iter().map(|&(_, _, metadata)| metadata).collect();
        foreign_commit::attach(&mut list, &texts);
        match consumer.commit(&list, CommitMode::Sync) {
            Ok(()) => Ok(()),
            Err(KafkaError::ConsumerCommit(code)) => Err(code),
            Err(error) => panic!("no commit for {group} on {topic}: {error}"),
        }
    }

    /// A consumer that names the group and never joins it.
    fn outsider(&self, group: &str) -> BaseConsumer {
        self.client()
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .create()
            .expect("a consumer needs no network to be created")
    }
}
