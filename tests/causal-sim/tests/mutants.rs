//! Each mutant breaks one rule of the core, and the suite has to notice.

#![cfg(feature = "mutants")]

use std::collections::BTreeMap;

use keyway_causal_sim::{DEFAULT_STEPS, run};
use keyway_core::{Mutant, mutate};

/// Seeds that each mutant runs under.
const SEEDS: u64 = 1_000;

/// A mutant that shows under few seeds gets as many as this.
const MOST_SEEDS: u64 = 4_000;

#[test]
fn every_mutant_is_caught() {
    // A panic of the core counts as caught; its text would only bury the table.
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    println!("| mutant | seeds of {SEEDS}, or more until one catches it | by |");
    println!("|---|---|---|");
    let wanted = std::env::var("KEYWAY_MUTANT").ok();
    let is_wanted = |mutant: &&Mutant| {
        let wanted = wanted.as_deref();
        wanted.is_none_or(|wanted| wanted.split(',').any(|name| format!("{mutant:?}") == name))
    };
    for mutant in Mutant::CAUSAL.iter().filter(is_wanted) {
        mutate(Some(*mutant));
        let mut caught: BTreeMap<&str, u64> = BTreeMap::new();
        for seed in 0..MOST_SEEDS {
            if seed >= SEEDS && !caught.is_empty() {
                break;
            }
            if let Err(violation) = run(seed, DEFAULT_STEPS, false) {
                *caught.entry(violation.invariant).or_default() += 1;
            }
        }
        mutate(None);
        let seeds: u64 = caught.values().sum();
        let by: Vec<String> = caught
            .iter()
            .map(|(name, seeds)| format!("{name} {seeds}"))
            .collect();
        println!("| {mutant:?} | {seeds} | {} |", by.join(", "));
        if seeds == 0 {
            missed.push(*mutant);
        }
    }
    drop(std::panic::take_hook());
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
