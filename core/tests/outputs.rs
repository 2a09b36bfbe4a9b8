//! Records with outputs: complete when the broker has acknowledged them, and one record of a lane after the other.

mod support;

use std::num::NonZeroU32;
use std::time::Duration;

use keyway_core::{
    BatchConfig, CommitAnswer, CommitReason, CoreConfig, Exhausted, PartitionSlot, RetryPolicy,
    Shape, Verdict,
};
use support::{INTERVAL, RETRY_DELAY, World, at, batches, map, pinned, pool};

const SLOT: PartitionSlot = PartitionSlot(0);
const SECOND: Duration = Duration::from_secs(1);

/// One call at a time, which may have several records of a lane.
fn batches_of_a_lane() -> CoreConfig {
    let batch = BatchConfig {
        same_lane: true,
        ..BatchConfig::default()
    };
    batches(Shape::Pool { concurrency: 1 }, batch)
}

// The simulator takes this out with its mutant `OutputsNotAwaited`.
#[test]
fn a_record_is_complete_and_its_lane_goes_on_when_its_outputs_are_acknowledged() {
    for config in [pool(4), pinned(2)] {
        let mut world = World::new(config);
        world.arrive(&[(0, "a"), (1, "b")]);
        world.done(&[1]);
        world.answer(CommitAnswer::Stored);
        world.send(&[0], 100);
        world.arrive(&[(2, "a")]);
        assert_eq!(world.running(), [0_i64; 0], "its lane waits");
        world.wait(INTERVAL);
        assert_eq!(*world.planned(), map(0, 1, &[0]));
        assert_eq!(world.core.status().partitions[0].sends_out, 1);
        assert_eq!(world.core.counters().completed, 1);
        world.sent(0);
        assert_eq!(world.running(), [2], "at once");
        assert_eq!(world.core.status().partitions[0].sends_out, 0);
        assert_eq!(world.core.counters().sent, 1);
        world.done(&[2]);
        assert!(world.core.is_empty());
        assert_eq!(world.core.base(SLOT), at(3));
    }
}

// The simulator takes this out with its mutant `FailedSendForgotten`.
#[test]
fn outputs_that_cant_be_sent_are_an_attempt_that_failed() {
    for config in [pool(4), pinned(2)] {
        let mut config = config;
        config.routes[0].retry = RetryPolicy {
            attempts: NonZeroU32::new(2),
            exhausted: Exhausted::DeadLetter,
            ..RetryPolicy::fixed(RETRY_DELAY)
        };
        let mut world = World::new(config);
        world.arrive(&[(0, "a")]);
        world.send(&[0], 100);
        world.not_sent(0);
        assert_eq!(world.running(), [0_i64; 0], "not before its time");
        world.wait(RETRY_DELAY);
        assert_eq!((world.running(), world.attempt(0)), (vec![0], 2));
        world.send(&[0], 100);
        world.not_sent(0);
        assert_eq!(world.writing(), [(0, 1)], "that was the last attempt");
        let counters = world.core.counters();
        assert_eq!((counters.failed, counters.sends_failed), (2, 2));
        world.written(0);
        assert!(world.core.is_empty());
    }
}

#[test]
fn while_outputs_are_sent_no_worker_is_held() {
    for config in [pool(1), pinned(1)] {
        let mut world = World::new(config);
        world.arrive(&[(0, "a")]);
        world.send(&[0], 100);
        world.arrive(&[(1, "b"), (2, "c")]);
        assert_eq!(world.running()[0], 1, "another key takes the only worker");
        for offset in [1, 2] {
            world.done(&[offset]);
        }
        assert_eq!(world.sending(), [0]);
    }
}

#[test]
fn what_was_behind_it_at_its_worker_comes_after_the_outputs_in_order() {
    let mut world = World::new(pinned(1));
    world.warm_up(0, 50);
    world.arrive(&[(50, "a"), (51, "a"), (52, "a")]);
    assert_eq!(world.running(), [50, 51, 52]);
    // The acknowledgement may be there before the rest of the lane has come back.
    world.send(&[50], 100);
    world.sent(50);
    assert_eq!(world.running(), [51, 52], "still the first hand-over");
    let reopened = world.reopened.len();
    world.give_back(&[51, 52]);
    assert_eq!(world.reopened.len(), reopened + 1, "the worker may go on");
    assert_eq!(world.running(), [51, 52]);
    // And it may come after.
    world.send(&[51], 100);
    world.give_back(&[52]);
    assert_eq!(world.running(), [0_i64; 0]);
    world.sent(51);
    assert_eq!(world.running(), [52]);
}

#[test]
fn of_a_batch_what_was_held_back_behind_a_failure_runs_again_whatever_its_policy_says() {
    let mut config = batches_of_a_lane();
    config.routes[0].retry = RetryPolicy {
        attempts: NonZeroU32::new(2),
        exhausted: Exhausted::Skip,
        ..RetryPolicy::fixed(RETRY_DELAY)
    };
    let mut world = World::new(config);
    world.arrive(&[(0, "warm")]);
    world.arrive(&[(1, "a"), (2, "a"), (3, "b")]);
    world.done(&[0]);
    for _ in 0..2 {
        assert_eq!(world.running(), [1, 2, 3]);
        world.send(&[1, 2, 3], 100);
        assert_eq!(world.sending(), [1, 2, 3], "together");
        world.held_back(2);
        world.not_sent(1);
        world.not_sent(3);
        world.wait(RETRY_DELAY);
    }
    // 1 and 3 have had their attempts; 2 has done nothing wrong, and has its first one still.
    assert_eq!(world.attempt(2), 1);
    assert_eq!(world.passed_over, [(1, 2), (3, 2)]);
    assert_eq!(world.running(), [2]);
    world.send(&[2], 100);
    world.sent(2);
    assert!(world.core.is_empty());
}

#[test]
fn no_record_starts_while_more_outputs_are_under_way_than_there_may_be() {
    for config in [pool(4), pinned(2)] {
        let mut config = config;
        config.buffers.output_bytes = 100;
        let mut world = World::new(config);
        world.arrive(&[(0, "a"), (1, "b")]);
        world.send(&[0], 60);
        world.arrive(&[(2, "c")]);
        world.send(&[1], 60);
        world.arrive(&[(3, "d"), (4, "a")]);
        world.done(&[2]);
        assert_eq!(world.running(), [0_i64; 0], "120 of 100");
        assert!(!world.core.is_drained(world.now), "that is not the end");
        world.not_sent(1);
        assert_eq!(world.running(), [3], "60 of 100");
        world.sent(0);
        assert_eq!(world.running(), [3, 4]);
        world.done(&[3, 4]);
        world.wait(RETRY_DELAY);
        world.done(&[1]);
        assert!(world.core.is_empty());
    }
}

#[test]
fn a_revoke_and_a_stop_wait_for_outputs_that_are_being_sent() {
    let mut world = World::new(pool(4));
    world.begin();
    world.arrive(&[(1, "a"), (2, "b")]);
    world.send(&[1], 100);
    world.send(&[2], 100);
    world.with(|core, _| core.revoking(SLOT));
    world.sent(1);
    assert!(!world.core.is_quiet(SLOT));
    world.not_sent(2);
    assert!(world.core.is_quiet(SLOT), "2 is not tried again here");
    let plan = world.with(|core, now| core.commit_now(CommitReason::Revoke, Some(&[SLOT]), now));
    assert!(plan.is_some());
    assert_eq!(world.planned().base(), at(2), "2 is not complete");
    world.answer(CommitAnswer::Stored);
    world.with(|core, _| core.revoked(SLOT));
    assert_eq!(world.core.load(), (0, 0));

    world.assign(0, Some(2), None);
    world.arrive(&[(2, "b")]);
    world.with(|core, _| core.begin_stop());
    world.send(&[2], 100);
    assert!(!world.core.is_all_quiet());
    world.sent(2);
    assert!(world.core.is_all_quiet());
    assert_eq!(world.core.base(SLOT), at(3));
}

#[test]
fn an_answer_to_outputs_of_an_ended_assignment_is_dropped() {
    for is_sent in [true, false] {
        let mut world = World::new(pool(4));
        world.arrive(&[(0, "a")]);
        world.send(&[0], 100);
        world.with(|core, _| core.lost(SLOT));
        world.assign(0, Some(0), None);
        world.arrive(&[(0, "a"), (1, "b")]);
        assert_eq!(world.running(), [1], "the lane's outputs are under way");
        assert_eq!(world.core.status().partitions[0].stale_lanes, 1);
        match is_sent {
            true => world.sent(0),
            false => world.not_sent(0),
        }
        assert_eq!(world.core.counters().late_results, 1);
        assert_eq!(world.core.counters().sent, 0);
        assert_eq!(world.running(), [0, 1], "the record runs again");
        world.done(&[0, 1]);
        assert_eq!(world.core.load(), (0, 0));
    }
}

#[test]
fn a_thousand_revokes_under_outputs_leave_no_count_behind() {
    let mut config = pinned(3);
    config.buffers.output_bytes = 250;
    let mut world = World::new(config);
    for round in 0..1_000_i64 {
        world.arrive(&[(0, "a"), (1, "b"), (2, "a"), (3, "c")]);
        for offset in world.running() {
            if (round + offset) % 3 != 0 {
                world.send(&[offset], 100);
            }
        }
        if let (Some(offset), 0) = (world.sending().first(), round % 2) {
            world.not_sent(*offset);
        }
        world.with(|core, _| core.revoking(SLOT));
        let still = world.running();
        world.give_back(&still);
        if round % 5 == 0 {
            // Some answers come late.
            world.with(|core, _| core.revoked(SLOT));
        }
        for offset in world.sending() {
            match offset % 2 {
                0 => world.sent(offset),
                _ => world.not_sent(offset),
            }
        }
        assert!(world.core.is_quiet(SLOT));
        world.with(|core, _| core.revoked(SLOT));
        assert_eq!(world.core.load(), (0, 0), "round {round}");
        assert!(world.core.is_all_quiet());
        world.assign(0, Some(0), None);
    }
    assert_eq!(world.core.status().lanes, 0);
    world.arrive(&[(0, "a")]);
    assert_eq!(world.running(), [0], "all the room is there again");
    world.wait(SECOND);
}

#[test]
fn of_a_batch_outputs_behind_a_failed_record_are_held_back() {
    let mut world = World::new(batches_of_a_lane());
    world.arrive(&[(0, "warm")]);
    world.arrive(&[(1, "a"), (2, "a"), (3, "b")]);
    world.done(&[0]);
    world.end_at(0, &[1, 2, 3], false, |payload| match payload {
        1 => Verdict::Failed {
            payload,
            after: None,
        },
        _ => Verdict::Outputs {
            payload,
            update: None,
            bytes: 100,
        },
    });
    let held_back = |world: &World| {
        let held_back = world
            .sendings
            .iter()
            .filter(|(_, sending)| sending.held_back);
        held_back
            .map(|((_, offset), _)| *offset)
            .collect::<Vec<_>>()
    };
    assert_eq!((world.sending(), held_back(&world)), (vec![2, 3], vec![2]));
    world.held_back(2);
    world.sent(3);
    world.wait(RETRY_DELAY);
    assert_eq!(world.running(), [1, 2]);
    world.send(&[1, 2], 100);
    assert_eq!(held_back(&world), [0_i64; 0]);
    world.sent(1);
    world.sent(2);
    assert!(world.core.is_empty());
}

// Counted with the calls that hang, what they are likely to send would keep everything from starting, for ever.
#[test]
fn a_call_that_hangs_holds_up_nobody_who_has_room() {
    for config in [pool(2), pinned(2)] {
        let mut config = config;
        config.buffers.output_bytes = 100;
        let mut world = World::new(config);
        for offset in 0..10 {
            world.arrive(&[(offset, "large")]);
            world.send(&[offset], 150);
            world.sent(offset);
        }
        world.arrive(&[(10, "hangs")]);
        world.arrive(&[(11, "a"), (12, "b")]);
        assert_eq!(world.running(), [10, 11], "one behind the other");
        world.send(&[11], 150);
        assert_eq!(world.running(), [10], "150 of 100");
        world.sent(11);
        assert_eq!(world.running(), [10, 12]);
    }
}

// By what has come back to its lane alone it would be sent, since of a partition that leaves nothing comes back.
#[test]
fn outputs_behind_a_failed_record_are_held_back_during_a_revoke_too() {
    let mut world = World::new(batches_of_a_lane());
    world.arrive(&[(0, "warm")]);
    world.arrive(&[(1, "a"), (2, "a")]);
    world.done(&[0]);
    world.with(|core, _| core.revoking(SLOT));
    world.end_at(0, &[1, 2], false, |payload| match payload {
        1 => Verdict::Failed {
            payload,
            after: None,
        },
        _ => Verdict::Outputs {
            payload,
            update: None,
            bytes: 100,
        },
    });
    assert!(world.sendings[&(0, 2)].held_back);
    world.held_back(2);
    assert!(world.core.is_quiet(SLOT));
    assert_eq!(world.core.base(SLOT), at(1), "neither is complete");
}
