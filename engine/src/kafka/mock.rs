//! A Kafka broker inside the process, for tests without one: librdkafka's mock.
//!
//! It has groups with offsets and metadata, produces and fetches, fails requests when told to, and
//! can be taken away. It does not know topic ids, limits of metadata or the checks of real brokers.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka_sys::rd_kafka_resp_err_t as Rd;

use super::native::{Failure, MockCluster};

/// What the mock broker could not do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("mock broker: {0}")]
pub struct MockError(String);

impl From<Failure> for MockError {
    fn from(failure: Failure) -> Self {
        Self(failure.text)
    }
}

impl From<rdkafka::error::KafkaError> for MockError {
    fn from(error: rdkafka::error::KafkaError) -> Self {
        Self(error.to_string())
    }
}

/// A kind of request that can be made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MockRequest {
    /// Producing.
    Produce,
    /// Fetching records.
    Fetch,
    /// Asking for a log's first or last offset.
    ListOffsets,
    /// Asking which topics and brokers there are.
    Metadata,
    /// Committing offsets.
    OffsetCommit,
    /// Reading committed offsets.
    OffsetFetch,
    /// Asking who coordinates a group.
    FindCoordinator,
    /// Joining a group.
    JoinGroup,
    /// Saying that a member is alive.
    Heartbeat,
    /// Leaving a group.
    LeaveGroup,
    /// Asking for the identity of an idempotent producer.
    InitProducerId,
    /// Adding partitions that are written to to a transaction.
    AddPartitionsToTxn,
    /// Adding a group to a transaction.
    AddOffsetsToTxn,
    /// Committing or aborting a transaction.
    EndTxn,
    /// Committing offsets in a transaction. The mock answers it, and stores nothing.
    TxnOffsetCommit,
}

impl MockRequest {
    fn api_key(self) -> i16 {
        match self {
            Self::Produce => 0,
            Self::Fetch => 1,
            Self::ListOffsets => 2,
            Self::Metadata => 3,
            Self::OffsetCommit => 8,
            Self::OffsetFetch => 9,
            Self::FindCoordinator => 10,
            Self::JoinGroup => 11,
            Self::Heartbeat => 12,
            Self::LeaveGroup => 13,
            Self::InitProducerId => 22,
            Self::AddPartitionsToTxn => 24,
            Self::AddOffsetsToTxn => 25,
            Self::EndTxn => 26,
            Self::TxnOffsetCommit => 28,
        }
    }
}

/// How a request fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MockFault {
    /// Not at all: lets one request through before the next fault.
    None,
    /// The connection is closed in place of an answer.
    Disconnect,
    /// COORDINATOR_LOAD_IN_PROGRESS.
    CoordinatorLoading,
    /// COORDINATOR_NOT_AVAILABLE.
    CoordinatorNotAvailable,
    /// NOT_COORDINATOR.
    NotCoordinator,
    /// ILLEGAL_GENERATION.
    IllegalGeneration,
    /// UNKNOWN_MEMBER_ID.
    UnknownMember,
    /// REBALANCE_IN_PROGRESS.
    RebalanceInProgress,
    /// OFFSET_METADATA_TOO_LARGE.
    MetadataTooLarge,
    /// MSG_SIZE_TOO_LARGE.
    MessageTooLarge,
    /// GROUP_AUTHORIZATION_FAILED.
    GroupDenied,
    /// TOPIC_AUTHORIZATION_FAILED.
    TopicDenied,
    /// CLUSTER_AUTHORIZATION_FAILED.
    ClusterDenied,
    /// FENCED_INSTANCE_ID.
    FencedInstance,
    /// FENCED_MEMBER_EPOCH.
    FencedMember,
    /// STALE_MEMBER_EPOCH.
    StaleMember,
    /// OFFSET_OUT_OF_RANGE.
    OffsetOutOfRange,
    /// UNKNOWN_TOPIC_OR_PART.
    UnknownTopic,
    /// INVALID_PRODUCER_EPOCH: another producer has the transactional id, or its transaction took too long.
    FencedProducer,
    /// CONCURRENT_TRANSACTIONS.
    ConcurrentTransactions,
    /// INVALID_TXN_STATE.
    InvalidTransactionState,
    /// TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
    TransactionalIdDenied,
    /// UNKNOWN_SERVER_ERROR.
    Unknown,
}

impl MockFault {
    fn code(self) -> Rd {
        match self {
            Self::None => Rd::RD_KAFKA_RESP_ERR_NO_ERROR,
            Self::Disconnect => Rd::RD_KAFKA_RESP_ERR__TRANSPORT,
            Self::CoordinatorLoading => Rd::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
            Self::CoordinatorNotAvailable => Rd::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
            Self::NotCoordinator => Rd::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
            Self::IllegalGeneration => Rd::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION,
            Self::UnknownMember => Rd::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
            Self::RebalanceInProgress => Rd::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
            Self::MetadataTooLarge => Rd::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE,
            Self::MessageTooLarge => Rd::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
            Self::GroupDenied => Rd::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
            Self::ClusterDenied => Rd::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED,
            Self::TopicDenied => Rd::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
            Self::FencedInstance => Rd::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID,
            Self::FencedMember => Rd::RD_KAFKA_RESP_ERR_FENCED_MEMBER_EPOCH,
            Self::StaleMember => Rd::RD_KAFKA_RESP_ERR_STALE_MEMBER_EPOCH,
            Self::OffsetOutOfRange => Rd::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE,
            Self::UnknownTopic => Rd::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
            Self::FencedProducer => Rd::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,
            Self::ConcurrentTransactions => Rd::RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS,
            Self::InvalidTransactionState => Rd::RD_KAFKA_RESP_ERR_INVALID_TXN_STATE,
            Self::TransactionalIdDenied => {
                Rd::RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            }
            Self::Unknown => Rd::RD_KAFKA_RESP_ERR_UNKNOWN,
        }
    }
}

/// Brokers inside the process. They stop when it is dropped.
pub struct MockBroker {
    producer: BaseProducer,
    cluster: MockCluster,
}

impl std::fmt::Debug for MockBroker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MockBroker")
            .field("bootstrap", &self.bootstrap())
            .finish_non_exhaustive()
    }
}

impl MockBroker {
    /// Starts so many brokers, numbered from 1. Groups get their first assignment after 50 ms.
    ///
    /// # Errors
    /// When no port can be opened.
    pub fn start(brokers: i32) -> Result<Self, MockError> {
        let cluster = MockCluster::start(brokers)?;
        cluster.first_rebalance_delay(Duration::from_millis(50));
        let producer = ClientConfig::new()
            .set("bootstrap.servers", cluster.bootstrap())
            .set("linger.ms", "0")
            .create()?;
        Ok(Self { producer, cluster })
    }

    /// For `bootstrap.servers`.
    pub fn bootstrap(&self) -> String {
        self.cluster.bootstrap()
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// When it exists.
    pub fn create_topic(&self, topic: &str, partitions: i32) -> Result<(), MockError> {
        Ok(self.cluster.create_topic(topic, partitions, 1)?)
    }

    /// Appends a record and waits until it is there.
    ///
    /// # Errors
    /// When the broker does not take it within 10 s.
    pub fn produce(
        &self,
        topic: &str,
        partition: i32,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), MockError> {
        self.append(topic, partition, key, value)?;
        self.flush()
    }

    /// Appends `count` records, numbered from `first` in their keys and values, and waits until they
    /// are there.
    ///
    /// # Errors
    /// As [`MockBroker::produce`].
    pub fn produce_numbered(
        &self,
        topic: &str,
        partition: i32,
        first: u64,
        count: u64,
    ) -> Result<(), MockError> {
        for number in first..first + count {
            let text = number.to_string();
            self.append(topic, partition, text.as_bytes(), text.as_bytes())?;
        }
        self.flush()
    }

    /// As [`MockBroker::produce`], with headers and without a key.
    ///
    /// # Errors
    /// As [`MockBroker::produce`].
    pub fn produce_with_headers(
        &self,
        topic: &str,
        partition: i32,
        value: &[u8],
        headers: &[(&str, Option<&[u8]>)],
    ) -> Result<(), MockError> {
        let headers = headers
            .iter()
            .fold(OwnedHeaders::new(), |all, &(key, value)| {
                all.insert(Header { key, value })
            });
        let record = BaseRecord::<(), [u8]>::to(topic)
            .partition(partition)
            .payload(value)
            .headers(headers);
        self.producer
            .send(record)
            .map_err(|(error, _)| MockError::from(error))?;
        self.flush()
    }

    fn append(
        &self,
        topic: &str,
        partition: i32,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), MockError> {
        let record = BaseRecord::to(topic)
            .partition(partition)
            .key(key)
            .payload(value);
        self.producer
            .send(record)
            .map_err(|(error, _)| MockError::from(error))
    }

    fn flush(&self) -> Result<(), MockError> {
        Ok(self.producer.flush(Duration::from_secs(10))?)
    }

    /// The next requests of this kind fail, one with each fault, in order.
    pub fn fail_requests(&self, request: MockRequest, faults: &[MockFault]) {
        let codes: Vec<Rd> = faults.iter().map(|fault| fault.code()).collect();
        self.cluster.fail_requests(request.api_key(), &codes);
    }

    /// Forgets the faults of this kind of request that are still to come.
    pub fn clear_faults(&self, request: MockRequest) {
        self.cluster.clear_failures(request.api_key());
    }

    /// Takes a broker away.
    ///
    /// # Errors
    /// When there is no such broker.
    pub fn broker_down(&self, broker: i32) -> Result<(), MockError> {
        Ok(self.cluster.set_reachable(broker, false)?)
    }

    /// Brings a broker back.
    ///
    /// # Errors
    /// When there is no such broker.
    pub fn broker_up(&self, broker: i32) -> Result<(), MockError> {
        Ok(self.cluster.set_reachable(broker, true)?)
    }

    /// Answers take so much longer from now on.
    ///
    /// # Errors
    /// When there is no such broker.
    pub fn set_round_trip(&self, broker: i32, time: Duration) -> Result<(), MockError> {
        Ok(self.cluster.set_round_trip(broker, time)?)
    }

    /// How long a new group waits for more members.
    pub fn set_first_rebalance_delay(&self, delay: Duration) {
        self.cluster.first_rebalance_delay(delay);
    }

    /// Makes a broker the coordinator of a group.
    ///
    /// # Errors
    /// When there is no such broker.
    pub fn set_coordinator(&self, group: &str, broker: i32) -> Result<(), MockError> {
        Ok(self.cluster.set_coordinator(group, broker)?)
    }
}
