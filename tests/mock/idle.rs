//! What an engine costs while it has nothing to do. Measured in a process of its own, since the threads of the
//! other tests have the same names.

use std::process::Command;
use std::time::{Duration, Instant};

use keyway::{Outcome, Record};

use crate::world::World;

/// Set in the process that measures.
const MEASURING: &str = "KEYWAY_MEASURES_IDLE";

/// Over which the processor's time is counted.
const WINDOW: Duration = Duration::from_secs(3);

/// Runs one test of this binary by itself.
fn alone(test: &str) {
    let output = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(MEASURING, "1")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn is_measuring() -> bool {
    std::env::var_os(MEASURING).is_some()
}

/// Processor time of the engine's own threads so far, in ticks of 10 ms, by thread name.
fn ticks() -> Vec<(String, u64)> {
    let mut ticks = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").expect("a Linux") {
        let path = task.expect("a thread").path();
        // A thread may end between the two.
        let Ok(stat) = std::fs::read_to_string(path.join("stat")) else {
            continue;
        };
        let (name, rest) = stat
            .split_once('(')
            .and_then(|(_, rest)| rest.rsplit_once(") "))
            .expect("a stat line");
        if !name.starts_with("keyway") {
            continue;
        }
        let fields: Vec<_> = rest.split(' ').collect();
        let number = |index: usize| fields[index].parse::<u64>().expect("a number");
        ticks.push((name.to_owned(), number(11) + number(12)));
    }
    assert!(
        ticks.iter().any(|(name, _)| name == "keyway-poll"),
        "{ticks:?}"
    );
    ticks
}

/// Share of a core that the engine's threads take, in percent.
fn share() -> f64 {
    let total = |ticks: &[(String, u64)]| ticks.iter().map(|(_, ticks)| ticks).sum::<u64>();
    let (before, began) = (ticks(), Instant::now());
    std::thread::sleep(WINDOW);
    let (after, took) = (ticks(), began.elapsed());
    let busy = Duration::from_millis(10 * total(&after).saturating_sub(total(&before)));
    100.0 * busy.as_secs_f64() / took.as_secs_f64()
}

/// With a poll that never waits it fails.
#[test]
fn an_idle_engine_takes_less_than_a_hundredth_of_a_core() {
    if !is_measuring() {
        return alone("idle::an_idle_engine_takes_less_than_a_hundredth_of_a_core");
    }
    let world = World::filled(100);
    let run = world.start(|builder| builder.handler(|_: &Record| ()));
    run.until_done(100);
    world.until_committed(100);
    let share = share();
    assert!(share < 1.0, "{share} %");
    run.stop();
}

/// With a poll that never waits it fails, also where that is so in a drain alone.
#[test]
fn a_drain_that_waits_for_a_handler_does_not_spin() {
    if !is_measuring() {
        return alone("idle::a_drain_that_waits_for_a_handler_does_not_spin");
    }
    let world = World::filled(3);
    let run = world.start(|builder| {
        builder.handler(
            |record: &Record| match (record.offset(), record.attempt()) {
                (0, _) => {
                    std::thread::sleep(WINDOW * 2);
                    Outcome::Done
                }
                (1, 1) => Outcome::Retry {
                    after: Some(WINDOW * 2),
                },
                _ => Outcome::Done,
            },
        )
    });
    run.until_done(1);
    run.engine.drain(WINDOW * 10);
    run.until_status("the drain", |status| status.stopping);
    let share = share();
    assert!(share < 5.0, "{share} %");
    let report = run.end().expect("an orderly end");
    assert_eq!(report.left_open, 0);
}
