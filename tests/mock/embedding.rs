//! Inside an async program with one thread: nothing of the engine's life blocks it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as Atomic};
use std::time::{Duration, Instant};

use keyway::{ClientConfig, Keyway, Observer, Record, StartAt, TopicPartition};

use crate::world::World;

/// The longest time that a task which wakes every 10 ms was kept from it. A call that blocks on a broker
/// takes seconds; a busy machine takes a part of one.
const BOUND: Duration = Duration::from_millis(400);

/// Runs `body` beside the ticker on one thread, and gives the longest gap between two ticks.
fn longest_gap<F: Future<Output = ()>>(body: F) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let longest = Arc::new(AtomicU64::new(0));
    let (gap, over) = (Arc::clone(&longest), Arc::new(AtomicBool::new(false)));
    let done = Arc::clone(&over);
    runtime.block_on(async move {
        // From now on: what blocks before its first turn counts as well.
        let mut last = Instant::now();
        let ticker = tokio::spawn(async move {
            while !done.load(Atomic::Relaxed) {
                tokio::time::sleep(Duration::from_millis(10)).await;
                gap.fetch_max(last.elapsed().as_millis() as u64, Atomic::Relaxed);
                last = Instant::now();
            }
        });
        body.await;
        over.store(true, Atomic::Relaxed);
        ticker.await.expect("no panic");
    });
    Duration::from_millis(longest.load(Atomic::Relaxed))
}

/// With a `finished` that blocks its thread, on which the handlers run, it never ends.
#[test]
fn building_running_stopping_and_dropping_block_no_async_thread() {
    let world = World::of(1);
    world.produce(200, 200);
    let builder = world.builder();
    let gap = longest_gap(async move {
        let engine = builder
            .record_limit(200)
            .async_handler(|_: Record| tokio::time::sleep(Duration::from_millis(1)))
            .build()
            .expect("a configuration")
            .start()
            .expect("started");
        let report = engine.finished().await.expect("an orderly end");
        assert_eq!(report.records, 200);
        drop(engine);
        tokio::time::sleep(Duration::from_millis(100)).await;
    });
    assert!(gap < BOUND, "{gap:?}");
    world.until_committed(200);
}

/// With a drop that waits for the end it fails with a gap of 11 s.
#[test]
fn dropping_a_running_engine_blocks_no_async_thread() {
    let world = World::of(1);
    world.produce(2_000, 200);
    let builder = world.builder();
    let gap = longest_gap(async move {
        let engine = builder
            .async_handler(|_: Record| tokio::time::sleep(Duration::from_millis(20)))
            .build()
            .expect("a configuration")
            .start()
            .expect("started");
        while engine.status().completed == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(engine);
        tokio::time::sleep(Duration::from_millis(300)).await;
    });
    assert!(gap < BOUND, "{gap:?}");
}

/// With a start that asks a broker something it fails with a gap of 3 s.
#[test]
fn a_broker_that_does_not_answer_blocks_no_async_thread() {
    let mut client = ClientConfig::new();
    // A port that nobody listens on.
    client.set("bootstrap.servers", "127.0.0.1:1");
    let gap = longest_gap(async move {
        let engine = Keyway::builder(client)
            .group("g")
            .topics(["t"])
            .start_at(StartAt::Earliest)
            .async_handler(|_: Record| async {})
            .build()
            .expect("a configuration")
            .start()
            .expect("started");
        tokio::time::sleep(Duration::from_millis(200)).await;
        engine.stop(Duration::from_millis(200));
        let report = engine.finished().await.expect("an end that was asked for");
        assert_eq!(report.records, 0);
        drop(engine);
        tokio::time::sleep(Duration::from_millis(200)).await;
    });
    assert!(gap < BOUND, "{gap:?}");
}

/// Panics whatever it is told of partitions and commits.
struct Loud;

impl Observer for Loud {
    fn assigned(&self, partition: &TopicPartition) {
        panic!("{partition} is assigned");
    }

    fn revoked(&self, partition: &TopicPartition) {
        panic!("{partition} is revoked");
    }

    fn committed(&self, partition: &TopicPartition, offset: i64, _: &str) {
        panic!("{partition} is committed at {offset}");
    }
}

/// With the calls as they are it fails: the poll thread ends with the assignment, or the committer with its first commit.
#[test]
fn an_observer_that_panics_changes_nothing() {
    let world = World::filled(10);
    let builder = world.builder().observer(Loud).handler(|_: &Record| ());
    let engine = builder
        .build()
        .expect("a configuration")
        .start()
        .expect("started");
    world.until_committed(10);
    world
        .broker
        .produce_numbered("t", 0, 10, 5)
        .expect("appended");
    world.until_committed(15);
    engine.stop(Duration::from_secs(10));
    let report = engine.wait().expect("an orderly end");
    assert!(report.all_committed, "{report:?}");
}
