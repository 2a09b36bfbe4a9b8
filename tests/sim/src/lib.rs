#![doc = include_str!("../README.md")]

mod assignment;
mod broker;
mod coverage;
mod gate;
mod history;
mod invariants;
mod member;
mod pace;
mod record;
mod rider;
pub mod rng;
mod runner;
mod scenario;
mod steps;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use coverage::{Coverage, Event};
pub use invariants::Violation;
use world::World;

/// Steps with faults of one run, where nothing else is asked for.
pub const DEFAULT_STEPS: usize = 1_200;

/// A run that kept all invariants.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Steps taken, those without faults included.
    pub steps: usize,
    /// What occurred.
    pub coverage: Coverage,
}

/// Runs one seed: `steps` steps with faults, then without until everything is done.
///
/// # Errors
/// The first violation, a panic of the core included.
pub fn run(seed: u64, steps: usize, trace: bool) -> Result<Summary, Violation> {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, trace);
        let outcome = world.run(steps);
        for index in 0..world.members.len() {
            world.gather_counters(index);
        }
        outcome.map(|()| Summary {
            steps: world.steps,
            coverage: world.coverage,
        })
    }));
    ran.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without a text");
        Err(Violation {
            invariant: "panic",
            detail: text.to_owned(),
        })
    })
}

/// The command that replays a seed with a trace.
pub fn replay_command(seed: u64, steps: usize) -> String {
    format!("cargo run -p keyway-sim --release -- --seed {seed} --steps {steps} --trace")
}
