//! Killed at random and started again: nothing is lost, each key keeps its order, nothing that was finished and
//! committed runs again.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use keyway_offsets::DEFAULT_MAX_WINDOW;
use keyway_rider::{Rider, read};
use keyway_tests::checker::{Evidence, Rules, judge};
use keyway_tests::cluster::Cluster;
use keyway_tests::command::Running;
use keyway_tests::event_log::{EventLog, Kind, note_killed};
use keyway_tests::random::{Random, number, seed};
use keyway_tests::wait;

const PARTITIONS: i32 = 6;
const KEYS: usize = 500;

/// What rides beside the maps, in hexadecimal digits.
const RIDER: &str = "7269646572";

/// What one life of the command may take at worst.
const PATIENCE: Duration = Duration::from_secs(180);

/// 200 records at once, 40 ms each.
const RECORDS_A_SECOND: u64 = 5_000;

#[test]
fn killed_at_random_and_started_again() {
    let rounds = number("KEYWAY_FAULT_ROUNDS").unwrap_or(3);
    let records = (rounds * 12_500).clamp(15_000, 150_000) as usize;
    let seed = seed("KEYWAY_FAULT_SEED");
    println!("KEYWAY_FAULT_SEED={seed} KEYWAY_FAULT_ROUNDS={rounds}, {records} records");
    let mut random = Random::of(seed);
    // All lives together at their longest leave something for the last one.
    let life_millis = records as u64 * 1_000 / RECORDS_A_SECOND / (rounds + 1);

    let cluster = Cluster::start();
    let (group, topic) = (cluster.unique("group"), cluster.unique("topic"));
    cluster.create_topic(&topic, PARTITIONS, &[]);
    let record = |n: usize| {
        let key = n % KEYS;
        (
            Some(key as i32 % PARTITIONS),
            Some(format!("key-{key}")),
            format!("{n}"),
        )
    };
    let produced = cluster.produce(&topic, (0..records).map(record));

    let directory = tempfile::tempdir().expect("a place for temporary files");
    let events = directory.path().join("events");
    let path = events.to_str().expect("a path of text");
    let start = || {
        Running::start(&[
            "run",
            "--brokers",
            cluster.bootstrap(),
            "--group",
            &group,
            "--topic",
            &topic,
            "--handler",
            "sleep:40ms",
            "--concurrency",
            "200",
            "--commit-interval",
            "200ms",
            "--until-idle",
            "3s",
            // Beside every map, the last one included.
            "--rider-hex",
            RIDER,
            "--events",
            path,
            // So that the next life need not wait long for the one before to be missed.
            "-X",
            "session.timeout.ms=2000",
            "-X",
            "heartbeat.interval.ms=500",
        ])
    };

    for round in 1..=rounds {
        let finished = lines(&events);
        let mut running = start();
        // Its time counts from the first thing that it does: a kill before would show nothing.
        wait::until("something to happen", PATIENCE, || {
            assert!(
                running.ended().is_none(),
                "it ended by itself in round {round}"
            );
            (lines(&events) > finished).then_some(())
        });
        let kill_at = Instant::now() + Duration::from_millis(random.below(100..life_millis));
        wait::until("the time of the kill", PATIENCE, || {
            (Instant::now() >= kill_at).then_some(())
        });
        assert!(
            running.ended().is_none(),
            "it ended by itself in round {round}"
        );
        running.kill();
        note_killed(&events);
    }
    let end = start().join(PATIENCE);
    assert!(end.success(), "the last life: {end}");

    let log = EventLog::read(&events);
    let evidence = Evidence::of([log.clone()], &topic, &produced)
        .after(&topic, &cluster.committed(&group, &topic));
    let rules = Rules {
        committed: true,
        ..Rules::STRICT
    };
    let commits = log
        .events
        .iter()
        .filter(|event| event.kind == Kind::Committed);
    for commit in commits {
        let base = commit.offset.expect("an offset");
        let rider = read(base, commit.metadata.as_bytes(), DEFAULT_MAX_WINDOW).rider;
        assert_eq!(rider, Rider::Present(b"rider".to_vec()), "{commit:?}");
    }
    let tally = judge(&evidence, &rules).unwrap_or_else(|verdict| panic!("seed {seed}: {verdict}"));
    println!("seed {seed}: {tally:?}");
    assert_eq!(tally.kills as u64, rounds, "each life was killed");
    assert!(tally.maps > 0 && tally.finished == records, "{tally:?}");
}

/// How many lines there are so far.
fn lines(file: &Path) -> usize {
    fs::read(file).map_or(0, |text| text.iter().filter(|&&byte| byte == b'\n').count())
}
