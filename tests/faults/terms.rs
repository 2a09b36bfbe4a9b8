//! SIGTERM, and SIGKILL when patience ends: what an operator's platform does to a slow process.

use std::time::{Duration, Instant};

use keyway_tests::checker::{Evidence, judge};
use keyway_tests::cluster::Cluster;
use keyway_tests::command::Running;
use keyway_tests::event_log::{EventLog, Kind, note_killed};
use keyway_tests::wait;
use keyway_tests::world::CLEAN;

const RECORDS: usize = 100;

/// Records at once, each for so long: 8 s are two of these and a half.
const CONCURRENCY: usize = 20;
const HANDLER: &str = "sleep:3s";

/// As many platforms have it.
const PATIENCE_OF_THE_PLATFORM: Duration = Duration::from_secs(8);

const PATIENCE: Duration = Duration::from_secs(120);

/// A drain commits what it finishes as it goes on. Without these commits it fails with the records of the waves before
/// the kill repeated.
#[test]
fn terminated_and_killed_8_s_later_only_what_was_running_is_repeated() {
    let cluster = Cluster::start();
    let (group, topic) = (cluster.unique("group"), cluster.unique("topic"));
    cluster.create_topic(&topic, 1, &[]);
    let record = |n: usize| (Some(0), Some(format!("key-{n}")), n.to_string());
    let produced = cluster.produce(&topic, (0..RECORDS).map(record));
    let directory = tempfile::tempdir().expect("a place for temporary files");
    let events = directory.path().join("events");
    let start = |handler: &str| {
        Running::start(&[
            "run",
            "--brokers",
            cluster.bootstrap(),
            "--group",
            &group,
            "--topic",
            &topic,
            "--handler",
            handler,
            "--concurrency",
            &CONCURRENCY.to_string(),
            "--commit-interval",
            "200ms",
            "--until-idle",
            "2s",
            "--events",
            events.to_str().expect("a path of text"),
            "-X",
            "session.timeout.ms=2000",
            "-X",
            "heartbeat.interval.ms=500",
        ])
    };
    let count = |kind| EventLog::read(&events).count(kind);

    let mut slow = start(HANDLER);
    wait::until("handlers", PATIENCE, || {
        (count(Kind::Start) >= CONCURRENCY).then_some(())
    });
    slow.signal("TERM");
    let kill_at = Instant::now() + PATIENCE_OF_THE_PLATFORM;
    wait::until("the end of its patience", PATIENCE, || {
        (Instant::now() >= kill_at).then_some(())
    });
    assert_eq!(slow.ended(), None, "it had more to do than it had time for");
    slow.kill();
    note_killed(&events);
    let (started, done) = (count(Kind::Start), count(Kind::Done));
    assert!(
        done >= 2 * CONCURRENCY && started > done,
        "{started} started and {done} done"
    );

    let end = start("noop").join(PATIENCE);
    assert!(end.success(), "the second life: {end}");
    assert_eq!(
        count(Kind::Start) - started,
        RECORDS - done,
        "what was not finished runs again, and nothing else"
    );
    let evidence = Evidence::of([EventLog::read(&events)], &topic, &produced)
        .after(&topic, &cluster.committed(&group, &topic));
    let tally = judge(&evidence, &CLEAN).unwrap_or_else(|verdict| panic!("{verdict}"));
    assert_eq!((tally.repeated, tally.kills), (0, 1), "{tally:?}");
}
