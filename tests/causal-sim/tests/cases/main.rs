//! Constructed cases: what random seeds meet seldom, and what is to be read as a story. Each runs the real core with the
//! real gate, step by step. A case that is there for a rule names the mutants that break it, and has to fail under each
//! (`cargo test -p keyway-causal-sim --features mutants --test cases`).

mod bench;
mod commits;
mod failures;
mod gate;
mod liveness;
mod moves;
mod scope;
mod stamps;

use keyway_core::Mutant;

/// Runs a case, and under each of these mutants once more: then it has to fail.
fn case(mutants: &[Mutant], story: fn()) {
    story();
    let _ = mutants;
    #[cfg(feature = "mutants")]
    for mutant in mutants {
        keyway_core::mutate(Some(*mutant));
        let ended = std::panic::catch_unwind(story);
        keyway_core::mutate(None);
        assert!(ended.is_err(), "{mutant:?} is not noticed");
    }
}
