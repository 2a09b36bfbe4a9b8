//! What can go wrong, by what there is to do about it.

use std::fmt;

use rdkafka_sys::rd_kafka_resp_err_t as Rd;

use super::native::Failure;

/// An error number of Kafka's protocol, or one of librdkafka's own, which are negative. The list of
/// both is librdkafka's `rd_kafka_resp_err_t`; Kafka's are at
/// <https://kafka.apache.org/protocol#protocol_error_codes>.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorCode {
    /// The number.
    pub number: i32,
    /// librdkafka's name, such as `TOPIC_AUTHORIZATION_FAILED`; a leading `_` marks its own errors.
    pub name: String,
}

impl ErrorCode {
    pub(super) fn of(number: i32) -> Self {
        Self {
            number,
            name: super::native::name_of(number),
        }
    }
}

impl ErrorCode {
    pub(super) fn is_missing_topic(&self) -> bool {
        self.number == Rd::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART as i32
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.number)
    }
}

/// What the client was not allowed to use, or what is not there.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DeniedWhat {
    /// The user or the password, certificate or token is refused.
    Authentication,
    /// No right to read the topic, or to write it where outputs or dead letters go there. The name is empty where the broker does not say which.
    Topic(String),
    /// The topic, or a partition of it, does not exist.
    MissingTopic(String),
    /// No right to use the consumer group.
    Group,
    /// No right to an operation of the whole cluster.
    Cluster,
    /// No right to use the transactional id.
    TransactionalId,
}

impl fmt::Display for DeniedWhat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authentication => f.write_str("authentication"),
            Self::Topic(topic) => write!(f, "topic {topic}"),
            Self::MissingTopic(topic) => write!(f, "topic {topic}, which does not exist"),
            Self::Group => f.write_str("the consumer group"),
            Self::Cluster => f.write_str("the cluster"),
            Self::TransactionalId => f.write_str("the transactional id"),
        }
    }
}

/// An error of the Kafka client.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// It passes, and the client goes on trying: a broker that is away, a coordinator that moves, a
    /// request that took too long.
    #[error("{text} [{code}]")]
    Transient {
        /// The error number.
        code: ErrorCode,
        /// What librdkafka says.
        text: String,
    },
    /// It lasts until somebody changes rights, credentials or topics. The client goes on trying.
    #[error("no access to {what}: {text} [{code}]")]
    Denied {
        /// What the client may not use.
        what: DeniedWhat,
        /// The error number.
        code: ErrorCode,
        /// What librdkafka says.
        text: String,
    },
    /// The client can't go on: another member took this one's static identity, or the
    /// configuration or the request is wrong.
    #[error("{text} [{code}]")]
    Fatal {
        /// The error number.
        code: ErrorCode,
        /// What librdkafka says.
        text: String,
    },
    /// The client is closed or closing.
    #[error("the Kafka client is closed")]
    Closed,
}

impl ClientError {
    /// Whether the broker refuses the batch for its size: all messages of it are told so.
    pub(crate) fn is_of_the_batch(&self) -> bool {
        let of_size = [
            Rd::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
            Rd::RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE,
        ];
        let number = self.code().map(|code| code.number);
        of_size.iter().any(|code| Some(*code as i32) == number)
    }

    /// Whether the broker refuses this message, and would again: not the state that it or the connection is in.
    pub(crate) fn is_of_the_message(&self) -> bool {
        match self {
            Self::Denied { what, .. } => {
                matches!(what, DeniedWhat::Topic(_) | DeniedWhat::MissingTopic(_))
            }
            Self::Transient { code, .. } | Self::Fatal { code, .. } => [
                Rd::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
                Rd::RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE,
                Rd::RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE,
                Rd::RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
                Rd::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP,
                Rd::RD_KAFKA_RESP_ERR_INVALID_RECORD,
                Rd::RD_KAFKA_RESP_ERR__INVALID_ARG,
            ]
            .iter()
            .any(|&refusal| code.number == refusal as i32),
            Self::Closed => false,
        }
    }

    /// An application has set a header that is the engine's. The message would be refused each time.
    pub(crate) fn reserved_header(name: &str) -> Self {
        Self::Fatal {
            code: ErrorCode::of(Rd::RD_KAFKA_RESP_ERR__INVALID_ARG as i32),
            text: format!("the header `{name}` is reserved for causal delivery: leave it out"),
        }
    }

    /// The topic does not exist.
    pub(crate) fn missing_topic(topic: &str) -> Self {
        Self::Denied {
            what: DeniedWhat::MissingTopic(topic.to_owned()),
            code: ErrorCode::of(Rd::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART as i32),
            text: "no broker knows it".to_owned(),
        }
    }

    /// Nothing came in time.
    pub(crate) fn no_answer() -> Self {
        Self::of(Failure {
            code: Rd::RD_KAFKA_RESP_ERR__TIMED_OUT as i32,
            text: "nothing came in time".to_owned(),
        })
    }

    /// Whether somebody has to change the cluster before it heals.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self, Self::Denied { .. })
    }

    pub(super) fn of(failure: Failure) -> Self {
        Self::about(failure, None)
    }

    /// The typed error; `topic` is what it is about, where known.
    pub(super) fn about(failure: Failure, topic: Option<&str>) -> Self {
        let Failure { code: number, text } = failure;
        if number == Rd::RD_KAFKA_RESP_ERR__DESTROY as i32 {
            return Self::Closed;
        }
        let code = ErrorCode::of(number);
        if let Some(what) = denied(number, topic) {
            return Self::Denied { what, code, text };
        }
        if is_fatal(number) {
            Self::Fatal { code, text }
        } else {
            Self::Transient { code, text }
        }
    }

    /// The error number, where there is one.
    pub fn code(&self) -> Option<&ErrorCode> {
        match self {
            Self::Transient { code, .. } | Self::Denied { code, .. } | Self::Fatal { code, .. } => {
                Some(code)
            }
            Self::Closed => None,
        }
    }

    /// True when there is no broker left to talk to. librdkafka says so once, and goes on trying.
    pub(crate) fn is_all_brokers_down(&self) -> bool {
        self.code()
            .is_some_and(|code| code.number == ALL_BROKERS_DOWN)
    }

    /// True for what passes by itself.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Transient { .. })
    }
}

pub(super) const ALL_BROKERS_DOWN: i32 = Rd::RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN as i32;

fn denied(number: i32, topic: Option<&str>) -> Option<DeniedWhat> {
    let topic = || topic.unwrap_or_default().to_owned();
    let is = |code: Rd| number == code as i32;
    if is(Rd::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) {
        Some(DeniedWhat::Topic(topic()))
    } else if is(Rd::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED) {
        Some(DeniedWhat::Group)
    } else if is(Rd::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED) {
        Some(DeniedWhat::Cluster)
    } else if is(Rd::RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED) {
        Some(DeniedWhat::TransactionalId)
    } else if is(Rd::RD_KAFKA_RESP_ERR__AUTHENTICATION)
        || is(Rd::RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED)
        || is(Rd::RD_KAFKA_RESP_ERR__SSL)
    {
        Some(DeniedWhat::Authentication)
    } else if is(Rd::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        || is(Rd::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC)
        || is(Rd::RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
        || is(Rd::RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION)
    {
        Some(DeniedWhat::MissingTopic(topic()))
    } else {
        None
    }
}

fn is_fatal(number: i32) -> bool {
    [
        Rd::RD_KAFKA_RESP_ERR__FATAL,
        Rd::RD_KAFKA_RESP_ERR__INVALID_ARG,
        Rd::RD_KAFKA_RESP_ERR__UNKNOWN_GROUP,
        Rd::RD_KAFKA_RESP_ERR__NOT_CONFIGURED,
        Rd::RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED,
        Rd::RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE,
        Rd::RD_KAFKA_RESP_ERR__FENCED,
        Rd::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID,
        Rd::RD_KAFKA_RESP_ERR_INVALID_GROUP_ID,
        Rd::RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT,
        Rd::RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL,
        Rd::RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION,
        Rd::RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM,
        Rd::RD_KAFKA_RESP_ERR_INVALID_REQUEST,
    ]
    .iter()
    .any(|&code| number == code as i32)
}

/// What the broker said about one partition of a commit: the table of the commit protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CommitCode {
    /// Stored.
    Success,
    /// Rebuild the plan from what is owned now and repeat it with backoff: a rebalance runs, the
    /// member's epoch was old, or the coordinator moves or loads.
    Retry(ErrorCode),
    /// The generation is over: drop the plan and wait for the rebalance event.
    Drop(ErrorCode),
    /// The member is out: wait for `Lost`.
    Lost(ErrorCode),
    /// The broker's limit for metadata is lower than the text.
    TooLarge(ErrorCode),
    /// No right to the group or the topic, or the topic does not exist (any more, or not yet for this coordinator).
    Denied(DeniedWhat, ErrorCode),
    /// Anything else. The partition stays dirty; it is repeated with the next plan.
    Other(ErrorCode),
}

impl CommitCode {
    pub(super) fn of(number: i32, topic: &str) -> Self {
        if number == 0 {
            return Self::Success;
        }
        let code = ErrorCode::of(number);
        let is = |codes: &[Rd]| codes.iter().any(|&code| number == code as i32);
        if is(&[
            Rd::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
            Rd::RD_KAFKA_RESP_ERR_STALE_MEMBER_EPOCH,
            Rd::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
            Rd::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
            Rd::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
            Rd::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
            Rd::RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION,
            Rd::RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT,
            Rd::RD_KAFKA_RESP_ERR__WAIT_COORD,
            Rd::RD_KAFKA_RESP_ERR__TRANSPORT,
            Rd::RD_KAFKA_RESP_ERR__TIMED_OUT,
            Rd::RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE,
        ]) {
            Self::Retry(code)
        } else if is(&[Rd::RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION]) {
            Self::Drop(code)
        } else if is(&[
            Rd::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
            Rd::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID,
            Rd::RD_KAFKA_RESP_ERR_FENCED_MEMBER_EPOCH,
            Rd::RD_KAFKA_RESP_ERR__ASSIGNMENT_LOST,
        ]) {
            Self::Lost(code)
        } else if is(&[Rd::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE]) {
            Self::TooLarge(code)
        } else if let Some(what) = denied(number, Some(topic)) {
            Self::Denied(what, code)
        } else {
            Self::Other(code)
        }
    }

    /// True for an error that a coordinator may give to one partition of a commit and not to the
    /// others, in contrast to those about the group or the member.
    pub(super) fn may_be_of_one_partition(number: i32) -> bool {
        number != 0
            && matches!(
                Self::of(number, ""),
                Self::TooLarge(_)
                    | Self::Other(_)
                    | Self::Denied(DeniedWhat::Topic(_) | DeniedWhat::MissingTopic(_), _)
            )
    }

    /// True when the request may have reached a broker and still take effect, although this is all
    /// the answer there is. (REQUEST_TIMED_OUT is not of these: the broker has written the commit to
    /// its log, ahead of any later one.)
    pub(super) fn leaves_open(number: i32) -> bool {
        [
            Rd::RD_KAFKA_RESP_ERR__TRANSPORT,
            Rd::RD_KAFKA_RESP_ERR__TIMED_OUT,
            Rd::RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE,
            Rd::RD_KAFKA_RESP_ERR__WAIT_COORD,
            Rd::RD_KAFKA_RESP_ERR__DESTROY,
            Rd::RD_KAFKA_RESP_ERR__DESTROY_BROKER,
            Rd::RD_KAFKA_RESP_ERR__BAD_MSG,
        ]
        .iter()
        .any(|&code| number == code as i32)
    }
}
