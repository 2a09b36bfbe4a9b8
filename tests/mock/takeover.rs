//! A member dies; another goes on.

use std::collections::BTreeSet;
use std::time::Duration;

use keyway::{Outcome, Record, StopReason};
use keyway_tests::wait;

use crate::world::{LONG, World};

#[test]
fn the_next_member_runs_exactly_what_was_not_committed() {
    let world = World::of(2);
    world.produce(1_000, 100);
    let first = world.start(|builder| {
        builder.handler(|record: &Record| match record.key() {
            Some(b"7" | b"12" | b"33") => Outcome::Retry {
                after: Some(Duration::from_secs(3600)),
            },
            _ => Outcome::Done,
        })
    });
    first.until_done(970);
    first.until_status("all of it committed", |status| {
        status.completed == 970
            && status
                .partitions
                .iter()
                .all(|partition| !partition.uncommitted)
    });
    first.engine.abandon();
    assert_eq!(first.end(), Err(StopReason::Abandoned));
    let second = world.start(|builder| builder.handler(|_: &Record| ()));
    second.until_done(30);
    let seen = second.seen.clone();
    second.stop();
    let done: BTreeSet<_> = first.seen.done().into_iter().collect();
    let again: BTreeSet<_> = seen.done().into_iter().collect();
    assert_eq!(
        (done.len(), again.len(), seen.started().len()),
        (970, 30, 30)
    );
    assert!(
        done.is_disjoint(&again),
        "nothing that was committed runs again"
    );
}

#[test]
fn a_second_member_takes_its_share_and_gives_it_back() {
    let world = World::of(4);
    let member = || {
        world.start(|builder| {
            // A revoke waits as long again for its commit, which the mock refuses while the group rebalances.
            builder
                .revoke_wait(Duration::from_millis(500))
                .handler(|_: &Record| std::thread::sleep(Duration::from_micros(500)))
        })
    };
    let first = member();
    first.until_assigned(4);
    world.produce(2_000, 200);
    first.until_done(200);
    let second = member();
    second.until_assigned(2);
    first.until_assigned(2);
    world.produce(2_000, 200);
    second.until_done(200);
    let share = second.seen.clone();
    second.stop();
    first.until_assigned(4);
    world.produce(1_000, 200);
    // For the same reason some records run again.
    wait::until("all of it", LONG, || {
        let both = [first.seen.done(), share.done()].concat();
        (both.into_iter().collect::<BTreeSet<_>>().len() == 5_000).then_some(())
    });
    let seen = first.seen.clone();
    assert!(first.stop().all_committed);
    for partition in 0..4 {
        assert_eq!(world.committed(partition), Some((1_250, String::new())));
    }
    assert!(share.done().len() >= 200 && seen.done().len() >= 200);
}
