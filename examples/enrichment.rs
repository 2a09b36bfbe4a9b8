//! Orders with their customers' names, exactly once.
//!
//! ```sh
//! cargo run --release --example enrichment                              # with a broker inside the process
//! cargo run --release --example enrichment -- --brokers localhost:9092  # on a real cluster, with a crash in the middle
//! ```
//!
//! Each order is sent on to another topic with the name of its customer, which a directory knows that takes its time.
//! Outputs and the offsets of their orders are stored in one transaction ten times a second: after a crash there are
//! both of an order, or none. Handlers hold no transaction, and hundreds of them run at a time.
//!
//! - **Who reads the enriched orders** has to set `isolation.level=read_committed`. It is librdkafka's default, and not
//!   that of Java's consumer, which sees an order twice when its transaction was aborted in between.
//! - **`transactional.id`** is the name of a member in its transactions. Who takes a name over ends what its former
//!   owner has left open, so give each member one of its own that it keeps over restarts (`orders-0` on pod 0). Two
//!   members of the same name throw each other out. Without one Keyway makes it of group and `group.instance.id`, or a
//!   new one for each start: then what a crash has left open holds up who reads the topic, and who takes over, until
//!   `transaction.timeout.ms` (10 s) is over.
//! - **The directory** is asked again after a crash: exactly once is what is written to Kafka, and nothing else.
//!
//! Exits with 1 if an order came out twice, not at all, or before an earlier one of its customer.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keyway::{
    Builder, ClientConfig, CommitMode, DeadLetters, Engine, Exhausted, Keyway, Outcome, Output,
    Record, Retry, StartAt, decode,
};
use keyway_examples::Cluster;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

// ---- the service ----

/// Between two transactions. The longer, the later readers see an order, and the less each costs.
const COMMIT_INTERVAL: Duration = Duration::from_millis(100);

/// Orders that are looked up at once.
const CONCURRENCY: u32 = 200;

/// A lookup that takes longer has failed.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// A name is believed for so long.
const NAME_LIFETIME: Duration = Duration::from_secs(60);

/// Names that are remembered.
const NAMES: usize = 10_000;

#[derive(Deserialize)]
struct Order {
    number: u64,
    customer: String,
    cents: u64,
}

#[derive(Serialize, Deserialize)]
struct EnrichedOrder {
    number: u64,
    customer: String,
    customer_name: String,
    cents: u64,
}

/// The group's member that enriches `orders` to `enriched`; what can't be enriched goes to `dead`.
pub(crate) fn pipeline(
    client: ClientConfig,
    (orders, enriched, dead): (&str, &str, &str),
    directory: impl Directory,
) -> Builder {
    let names = Arc::new(Names::of(directory));
    let enriched: Arc<str> = enriched.into();
    Keyway::builder(client)
        .topics([orders])
        .start_at(StartAt::Earliest)
        .commit_mode(CommitMode::Transactional(COMMIT_INTERVAL))
        .concurrency(CONCURRENCY)
        .timeout(LOOKUP_TIMEOUT)
        // As often as it takes while the directory is down; at once for what is no order.
        .retry(Retry::default().then(Exhausted::DeadLetter))
        .dead_letters(DeadLetters::headers(dead))
        .async_handler(decode::value_async(
            decode::json::<Order>(),
            move |record, order| enrich(record, order, Arc::clone(&names), Arc::clone(&enriched)),
        ))
}

async fn enrich(record: Record, order: Order, names: Arc<Names>, to: Arc<str>) -> Outcome {
    let customer_name = match names.find(&order.customer).await {
        Ok(Some(name)) => name,
        Ok(None) => return Outcome::DeadLetter(format!("no customer {}", order.customer).into()),
        Err(error) => return Outcome::Failed(format!("the directory: {error}").into()),
    };
    let enriched = EnrichedOrder {
        number: order.number,
        customer: order.customer,
        customer_name,
        cents: order.cents,
    };
    // The key, so that the orders of a customer stay in order; the headers and the time as well.
    let copy = Output::copy_of(&record, to).map_err(|error| error.to_string());
    let value = serde_json::to_vec(&enriched).map_err(|error| error.to_string());
    match (copy, value) {
        (Ok(copy), Ok(value)) => Outcome::Send(vec![copy.value(value)]),
        (Err(error), _) | (_, Err(error)) => Outcome::GiveUp(error.into()),
    }
}

/// A future that a directory answers with: the name, if there is such a customer.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Option<String>, String>> + Send>>;

/// Who knows the customers' names.
pub(crate) trait Directory: Fn(&str) -> Answer + Send + Sync + 'static {}

impl<F: Fn(&str) -> Answer + Send + Sync + 'static> Directory for F {}

/// The names that were asked for lately. Two orders of one customer never run at once, so nobody asks twice for a name
/// that is on its way.
struct Names {
    directory: Box<dyn Directory>,
    known: Mutex<HashMap<String, (String, Instant)>>,
}

impl Names {
    fn of(directory: impl Directory) -> Self {
        Self {
            directory: Box::new(directory),
            known: Mutex::default(),
        }
    }

    async fn find(&self, customer: &str) -> Result<Option<String>, String> {
        if let Some(name) = self.known(customer) {
            return Ok(Some(name));
        }
        let found = (self.directory)(customer).await?;
        if let Some(name) = &found {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= NAMES {
                // Costs a lookup for each that comes again, and no bookkeeping.
                known.clear();
            }
            known.insert(customer.to_owned(), (name.clone(), Instant::now()));
        }
        Ok(found)
    }

    fn known(&self, customer: &str) -> Option<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, since) = known.get(customer)?;
        (since.elapsed() < NAME_LIFETIME).then(|| name.clone())
    }
}

// ---- the demonstration ----

const ORDERS: u64 = 20_000;
const CUSTOMERS: u64 = 2_000;
const PARTITIONS: i32 = 4;

/// One of so many is no order at all.
const BAD: u64 = 100;

/// A member has nothing more to do after so long without a record.
const IDLE: Duration = Duration::from_secs(2);

/// After so long something is wrong.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = Cluster::from_arguments("orders", PARTITIONS).await?;
    let read = run(cluster).await?;
    println!("{read}");
    Ok(())
}

/// Enriches orders, and tells what a reader finds.
pub(crate) async fn run(mut cluster: Cluster) -> Result<Read, Box<dyn Error>> {
    let enriched = cluster.topic_beside("enriched").await?;
    let dead = cluster.topic_beside("dead").await?;
    cluster.produce_all((0..ORDERS).map(|number| {
        let customer = format!("c-{}", number % CUSTOMERS);
        let order = match number % BAD {
            0 => "an order in words".to_owned(),
            _ => format!(r#"{{"number":{number},"customer":"{customer}","cents":{number}}}"#),
        };
        (customer, order)
    }))?;
    println!("{ORDERS} orders of {CUSTOMERS} customers, on {cluster}.");
    let start = || -> Result<Engine, Box<dyn Error>> {
        let mut client = cluster.client();
        client.set("group.id", cluster.group());
        // Both members are the same one, before and after its crash.
        client.set("transactional.id", format!("{}-0", cluster.group()));
        let topics = (cluster.topic(), enriched.as_str(), dead.as_str());
        Ok(pipeline(client, topics, slow_directory).build()?.start()?)
    };

    let mut member = start()?;
    if cluster.is_in_process() {
        // It takes transactions and forgets their offsets, so that a second member would begin anew.
        println!("No crash: the broker inside the process can't go on from a transaction.");
    } else {
        until("half of it is enriched", || {
            let status = member.status();
            status.completed + status.staged as u64 >= ORDERS / 2
        })
        .await?;
        member.abandon();
        let status = member.status();
        println!(
            "Broken off: {} orders are in transactions, {} are enriched and in none.",
            status.completed, status.staged
        );
        member = start()?;
    }
    until("all of it is done", || {
        let status = member.status();
        status.staged == 0 && status.idle_for.is_some_and(|idle| idle >= IDLE)
    })
    .await?;
    member.drain(Duration::from_secs(10));
    member.finished().await?;

    let mut read = Read::default();
    cluster.read(&enriched, |record| read.order(record))?;
    cluster.read(&dead, |_| read.dead_letters += 1)?;
    cluster.clean_up().await?;
    read.verdict()?;
    Ok(read)
}

/// As a service that is far away.
fn slow_directory(customer: &str) -> Answer {
    let name = format!("Customer {customer}");
    Box::pin(async move {
        sleep(Duration::from_millis(20)).await;
        Ok(Some(name))
    })
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        if Instant::now() > deadline {
            return Err(format!("{what}: not within {PATIENCE:?}").into());
        }
        sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// What a reader of committed data has found.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) orders: u64,
    pub(crate) dead_letters: u64,
    /// By customer the number of the last order.
    last: BTreeMap<String, u64>,
    faults: Vec<String>,
}

impl Read {
    fn order(&mut self, record: &Record) {
        let value = record.value().unwrap_or_default();
        let order: EnrichedOrder = match serde_json::from_slice(value) {
            Ok(order) => order,
            Err(error) => return self.faults.push(format!("{}: {error}", record.id())),
        };
        self.orders += 1;
        if order.customer_name != format!("Customer {}", order.customer) {
            self.faults.push(format!("{}: another's name", record.id()));
        }
        // A second copy is no later one either.
        let before = self.last.insert(order.customer, order.number);
        if before.is_some_and(|before| before >= order.number) {
            self.faults
                .push(format!("order {} after {before:?}", order.number));
        }
    }

    fn verdict(&self) -> Result<(), String> {
        let bad = ORDERS / BAD;
        match self.faults.first() {
            Some(fault) => Err(fault.clone()),
            None if (self.orders, self.dead_letters) == (ORDERS - bad, bad) => Ok(()),
            None => Err(self.to_string()),
        }
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Read: {} orders with their customers' names, each once and in order; {} dead letters.",
            self.orders, self.dead_letters
        )
    }
}
