//! Rounds of faults: each draws a protocol and its faults from its seed, while records are fed without a pause.

use std::fmt;
use std::time::{Duration, Instant};

use keyway_tests::cluster::Cluster;
use keyway_tests::doom::{Doom, Point};
use keyway_tests::event_log::Kind;
use keyway_tests::random::{Random, number, seed};
use keyway_tests::wait;
use keyway_tests::world::Protocol;

use crate::crew::{Crew, PATIENCE, pass};
use crate::points::die;

/// Faults of one round.
const FAULTS: usize = 2;

/// Each time when the crew is looked at and fed.
const PORTION: usize = 160;

/// What happens to a member.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// SIGKILL so many milliseconds into its work.
    Kill(u64),
    /// It kills itself there.
    Die(Doom),
    /// SIGTERM, and SIGKILL so many milliseconds later.
    Hurry(u64),
    /// SIGSTOP until its partitions are with others, then SIGCONT.
    Pause(u64),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Kill(millis) => write!(f, "killed after {millis} ms"),
            Fault::Die(doom) => write!(f, "dies at {doom}"),
            Fault::Hurry(millis) => write!(f, "told to end, killed {millis} ms later"),
            Fault::Pause(millis) => write!(f, "paused after {millis} ms"),
        }
    }
}

impl Fault {
    fn drawn(random: &mut Random) -> Fault {
        let at = random.pick(&Point::ALL);
        let time = match at {
            Point::BeforeHandler | Point::AfterHandler => random.below(1..200),
            Point::BeforeCommit | Point::AfterCommit => random.below(1..40),
            Point::Revoked | Point::Assigned => random.below(1..3),
        };
        let millis = random.below(0..1_500);
        match random.below(0..5) {
            0 => Fault::Kill(millis),
            1 => Fault::Hurry(millis / 5),
            2 => Fault::Pause(millis),
            _ => Fault::Die(Doom { at, time }),
        }
    }
}

/// What all rounds saw.
#[derive(Default)]
struct Figures {
    records: usize,
    repeated: usize,
    kills: usize,
}

#[test]
fn rounds_of_faults() {
    let rounds = number("KEYWAY_FAULT_ROUNDS").unwrap_or(3);
    let first = seed("KEYWAY_FAULT_SEED");
    let mut figures = Figures::default();
    for seed in first..first + rounds {
        round(seed, &mut figures);
    }
    println!(
        "{rounds} rounds: {} records, {} repeated, {} members killed or paused",
        figures.records, figures.repeated, figures.kills
    );
    assert!(figures.kills >= rounds as usize, "faults occurred");
}

fn round(seed: u64, figures: &mut Figures) {
    let mut random = Random::of(seed);
    let protocol = random.pick(&Protocol::ALL);
    let faults: Vec<Fault> = (0..FAULTS).map(|_| Fault::drawn(&mut random)).collect();
    let told: Vec<String> = faults.iter().map(Fault::to_string).collect();
    let began = Instant::now();
    println!(
        "KEYWAY_FAULT_SEED={seed} KEYWAY_FAULT_ROUNDS=1: {protocol:?}, {}",
        told.join(", ")
    );

    let mut crew = Crew::new(Cluster::start(), protocol, Duration::from_millis(10));
    let (stays, suffers) = (crew.seat(), crew.seat());
    crew.feed(PORTION);
    crew.start(stays, None);
    let mut suffered = 0;
    for fault in faults {
        let came = crew.while_fed(PORTION, |crew| suffer(crew, stays, suffers, fault));
        suffered += usize::from(came);
    }
    crew.start(suffers, None);
    crew.until_held_by(&[stays, suffers]);
    crew.feed(PORTION);
    crew.until_all_finished();
    for seat in [stays, suffers] {
        crew.ask_to_end(seat);
    }
    for seat in [stays, suffers] {
        crew.until_ended(seat);
    }
    let tally = crew.judge();
    println!(
        "  {:.0?}: {} records, {} repeated, {} killed or paused",
        began.elapsed(),
        tally.finished,
        tally.repeated,
        tally.kills
    );
    assert_eq!(tally.kills, suffered, "{tally:?}");
    figures.records += tally.finished;
    figures.repeated += tally.repeated;
    figures.kills += tally.kills;
}

/// One fault, at the end of which the one that suffered is gone. Whether it came to pass: who is told to end may be
/// faster than the kill.
fn suffer(crew: &mut Crew<'_>, stays: usize, suffers: usize, fault: Fault) -> bool {
    if let Fault::Die(doom) = fault {
        die(crew, stays, suffers, doom);
        return true;
    }
    let done = crew.log(suffers).count(Kind::Done);
    crew.start(suffers, None);
    wait::until("work of its own", PATIENCE, || {
        (crew.log(suffers).count(Kind::Done) > done).then_some(())
    });
    match fault {
        Fault::Kill(millis) => {
            pass(millis);
            crew.kill(suffers);
            true
        }
        Fault::Hurry(millis) => {
            crew.ask_to_end(suffers);
            pass(millis);
            crew.kill_if_there(suffers)
        }
        Fault::Pause(millis) => {
            pass(millis);
            crew.pause(suffers);
            crew.until_held_by(&[stays]);
            crew.resume(suffers);
            crew.until_held_by(&[stays, suffers]);
            crew.end(suffers);
            true
        }
        Fault::Die(_) => unreachable!("it was dealt with above"),
    }
}
