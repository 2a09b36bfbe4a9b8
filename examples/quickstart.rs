//! Many records at a time, each key in order, and a crash in the middle that costs almost nothing.
//!
//! ```sh
//! cargo run --release --example quickstart                              # with a broker inside the process
//! cargo run --release --example quickstart -- --brokers localhost:9092  # on a real cluster
//! ```
//!
//! A first member of the group processes records with a handler that waits, as for a database or a web service. In the
//! middle it is broken off as by a power cut. A second member takes over from what the first one had committed.
//!
//! Exits with 1 if a key lost its order, a record was lost, or one ran again that was done and committed.

use std::error::Error;
use std::time::{Duration, Instant};

use keyway::offsets::{HoleMap, picture};
use keyway::{Engine, Keyway, Record, StartAt};
use keyway_examples::{Cluster, Journal, Member};
use tokio::time::sleep;

const RECORDS: u64 = 6_000;
const KEYS: u64 = 300;
const PARTITIONS: i32 = 4;
const CONCURRENCY: u32 = 100;

/// What the application does with a record: it waits for 20 ms, and now and then ten times as long.
async fn handle(record: Record) {
    let slow = record.offset() % 40 == 0;
    sleep(Duration::from_millis(if slow { 200 } else { 20 })).await;
}

/// What a partition has committed: the line of all its offsets, and in words.
fn drawn(map: &HoleMap) -> String {
    const CELLS: u32 = 60;
    let line = picture(map, 0..RECORDS / PARTITIONS as u64, CELLS);
    let above = map.span() - map.hole_count();
    format!("{line}  {} done below, {above} above", map.base())
}

/// An engine that runs `handle`; `member` is told what happens.
fn start(cluster: &Cluster, member: Member) -> Result<Engine, Box<dyn Error>> {
    let engine = Keyway::builder(cluster.client())
        .group(cluster.group())
        .topics([cluster.topic()])
        .start_at(StartAt::Earliest)
        .concurrency(CONCURRENCY)
        .commit_interval(Duration::from_millis(50))
        .async_handler(handle)
        .observer(member)
        .build()?
        .start()?;
    Ok(engine)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = Cluster::from_arguments("quickstart", PARTITIONS).await?;
    cluster.produce(RECORDS, KEYS)?;
    println!("{RECORDS} records under {KEYS} keys in {PARTITIONS} partitions, on {cluster}.\n");
    let journal = Journal::default();

    // The first member, up to the middle.
    let first = start(&cluster, journal.first_member())?;
    journal
        .wait_until("half of it is done", |so_far| so_far.done >= RECORDS / 2)
        .await?;
    first.abandon();
    let crash = journal.crash();
    println!(
        "First member: {} records done in {:.1?}, {} at once.",
        crash.done, crash.time, crash.most_running
    );
    println!(
        "Broken off in the middle: no last commit, no goodbye. What the broker holds of it:\n"
    );
    for (partition, map) in &crash.committed {
        println!("  partition {partition}  {}", drawn(map));
    }
    println!(
        "\n  # done   + some of it done   . still to do   | the committed offset: all below is done\n"
    );

    // The second member, up to the end.
    println!(
        "Waiting up to {:.0?} until the broker misses the first member ...",
        cluster.patience()
    );
    let waiting = Instant::now();
    let second = start(&cluster, journal.second_member())?;
    journal
        .wait_until("the second member has work", |so_far| so_far.taken_over)
        .await?;
    println!("Second member: took over after {:.1?}.", waiting.elapsed());
    journal
        .wait_until("all of it is done", |so_far| so_far.done == RECORDS)
        .await?;
    second.drain(Duration::from_secs(10));
    second.finished().await?;
    cluster.clean_up().await?;

    let total = journal.verdict()?;
    println!("\nEvery record was done, and every key stayed in order.");
    println!(
        "Ran twice: {} records, which were running or not yet committed at the crash.",
        total.ran_twice
    );
    println!(
        "With the committed offset alone it would have been {}.",
        crash.done_above_offsets + crash.running
    );
    Ok(())
}
