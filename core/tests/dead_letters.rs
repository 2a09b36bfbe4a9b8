//! Records that go to a dead-letter topic: complete when the broker has acknowledged the letter, and not before.

mod support;

use std::num::NonZeroU32;
use std::time::Duration;

use keyway_core::{
    BatchConfig, CommitAnswer, CommitReason, CoreConfig, Exhausted, PartitionSlot, RetryPolicy,
    Shape, Timestamp, Verdict,
};
use support::{INTERVAL, World, at, batches, map, pinned, pool};

const SLOT: PartitionSlot = PartitionSlot(0);
const SECOND: Duration = Duration::from_secs(1);

/// Further than any letter waits for its next try.
const LATER: Duration = Duration::from_secs(60);

fn after(attempts: u32, mut config: CoreConfig) -> World {
    config.routes[0].retry = RetryPolicy {
        attempts: NonZeroU32::new(attempts),
        exhausted: Exhausted::DeadLetter,
        ..RetryPolicy::fixed(SECOND)
    };
    World::new(config)
}

/// What would be committed now.
fn committed(world: &mut World) -> keyway_offsets::HoleMap {
    if world.core.commit_in_flight().is_some() {
        world.answer(CommitAnswer::Stored);
    }
    world.wait(INTERVAL);
    let planned = world.planned().clone();
    if world.core.commit_in_flight().is_some() {
        world.answer(CommitAnswer::Stored);
    }
    planned
}

// The simulator takes this out with its mutant `LetterNotAwaited`.
#[test]
fn after_its_last_attempt_a_record_is_complete_when_its_letter_is_acknowledged() {
    for config in [pool(4), pinned(2)] {
        let mut world = after(2, config);
        world.arrive(&[(0, "a"), (1, "b")]);
        world.done(&[1]);
        world.fail(&[0]);
        assert_eq!(world.writing(), [], "another attempt comes first");
        world.wait(SECOND);
        world.fail(&[0]);
        assert_eq!(world.writing(), [(0, 1)]);
        assert_eq!(world.letters[&(0, 0)].at.attempt, 2, "attempts made");
        world.arrive(&[(2, "a")]);
        assert_eq!(world.running(), [0_i64; 0], "its lane waits");
        assert_eq!(committed(&mut world), map(0, 1, &[0]));
        assert_eq!(world.core.status().partitions[0].letters_out, 1);
        world.written(0);
        assert_eq!(world.running(), [2], "at once");
        assert_eq!(world.core.status().partitions[0].letters_out, 0);
        assert_eq!(world.core.counters().dead_letters, 1);
        world.done(&[2]);
        assert_eq!(committed(&mut world).base(), at(3));
        assert!(world.core.is_empty());
    }
}

#[test]
fn a_handler_may_ask_for_the_letter_at_once_or_for_what_follows_a_last_attempt() {
    let mut world = after(5, pool(4));
    world.arrive(&[(0, "a"), (1, "b")]);
    world.bury(0);
    world.end_at(0, &[1], false, |payload| Verdict::GiveUp { payload });
    assert_eq!(world.writing(), [(0, 1), (1, 1)], "no further attempt");
    assert_eq!(world.core.counters().failed, 2);
    // Where the policy says something else, that is what giving up means.
    let mut world = World::new(pool(4));
    world.arrive(&[(0, "a")]);
    world.end_at(0, &[0], false, |payload| Verdict::GiveUp { payload });
    assert_eq!(world.core.status().partitions[0].on_hold, 1);
    assert_eq!(world.on_hold, [(0, false)], "people are told");
    assert_eq!(world.writing(), []);
}

#[test]
fn without_a_dead_letter_topic_a_record_that_is_to_go_there_is_on_hold() {
    let mut config = pool(4);
    config.routes[0].dead_letters = false;
    let mut world = after(1, config);
    world.arrive(&[(0, "a")]);
    world.bury(0);
    assert_eq!(world.writing(), []);
    assert_eq!(world.core.status().partitions[0].on_hold, 1);
    assert_eq!(world.on_hold, [(0, true)], "people are told");
    assert!(!world.core.is_empty(), "it stays incomplete");
}

// The simulator takes this out with its mutant `FailedLetterForgotten`.
#[test]
fn a_letter_that_cant_be_written_is_tried_again_for_ever_with_growing_delays() {
    for config in [pool(4), pinned(2)] {
        let mut world = after(1, config);
        world.arrive(&[(0, "a")]);
        world.fail(&[0]);
        world.arrive(&[(1, "a"), (2, "b")]);
        world.done(&[2]);
        let mut delays = Vec::new();
        for tries in 1..=12 {
            assert_eq!(world.writing(), [(0, tries)]);
            let failed_at = world.now;
            world.not_written(0);
            assert_eq!(world.writing(), []);
            let status = world.core.status();
            let part = &status.partitions[0];
            assert_eq!((part.letters_out, part.letters_waiting), (0, 1));
            assert_eq!(world.running(), [0_i64; 0], "its lane waits");
            while world.writing().is_empty() {
                world.now = world.core.next_deadline();
                if world.core.commit_in_flight().is_some() {
                    world.answer(CommitAnswer::Stored);
                }
                world.wait(Duration::ZERO);
            }
            delays.push(world.now.since(failed_at));
        }
        assert!(
            delays[0] <= SECOND / 2 && delays[0] >= SECOND / 4,
            "{delays:?}"
        );
        assert!(
            delays[11] <= 30 * SECOND && delays[11] >= 20 * SECOND,
            "{delays:?}"
        );
        assert_eq!(world.core.counters().dead_letters_failed, 12);
        world.written(0);
        assert_eq!(world.running(), [1]);
    }
}

#[test]
fn while_a_letter_is_written_no_worker_is_held() {
    for config in [pool(1), pinned(1)] {
        let mut world = after(1, config);
        world.arrive(&[(0, "a")]);
        world.fail(&[0]);
        world.arrive(&[(1, "b"), (2, "c")]);
        let running = world.running();
        assert_eq!(running[0], 1, "another key takes the only worker");
        for offset in [1, 2] {
            world.done(&[offset]);
        }
        assert_eq!(world.writing(), [(0, 1)]);
    }
}

#[test]
fn what_was_behind_it_at_its_worker_comes_after_the_letter_in_order() {
    let mut world = after(1, pinned(1));
    world.warm_up(0, 50);
    world.arrive(&[(50, "a"), (51, "a"), (52, "a")]);
    assert_eq!(world.running(), [50, 51, 52]);
    // The letter may be acknowledged before the rest of the lane has come back.
    world.bury(50);
    world.written(50);
    assert_eq!(world.running(), [51, 52], "still the first hand-over");
    let reopened = world.reopened.len();
    world.give_back(&[51, 52]);
    assert_eq!(
        world.reopened.len(),
        reopened + 1,
        "the worker may go on with it"
    );
    assert_eq!(world.running(), [51, 52]);
    let last = world.handed_over.last().expect("a hand-over");
    assert_eq!(last.offsets, [51, 52]);
}

#[test]
fn the_letters_of_a_batch_are_written_together_and_one_that_fails_keeps_its_place() {
    let batch = BatchConfig {
        same_lane: true,
        ..BatchConfig::default()
    };
    let mut world = after(1, batches(Shape::Pool { concurrency: 1 }, batch));
    world.arrive(&[(0, "warm")]);
    world.arrive(&[(1, "a"), (2, "a"), (3, "a")]);
    world.done(&[0]);
    assert_eq!(world.running(), [1, 2, 3]);
    world.end_at(0, &[1, 2, 3], false, |payload| match payload {
        3 => Verdict::Failed {
            payload,
            after: Some(LATER),
        },
        _ => Verdict::DeadLetter { payload },
    });
    assert_eq!(
        world.writing(),
        [(1, 1), (2, 1), (3, 1)],
        "one attempt each"
    );
    world.written(2);
    world.not_written(3);
    world.not_written(1);
    assert_eq!(world.running(), [0_i64; 0]);
    world.wait(LATER);
    assert_eq!(world.writing(), [(1, 2)], "the lane goes on from its front");
    world.written(1);
    assert_eq!(world.writing(), [(3, 2)]);
    world.written(3);
    assert!(world.core.is_empty());
}

#[test]
fn a_revoke_waits_for_letters_that_are_being_written_and_for_no_other() {
    let mut world = after(1, pool(4));
    world.begin();
    world.arrive(&[(1, "a"), (2, "b")]);
    world.fail(&[1]);
    world.fail(&[2]);
    world.not_written(2);
    world.with(|core, _| core.revoking(SLOT));
    assert!(!world.core.is_quiet(SLOT));
    world.written(1);
    assert!(world.core.is_quiet(SLOT), "2 waits for its next try");
    let plan = world.with(|core, now| core.commit_now(CommitReason::Revoke, Some(&[SLOT]), now));
    assert!(plan.is_some());
    assert_eq!(world.planned().base(), at(2), "2 is not complete");
    world.answer(CommitAnswer::Stored);
    world.with(|core, _| core.revoked(SLOT));
    assert_eq!(world.core.load(), (0, 0));
}

#[test]
fn an_answer_to_a_letter_of_an_ended_assignment_is_dropped() {
    for is_written in [true, false] {
        let mut world = after(1, pool(4));
        world.arrive(&[(0, "a")]);
        world.fail(&[0]);
        world.with(|core, _| core.lost(SLOT));
        world.assign(0, Some(0), None);
        world.arrive(&[(0, "a"), (1, "b")]);
        assert_eq!(
            world.running(),
            [1],
            "the lane's letter is still on its way"
        );
        assert_eq!(world.core.status().partitions[0].stale_lanes, 1);
        match is_written {
            true => world.written(0),
            false => world.not_written(0),
        }
        assert_eq!(world.core.counters().late_results, 1);
        assert_eq!(world.core.counters().dead_letters, 0);
        assert_eq!(world.running(), [0, 1], "the record runs again");
        assert_eq!(world.writing(), []);
        world.done(&[0, 1]);
        assert_eq!(world.core.load(), (0, 0));
    }
}

/// Without the letters in `is_all_quiet` it fails: the second is left to itself.
#[test]
fn a_stop_waits_for_a_letter_that_is_being_written_and_begins_no_further_try() {
    let mut world = after(1, pool(4));
    world.arrive(&[(0, "a"), (1, "b")]);
    world.fail(&[0]);
    world.with(|core, _| core.begin_stop());
    assert!(!world.core.is_all_quiet());
    world.not_written(0);
    assert!(!world.core.is_all_quiet(), "1 runs");
    world.fail(&[1]);
    assert_eq!(world.writing(), [(1, 1)], "what runs is finished");
    assert!(!world.core.is_all_quiet(), "its letter is written");
    world.written(1);
    assert!(world.core.is_all_quiet());
    world.wait(LATER);
    assert_eq!(world.writing(), []);
    assert!(world.core.next_deadline() > world.now, "nobody spins");
    assert_eq!(world.core.load().0, 1, "0 is incomplete, and is read again");
}

/// Without the letters in `is_all_quiet` it is drained while one is written; without the retries in `is_drained`,
/// although the next try is due in time.
#[test]
fn a_drain_waits_for_the_letter_whose_try_is_due_by_then() {
    let mut world = after(1, pool(4));
    world.arrive(&[(0, "a")]);
    world.fail(&[0]);
    assert!(!world.core.is_drained(world.now) && !world.core.is_idle());
    world.not_written(0);
    assert!(world.core.is_drained(world.now));
    assert!(!world.core.is_drained(world.now.after(SECOND)));
    assert!(!world.core.is_idle(), "something is still to come");
    world.wait(SECOND);
    world.written(0);
    assert!(world.core.is_drained(Timestamp::NEVER.min(world.now)) && world.core.is_idle());
}

#[test]
fn a_thousand_revokes_under_letters_leave_no_count_behind() {
    let mut world = after(1, pinned(3));
    for round in 0..1_000_i64 {
        world.arrive(&[(0, "a"), (1, "b"), (2, "a"), (3, "c")]);
        let running = world.running();
        for offset in &running {
            if (round + offset) % 3 != 0 {
                world.bury(*offset);
            }
        }
        let writing = world.writing();
        if let (Some((offset, _)), 0) = (writing.first(), round % 2) {
            world.not_written(*offset);
        }
        world.with(|core, _| core.revoking(SLOT));
        let still = world.running();
        world.give_back(&still);
        if round % 5 == 0 {
            // Some answers come late.
            world.with(|core, _| core.revoked(SLOT));
        }
        for (offset, _) in world.writing() {
            match offset % 2 {
                0 => world.written(offset),
                _ => world.not_written(offset),
            }
        }
        assert!(world.core.is_quiet(SLOT));
        world.with(|core, _| core.revoked(SLOT));
        assert_eq!(world.core.load(), (0, 0), "round {round}");
        assert!(world.core.is_all_quiet());
        world.assign(0, Some(0), None);
    }
    assert_eq!(world.core.status().lanes, 0);
}
