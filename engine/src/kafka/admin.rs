//! A client that names a group and is not its member: for looking into a group, and for changing what a stopped one
//! has committed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka_sys::rd_kafka_resp_err_t as Rd;

use super::TopicPartition;
use super::close::{self, Farewell};
use super::config::{Prefetch, prepare};
use super::errors::{ALL_BROKERS_DOWN, ClientError};
use super::group::{CommitOffset, Committed, GroupClient, LogRange, PerPartition, Shared};
use super::native::{Batch, Client, Description, OffsetSpec, PartitionList, Stashed};
use super::rebalance::Rebalance;
use super::{ConfigError, ErrorCode};

/// What would make a member of this client, or make the coordinator take its commits for a member's: it refuses an
/// identity that is not in the group. Statistics would pile up in a queue that nobody reads.
const OF_MEMBERS: &[&str] = &[
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "statistics.interval.ms",
];

const NOT_FOUND: i32 = Rd::RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND as i32;

/// A client beside a group.
pub(crate) struct Outsider {
    shared: Arc<Shared>,
    group: GroupClient,
}

impl fmt::Debug for Outsider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outsider")
            .field("group", &self.shared.group_id)
            .finish_non_exhaustive()
    }
}

impl Outsider {
    /// Makes the client. Nothing is asked yet. With `stable`, [`committed`](Self::committed) waits for open
    /// transactions that are about to commit; else it answers what is there before their end.
    pub(crate) fn open(
        config: &ClientConfig,
        stable: bool,
    ) -> Result<Result<Self, ClientError>, ConfigError> {
        let mut config = prepare(config, Prefetch::default())?.client;
        if !stable {
            // All that librdkafka derives require-stable from.
            config.set("isolation.level", "read_uncommitted");
        }
        for property in OF_MEMBERS {
            config.remove(property);
        }
        let group_id = config.get("group.id").unwrap_or_default().to_owned();
        let client = match Client::open(&config, false) {
            Ok(client) => client,
            Err(failure) => return Ok(Err(ClientError::of(failure))),
        };
        let shared = Shared::new(client, group_id, false);
        let group = GroupClient::new(Arc::clone(&shared));
        Ok(Ok(Self { shared, group }))
    }

    /// The group's name.
    pub(crate) fn group_id(&self) -> &str {
        &self.shared.group_id
    }

    pub(super) fn client(&self) -> &Client {
        &self.shared.client
    }

    /// All partitions of all topics.
    pub(crate) fn partitions(&self, timeout: Duration) -> Result<Vec<TopicPartition>, ClientError> {
        self.group.partitions(timeout)
    }

    /// Asks about the group, for as long as this client lives.
    pub(crate) fn group(&self) -> GroupClient {
        self.group.clone()
    }

    /// What the coordinator says of the group.
    pub(crate) fn describe(&self, timeout: Duration) -> Result<Description, ClientError> {
        match self.client().describe_group(self.group_id(), timeout) {
            // The newest versions of the request say so in place of the state.
            Err(failure) if failure.code == NOT_FOUND => Ok(Description {
                state: "Dead".to_owned(),
                members: 0,
            }),
            described => described.map_err(ClientError::of),
        }
    }

    /// As [`GroupClient::committed`]. An open transaction of one partition holds the whole answer up.
    pub(crate) fn committed(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<PerPartition<Committed>, ClientError> {
        self.group.committed(partitions, timeout)
    }

    /// Where each log begins and ends, records of open transactions included.
    pub(crate) fn log_ranges(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<PerPartition<LogRange>, ClientError> {
        self.group.log_range(partitions, timeout)
    }

    /// One past the last offset of each log, records of open transactions included, and the leader's epoch.
    pub(crate) fn log_ends(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<PerPartition<(i64, Option<i32>)>, ClientError> {
        self.group
            .log_positions(partitions, OffsetSpec::Latest, timeout)
    }

    /// Commits as a stranger: with no member id, and generation -1. The answer is librdkafka's for the whole
    /// request, and one partition's error can stand there for all (`group.rs`): what was stored says a
    /// later read. `None` is no answer in time, or one that leaves it open.
    pub(crate) fn commit(
        &self,
        offsets: &[CommitOffset<'_>],
        timeout: Duration,
    ) -> Result<Option<Result<(), ErrorCode>>, ClientError> {
        let mut list = PartitionList::with_capacity(offsets.len());
        for CommitOffset {
            tp,
            offset,
            leader_epoch,
            metadata,
        } in offsets
        {
            list.push(
                &tp.topic,
                tp.partition,
                *offset,
                *leader_epoch,
                metadata.as_bytes(),
            )
            .map_err(ClientError::of)?;
        }
        let handed_over = self.client().hand_over(&list).map_err(ClientError::of)?;
        let Some(reply) = handed_over.wait(timeout) else {
            return Ok(None);
        };
        let first_fault = reply
            .partitions
            .iter()
            .map(|&(_, _, code)| code)
            .find(|&code| code != 0)
            .unwrap_or(reply.code);
        Ok(Some(match first_fault {
            0 => Ok(()),
            code => Err(ErrorCode::of(code)),
        }))
    }

    /// The last thing that went wrong beside the calls, such as a connection that was refused: why a call had no
    /// answer.
    pub(crate) fn last_trouble(&self) -> Option<String> {
        let (mut records, mut failures) = (Vec::new(), Vec::new());
        self.client().receive(
            &mut Batch::default(),
            1,
            Duration::ZERO,
            &mut records,
            &mut failures,
        );
        let text = |stashed| match stashed {
            // That all brokers are down follows from other errors, which say why.
            Stashed::Error { code, text } if code != ALL_BROKERS_DOWN => Some(text),
            _ => None,
        };
        let stashed = self.client().stashed();
        stashed.into_iter().filter_map(text).next_back()
    }
}

impl Drop for Outsider {
    /// Nobody waits for the end of the client, which may hang while a broker is away.
    fn drop(&mut self) {
        close::start(
            Arc::clone(&self.shared),
            Rebalance::default(),
            Duration::ZERO,
            Farewell::None,
        );
    }
}
