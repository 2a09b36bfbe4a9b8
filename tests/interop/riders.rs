//! Java's Parallel Consumer knows no riders: a group that carried them goes over to it through `keyway group scrub`.

use std::collections::BTreeSet;
use std::time::Duration;

use keyway_tests::command::{Answered, answer};
use keyway_tests::peer::{Peer, Processed, Until};
use keyway_tests::wait;
use keyway_tests::world::{PATIENCE, World};

const RECORDS: usize = 300;

fn group(world: &World<'_>, verb: &str, more: &[&str]) -> Answered {
    let brokers = world.cluster.bootstrap();
    let target = ["group", verb, "--brokers", brokers, "--group", &world.group];
    answer(&[&target, more].concat())
}

fn places(processed: &[Processed]) -> BTreeSet<(i32, i64)> {
    processed
        .iter()
        .map(|at| (at.partition, at.offset))
        .collect()
}

#[test]
fn java_fails_on_a_rider_again_and_again_and_after_a_scrub_runs_exactly_the_holes() {
    let world = World::new(2);
    world.fill(RECORDS, RECORDS);
    let holes: BTreeSet<(i32, i64)> = [(0, 3), (0, 70), (1, 11)].into();
    let fails = holes.clone();
    world.fail(move |partition, offset| fails.contains(&(partition, offset)));
    let keyway = world
        .member("keyway")
        .with(|builder| builder.rider(|_| Some(b"rider".to_vec())))
        .start();
    world.until_finished(RECORDS - holes.len());
    keyway.end();
    let left = world.committed();

    // A failed one does not leave: the next one waits for the end of its session.
    let java = Peer::new(world.cluster, &world.group, &world.topic)
        .session_timeout(Duration::from_secs(6));
    let idle = Until::Idle(Duration::from_secs(2));
    for _ in 0..2 {
        let report = java.start(idle).join_failed();
        assert!(report.processed.is_empty(), "{}", report.output);
        for told in [
            "User rebalance callback throws an error",
            // The envelope's X.
            "Unexpected magic: 88",
        ] {
            assert!(report.output.contains(told), "{told}: {}", report.output);
        }
        assert_eq!(world.committed(), left, "it commits nothing");
    }

    wait::until("no member is left", PATIENCE, || {
        let shown = group(&world, "inspect", &[]);
        (shown.json["live"] == false).then_some(())
    });
    let done = group(&world, "scrub", &["--yes"]);
    assert_eq!(
        (done.code, &done.json["changed"]),
        (0, &2.into()),
        "{done:?}"
    );

    let report = java.run(idle);
    assert_eq!(places(&report.processed), holes, "{}", report.output);
    assert_eq!(report.processed.len(), holes.len(), "each once");
    let ends = world.cluster.end_offsets(&world.topic);
    let caught_up: Vec<_> = ends.into_iter().map(|end| (end, 0)).collect();
    assert_eq!(world.committed_holes(), caught_up);
}
