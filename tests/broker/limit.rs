//! The broker's limit on the text beside an offset: 4,096 characters, or what its operator says.

use keyway_tests::checker::Rules;
use keyway_tests::cluster::{Cluster, Config};
use keyway_tests::world::{CLEAN, Seen, World, holes};

use crate::{SOON, coin};

/// Below a share of 0.75 of the limit nothing waits.
const THRESHOLD_CHARS: usize = 3_072;

/// Without the threshold it waits in vain for a map that is too long.
#[test]
fn at_the_limit_what_is_above_waits_what_is_lowest_runs_and_all_of_it_completes() {
    const RECORDS: usize = 40_000;
    /// More than the map has holes when it is full, so that it is the map that holds back.
    const CONCURRENCY: usize = 12_000;
    let world = World::new(1);
    world.fill(RECORDS, RECORDS);
    world.hold(|_, offset| coin(offset));
    let member = world.member("m").asynchronous(CONCURRENCY as u32).start();

    let started_and_not_held = |highest| (0..=highest).filter(|&offset| !coin(offset)).count();
    member.until("a map that is too long", |status| {
        let blocked = status
            .partitions
            .first()
            .is_some_and(|at| at.blocked_by_map);
        let all_ran = |seen: &Seen| {
            let highest = seen.highest_started(0).unwrap_or(-1);
            seen.finished() == started_and_not_held(highest)
        };
        blocked && world.seen(all_ran)
    });
    member.commit(SOON).expect("the broker takes the text");
    let highest = world
        .seen(|seen| seen.highest_started(0))
        .expect("records were started");
    let status = member.status();
    assert!(
        status.running < CONCURRENCY,
        "there was room for more: {}",
        status.running
    );
    member.until("more records that wait", |status| {
        status.buffered > status.running
    });

    let committed = world.committed();
    let chars = committed[0].metadata.len();
    assert!(
        (THRESHOLD_CHARS..=4_096).contains(&chars),
        "{chars} characters"
    );
    let open: u64 = holes(&committed[0]).iter().map(|range| range.len()).sum();
    let complete = world.seen(|seen| seen.finished());
    let base = usize::try_from(committed[0].offset).expect("an offset");
    assert!(
        open > 5_000 && open as usize + complete >= base,
        "{open} open of {highest}"
    );

    member.commit(SOON).expect("the broker takes the text");
    assert_eq!(
        world.seen(|seen| seen.highest_started(0)),
        Some(highest),
        "nothing above it was started meanwhile"
    );

    world.hold(|_, offset| offset >= 6_000 && coin(offset));
    world.until("room for records above", |seen| {
        seen.highest_started(0) > Some(highest)
    });
    world.release();
    world.until_finished(RECORDS);
    member.end();

    world.judge(&CLEAN);
    assert_eq!(world.committed_holes(), [(RECORDS as i64, 0)]);
    let longest = world.seen(|seen| seen.texts().map(str::len).max());
    assert!(longest <= Some(4_096), "{longest:?}");
}

/// Without what the refusal teaches (`LearnedCapIgnored`) it waits in vain for a lower limit.
#[test]
fn a_lower_limit_of_the_broker_is_learned_and_nothing_is_lost() {
    const RECORDS: usize = 12_000;
    let cluster = Cluster::with(Config {
        properties: &[("offset.metadata.max.bytes", "512")],
        ..Config::default()
    });
    let world = World::on(&cluster, 1, &[]);
    world.fill(RECORDS, RECORDS);
    world.hold(|_, offset| coin(offset));
    let first = world.member("first").asynchronous(8_000).start();
    first.until("a lower limit", |status| {
        (1..4_096).contains(&status.metadata_limit)
    });

    // Commits go on, each with more of the lowest records, without a map as long as it does not fit.
    for below in [3_000, 6_000, 9_000, 10_500] {
        world.hold(move |_, offset| offset >= below && coin(offset));
        first.until("the lowest records", |status| {
            status.partitions[0].base >= below
        });
        first
            .commit(SOON)
            .expect("commits go on under the lower limit");
        assert!(
            world.committed()[0].offset >= below,
            "{:?}",
            world.committed_holes()
        );
    }
    world.until("all that is not held", |seen| {
        let held = (10_500..RECORDS as i64)
            .filter(|&offset| coin(offset))
            .count();
        seen.finished() == RECORDS - held
    });
    first.until_completed(world.seen(|seen| seen.finished()));
    first
        .commit(SOON)
        .expect("commits go on under the lower limit");
    let committed = world.committed();
    let chars = committed[0].metadata.len();
    assert!(
        (200..=512).contains(&chars),
        "a map of 1,500 offsets fits: {chars} characters"
    );
    first.kill();

    world.release();
    let second = world.member("second").asynchronous(100).start();
    world.until_finished(RECORDS);
    second.end();
    let mut ran = world.seen(|seen| seen.started_by("second"));
    ran.sort_unstable();
    let held = (10_500..RECORDS as i64).filter(|&offset| coin(offset));
    assert_eq!(ran, held.map(|offset| (0, offset)).collect::<Vec<_>>());

    let rules = Rules {
        maps_may_be_lost: true,
        ..CLEAN
    };
    world.judge(&rules);
    assert_eq!(world.committed_holes(), [(RECORDS as i64, 0)]);
    let longest = world.seen(|seen| seen.texts().map(str::len).max());
    assert!(longest <= Some(512), "the longest text stored: {longest:?}");
}
