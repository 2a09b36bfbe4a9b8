//! Failed attempts: when the next is made, and what follows the last.

mod support;

use std::num::NonZeroU32;
use std::time::Duration;

use keyway_core::{
    BatchConfig, CommitAnswer, CoreConfig, Exhausted, PartitionSlot, RetryPolicy, Shape, StopCause,
    Timestamp,
};
use support::{INTERVAL, World, at, batches, pinned, pool};

const SECOND: Duration = Duration::from_secs(1);

fn policy(attempts: u32, exhausted: Exhausted) -> RetryPolicy {
    RetryPolicy {
        attempts: NonZeroU32::new(attempts),
        exhausted,
        ..RetryPolicy::fixed(SECOND)
    }
}

fn with_policy(mut config: CoreConfig, policy: RetryPolicy) -> World {
    config.routes[0].retry = policy;
    World::new(config)
}

/// The delays before the further attempts at record 0.
fn delays(world: &mut World, attempts: usize) -> Vec<Duration> {
    let mut delays = Vec::new();
    for _ in 0..attempts {
        let failed_at = world.now;
        world.fail(&[0]);
        let due = world.core.next_deadline();
        delays.push(due.since(failed_at));
        world.now = due;
        world.wait(Duration::ZERO);
        assert_eq!(world.running(), [0], "due at its time");
    }
    delays
}

/// With what is due later run at once (`RetryNotDue`) a tick leaves it due; without the longest delay the last are 27 s
/// and 81 s; with an attempt that keeps its number each is 1 s.
#[test]
fn delays_grow_up_to_the_longest() {
    let policy = RetryPolicy {
        factor: 3.0,
        max: 20 * SECOND,
        ..RetryPolicy::fixed(SECOND)
    };
    let mut world = with_policy(pool(1), policy);
    world.arrive(&[(0, "a")]);
    let delays = delays(&mut world, 5);
    assert_eq!(delays, [1, 3, 9, 20, 20].map(Duration::from_secs));
}

/// Without the jitter it fails with all of them at once.
#[test]
fn jitter_pulls_apart_what_failed_together_and_never_makes_a_delay_longer() {
    let policy = RetryPolicy {
        jitter: 0.5,
        ..RetryPolicy::fixed(SECOND)
    };
    let mut world = with_policy(pool(64), policy);
    let keys: Vec<String> = (0..50).map(|key| key.to_string()).collect();
    let records: Vec<_> = (0..).zip(keys.iter().map(String::as_str)).collect();
    world.arrive(&records);
    let failed_at = world.now;
    for (offset, _) in &records {
        world.fail(&[*offset]);
    }
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 50 {
        let due = world.core.next_deadline();
        let delay = due.since(failed_at);
        assert!(delay >= SECOND / 2 && delay <= SECOND, "{delay:?}");
        world.now = due;
        world.wait(Duration::ZERO);
        let before = seen.len();
        seen.extend(world.running());
        assert!(seen.len() - before <= 2, "not all at once");
    }
}

/// With an attempt that keeps its number the second failure is not the last.
#[test]
fn a_delay_of_the_handlers_own_goes_before_the_policy_and_its_attempt_counts() {
    let mut world = with_policy(pool(1), policy(2, Exhausted::Skip));
    world.arrive(&[(0, "a")]);
    world.end_at(0, &[0], false, |payload| keyway_core::Verdict::Failed {
        payload,
        after: Some(5 * SECOND),
    });
    assert_eq!(world.core.next_deadline(), world.now.after(5 * SECOND));
    world.wait(5 * SECOND);
    world.fail(&[0]);
    assert_eq!(world.passed_over, [(0, 2)]);
}

/// Without a last attempt it is not passed over; without the note that its worker has closed the lane, nobody opens it
/// again.
#[test]
fn after_its_last_attempt_a_record_is_passed_over_and_its_lane_goes_on() {
    for (config, is_pinned) in [(pool(4), false), (pinned(1), true)] {
        let mut world = with_policy(config, policy(2, Exhausted::Skip));
        world.arrive(&[(0, "a"), (1, "a")]);
        if world.running() == [0, 1] {
            // They are at one worker: what follows the failure comes back unstarted.
            world.end_at(0, &[0, 1], false, |payload| match payload {
                0 => keyway_core::Verdict::Failed {
                    payload,
                    after: None,
                },
                _ => keyway_core::Verdict::Returned { payload },
            });
        } else {
            world.fail(&[0]);
        }
        world.wait(SECOND);
        assert_eq!(world.attempt(0), 2);
        if world.running() == [0, 1] {
            world.end_at(0, &[0, 1], false, |payload| match payload {
                0 => keyway_core::Verdict::Failed {
                    payload,
                    after: None,
                },
                _ => keyway_core::Verdict::Returned { payload },
            });
        } else {
            world.fail(&[0]);
        }
        assert_eq!(world.passed_over, [(0, 2)]);
        assert_eq!(world.running(), [1], "at once");
        assert_eq!(
            world.reopened.len(),
            if is_pinned { 2 } else { 0 },
            "its worker had closed the lane both times"
        );
        world.done(&[1]);
        if world.core.commit_in_flight().is_some() {
            world.answer(CommitAnswer::Stored);
        }
        world.wait(INTERVAL);
        assert_eq!(world.planned().base(), at(2), "it counts as complete");
        assert_eq!(world.core.counters().exhausted, 1);
        assert!(world.core.is_empty());
    }
}

/// Tried again after a while, as any failure is, it fails with 0 and then 3 running.
#[test]
fn on_hold_it_blocks_its_lane_and_nothing_else_and_holds_up_no_drain() {
    let mut world = with_policy(pool(4), policy(1, Exhausted::Hold));
    world.arrive(&[(0, "a"), (2, "b")]);
    world.fail(&[0]);
    world.arrive(&[(3, "a")]);
    world.done(&[2]);
    world.wait(1_000 * SECOND);
    assert_eq!(world.running(), [0_i64; 0]);
    assert_eq!(world.core.status().partitions[0].on_hold, 1);
    assert!(world.core.is_idle() && !world.core.is_empty());
    assert!(world.core.is_drained(Timestamp::NEVER.min(world.now)));
    world.answer(CommitAnswer::Stored);
    assert_eq!(
        world.core.next_deadline(),
        Timestamp::NEVER,
        "nobody wakes up for it"
    );
    // Whoever has the partition next tries it anew.
    world.core.revoked(PartitionSlot(0));
    world.assign(0, Some(0), None);
    world.arrive(&[(0, "a")]);
    assert_eq!((world.running(), world.attempt(0)), (vec![0], 1));
    assert_eq!(world.core.status().partitions[0].on_hold, 0);
}

#[test]
fn a_last_attempt_may_stop_the_member() {
    let mut world = with_policy(pool(4), policy(1, Exhausted::Stop));
    world.arrive(&[(0, "a")]);
    world.fail(&[0]);
    let cause = StopCause::Exhausted {
        slot: PartitionSlot(0),
        offset: at(0),
        attempts: 1,
    };
    assert_eq!(world.stop, Some(cause));
    assert!(!world.core.is_empty(), "the record stays incomplete");
}

/// With a last attempt for a batch that failed as a whole it fails with all four passed over.
#[test]
fn only_a_record_that_stands_alone_has_a_last_attempt_in_a_batch() {
    let batch = BatchConfig {
        max_records: 4,
        ..BatchConfig::default()
    };
    let config = batches(Shape::Pool { concurrency: 1 }, batch);
    let mut world = with_policy(config, policy(1, Exhausted::Skip));
    world.arrive(&[(0, "a"), (1, "b"), (2, "c"), (3, "d")]);
    // Record 2 fails every batch that it is in.
    for _ in 0..20 {
        let running = world.running();
        match running.as_slice() {
            [] => world.wait(SECOND),
            offsets if offsets.contains(&2) => world.fail_batch(offsets),
            offsets => world.done(offsets),
        }
        if world.core.is_empty() {
            break;
        }
    }
    assert!(world.core.is_empty());
    assert_eq!(
        world
            .passed_over
            .iter()
            .map(|(offset, _)| *offset)
            .collect::<Vec<_>>(),
        [2]
    );
}

/// Tried again after a while it fails with 953 attempts of 60.
#[test]
fn when_all_that_is_left_is_on_hold_nothing_more_comes() {
    for config in [pool(4), pinned(2)] {
        let mut world = with_policy(config, policy(3, Exhausted::Hold));
        let keys: Vec<String> = (0..20).map(|key| key.to_string()).collect();
        let records: Vec<_> = (0..).zip(keys.iter().map(String::as_str)).collect();
        world.arrive(&records);
        for _ in 0..1_000 {
            match world.running().first() {
                Some(offset) => world.fail(&[*offset]),
                None if world.core.next_deadline() == Timestamp::NEVER => break,
                None => {
                    world.now = world.core.next_deadline();
                    world.wait(Duration::ZERO);
                }
            }
        }
        assert_eq!(world.core.counters().failed, 60);
        assert!(world.core.is_idle());
    }
}
