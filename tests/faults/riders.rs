//! Holes and a rider in one commit, and a kill: both come back.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keyway::{Assigned, Keyway, Record, Rider};
use keyway_offsets::{DEFAULT_MAX_WINDOW, Offset};
use keyway_rider::read;
use keyway_tests::cluster::Cluster;
use keyway_tests::event_log::{EventLog, Kind};
use keyway_tests::wait;

use keyway_tests::command::Running;

const RECORDS: usize = 4_000;
const KEYS: usize = 200;
const PATIENCE: Duration = Duration::from_secs(90);

#[test]
fn holes_and_a_rider_of_one_commit_outlive_a_kill() {
    let cluster = Cluster::start();
    let (group, topic) = (cluster.unique("group"), cluster.unique("topic"));
    cluster.create_topic(&topic, 1, &[]);
    let record = |n: usize| (Some(0), Some(format!("key-{}", n % KEYS)), n.to_string());
    cluster.produce(&topic, (0..RECORDS).map(record));
    let directory = tempfile::tempdir().expect("a place for temporary files");
    let events = directory.path().join("events");
    let running = Running::start(&[
        "run",
        "--brokers",
        cluster.bootstrap(),
        "--group",
        &group,
        "--topic",
        &topic,
        "--handler",
        "sleep:30ms",
        "--concurrency",
        "50",
        "--commit-interval",
        "100ms",
        "--rider-hex",
        "73747265616d2074696d65",
        "--events",
        events.to_str().expect("a path of text"),
        "-X",
        "session.timeout.ms=2000",
        "-X",
        "heartbeat.interval.ms=500",
    ]);
    wait::until("commits with holes", PATIENCE, || {
        let log = EventLog::parse(&std::fs::read_to_string(&events).ok()?).ok()?;
        let is_map = |offset: Option<Offset>, text: &str| {
            let map = read(
                offset.unwrap_or(Offset::ZERO),
                text.as_bytes(),
                DEFAULT_MAX_WINDOW,
            )
            .map;
            map.is_ok_and(|read| !read.map.is_caught_up())
        };
        let maps = log
            .events
            .iter()
            .filter(|event| event.kind == Kind::Committed && is_map(event.offset, &event.metadata));
        (maps.count() >= 3).then_some(())
    });
    running.kill();

    // What the broker has is what comes back.
    let committed = &cluster.committed(&group, &topic)[0];
    let base = Offset::new(committed.offset).expect("an offset");
    let metadata = read(base, &committed.metadata, DEFAULT_MAX_WINDOW);
    let rider = Rider::Present(b"stream time".to_vec());
    assert_eq!(metadata.rider, rider);
    let map = metadata.map.expect("a map").map;
    assert!(!map.is_caught_up(), "killed between two commits with holes");

    let told: Arc<Mutex<Option<Assigned>>> = Arc::default();
    let ran: Arc<Mutex<BTreeSet<i64>>> = Arc::default();
    let (teller, runner) = (Arc::clone(&told), Arc::clone(&ran));
    let engine = Keyway::builder(cluster.client())
        .group(&group)
        .topics([&topic])
        .rider(|_| Some(b"stream time".to_vec()))
        .on_assigned(move |assigned| *teller.lock().expect("lock") = Some(assigned.clone()))
        .handler(move |record: &Record| {
            runner.lock().expect("lock").insert(record.offset());
        })
        .build()
        .expect("a configuration")
        .start()
        .expect("started");
    let open: BTreeSet<i64> = (0..RECORDS as i64)
        .filter(|&offset| !map.is_complete(Offset::new(offset).expect("an offset")))
        .collect();
    wait::until("the open records", PATIENCE, || {
        (ran.lock().expect("lock").len() >= open.len()).then_some(())
    });
    engine.drain(PATIENCE);
    engine.wait().expect("an orderly end");
    assert_eq!(
        *ran.lock().expect("lock"),
        open,
        "the open ones and no other"
    );
    let told = told.lock().expect("lock").clone().expect("assigned");
    assert_eq!((told.offset, told.rider), (committed.offset, rider));
}
