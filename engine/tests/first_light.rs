//! The engine over the in-process broker: the shortest way through all of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keyway::rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use keyway::testing::MockBroker;
use keyway::{ClientConfig, Keyway, Record, StartAt};

/// Records numbered in their values, those of one key in one partition.
fn produce(bootstrap: &str, records: u32, keys: u32) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("linger.ms", "5")
        .create()
        .expect("a producer");
    for n in 0..records {
        let key = (n % keys).to_string();
        let value = n.to_string();
        let record = BaseRecord::to("t").partition((n % keys % 4) as i32).key(&key).payload(&value);
        producer.send(record).expect("room in the queue");
    }
    producer.flush(Duration::from_secs(30)).expect("delivered");
}

#[test]
fn every_record_runs_once_and_in_the_order_of_its_key() {
    let broker = MockBroker::start(1).expect("a broker");
    broker.set_first_rebalance_delay(Duration::ZERO);
    broker.create_topic("t", 4).expect("a topic");
    produce(&broker.bootstrap(), 4_000, 50);
    let seen: Arc<Mutex<HashMap<Vec<u8>, Vec<i64>>>> = Arc::default();
    let handler = {
        let seen = Arc::clone(&seen);
        move |record: &Record| {
            let key = record.key().expect("a key").to_vec();
            seen.lock().expect("lock").entry(key).or_default().push(record.offset());
        }
    };
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.bootstrap());
    let engine = Keyway::builder(config)
        .group("g")
        .topics(["t"])
        .start_at(StartAt::Earliest)
        .record_limit(4_000)
        .handler(handler)
        .build()
        .expect("a configuration")
        .start()
        .expect("started");
    let report = engine.wait().expect("an orderly end");
    assert_eq!(report.records, 4_000);
    assert!(report.all_committed);
    let seen = seen.lock().expect("lock");
    assert_eq!(seen.len(), 50);
    for offsets in seen.values() {
        assert_eq!(offsets.len(), 80);
        assert!(offsets.is_sorted());
    }
}
