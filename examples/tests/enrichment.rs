//! The enrichment pipeline: its builder in the engine without a broker, and the whole as it is run by hand.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use keyway::ClientConfig;
use keyway::testing::{TestEngine, TestOutput, TestRecord};
use keyway_examples::Cluster;
use serde_json::{Value, json};

use crate::enrichment::{Answer, Directory, pipeline, run};

#[path = "../enrichment.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod enrichment;

/// Longer than a transaction's interval and any delay of a retry here.
const A_WHILE: Duration = Duration::from_secs(5);

fn engine(directory: impl Directory) -> TestEngine {
    let mut client = ClientConfig::new();
    client.set("group.id", "g");
    let topics = ("orders", "orders.enriched", "orders.dead");
    let mut engine = TestEngine::new(pipeline(client, topics, directory)).unwrap();
    engine.run();
    engine
}

/// Feeds order `number` of a customer.
fn feed(engine: &mut TestEngine, customer: &str, number: u64) {
    let order = json!({ "number": number, "customer": customer, "cents": 5 });
    engine.feed_record(
        TestRecord::new("orders", 0)
            .key(customer)
            .value(order.to_string())
            .header("trace", number.to_string()),
    );
}

fn answer(name: Result<Option<&str>, &str>) -> Answer {
    let name = name
        .map(|name| name.map(str::to_owned))
        .map_err(str::to_owned);
    Box::pin(async move { name })
}

fn value(output: &TestOutput) -> Value {
    serde_json::from_slice(output.value.as_deref().unwrap()).unwrap()
}

/// Numbers of the orders that came out, by key.
fn by_key(outputs: &[TestOutput]) -> BTreeMap<String, Vec<u64>> {
    let mut keys: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for output in outputs {
        let key = String::from_utf8(output.key.clone().unwrap()).unwrap();
        let number = value(output)["number"].as_u64().unwrap();
        keys.entry(key).or_default().push(number);
    }
    keys
}

#[test]
fn an_order_goes_on_with_a_name_and_keeps_its_key_and_headers() {
    let mut engine = engine(|_: &str| answer(Ok(Some("Ann"))));
    feed(&mut engine, "c-1", 7);
    engine.advance(A_WHILE);
    let [output] = engine.outputs() else {
        panic!("{:?}", engine.outputs());
    };
    assert_eq!(output.topic, "orders.enriched");
    assert_eq!(output.key.as_deref(), Some(b"c-1".as_slice()));
    assert_eq!(output.header("trace"), Some("7"));
    let expected = json!({ "number": 7, "customer": "c-1", "customer_name": "Ann", "cents": 5 });
    assert_eq!(value(output), expected);
}

/// With periodic commits in place of transactions it fails: what was sent before the crash, and not yet committed, is there
/// twice.
#[test]
fn each_order_comes_out_once_and_in_order_over_failed_lookups_an_abort_and_a_crash() {
    let asked = AtomicU32::new(0);
    let mut engine = engine(move |_: &str| match asked.fetch_add(1, Ordering::Relaxed) {
        0..3 => answer(Err("down")),
        _ => answer(Ok(Some("somebody"))),
    });
    let mut numbers = 0..;
    let mut feed_some = |engine: &mut TestEngine| {
        for number in numbers.by_ref().take(30) {
            feed(engine, &format!("c-{}", number % 3), number);
        }
    };
    // Lookups that fail; then a crash between the handlers' end and the transaction.
    feed_some(&mut engine);
    engine.advance(A_WHILE);
    feed_some(&mut engine);
    engine.run();
    engine.crash();
    engine.advance(A_WHILE);
    // Transactions that are aborted, until the topic takes orders again.
    engine.refuse_outputs(true);
    feed_some(&mut engine);
    engine.advance(A_WHILE);
    engine.refuse_outputs(false);
    engine.advance(Duration::from_secs(60));
    let attempts = engine.attempts().len();
    assert!(attempts > 90 + 3, "{attempts}");
    let of_key = |key: u64| (0..90).filter(|number| number % 3 == key).collect();
    let expected = BTreeMap::from([
        ("c-0".to_owned(), of_key(0)),
        ("c-1".to_owned(), of_key(1)),
        ("c-2".to_owned(), of_key(2)),
    ]);
    assert_eq!(by_key(engine.outputs()), expected);
}

#[test]
fn what_can_not_be_enriched_is_a_dead_letter_and_its_key_goes_on() {
    let mut engine =
        engine(|customer: &str| answer(Ok(Some("Ann").filter(|_| customer != "nobody"))));
    engine.feed("orders", 0, "c-1", "an order in words");
    feed(&mut engine, "c-1", 1);
    feed(&mut engine, "nobody", 2);
    engine.advance(A_WHILE);
    let letters = engine.dead_letters().iter();
    let errors: Vec<_> = letters
        .map(|letter| letter.header("keyway.dlq.error").unwrap())
        .collect();
    let [words, nobody] = &errors[..] else {
        panic!("{errors:?}");
    };
    assert!(words.contains("expected value"), "{words}");
    assert_eq!(*nobody, "no customer nobody");
    assert_eq!(by_key(engine.outputs())["c-1"], [1]);
    assert_eq!(engine.committed("orders", 0).unwrap().offset, 3);
}

/// Without the names that are remembered it fails with 10 lookups.
#[test]
fn a_customer_is_looked_up_once_a_minute() {
    let asked = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&asked);
    let mut engine = engine(move |_: &str| {
        count.fetch_add(1, Ordering::Relaxed);
        answer(Ok(Some("Ann")))
    });
    for number in 0..10 {
        feed(&mut engine, "c-1", number);
    }
    engine.advance(A_WHILE);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    engine.advance(Duration::from_secs(60));
    for number in 10..20 {
        feed(&mut engine, "c-1", number);
    }
    engine.advance(A_WHILE);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!(engine.outputs().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_finds_each_order_once() {
    let cluster = Cluster::in_process("orders", 4).unwrap();
    let read = run(cluster).await.unwrap();
    assert_eq!((read.orders, read.dead_letters), (19_800, 200));
}
