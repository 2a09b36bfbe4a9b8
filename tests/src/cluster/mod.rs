//! A real Kafka cluster for a test, in one line.
//!
//! ```no_run
//! use keyway_tests::cluster::Cluster;
//!
//! let cluster = Cluster::start(); // one node, shared by all tests of this process
//! let topic = cluster.unique("orders");
//! cluster.create_topic(&topic, 3, &[]);
//! cluster.produce(&topic, (0..100).map(|n: i32| (Some(n % 3), Some(format!("key-{n}")), "value")));
//! assert_eq!(cluster.end_offsets(&topic), [34, 33, 33]);
//! ```
//!
//! There are three ways to get one ([`Way`]), tried in the order below; the way taken is written to stderr once,
//! and when none is possible the panic names what is missing. Nothing is skipped in silence.
//!
//! ```text
//!   KEYWAY_BROKERS=host:port,..  ->  Way::Named     somebody else's cluster: no faults, no own settings
//!   a Docker engine answers      ->  Way::Docker    testcontainers, apache/kafka
//!   a JDK and Maven are there    ->  Way::Process   the same broker from its jars, as plain processes
//! ```
//!
//! Whatever was started ends with the test process, also when that one is killed: a broker process hangs on a pipe
//! that its supervisor reads, containers are removed by a small process that does the same.
//!
//! The calls panic with the reason when the cluster does not do what they say: a test has nothing better to do.

mod choice;
mod docker;
mod foreign_commit;
mod groups;
mod leftovers;
mod ports;
mod process;
mod produce;
mod read;
mod rights;
mod settings;
mod topics;

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::ClientConfig;
use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

pub use choice::Way;
pub use foreign_commit::set_leader_epoch;
pub use groups::Committed;
pub use produce::{Produced, Record};
pub use read::{Received, read_topic};
pub use rights::{ADMIN, PROTECTED, READER, Resource};

use crate::wait;

/// The version of Apache Kafka that the two own ways run.
pub const KAFKA_VERSION: &str = "4.1.1";

/// The bound for anything a healthy cluster does at once; only a broken one gets near it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster of the test's own: how many nodes, and what differs from the settings that all share.
#[derive(Debug, Clone)]
pub struct Config<'a> {
    /// 1, or 3 where the test is about failure. Node ids count from 1; each node is broker and controller.
    pub nodes: usize,
    /// Broker properties, over the common ones.
    pub properties: &'a [(&'a str, &'a str)],
    /// What its clients have to set, where it asks who they are.
    pub client: &'a [(&'a str, &'a str)],
}

impl Default for Config<'_> {
    fn default() -> Self {
        Config {
            nodes: 1,
            properties: &[],
            client: &[],
        }
    }
}

/// What a way of running nodes can do to one of them. Node ids count from 1.
trait Nodes: Send + Sync {
    /// The broker is gone without a word, as after a crash; its storage stays.
    fn kill(&self, node: usize);
    /// Starts a killed node again, under the same address and over the same storage.
    fn start(&self, node: usize);
    /// The node stops running but keeps its connections, as in a long garbage collection.
    fn pause(&self, node: usize);
    /// Ends a pause.
    fn resume(&self, node: usize);
    /// What the node wrote, for a person who looks for the reason of a failure.
    fn log(&self, node: usize) -> String;
}

/// A running cluster and all that a test needs to fill it, look into it and hurt it.
pub struct Cluster {
    bootstrap: String,
    client: Vec<(String, String)>,
    way: Way,
    size: usize,
    nodes: Option<Box<dyn Nodes>>,
    admin: AdminClient<DefaultClientContext>,
    producer: OnceLock<produce::Producer>,
    watcher: OnceLock<BaseConsumer>,
}

impl Cluster {
    /// The one-node cluster that all tests of this process share: use [unique](Self::unique) names in it.
    pub fn start() -> &'static Cluster {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| match choice::named_brokers() {
            Some(bootstrap) => Cluster::named(bootstrap),
            None => Cluster::with(Config::default()),
        })
    }

    /// A cluster of this test's own, gone when dropped. Never the one that `KEYWAY_BROKERS` names, whose settings
    /// are not ours.
    pub fn with(config: Config<'_>) -> Cluster {
        Cluster::by(choice::for_own_cluster(), config)
    }

    /// As [`with`](Self::with), by a way that the caller chooses.
    ///
    /// # Panics
    /// When the way is not possible here, with what is missing.
    pub fn by(way: Way, config: Config<'_>) -> Cluster {
        if let Err(missing) = way.possible() {
            panic!("no cluster by way of {way}: {missing}");
        }
        assert!(
            matches!(config.nodes, 1 | 3),
            "a cluster has 1 or 3 nodes, not {}",
            config.nodes
        );
        choice::announce(way);
        let (bootstrap, nodes): (String, Box<dyn Nodes>) = match way {
            Way::Named => panic!(
                "a cluster with settings of its own can't be the one that {} names",
                choice::BROKERS
            ),
            Way::Docker => docker::Containers::start(&config),
            Way::Process => process::Processes::start(&config),
        };
        let cluster = Cluster::connect(bootstrap, way, &config, Some(nodes));
        cluster.wait_for_nodes();
        cluster
    }

    fn named(bootstrap: String) -> Cluster {
        choice::announce(Way::Named);
        let cluster = Cluster::connect(bootstrap, Way::Named, &Config::default(), None);
        cluster.wait_for_nodes();
        cluster
    }

    fn connect(
        bootstrap: String,
        way: Way,
        config: &Config<'_>,
        nodes: Option<Box<dyn Nodes>>,
    ) -> Cluster {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        let properties: Vec<_> = config.client.iter().map(own).collect();
        let admin = client_with(&bootstrap, &properties)
            .create()
            .expect("an admin client needs no network to be created");
        Cluster {
            bootstrap,
            client: properties,
            way,
            size: config.nodes,
            nodes,
            admin,
            producer: OnceLock::new(),
            watcher: OnceLock::new(),
        }
    }

    /// `bootstrap.servers` of this cluster.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// How this cluster came to be.
    pub fn way(&self) -> Way {
        self.way
    }

    /// A client configuration that knows this cluster and nothing else.
    pub fn client(&self) -> ClientConfig {
        client_with(&self.bootstrap, &self.client)
    }

    /// A name that no other test, process or run uses.
    pub fn unique(&self, prefix: &str) -> String {
        unique(prefix)
    }

    /// Kills a node as a crash would: no goodbye, the storage stays.
    pub fn kill_node(&self, node: usize) {
        self.faulty(node).kill(node);
    }

    /// Starts a killed node again, at the same address, and waits until it answers.
    pub fn start_node(&self, node: usize) {
        self.faulty(node).start(node);
        let address = self
            .bootstrap
            .split(',')
            .nth(node - 1)
            .expect("each node of ours has an address");
        self.wait_for_node(address, 1);
    }

    /// Freezes a node: its connections stay open and nothing answers.
    pub fn pause_node(&self, node: usize) {
        self.faulty(node).pause(node);
    }

    /// Ends a pause.
    pub fn resume_node(&self, node: usize) {
        self.faulty(node).resume(node);
    }

    fn faulty(&self, node: usize) -> &dyn Nodes {
        assert!(
            (1..=self.size).contains(&node),
            "there is no node {node}: they are 1 to {}",
            self.size
        );
        self.nodes.as_deref().unwrap_or_else(|| {
            panic!(
                "the cluster that {} names is not ours to break",
                choice::BROKERS
            )
        })
    }

    /// Waits until each node answers and knows of all the others.
    fn wait_for_nodes(&self) {
        self.bootstrap
            .split(',')
            .for_each(|address| self.wait_for_node(address, self.size));
    }

    /// Waits until the node answers for itself and knows of `count` nodes. What another node says of it proves nothing:
    /// a killed node stays registered for a while.
    fn wait_for_node(&self, address: &str, count: usize) {
        let node: BaseConsumer = client_with(address, &self.client)
            .create()
            .expect("a consumer needs no network to be created");
        let mut last = String::new();
        wait::try_until(PATIENCE, || {
            match node.fetch_metadata(None, Duration::from_secs(5)) {
                Ok(metadata) if metadata.brokers().len() >= count => Some(()),
                Ok(metadata) => {
                    last = format!(
                        "{} of {count} nodes are registered",
                        metadata.brokers().len()
                    );
                    None
                }
                Err(error) => {
                    last = error.to_string();
                    None
                }
            }
        })
        .unwrap_or_else(|| {
            panic!(
                "the node at {address} did not come up: {last}\n{}",
                self.logs()
            )
        });
    }

    /// The ends of the nodes' logs.
    fn logs(&self) -> String {
        let nodes = self.nodes.as_deref();
        let log = |node| nodes.map(|nodes| nodes.log(node)).unwrap_or_default();
        (1..=self.size)
            .map(|node| format!("--- node {node}\n{}\n", log(node)))
            .collect()
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("way", &self.way)
            .field("bootstrap", &self.bootstrap)
            .finish_non_exhaustive()
    }
}

/// A client configuration for a cluster at these addresses.
pub fn client(bootstrap: &str) -> ClientConfig {
    client_with(bootstrap, &[])
}

fn client_with(bootstrap: &str, own: &[(String, String)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.extend(own.iter().cloned());
    config
        .set("bootstrap.servers", bootstrap)
        .set("broker.address.family", "v4")
        // A producer asks for the topics that it knows every five minutes, and a broker would make those anew that a test
        // has deleted.
        .set("allow.auto.create.topics", "false")
        .set("reconnect.backoff.max.ms", "200")
        // A paused node takes connections and answers nothing.
        .set("api.version.request.timeout.ms", "3000")
        .set("socket.timeout.ms", "10000")
        .set("topic.metadata.refresh.fast.interval.ms", "50");
    config
}

fn unique(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!(
        "{prefix}-{:x}-{}-{count}",
        since_epoch.as_micros(),
        std::process::id()
    )
}

/// The last lines of a log.
fn tail(log: &str) -> String {
    const LINES: usize = 40;
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
