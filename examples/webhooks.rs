//! Webhooks: each event is posted to the URL of its customer, in the order of the customer's events.
//!
//! ```sh
//! cargo run --release --example webhooks                              # with a broker inside the process
//! cargo run --release --example webhooks -- --brokers localhost:9092  # on a real cluster
//! ```
//!
//! What the customer's server answers says what becomes of an event:
//!
//! | answer | the event |
//! |---|---|
//! | 2xx | is delivered |
//! | 408, 429, 5xx with `Retry-After` | again then; the customer's next events wait, and nobody else's |
//! | 408, 429, 5xx, no answer | again after a delay that grows, a share of it drawn; after the last attempt a dead letter |
//! | anything else | a dead letter at once: the same request would get the same answer |
//!
//! An event may be posted twice: an answer can be lost, and a process can die before its commit. Each attempt says the
//! same `idempotency-key`, by which the customer knows it again. Dead letters go back to the topic with `keyway
//! dead-letters replay` when the customer has mended their server.
//!
//! The customers of the demonstration are a server in this process: one that takes all, one that is busy at times, one
//! that refuses an event, and one that is down. Exits with 1 if an event was lost or overtaken.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use keyway::{
    Builder, Circuit, ClientConfig, DeadLetters, Exhausted, Keyway, Outcome, Rate, Record, Retry,
    StartAt,
};
use keyway_examples::{Answer, Cluster, Delivery, Receiver};
use tokio::time::sleep;

// ---- the service ----

/// Events that are under way at once.
const CONCURRENCY: u32 = 500;

/// A customer's server that takes longer has not answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Events that a customer is sent in a second, further attempts included.
const RATE_OF_CUSTOMER: Rate = Rate::per_second(20);

/// After half a second, a second and so on up to five minutes, each up to a half shorter at random, so that those who
/// failed together do not come back together. Twelve attempts take a quarter of an hour.
const RETRY: Retry = Retry::exponential(Duration::from_millis(500))
    .up_to(Duration::from_secs(300))
    .jitter(0.5)
    .attempts(12, Exhausted::DeadLetter);

/// Longest wait that a customer may ask for: so long their next events wait too.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Most bytes of an answer's body that are read, so that its connection can be used again.
const LONGEST_BODY_BYTES: usize = 64 * 1024;

/// The URLs of customers, who are the keys of their events.
pub(crate) type Customers = HashMap<String, Uri>;

/// The group's member that posts what comes in `events`; what can't be delivered goes to `dead`.
pub(crate) fn dispatcher(
    client: ClientConfig,
    (events, dead): (&str, &str),
    customers: Customers,
) -> Builder {
    let post = Post {
        // For `https` give it the connector of hyper-rustls.
        client: Client::builder(TokioExecutor::new()).build_http(),
        customers,
    };
    let post = Arc::new(post);
    Keyway::builder(client)
        .topics([events])
        .start_at(StartAt::Earliest)
        .concurrency(CONCURRENCY)
        .timeout(ANSWER_TIMEOUT)
        .key_rate(RATE_OF_CUSTOMER)
        .retry(RETRY)
        // Nearly everybody is down: that is our way out, and no reason to spend everybody's attempts.
        .circuit(Circuit::default().share(0.95))
        .dead_letters(DeadLetters::headers(dead))
        .async_handler(move |record| {
            let post = Arc::clone(&post);
            async move { post.deliver(&record).await }
        })
}

struct Post {
    client: Client<HttpConnector, Full<Bytes>>,
    customers: Customers,
}

impl Post {
    async fn deliver(&self, record: &Record) -> Outcome {
        let customer = String::from_utf8_lossy(record.key().unwrap_or_default());
        let Some(url) = self.customers.get(&*customer) else {
            return Outcome::DeadLetter(format!("no customer {customer:?}").into());
        };
        let event = Bytes::copy_from_slice(record.value().unwrap_or_default());
        let request = Request::post(url)
            .header(CONTENT_TYPE, "application/json")
            // The same for each attempt, on each member.
            .header("idempotency-key", record.id().to_string())
            .body(Full::new(event));
        let request = match request {
            Ok(request) => request,
            Err(error) => return Outcome::GiveUp(error.to_string().into()),
        };
        match self.client.request(request).await {
            Ok(answer) => outcome(answer).await,
            Err(error) => Outcome::Failed(format!("no answer: {error}").into()),
        }
    }
}

async fn outcome(answer: Response<Incoming>) -> Outcome {
    let (head, body) = answer.into_parts();
    // The status has decided. A body that does not end costs the connection.
    let _ = Limited::new(body, LONGEST_BODY_BYTES).collect().await;
    let passes = matches!(
        head.status,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
    );
    if head.status.is_success() {
        return Outcome::Done;
    }
    let reason = format!("the customer's server: {}", head.status).into();
    match retry_after(&head.headers) {
        _ if !passes && !head.status.is_server_error() => Outcome::DeadLetter(reason),
        Some(after) => Outcome::Retry { after: Some(after) },
        None => Outcome::Failed(reason),
    }
}

/// The seconds of `Retry-After`; a date is not understood, and 0 is what nobody who is asked too much can mean.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    let after = (seconds > 0).then(|| Duration::from_secs(seconds));
    after.map(|after| after.min(LONGEST_RETRY_AFTER))
}

// ---- the demonstration ----

const EVENTS: usize = 12;
const PARTITIONS: i32 = 4;
const CUSTOMERS: [&str; 4] = ["calm", "busy", "strict", "down"];

/// A demonstration has less patience: four attempts within a second.
const QUICK: Retry = Retry::exponential(Duration::from_millis(50))
    .jitter(0.5)
    .attempts(4, Exhausted::DeadLetter);

/// After so long something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the customers' servers answer.
fn answer(delivery: &Delivery) -> Answer {
    let event: usize = delivery.body.parse().unwrap_or_default();
    match delivery.path.as_str() {
        "/busy" if event % 6 == 0 && delivery.earlier == 0 => Answer::later(1),
        "/strict" if event == 3 => Answer::status(400),
        "/down" => Answer::status(500),
        _ => Answer::status(204),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = Cluster::from_arguments("events", PARTITIONS).await?;
    println!("{EVENTS} events for each of 4 customers, on {cluster}.\n");
    for tally in run(cluster).await? {
        println!("{tally}");
    }
    println!("\nEvery event was delivered or is a dead letter, and none was overtaken.");
    Ok(())
}

/// Dispatches events, and tells what came to each customer.
pub(crate) async fn run(mut cluster: Cluster) -> Result<Vec<Tally>, Box<dyn Error>> {
    let dead = cluster.topic_beside("dead").await?;
    cluster.produce_all((0..EVENTS).flat_map(|event| {
        let of_each = CUSTOMERS.into_iter();
        of_each.map(move |customer| (customer, event.to_string()))
    }))?;

    let receiver = Receiver::start(answer)?;
    let mut customers = Customers::new();
    for customer in CUSTOMERS {
        let url = receiver.url(&format!("/{customer}"));
        customers.insert(customer.to_owned(), url.parse()?);
    }
    let mut client = cluster.client();
    client.set("group.id", cluster.group());
    let engine = dispatcher(client, (cluster.topic(), &dead), customers)
        .retry(QUICK)
        .build()?
        .start()?;
    let begun = Instant::now();
    while engine.status().completed < (EVENTS * CUSTOMERS.len()) as u64 {
        if begun.elapsed() > PATIENCE {
            return Err(format!("not delivered within {PATIENCE:?}").into());
        }
        sleep(Duration::from_millis(10)).await;
    }
    engine.drain(Duration::from_secs(10));
    engine.finished().await?;

    let mut letters: BTreeMap<String, usize> = BTreeMap::new();
    cluster.read(&dead, |letter| {
        let customer = String::from_utf8_lossy(letter.key().unwrap_or_default());
        *letters.entry(customer.into_owned()).or_default() += 1;
    })?;
    cluster.clean_up().await?;
    let deliveries = receiver.deliveries();
    let tally = |customer| Tally::of(customer, &deliveries, &letters);
    Ok(CUSTOMERS.into_iter().map(tally).collect::<Result<_, _>>()?)
}

/// What came to a customer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) customer: &'static str,
    /// Further attempts at events that had been posted before.
    pub(crate) again: usize,
    pub(crate) delivered: usize,
    pub(crate) dead_letters: usize,
}

impl Tally {
    fn of(
        customer: &'static str,
        deliveries: &[Delivery],
        letters: &BTreeMap<String, usize>,
    ) -> Result<Self, String> {
        let path = format!("/{customer}");
        let posted = deliveries.iter().filter(|delivery| delivery.path == path);
        let (first, again): (Vec<_>, Vec<_>) =
            posted.clone().partition(|delivery| delivery.earlier == 0);
        let delivered = posted.filter(|delivery| delivery.status < 300).count();
        let dead_letters = letters.get(customer).copied().unwrap_or(0);
        if delivered + dead_letters != EVENTS {
            return Err(format!("{customer}: an event was lost"));
        }
        let events = (0..EVENTS).map(|event| event.to_string());
        if !events.eq(first.into_iter().map(|delivery| delivery.body.clone())) {
            return Err(format!("{customer}: an event was overtaken"));
        }
        Ok(Self {
            customer,
            again: again.len(),
            delivered,
            dead_letters,
        })
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:6}  {:2} delivered, {:2} dead letters, {:2} further attempts",
            self.customer, self.delivered, self.dead_letters, self.again
        )
    }
}
