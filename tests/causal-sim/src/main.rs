//! Runs seeds from the command line; README.md says how.

use std::process::ExitCode;

use keyway_causal_sim::{Coverage, DEFAULT_STEPS, Event, replay_command, run};

const USAGE: &str = "keyway-causal-sim [--seeds A..B | --seed N] [--steps N] [--trace]";

struct Options {
    seeds: std::ops::Range<u64>,
    steps: usize,
    trace: bool,
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options {
        seeds: 0..2_000,
        steps: DEFAULT_STEPS,
        trace: false,
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seeds" => {
                let value = arguments.next()?;
                let (from, to) = value.split_once("..")?;
                options.seeds = from.parse().ok()?..to.parse().ok()?;
            }
            "--seed" => {
                let seed: u64 = arguments.next()?.parse().ok()?;
                options.seeds = seed..seed.checked_add(1)?;
            }
            "--steps" => options.steps = arguments.next()?.parse().ok()?,
            "--trace" => options.trace = true,
            _ => return None,
        }
    }
    Some(options)
}

fn main() -> ExitCode {
    let Some(options) = parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut coverage = Coverage::default();
    let (mut steps, mut violations) = (0_usize, 0_u32);
    for seed in options.seeds.clone() {
        match run(seed, options.steps, options.trace) {
            Ok(summary) => {
                steps += summary.steps;
                coverage.add(&summary.coverage);
            }
            Err(violation) => {
                violations += 1;
                println!("seed {seed}: {}: {}", violation.invariant, violation.detail);
                println!("    {}", replay_command(seed, options.steps));
            }
        }
    }
    for event in Event::ALL {
        println!("{:>10}  {}", coverage.count(*event), event.text());
    }
    println!(
        "{steps} steps of {} seeds, {violations} violations",
        options.seeds.count()
    );
    if violations == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
