//! The cluster that an example runs against: one inside the process, or one that the command line names.

use std::error::Error;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use keyway::group::{Group, OpenTransactions};
use keyway::rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use keyway::rdkafka::client::DefaultClientContext;
use keyway::rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use keyway::testing::MockBroker;
use keyway::{ClientConfig, Record};

/// Real brokers take no shorter one unless they are told to.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// The broker inside the process takes any.
const MOCK_SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// A group needs so much longer than the session timeout, for looking and for sharing out.
const REBALANCE: Duration = Duration::from_secs(4);

const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The time between two records, as their timestamps say.
pub const APART: Duration = Duration::from_millis(10);

/// The timestamp of the first record: the beginning of 2026.
const BEGINNING: i64 = 1_767_225_600_000;

/// Brokers, and a topic and a group of this run's own.
pub struct Cluster {
    bootstrap: String,
    name: String,
    partitions: i32,
    /// Topics beside that one.
    beside: Vec<String>,
    /// Ends with the example.
    mock: Option<MockBroker>,
}

impl Cluster {
    /// The cluster after `--brokers`, else one inside the process; with a new topic for the example `name`.
    ///
    /// # Errors
    /// When the command line is something else, or the topic can't be made.
    pub async fn from_arguments(name: &str, partitions: i32) -> Result<Self, Box<dyn Error>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        match arguments.as_slice() {
            [] => Self::in_process(name, partitions),
            [option, brokers] if option == "--brokers" => {
                Self::real(brokers, name, partitions).await
            }
            _ => Err("usage: [--brokers HOST:PORT]".into()),
        }
    }

    /// One inside the process; with the topic `name`.
    ///
    /// # Errors
    /// When no port can be opened.
    pub fn in_process(name: &str, partitions: i32) -> Result<Self, Box<dyn Error>> {
        let mock = MockBroker::start(1)?;
        let name = name.to_owned();
        mock.create_topic(&name, partitions)?;
        Ok(Self {
            bootstrap: mock.bootstrap(),
            name,
            partitions,
            beside: Vec::new(),
            mock: Some(mock),
        })
    }

    async fn real(brokers: &str, name: &str, partitions: i32) -> Result<Self, Box<dyn Error>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let cluster = Self {
            bootstrap: brokers.to_owned(),
            name: format!("keyway-{name}-{}", now.as_millis()),
            partitions,
            beside: Vec::new(),
            mock: None,
        };
        cluster.create_topic(&cluster.name).await?;
        Ok(cluster)
    }

    async fn create_topic(&self, name: &str) -> Result<(), Box<dyn Error>> {
        if let Some(mock) = &self.mock {
            return Ok(mock.create_topic(name, self.partitions)?);
        }
        // -1 is the broker's own default.
        let topic = NewTopic::new(name, self.partitions, TopicReplication::Fixed(-1));
        let results = self
            .admin()?
            .create_topics([&topic], &AdminOptions::new())
            .await?;
        for result in results {
            result.map_err(|(topic, error)| format!("topic {topic}: {error}"))?;
        }
        Ok(())
    }

    /// One more topic of this run's own, named after the first: `orders.enriched` beside `orders`.
    ///
    /// # Errors
    /// When it can't be made.
    pub async fn topic_beside(&mut self, suffix: &str) -> Result<String, Box<dyn Error>> {
        let name = format!("{}.{suffix}", self.name);
        self.create_topic(&name).await?;
        self.beside.push(name.clone());
        Ok(name)
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>, Box<dyn Error>> {
        Ok(self.bare_client().create()?)
    }

    fn bare_client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", &self.bootstrap);
        client
    }

    /// Properties of a member of the group.
    pub fn client(&self) -> ClientConfig {
        let mut client = self.bare_client();
        client.set(
            "session.timeout.ms",
            self.session_timeout().as_millis().to_string(),
        );
        client.set("heartbeat.interval.ms", "500");
        client
    }

    fn session_timeout(&self) -> Duration {
        if self.mock.is_some() {
            MOCK_SESSION_TIMEOUT
        } else {
            SESSION_TIMEOUT
        }
    }

    /// How long it takes until another member has what a dead one had.
    pub fn patience(&self) -> Duration {
        self.session_timeout() + REBALANCE
    }

    /// Whether it is the one inside the process.
    pub fn is_in_process(&self) -> bool {
        self.mock.is_some()
    }

    /// Brokers to begin with.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.name
    }

    /// The group.
    pub fn group(&self) -> &str {
        &self.name
    }

    /// Produces `records`, dealt out to `keys` in turn, with timestamps [`APART`] from each other. A value is the
    /// record's number among those of its key.
    ///
    /// # Errors
    /// When the brokers do not take them.
    pub fn produce(&self, records: u64, keys: u64) -> Result<(), Box<dyn Error>> {
        let producer: BaseProducer = self.bare_client().create()?;
        for number in 0..records {
            let (key, value) = (
                format!("key-{}", number % keys),
                (number / keys).to_string(),
            );
            // Dealt out evenly; a key stays in its partition.
            let partition = (number % keys) as i32 % self.partitions;
            let record = BaseRecord::to(&self.name)
                .partition(partition)
                .key(&key)
                .payload(&value)
                .timestamp(BEGINNING + number as i64 * APART.as_millis() as i64);
            producer.send(record).map_err(|(error, _)| error)?;
        }
        Ok(producer.flush(DELIVERY_TIMEOUT)?)
    }

    /// Produces records, given as key and value, in their order.
    ///
    /// # Errors
    /// When the brokers do not take them.
    pub fn produce_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), Box<dyn Error>> {
        let producer: BaseProducer = self.bare_client().create()?;
        for (key, value) in records {
            let record = BaseRecord::to(&self.name)
                .key(key.as_ref())
                .payload(value.as_ref());
            producer.send(record).map_err(|(error, _)| error)?;
        }
        Ok(producer.flush(DELIVERY_TIMEOUT)?)
    }

    /// Visits what a topic holds, those of a partition in order: what a reader with `isolation.level=read_committed` finds.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn read(&self, topic: &str, mut visit: impl FnMut(&Record)) -> Result<(), Box<dyn Error>> {
        let mut client = self.bare_client();
        client.set("group.id", self.group());
        let group = Group::open(&client, DELIVERY_TIMEOUT, OpenTransactions::WaitFor)?;
        let from: Vec<_> = group
            .partitions_of(topic)?
            .into_iter()
            .map(|partition| (partition, 0))
            .collect();
        group.read(&from, |record| {
            visit(record);
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// Deletes the topics.
    ///
    /// # Errors
    /// When the brokers do not do it.
    pub async fn clean_up(&self) -> Result<(), Box<dyn Error>> {
        if self.mock.is_none() {
            let mut topics = vec![self.name.as_str()];
            topics.extend(self.beside.iter().map(String::as_str));
            self.admin()?
                .delete_topics(&topics, &AdminOptions::new())
                .await?;
        }
        Ok(())
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.mock.is_some() {
            "a broker inside this process"
        } else {
            &self.bootstrap
        };
        write!(f, "{place}, topic {}", self.name)
    }
}
