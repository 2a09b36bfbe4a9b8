//! Hundreds of partitions with a backlog, under one memory budget and handlers that are slower than the broker.

use std::cell::Cell;

use keyway_tests::cluster::Cluster;

use crate::{MIB, PATIENCE, backlog, member};

const PARTITIONS: i32 = 720;

/// Of each partition: half a gigabyte together, twice the budget.
const RECORDS: u64 = 700;

const BUDGET: u64 = 256;

/// Known pain 35. With a fetch of 8 MiB, and a quarter of the budget for buffered records, it fails with 332 MiB.
#[test]
fn seven_hundred_partitions_stay_within_one_budget() {
    let cluster = Cluster::start();
    let topic = backlog::topic(cluster, PARTITIONS, RECORDS);
    let records = PARTITIONS as u64 * RECORDS;
    let more = [
        format!("budget={BUDGET}"),
        "concurrency=64".to_owned(),
        "work=2000".to_owned(),
    ];
    let mut member = member(cluster, &topic, &more);
    let (most_paused, was_full) = (Cell::new(0), Cell::new(false));
    member.until("all of the backlog", PATIENCE, |status| {
        let paused = status["paused"].as_u64().unwrap_or_default();
        most_paused.set(paused.max(most_paused.get()));
        was_full.set(was_full.get() || status["full"] == true);
        status["completed"].as_u64() == Some(records) && status["uncommitted"] == 0
    });
    let most = member.most_resident();
    member.stop();
    println!(
        "{PARTITIONS} partitions, {records} records: at most {} MiB resident under a budget of {BUDGET} MiB; buffers full: \
         {}, {} partitions paused at once",
        most / MIB,
        was_full.get(),
        most_paused.get()
    );
    // Those that are alike are held back by the bound of the whole, before one of them is paused.
    assert!(
        was_full.get() || most_paused.get() > 0,
        "there was no back-pressure"
    );
    assert!(most <= BUDGET * MIB, "{} MiB", most / MIB);
}
