//! The seeds of every check: no violation, and everything that they are about occurred.

use keyway_sim::{Coverage, DEFAULT_STEPS, replay_command, run};

/// At least so many steps in every check: a dozen seconds where nothing is optimised.
const STEPS: usize = 3_000_000;

/// What has to occur at least so often: once may be an accident of one seed.
const OFTEN_ENOUGH: u64 = 5;

#[test]
fn three_million_steps_keep_every_invariant_and_meet_every_fault() {
    let mut coverage = Coverage::default();
    let (mut steps, mut seed) = (0, 0);
    while steps < STEPS {
        match run(seed, DEFAULT_STEPS, false) {
            Ok(summary) => {
                steps += summary.steps;
                coverage.add(&summary.coverage);
            }
            Err(violation) => panic!(
                "seed {seed}: {}: {}\n    {}",
                violation.invariant,
                violation.detail,
                replay_command(seed, DEFAULT_STEPS)
            ),
        }
        seed += 1;
    }
    println!("{steps} steps of {seed} seeds");
    for (event, count) in coverage.counts() {
        assert!(count >= OFTEN_ENOUGH, "{count} times: {}", event.text());
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
