//! A process that stands still for longer than its session, and goes on when its partitions are with others.

use std::time::Duration;

use keyway_tests::cluster::Cluster;
use keyway_tests::event_log::Kind;
use keyway_tests::wait;
use keyway_tests::world::Protocol;

use crate::crew::{Crew, PATIENCE};

#[test]
fn it_commits_nothing_of_what_others_have_range() {
    a_paused_process_commits_nothing(Protocol::Range);
}

#[test]
fn it_commits_nothing_of_what_others_have_cooperative() {
    a_paused_process_commits_nothing(Protocol::Cooperative);
}

#[test]
fn it_commits_nothing_of_what_others_have_consumer_protocol() {
    a_paused_process_commits_nothing(Protocol::Consumer);
}

/// It is stopped in the middle of its work, with finished records that are not committed yet; the other finishes
/// everything and commits it; then it goes on, and would set the committed offsets back.
fn a_paused_process_commits_nothing(protocol: Protocol) {
    let mut crew = Crew::new(Cluster::start(), protocol, Duration::from_millis(10));
    let (paused, other) = (crew.seat(), crew.seat());
    crew.feed(1_600);
    crew.start(paused, None);
    crew.start(other, None);
    crew.until_held_by(&[paused, other]);
    crew.feed(1_600);
    let (starts, had) = (crew.log(paused).count(Kind::Start), crew.held(paused));
    wait::until("work of its own", PATIENCE, || {
        (crew.log(paused).count(Kind::Start) > starts + 20).then_some(())
    });
    crew.pause(paused);

    crew.until_held_by(&[other]);
    crew.until_all_finished();
    wait::until("everything committed", PATIENCE, || {
        (crew.committed() == crew.ends()).then_some(())
    });
    crew.resume(paused);
    wait::until("its partitions lost", PATIENCE, || {
        (crew.log(paused).count(Kind::Lost) >= had).then_some(())
    });
    // It is a member again, and has its share of what is new.
    crew.until_held_by(&[paused, other]);
    assert_eq!(crew.committed(), crew.ends(), "nothing was set back");
    crew.feed(400);
    crew.until_all_finished();
    for seat in [paused, other] {
        crew.ask_to_end(seat);
    }
    for seat in [paused, other] {
        crew.until_ended(seat);
    }
    let tally = crew.judge();
    assert_eq!((tally.finished, tally.kills), (3_600, 1), "{tally:?}");
}
