//! The seeds of every check: no violation, and everything that they are about occurred.

use keyway_causal_sim::{Coverage, DEFAULT_STEPS, Event, replay_command, run};

/// Seeds of every check: some seconds where nothing is optimised.
const SEEDS: u64 = 300;

/// What has to occur at least so often: once may be an accident of one seed.
const OFTEN_ENOUGH: u64 = 5;

/// What the proof is about has to occur so often.
const FLOORS: &[(Event, u64)] = &[
    (Event::Held, 4_000),
    (Event::Freed, 1_500),
    (Event::ForeignRead, 2_000),
    (Event::ForeignFreed, 300),
    (Event::OwnChannelHeld, 1_000),
    (Event::LocalAbove, 800),
    (Event::Overlapped, 800),
    (Event::Sent, 800),
    (Event::SentBesideSibling, 100),
    (Event::SendRefused, 20),
    (Event::ShardLost, 50),
    (Event::MapStripped, 20),
    (Event::PartialStore, 100),
    (Event::LandedLate, 30),
    (Event::CrashedDirty, 200),
    (Event::Kicked, 100),
    (Event::RevokedDirty, 200),
    (Event::Demoted, 150),
    (Event::Moved, 1_000),
    (Event::SkippedComplete, 30),
    (Event::BesidePoison, 1_000),
];

#[test]
fn three_hundred_seeds_keep_every_invariant_and_meet_every_fault() {
    let mut coverage = Coverage::default();
    for seed in 0..SEEDS {
        match run(seed, DEFAULT_STEPS, false) {
            Ok(summary) => coverage.add(&summary.coverage),
            Err(violation) => panic!(
                "seed {seed}: {}: {}\n    {}",
                violation.invariant,
                violation.detail,
                replay_command(seed, DEFAULT_STEPS)
            ),
        }
    }
    for (event, count) in coverage.counts() {
        let of_its_own = FLOORS.iter().find(|(its, _)| *its == event);
        let floor = of_its_own.map_or(OFTEN_ENOUGH, |(_, floor)| *floor);
        println!("{count:>8}  {}", event.text());
        assert!(count >= floor, "{count} times of {floor}: {}", event.text());
    }
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in [1, 7, 42] {
        let first = run(seed, DEFAULT_STEPS, false).expect("no violation");
        let second = run(seed, DEFAULT_STEPS, false).expect("no violation");
        assert_eq!(first.steps, second.steps);
        assert!(first.coverage.counts().eq(second.coverage.counts()));
    }
}
