//! Topics: made, cut, and looked at.

use std::time::Duration;

use keyway::causality::TopicId;
use keyway::group::{Group, OpenTransactions};
use rdkafka::admin::{AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::consumer::Consumer as _;
use rdkafka::metadata::MetadataPartition;
use rdkafka::producer::Producer as _;
use rdkafka::{Offset, TopicPartitionList};

use super::{Cluster, PATIENCE};
use crate::{blocking, wait};

impl Cluster {
    /// Makes a topic, with a replica on each node of ours, and waits until every partition has a leader.
    pub fn create_topic(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        let replicas = i32::try_from(self.size).expect("a cluster of ours has at most three nodes");
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(replicas));
        topic.config.extend(config);
        let made = blocking::wait_for(self.admin.create_topics([&topic], &admin_options()));
        let made = made.unwrap_or_else(|error| panic!("topic {name} was not made: {error}"));
        for made in made {
            if let Err((_, why)) = made {
                panic!("topic {name} was not made: {why}");
            }
        }
        wait::until(
            "every partition of a new topic has a leader",
            PATIENCE,
            || (self.led(name) == partitions).then_some(()),
        );
    }

    /// The id that the broker gave the topic when it was made.
    pub fn topic_id(&self, topic: &str) -> TopicId {
        let mut client = self.client();
        client.set("group.id", "asks-for-ids");
        let asking = Group::open(&client, PATIENCE, OpenTransactions::LookPast);
        let asking = asking.expect("a client");
        // A node may not have heard of a topic that was made a moment ago.
        wait::until("a topic's id", PATIENCE, || {
            asking.topic_id(topic).expect("an answer")
        })
    }

    /// Deletes a topic, and waits until no node shows it any more.
    pub fn delete_topic(&self, name: &str) {
        let gone = blocking::wait_for(self.admin.delete_topics(&[name], &admin_options()));
        let gone = gone.unwrap_or_else(|error| panic!("topic {name} was not deleted: {error}"));
        for gone in gone {
            if let Err((_, why)) = gone {
                panic!("topic {name} was not deleted: {why}");
            }
        }
        // Asked for by its name, it would be made again.
        wait::until("a deleted topic is gone", PATIENCE, || {
            let all = self
                .admin
                .inner()
                .fetch_metadata(None, Duration::from_secs(5));
            let is_there = all.ok()?.topics().iter().any(|topic| topic.name() == name);
            (!is_there).then_some(())
        });
    }

    /// How many partitions of a topic have a leader: one question for all of them.
    fn led(&self, topic: &str) -> i32 {
        let timeout = Duration::from_secs(5);
        let Ok(metadata) = self.admin.inner().fetch_metadata(Some(topic), timeout) else {
            return 0;
        };
        let topics = metadata.topics().iter();
        let partitions = topics.flat_map(|topic| topic.partitions());
        let led = partitions.filter(|found| found.error().is_none() && found.leader() >= 0);
        i32::try_from(led.count()).expect("a count of partitions")
    }

    /// Adds partitions to a topic until it has so many, and waits until each has a leader.
    pub fn add_partitions(&self, name: &str, partitions: i32) {
        let wanted = usize::try_from(partitions).expect("a count of partitions");
        let more = NewPartitions::new(name, wanted);
        let made = blocking::wait_for(self.admin.create_partitions([&more], &admin_options()));
        let made = made.unwrap_or_else(|error| panic!("topic {name} has not grown: {error}"));
        for made in made {
            if let Err((_, why)) = made {
                panic!("topic {name} has not grown: {why}");
            }
        }
        // The producer that all calls share refuses records for partitions that it has not heard of.
        let producer = self.producer();
        wait::until("every new partition has a leader", PATIENCE, || {
            let heard = producer
                .client()
                .fetch_metadata(Some(name), Duration::from_secs(5))
                .ok()?;
            let known = heard.topics().first()?.partitions().len();
            (known == wanted
                && (0..partitions).all(|partition| self.leader(name, partition).is_some()))
            .then_some(())
        });
    }

    /// Deletes the records of a partition below `before`: its log then starts there.
    pub fn delete_records(&self, topic: &str, partition: i32, before: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(before))
            .expect("an offset from a test is valid");
        let cut = blocking::wait_for(self.admin.delete_records(&list, &admin_options()));
        let cut = cut.unwrap_or_else(|error| panic!("{topic}[{partition}] was not cut: {error}"));
        for cut in cut.elements() {
            cut.error()
                .unwrap_or_else(|why| panic!("{topic}[{partition}] was not cut: {why}"));
        }
    }

    /// The node that leads a partition now. With `offsets.topic.num.partitions=1`, the leader of partition 0 of
    /// `__consumer_offsets` is the coordinator of every group.
    pub fn leader(&self, topic: &str, partition: i32) -> Option<usize> {
        self.of_partition(topic, partition, |found| {
            usize::try_from(found.leader()).ok()
        })?
    }

    /// Whether every replica of every topic is in sync, those of the broker's own topics included.
    pub fn is_in_sync(&self) -> bool {
        let all = self
            .admin
            .inner()
            .fetch_metadata(None, Duration::from_secs(5));
        let Ok(all) = all else { return false };
        let partitions = all.topics().iter().flat_map(|topic| topic.partitions());
        let in_sync = |found: &MetadataPartition| found.isr().len() == found.replicas().len();
        partitions.into_iter().all(in_sync)
    }

    fn of_partition<T>(
        &self,
        topic: &str,
        partition: i32,
        read: impl Fn(&MetadataPartition) -> T,
    ) -> Option<T> {
        let metadata = self
            .admin
            .inner()
            .fetch_metadata(Some(topic), Duration::from_secs(5))
            .ok()?;
        let partitions = metadata.topics().first()?.partitions();
        partitions
            .iter()
            .find(|found| found.id() == partition && found.error().is_none())
            .map(read)
    }

    /// The end of each partition's log, markers and aborted records included, in the order of the partitions.
    pub fn end_offsets(&self, topic: &str) -> Vec<i64> {
        self.watermarks(topic)
            .into_iter()
            .map(|(_, end)| end)
            .collect()
    }

    /// Whether a transaction that has records in the topic is open, so that a reader of committed data does not get to
    /// its end.
    pub fn is_in_a_transaction(&self, topic: &str) -> bool {
        let ends = self.end_offsets(topic);
        // Read committed is what librdkafka asks for unless told otherwise.
        let reader = self.admin.inner();
        let stable = |partition| {
            wait::until("the stable end of a partition's log", PATIENCE, || {
                let found = reader.fetch_watermarks(topic, partition, Duration::from_secs(5));
                found.ok().map(|(_, end)| end)
            })
        };
        (0..)
            .zip(ends)
            .any(|(partition, end)| stable(partition) < end)
    }

    /// The first offset of each partition's log.
    pub fn start_offsets(&self, topic: &str) -> Vec<i64> {
        self.watermarks(topic)
            .into_iter()
            .map(|(start, _)| start)
            .collect()
    }

    fn watermarks(&self, topic: &str) -> Vec<(i64, i64)> {
        // One for all calls, since tests ask often; it sees past open transactions.
        let watcher = self.watcher.get_or_init(|| {
            let mut config = self.client();
            config.set("isolation.level", "read_uncommitted");
            config
                .create()
                .expect("a consumer needs no network to be created")
        });
        let of = |partition| {
            wait::until("the ends of a partition's log", PATIENCE, || {
                watcher
                    .fetch_watermarks(topic, partition, Duration::from_secs(5))
                    .ok()
            })
        };
        (0..self.partitions(topic)).map(of).collect()
    }

    /// How many partitions a topic has.
    pub fn partitions(&self, topic: &str) -> i32 {
        wait::until("a topic's partitions", PATIENCE, || {
            let metadata = self
                .admin
                .inner()
                .fetch_metadata(Some(topic), Duration::from_secs(5))
                .ok()?;
            let count = metadata.topics().first()?.partitions().len();
            i32::try_from(count).ok().filter(|&count| count > 0)
        })
    }
}

fn admin_options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(PATIENCE))
        .operation_timeout(Some(PATIENCE))
}
