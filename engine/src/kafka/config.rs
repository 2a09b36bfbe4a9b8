//! Which of librdkafka's properties an application may set, and what the engine sets itself.

use std::time::Duration;

use rdkafka::ClientConfig;

/// A property that the engine can't work with.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The value would break what the engine promises.
    #[error("`{property}` = `{value}` can't be used: {reason}. {instead}")]
    Refused {
        /// The property's name.
        property: &'static str,
        /// The value that was given.
        value: String,
        /// What it would break.
        reason: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// A property that has to be there.
    #[error("`{property}` is missing: {reason}")]
    Missing {
        /// The property's name.
        property: &'static str,
        /// What it is needed for.
        reason: &'static str,
    },
}

/// Where a partition without a committed offset starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StartWish {
    /// At the first record that the log holds.
    Earliest,
    /// Behind the last record.
    Latest,
}

/// How far librdkafka reads ahead. A value that the application sets itself wins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prefetch {
    /// `queued.min.messages`: records of a partition to have ready.
    pub(crate) min_messages: u32,
    /// `fetch.queue.backoff.ms`: the wait after the queue was full.
    pub(crate) queue_backoff_ms: u32,
    /// `queued.max.messages.kbytes`: the most that a partition's queue takes.
    pub(crate) max_kbytes: u32,
    /// `fetch.message.max.bytes`: the most of a partition in one fetch.
    pub(crate) fetch_message_max_bytes: u32,
    /// `fetch.max.bytes`: the most of one fetch, all partitions together, as the broker stores them.
    pub(crate) fetch_max_bytes: u32,
    /// `fetch.wait.max.ms`: how long a broker keeps a fetch for which there is nothing. A partition that is fetched again
    /// after a pause waits for the end of the one under way.
    pub(crate) fetch_wait_max_ms: u32,
}

impl Default for Prefetch {
    fn default() -> Self {
        Self {
            // Twice as many are not faster, and more of them are thrown away at a pause.
            min_messages: 5_000,
            queue_backoff_ms: 0,
            max_kbytes: 65_536,
            fetch_message_max_bytes: 1_048_576,
            fetch_max_bytes: 4_194_304,
            // librdkafka's own.
            fetch_wait_max_ms: 500,
        }
    }
}

/// A configuration as the source takes it.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// Checked, with the engine's own properties set.
    pub(crate) client: ClientConfig,
    /// What the application's `auto.offset.reset` says, if it is set.
    pub(crate) start: Option<StartWish>,
}

/// Property, the only value it may have, what any other breaks, what to do.
struct Rule {
    property: &'static str,
    allowed: &'static [&'static str],
    reason: &'static str,
    instead: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        property: "enable.auto.commit",
        allowed: &["false"],
        reason: "librdkafka would commit offsets of records that no handler has finished, without the hole map",
        instead: "Leave it out: the engine commits, as often as its commit interval says",
    },
    Rule {
        property: "auto.commit.enable",
        allowed: &["false"],
        reason: "librdkafka would commit offsets of records that no handler has finished, without the hole map",
        instead: "Leave it out: the engine commits, as often as its commit interval says",
    },
    Rule {
        property: "enable.auto.offset.store",
        allowed: &["false"],
        reason: "librdkafka would store offsets of records that no handler has finished",
        instead: "Leave it out: the engine keeps track of offsets itself",
    },
    Rule {
        property: "enable.partition.eof",
        allowed: &["true"],
        reason: "behind control records and aborted ones the engine learns its position from this event alone",
        instead: "Leave it out",
    },
    Rule {
        property: "offset.store.method",
        allowed: &["broker"],
        reason: "hole maps are kept beside the offsets on the broker",
        instead: "Leave it out",
    },
    Rule {
        property: "isolation.level",
        allowed: &["read_committed"],
        reason: "librdkafka then reads committed offsets that an open transaction is about to move",
        instead: "Leave it out",
    },
    Rule {
        property: "log.queue",
        allowed: &["false"],
        reason: "log lines would collect in a queue that nobody reads",
        instead: "Leave it out: the log goes to `tracing` with the target `librdkafka`",
    },
];

/// Checks what the application set. Nothing is changed.
fn check_properties(config: &ClientConfig) -> Result<(), ConfigError> {
    for rule in RULES {
        if let Some(value) = config.get(rule.property) {
            if !rule.allowed.iter().any(|allowed| same(allowed, value)) {
                return Err(ConfigError::Refused {
                    property: rule.property,
                    value: value.to_owned(),
                    reason: rule.reason,
                    instead: rule.instead,
                });
            }
        }
    }
    if config.get("group.id").is_none_or(|group| group.is_empty()) {
        return Err(ConfigError::Missing {
            property: "group.id",
            reason: "partitions are shared out and offsets are kept by consumer group",
        });
    }
    start_wish(config).map(drop)
}

/// Checks the application's properties and sets the engine's.
pub(crate) fn prepare(config: &ClientConfig, prefetch: Prefetch) -> Result<Prepared, ConfigError> {
    check_properties(config)?;
    let start = start_wish(config)?;
    let mut client = config.clone();
    client.remove("auto.commit.enable");
    for (property, value) in [
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("enable.partition.eof", "true"),
        // The engine decides where to start; see the commit protocol for what librdkafka would do.
        ("auto.offset.reset", "error"),
    ] {
        client.set(property, value);
    }
    for (property, alias, value) in [
        ("queued.min.messages", None, prefetch.min_messages),
        ("fetch.queue.backoff.ms", None, prefetch.queue_backoff_ms),
        ("queued.max.messages.kbytes", None, prefetch.max_kbytes),
        (
            "fetch.message.max.bytes",
            Some("max.partition.fetch.bytes"),
            prefetch.fetch_message_max_bytes,
        ),
        ("fetch.max.bytes", None, prefetch.fetch_max_bytes),
        ("fetch.wait.max.ms", None, prefetch.fetch_wait_max_ms),
    ] {
        let chosen = client
            .get(property)
            .or_else(|| alias.and_then(|alias| client.get(alias)));
        if chosen.is_none() {
            client.set(property, value.to_string());
        }
    }
    Ok(Prepared { client, start })
}

/// What librdkafka's list of properties marks as the consumer's alone: a producer would only warn about them.
const OF_CONSUMERS: &[&str] = &[
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "consume.callback.max.messages",
    "coordinator.query.interval.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.protocol.type",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "offset.store.method",
    "offset.store.path",
    "offset.store.sync.interval.ms",
    "partition.assignment.strategy",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "session.timeout.ms",
];

/// What would take from a message what it promises, or has nobody who reads it.
const NOT_OF_PRODUCERS: &[&str] = &[
    "acks",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "request.required.acks",
    "statistics.interval.ms",
    "transactional.id",
];

/// What the engine sets for its producer unless the application has, under either name.
const OF_PRODUCERS: &[(&str, Option<&str>, &str)] = &[
    // So that a key whose outputs go one record after the other waits little for each; what comes thick and fast is sent
    // together all the same.
    ("linger.ms", Some("queue.buffering.max.ms"), "1"),
    // Long enough for the election of a leader. After it the message counts as failed, and is tried again.
    ("message.timeout.ms", Some("delivery.timeout.ms"), "30000"),
    // So long a topic may be unknown before it is called missing.
    ("topic.metadata.propagation.max.ms", None, "5000"),
    // The broker's limit is the one that counts: 100 MB, as much as a record can have come in with.
    ("message.max.bytes", None, "100000000"),
    // Equal keys to equal partitions, where Java's clients put them too.
    ("partitioner", None, "murmur2_random"),
];

/// The configuration of the engine's producer, from its consumer's: the same brokers and rights, and what an
/// application has set for a producer among them.
pub(super) fn producer_config(member: &ClientConfig) -> ClientConfig {
    let mut config = member.clone();
    for property in OF_CONSUMERS.iter().chain(NOT_OF_PRODUCERS) {
        config.remove(property);
    }
    config.set("enable.idempotence", "true");
    // The writer's bounds are the ones that hold: a message refused for a full queue would be a failed attempt.
    config.set("queue.buffering.max.messages", "0");
    config.set("queue.buffering.max.kbytes", "2147483647");
    for (property, alias, value) in OF_PRODUCERS {
        let is_chosen = config.get(property).is_some()
            || alias.is_some_and(|alias| config.get(alias).is_some());
        if !is_chosen {
            config.set(*property, *value);
        }
    }
    config
}

/// How long a transaction may be open: the records of a member that died with one wait so long for their next owner.
pub(crate) const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The configuration of a producer whose messages go in transactions under this id.
pub(super) fn transactional_config(member: &ClientConfig, id: &str) -> ClientConfig {
    let mut config = producer_config(member);
    config.set("transactional.id", id);
    let timeout = transaction_timeout(member);
    config.set("transaction.timeout.ms", timeout.as_millis().to_string());
    // librdkafka refuses longer ones: a message, or a question, that outlasts its transaction is of no use.
    for (property, alias) in [
        ("message.timeout.ms", Some("delivery.timeout.ms")),
        ("socket.timeout.ms", None),
    ] {
        let names = [Some(property), alias].into_iter().flatten();
        for name in names {
            let chosen = config.get(name).and_then(|millis| millis.parse().ok());
            if chosen.is_some_and(|millis: u128| millis == 0 || millis > timeout.as_millis()) {
                config.set(name, timeout.as_millis().to_string());
            }
        }
    }
    config
}

/// How long a transaction of this member may be open.
pub(crate) fn transaction_timeout(member: &ClientConfig) -> Duration {
    let chosen = member.get("transaction.timeout.ms");
    chosen
        .and_then(|millis| millis.parse().ok())
        .map_or(TRANSACTION_TIMEOUT, Duration::from_millis)
}

fn start_wish(config: &ClientConfig) -> Result<Option<StartWish>, ConfigError> {
    let Some(value) = config.get("auto.offset.reset") else {
        return Ok(None);
    };
    match value.to_ascii_lowercase().as_str() {
        "earliest" | "smallest" | "beginning" => Ok(Some(StartWish::Earliest)),
        "latest" | "largest" | "end" => Ok(Some(StartWish::Latest)),
        "error" => Ok(None),
        _ => Err(ConfigError::Refused {
            property: "auto.offset.reset",
            value: value.to_owned(),
            reason: "it is read as the place where a partition without a committed offset starts",
            instead: "Use `earliest` or `latest`, or the builder's choice of a start",
        }),
    }
}

/// librdkafka takes several words for a boolean.
fn same(allowed: &str, value: &str) -> bool {
    let value = value.trim().to_ascii_lowercase();
    match allowed {
        "true" => matches!(value.as_str(), "true" | "t" | "1"),
        "false" => matches!(value.as_str(), "false" | "f" | "0"),
        word => value == word,
    }
}
