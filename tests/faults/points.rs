//! Killed at each point that matters, exactly there: nothing is lost, nothing that was committed runs again.

use std::time::Duration;

use keyway_tests::cluster::Cluster;
use keyway_tests::doom::{Doom, Point};
use keyway_tests::wait;
use keyway_tests::world::Protocol;

use crate::crew::{Crew, PATIENCE};

#[test]
fn range() {
    killed_at_each_point(Protocol::Range);
}

#[test]
fn cooperative() {
    killed_at_each_point(Protocol::Cooperative);
}

#[test]
fn consumer_protocol() {
    killed_at_each_point(Protocol::Consumer);
}

fn killed_at_each_point(protocol: Protocol) {
    let mut crew = Crew::new(Cluster::start(), protocol, Duration::from_millis(10));
    let (stays, dies) = (crew.seat(), crew.seat());
    crew.start(stays, None);
    for (round, at) in (1..).zip(Point::ALL) {
        let time = match at {
            Point::BeforeHandler | Point::AfterHandler => 40,
            Point::BeforeCommit | Point::AfterCommit => 6,
            Point::Revoked | Point::Assigned => 2,
        };
        crew.feed(800);
        die(&mut crew, stays, dies, Doom { at, time });
        let kills = crew.kills();
        assert_eq!(kills, round, "it died at {at:?}");
    }
    crew.until_all_finished();
    crew.ask_to_end(stays);
    crew.until_ended(stays);
    let tally = crew.judge();
    assert_eq!(
        (tally.finished, tally.kills),
        (Point::ALL.len() * 800, Point::ALL.len()),
        "{tally:?}"
    );
}

/// A member joins and dies where it is told to.
pub(crate) fn die(crew: &mut Crew<'_>, stays: usize, dies: usize, doom: Doom) {
    crew.start(dies, Some(doom));
    if doom.at == Point::Revoked {
        wait::until("both at work", PATIENCE, || {
            (crew.is_held_by(&[stays, dies]) || crew.is_dead(dies)).then_some(())
        });
        // So many come that every member has to give some up.
        let guests = [crew.seat(), crew.seat()];
        guests.iter().for_each(|&guest| crew.start(guest, None));
        crew.until_dead(dies);
        guests.iter().for_each(|&guest| crew.end(guest));
    } else {
        crew.until_dead(dies);
    }
}
