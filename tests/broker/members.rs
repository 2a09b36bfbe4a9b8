//! Members come and go under load.

use std::time::Duration;

use keyway_tests::event_log::Kind;
use keyway_tests::world::{CLEAN, Protocol, World};

#[test]
fn range() {
    members_come_and_go_under_load(Protocol::Range);
}

#[test]
fn cooperative() {
    members_come_and_go_under_load(Protocol::Cooperative);
}

#[test]
fn consumer_protocol() {
    members_come_and_go_under_load(Protocol::Consumer);
}

/// Every record runs, each key in order and never two at once, and nothing that was committed as complete runs again:
/// one member, two, three, one leaves, one crashes, one comes. Fetched on from where it was read to, and not from the
/// base, it fails: of what a member has back nothing runs.
fn members_come_and_go_under_load(protocol: Protocol) {
    const PARTITIONS: usize = 6;
    let world = World::new(PARTITIONS as i32);
    world.work(Duration::from_millis(20));
    let more = || drop(world.fill(2_400, 120));
    let start = |name| world.member(name).protocol(protocol).start();
    let at_work = |names: &[&str]| {
        more();
        let before: Vec<_> = names
            .iter()
            .map(|name| world.seen(|seen| seen.finished_by(name)))
            .collect();
        let what = format!("each of {names:?} has partitions and works");
        world.until(&what, |seen| {
            let works = names.iter().zip(&before);
            let held: usize = names.iter().map(|name| seen.held_by(name).len()).sum();
            held == PARTITIONS
                && works.into_iter().all(|(name, &before)| {
                    !seen.held_by(name).is_empty() && seen.finished_by(name) > before + 50
                })
        });
    };

    let a = start("a");
    at_work(&["a"]);
    let b = start("b");
    at_work(&["a", "b"]);
    let c = start("c");
    at_work(&["a", "b", "c"]);
    a.end();
    at_work(&["b", "c"]);
    c.kill();
    let d = start("d");
    at_work(&["b", "d"]);
    world.until_finished(world.produced().len());
    b.end();
    d.end();

    let tally = world.judge(&CLEAN);
    assert!(
        tally.kills == 1 && tally.assignments > PARTITIONS * 2,
        "{tally:?}"
    );
    assert_eq!(world.seen(|seen| seen.count(Kind::Lost, "b")), 0);
    let ends = world.cluster.end_offsets(&world.topic);
    let committed: Vec<_> = world.committed().into_iter().map(|at| at.offset).collect();
    assert_eq!(committed, ends);
}

/// The other member gets the partition when what ran there has finished and is committed, so nothing runs twice.
#[test]
fn a_revoke_waits_for_what_runs() {
    for protocol in Protocol::ALL {
        let world = World::new(2);
        world.fill(20, 20);
        world.hold(|_, offset| offset == 0);
        let a = world.member("a").protocol(protocol).start();
        a.until_completed(18);
        let b = world.member("b").protocol(protocol).start();
        a.until("a revoke", |status| {
            status.partitions.iter().any(|partition| partition.revoking)
        });
        assert!(
            world.seen(|seen| seen.held_by("b").is_empty()),
            "{protocol:?}"
        );
        world.release();
        b.until_assigned(1);
        world.until_finished(20);
        a.end();
        b.end();
        let starts = world.seen(|seen| [seen.starts(0, 0), seen.starts(1, 0)]);
        assert_eq!(starts, [1, 1], "{protocol:?}");
        world.judge(&CLEAN);
    }
}
