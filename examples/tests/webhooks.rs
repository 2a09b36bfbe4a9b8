//! The webhook dispatcher against a server in the test's process.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use keyway::{Engine, Exhausted, Retry};
use keyway_examples::{Answer, Cluster, Delivery, Receiver};

use crate::webhooks::{Customers, Tally, dispatcher, run};

#[path = "../webhooks.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod webhooks;

const PATIENCE: Duration = Duration::from_secs(60);

/// Three attempts in all.
const THREE_TIMES: Retry =
    Retry::exponential(Duration::from_millis(100)).attempts(3, Exhausted::DeadLetter);

/// A dispatcher with a topic, and the server of all its customers.
struct World {
    cluster: Cluster,
    dead: String,
    receiver: Receiver,
    engine: Engine,
}

impl World {
    /// The events of each customer are their numbers from 0 on.
    async fn with(
        customers: &[(&str, usize)],
        answer: impl Fn(&Delivery) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let mut cluster = Cluster::in_process("events", 2).unwrap();
        let dead = cluster.topic_beside("dead").await.unwrap();
        let receiver = Receiver::start(answer).unwrap();
        let url = |&(customer, _): &(&str, usize)| {
            let url = receiver.url(&format!("/{customer}"));
            (customer.to_owned(), url.parse().unwrap())
        };
        let urls: Customers = customers.iter().map(url).collect();
        for (customer, events) in customers {
            let events = (0..*events).map(|event| (customer, event.to_string()));
            cluster.produce_all(events).unwrap();
        }
        let mut client = cluster.client();
        client.set("group.id", cluster.group());
        let engine = dispatcher(client, (cluster.topic(), &dead), urls)
            .retry(THREE_TIMES)
            .build()
            .unwrap()
            .start()
            .unwrap();
        let world = Self {
            cluster,
            dead,
            receiver,
            engine,
        };
        world
            .until_complete(customers.iter().map(|(_, events)| *events as u64).sum())
            .await;
        world
    }

    async fn until_complete(&self, events: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.engine.status().completed < events {
            assert!(Instant::now() < deadline, "{:?}", self.engine.status());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn posted_to(&self, customer: &str) -> Vec<Delivery> {
        let mut deliveries = self.receiver.deliveries();
        deliveries.retain(|delivery| delivery.path == format!("/{customer}"));
        deliveries
    }

    /// Key, value, number of attempts and error of each dead letter.
    fn dead_letters(&self) -> Vec<[String; 4]> {
        let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
        let mut letters = Vec::new();
        self.cluster
            .read(&self.dead, |letter| {
                let header = |name| text(letter.header(name).unwrap().unwrap().value());
                letters.push([
                    text(letter.key()),
                    text(letter.value()),
                    header("keyway.dlq.attempts"),
                    header("keyway.dlq.error"),
                ]);
            })
            .unwrap();
        letters.sort();
        letters
    }
}

/// Event and status of each.
fn answered(deliveries: &[Delivery]) -> Vec<(&str, u16)> {
    let answered = deliveries.iter();
    answered
        .map(|delivery| (delivery.body.as_str(), delivery.status))
        .collect()
}

/// With the policy's own delay in place of the one that was asked for it fails: the second attempt comes after 0.1 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_customer_who_asks_for_time_gets_it_and_their_next_events_wait() {
    let world = World::with(&[("busy", 3), ("calm", 3)], |delivery| {
        match (delivery.path.as_str(), delivery.body.as_str()) {
            ("/busy", "1") if delivery.earlier == 0 => Answer::later(2),
            _ => Answer::status(200),
        }
    })
    .await;
    let busy = world.posted_to("busy");
    let expected = [("0", 200), ("1", 503), ("1", 200), ("2", 200)];
    assert_eq!(answered(&busy), expected);
    let waited = busy[2].at - busy[1].at;
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
    assert_eq!(busy[1].idempotency_key, busy[2].idempotency_key);
    assert_ne!(busy[2].idempotency_key, busy[3].idempotency_key);
    // Nobody else waits.
    let calm = world.posted_to("calm");
    assert_eq!(answered(&calm), [("0", 200), ("1", 200), ("2", 200)]);
    assert!(calm[2].at < busy[2].at);
    assert_eq!(world.dead_letters(), <[[String; 4]; 0]>::default());
}

/// With 4xx tried again like 5xx it fails: event 1 is posted three times.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_or_exhausted_is_a_dead_letter_and_the_next_event_goes_out() {
    let world = World::with(&[("strict", 3), ("down", 2)], |delivery| {
        match (delivery.path.as_str(), delivery.body.as_str()) {
            ("/strict", "1") => Answer::status(400),
            ("/down", "0") => Answer::status(500),
            _ => Answer::status(200),
        }
    })
    .await;
    let strict = world.posted_to("strict");
    assert_eq!(answered(&strict), [("0", 200), ("1", 400), ("2", 200)]);
    let down = world.posted_to("down");
    let expected = [("0", 500), ("0", 500), ("0", 500), ("1", 200)];
    assert_eq!(answered(&down), expected);
    // 100 ms and 200 ms, each up to a fifth shorter.
    assert!(down[1].at - down[0].at >= Duration::from_millis(80));
    assert!(down[2].at - down[1].at >= Duration::from_millis(160));
    let letter = |customer: &str, event: &str, attempts: &str, status: &str| {
        let error = format!("the customer's server: {status}");
        [customer, event, attempts, &error].map(str::to_owned)
    };
    assert_eq!(
        world.dead_letters(),
        [
            letter("down", "0", "3", "500 Internal Server Error"),
            letter("strict", "1", "1", "400 Bad Request"),
        ]
    );
}

/// Without the rate of a key it fails: all of them are there within a tenth of a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_customer_is_sent_no_more_than_their_rate() {
    let world = World::with(&[("calm", 40)], |_| Answer::status(200)).await;
    let posted = world.posted_to("calm");
    assert_eq!(posted.len(), 40);
    // 20 in a second make two seconds; the first one may have been slow to arrive.
    let took = posted[39].at - posted[0].at;
    assert!(took >= Duration::from_secs(1), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_delivered_or_a_dead_letter() {
    let cluster = Cluster::in_process("events", 4).unwrap();
    let tallies = run(cluster).await.unwrap();
    let tally = |customer, delivered, dead_letters, again| Tally {
        customer,
        again,
        delivered,
        dead_letters,
    };
    let expected = [
        tally("calm", 12, 0, 0),
        tally("busy", 12, 0, 2),
        tally("strict", 11, 1, 0),
        tally("down", 0, 12, 36),
    ];
    assert_eq!(tallies, expected);
}
