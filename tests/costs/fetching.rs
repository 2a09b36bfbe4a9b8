//! What is fetched, beside what is processed, while handlers are slower than the broker: a pause throws away what was
//! fetched for its partition.

use std::cell::Cell;
use std::time::Duration;

use keyway_tests::cluster::Cluster;

use crate::{PATIENCE, backlog, member};

const PARTITIONS: i32 = 12;

/// Of each partition: 180 MB together, four times what may be buffered.
const RECORDS: u64 = 15_000;

/// By then librdkafka has told once more what it has fetched.
const STATISTICS: Duration = Duration::from_millis(200);

#[test]
fn under_sustained_back_pressure_little_is_fetched_twice() {
    let cluster = Cluster::start();
    let topic = backlog::topic(cluster, PARTITIONS, RECORDS);
    let records = PARTITIONS as u64 * RECORDS;
    let more = [
        "budget=256".to_owned(),
        "concurrency=64".to_owned(),
        "work=2500".to_owned(),
        // What was fetched and thrown away shows in librdkafka's statistics alone.
        format!("property.statistics.interval.ms={}", STATISTICS.as_millis()),
    ];
    let mut member = member(cluster, &topic, &more);
    let pressed = Cell::new(0);
    member.until("all of the backlog", PATIENCE, |status| {
        let is_pressed = status["full"] == true || status["paused"].as_u64() > Some(0);
        pressed.set(pressed.get() + u32::from(is_pressed));
        let idle = status["idle_millis"].as_u64().unwrap_or_default();
        status["completed"].as_u64() == Some(records) && idle > STATISTICS.as_millis() as u64 * 5
    });
    let report = member.stop();
    let [fetched, processed] =
        ["fetched_bytes", "processed_bytes"].map(|name| report[name].as_u64().expect("a number"));
    let ratio = fetched as f64 / processed as f64;
    println!(
        "fetched over processed: {ratio:.3} ({fetched} and {processed} bytes); held back in {} looks at it",
        pressed.get()
    );
    assert!(pressed.get() > 0, "there was no back-pressure");
    assert!(processed >= records * 1_000, "{report}");
    assert!(ratio <= 1.1, "{report}");
}
