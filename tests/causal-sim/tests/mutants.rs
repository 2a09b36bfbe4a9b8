//! Each mutant breaks one rule of causal delivery, and the seeds have to notice: so many of them at least.

#![cfg(feature = "mutants")]

use std::collections::BTreeMap;

use keyway_causal_sim::{DEFAULT_STEPS, run};
use keyway_core::{Mutant, mutate};

/// Seeds that each mutant runs under.
const SEEDS: u64 = 500;

/// A mutant that shows under few seeds gets as many as this.
const MOST_SEEDS: u64 = 2_000;

/// How many of the seeds have to catch a mutant: somewhat more than half of what did when this was written, so that a
/// change of the scenarios that blinds the suite to a rule is noticed.
fn floor(mutant: Mutant) -> u64 {
    match mutant {
        Mutant::SplitCut => 25,
        Mutant::TornCutStays => 100,
        Mutant::GateByMembership => 100,
        Mutant::OwnChannelIgnored => 70,
        Mutant::GateOnStarted => 250,
        Mutant::ForeignIgnored => 250,
        Mutant::UnknownIsSettled => 150,
        Mutant::HeldTakesWorker => 120,
        Mutant::StampByWatermark => 250,
        Mutant::StampWithoutRunning => 150,
        Mutant::NoMergeOnReceipt => 200,
        Mutant::OwnHighestLeftOut => 90,
        Mutant::NoCustody => 15,
        Mutant::LearnedNotWritten => 60,
        Mutant::OtherShardsIgnored => 70,
        Mutant::LostIsEmpty => 25,
        Mutant::MergeTakesLatest => 200,
        Mutant::NoDemotion => 40,
        Mutant::UndecodableIsNone => 18,
        Mutant::NoReservedPlace => 60,
        // What a skipped record says is in some shard too, but where a shard was lost: its case is a constructed one.
        _ => 1,
    }
}

#[test]
fn every_mutant_is_caught_by_as_many_seeds_as_its_floor_says() {
    // A panic of the core counts as caught; its text would only bury the table.
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    println!(
        "| mutant | caught by, of {SEEDS} seeds or of as many as it took | floor | invariants |"
    );
    println!("|---|---|---|---|");
    let wanted = std::env::var("KEYWAY_MUTANT").ok();
    let is_wanted = |mutant: &&Mutant| {
        let wanted = wanted.as_deref();
        wanted.is_none_or(|wanted| wanted.split(',').any(|name| format!("{mutant:?}") == name))
    };
    for mutant in Mutant::CAUSAL.iter().filter(is_wanted) {
        mutate(Some(*mutant));
        let mut caught: BTreeMap<&str, u64> = BTreeMap::new();
        let mut seeds = 0;
        while seeds < SEEDS || (seeds < MOST_SEEDS && caught.is_empty()) {
            if let Err(violation) = run(seeds, DEFAULT_STEPS, false) {
                *caught.entry(violation.invariant).or_default() += 1;
            }
            seeds += 1;
        }
        mutate(None);
        let times: u64 = caught.values().sum();
        let by = caught.iter().map(|(name, seeds)| format!("{name} {seeds}"));
        let by: Vec<String> = by.collect();
        let floor = floor(*mutant);
        println!(
            "| {mutant:?} | {times} of {seeds} | {floor} | {} |",
            by.join(", ")
        );
        if times < floor {
            missed.push((*mutant, times, floor));
        }
    }
    drop(std::panic::take_hook());
    assert!(missed.is_empty(), "caught by too few seeds: {missed:?}");
}
