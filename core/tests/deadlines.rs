//! The core never asks to be called "now" over and over: its owner would spin.

mod support;

use std::time::Duration;

use keyway_core::{BatchConfig, CommitAnswer, Shape, Timestamp};
use support::{BACKOFF, World, batches, pinned};

#[test]
fn a_refused_commit_without_an_interval_is_due_again_after_the_backoff() {
    let mut config = pinned(1);
    config.commit.interval = Duration::ZERO;
    let mut world = World::new(config);
    world.arrive(&[(0, "a")]);
    world.done(&[0]);
    world.answer(CommitAnswer::Repeat);
    world.wait(Duration::ZERO);
    assert_eq!(world.core.next_deadline(), world.now.after(BACKOFF));
    world.wait(BACKOFF);
    assert_eq!(world.plans.len(), 2);
}

#[test]
fn a_batch_that_may_go_while_all_workers_are_busy_waits_for_a_report() {
    let wait = Duration::from_millis(1);
    let batch = BatchConfig {
        max_records: 2,
        wait,
        ..BatchConfig::default()
    };
    let mut world = World::new(batches(Shape::Pinned { workers: 1 }, batch));
    world.arrive(&[(0, "a"), (1, "b"), (2, "c")]);
    assert_eq!(world.running(), [0, 1]);
    world.wait(wait);
    assert_eq!(world.core.next_deadline(), Timestamp::NEVER);
    world.done(&[0, 1]);
    assert_eq!(world.running(), [2]);
}
