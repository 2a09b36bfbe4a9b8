//! The stage: what is done waits for its transaction, holds nobody up, and comes back when that is aborted.

mod support;

use std::num::NonZeroU32;
use std::time::Duration;

use keyway_core::{
    CommitAnswer, CommitReason, CoreConfig, Exhausted, PartitionSlot, RetryPolicy, Verdict,
};
use keyway_offsets::{Limits, ThresholdRatio};
use support::{BACKOFF, INTERVAL, RETRY_DELAY, World, at, map, pinned, pool};

const SLOT: PartitionSlot = PartitionSlot(0);

fn transactional(config: CoreConfig) -> CoreConfig {
    let mut config = config;
    config.commit.transactional = true;
    config
}

/// A world whose first transaction is over, so that the next is an interval away.
fn world(config: CoreConfig) -> World {
    let mut world = World::new(transactional(config));
    world.begin();
    world
}

/// With outputs that wait for an acknowledgement (`Verdict::Outputs`) the second record of the lane does not run.
#[test]
fn what_is_staged_holds_up_no_lane_and_is_complete_with_its_transaction() {
    for config in [pool(4), pinned(2)] {
        let mut world = world(config);
        world.arrive(&[(1, "a"), (2, "a")]);
        world.stage(&[1], 100);
        assert_eq!(world.running(), [2]);
        world.done(&[2]);
        assert_eq!(world.core.counters().completed, 1, "the one before");
        let status = world.core.status();
        assert_eq!(
            (status.staged, status.output_bytes, status.records),
            (2, 100, 2)
        );
        world.wait(INTERVAL);
        assert_eq!(
            (world.carried(), world.planned()),
            (vec![1, 2], &map(3, 2, &[]))
        );
        world.answer(CommitAnswer::Stored);
        let (counters, status) = (world.core.counters(), world.core.status());
        assert_eq!((counters.completed, counters.sent), (3, 1));
        assert_eq!(
            (status.staged, status.output_bytes, status.records),
            (0, 0, 0)
        );
        assert!(world.core.is_clean(SLOT));
    }
}

// The simulator takes this out with its mutant `AbortIsStored`.
#[test]
fn an_aborted_transaction_goes_with_the_next_in_front_of_what_was_staged_since() {
    let mut world = world(pool(4));
    world.arrive(&[(1, "a"), (2, "a"), (3, "b")]);
    world.stage(&[1], 100);
    world.wait(INTERVAL);
    world.stage(&[2], 100);
    world.answer(CommitAnswer::Repeat);
    assert_eq!(world.core.counters().completed, 1);
    world.stage(&[3], 100);
    world.wait(BACKOFF);
    assert_eq!(
        (world.carried(), world.planned()),
        (vec![1, 2, 3], &map(4, 3, &[]))
    );
    world.answer(CommitAnswer::Stored);
    assert_eq!(world.core.counters().sent, 3);
    assert_eq!(world.core.output_bytes(), 0);
}

/// Without making it incomplete again (`Tracker::reopen`) its base stays at 2, and the record is never in a map again.
#[test]
fn a_refused_output_is_a_failed_attempt_below_a_base_that_had_passed_it() {
    for config in [pool(4), pinned(2)] {
        let mut config = config;
        config.routes[0].retry = RetryPolicy {
            attempts: NonZeroU32::new(2),
            exhausted: Exhausted::Skip,
            ..RetryPolicy::fixed(RETRY_DELAY)
        };
        let mut world = world(config);
        world.arrive(&[(1, "a"), (2, "b")]);
        world.stage(&[1], 100);
        world.stage(&[2], 100);
        assert_eq!(world.core.base(SLOT), at(3));
        world.wait(INTERVAL);
        world.refuse(1);
        assert_eq!(world.core.base(SLOT), at(1));
        assert_eq!(world.running(), [0_i64; 0], "not before its time");
        world.wait(RETRY_DELAY);
        assert_eq!((world.running(), world.attempt(1)), (vec![1], 2));
        world.wait(BACKOFF);
        assert_eq!(
            (world.carried(), world.planned()),
            (vec![2], &map(1, 2, &[1]))
        );
        world.answer(CommitAnswer::Stored);
        world.stage(&[1], 100);
        world.wait(INTERVAL);
        world.refuse(1);
        assert_eq!(world.passed_over, [(1, 2)]);
        world.wait(INTERVAL);
        world.answer(CommitAnswer::Stored);
        assert_eq!(world.core.counters().completed, 3);
        assert!(world.core.is_empty() && world.core.is_clean(SLOT));
    }
}

// The simulator takes this out with its mutant `LaterOutputsStay`.
#[test]
fn outputs_behind_a_refused_one_of_their_lane_are_made_anew() {
    let mut world = world(pinned(1));
    world.warm_up(1, 600);
    world.wait(INTERVAL);
    world.answer(CommitAnswer::Stored);
    world.arrive(&[(601, "a"), (602, "a"), (603, "b"), (604, "a")]);
    world.stage(&[601], 1);
    world.stage(&[602], 1);
    world.wait(INTERVAL);
    world.stage(&[603], 1);
    world.refuse(601);
    // 602 had finished, 604 is at its worker: both come after 601 again, and spend no attempt.
    assert_eq!(world.sending(), [602]);
    world.held_back(602);
    world.stage(&[604], 1);
    assert_eq!(world.sending(), [604]);
    world.held_back(604);
    world.wait(RETRY_DELAY);
    world.wait(BACKOFF);
    assert_eq!(world.carried(), [603]);
    world.answer(CommitAnswer::Stored);
    let mut attempts = Vec::new();
    for offset in [601, 602, 604] {
        attempts.push(world.attempt(offset));
        world.stage(&[offset], 1);
    }
    assert_eq!(attempts, [2, 1, 1]);
    world.wait(INTERVAL);
    assert_eq!(world.carried(), [601, 602, 604]);
    world.answer(CommitAnswer::Stored);
    assert!(world.core.is_empty());
}

// The simulator takes this out with its mutant `CoverWithoutRoom`.
#[test]
fn a_transaction_covers_no_more_than_its_map_can_tell() {
    let mut config = pool(1_000);
    config.limits = Limits::new(24, ThresholdRatio::new(1.0).expect("a ratio"));
    let mut world = world(config);
    let records: Vec<(i64, String)> = (1..400)
        .map(|offset| (offset, offset.to_string()))
        .collect();
    let records: Vec<(i64, &str)> = records.iter().map(|(at, key)| (*at, &**key)).collect();
    world.arrive(&records);
    // Every other one: what the horizon lets run, and no more than a map of 24 characters may hold.
    let mut covered = 0;
    for _ in 0..20 {
        let running = world.running();
        let odd: Vec<i64> = running.iter().copied().filter(|at| at % 2 == 0).collect();
        odd.iter().for_each(|offset| world.stage(&[*offset], 1));
        world.wait(INTERVAL);
        if world.carried.is_some() {
            let text = keyway_rider::CommitMap::new(world.planned(), &world.last_plan().limits);
            assert!(!text.is_stripped(), "{:?}", world.planned());
            covered += world.carried().len();
            world.answer(CommitAnswer::Stored);
        }
    }
    assert!(covered > 0, "some of it");
    let mut rounds = 0;
    while !world.core.is_empty() {
        rounds += 1;
        assert!(rounds < 1_000, "{:#?}", world.core.status());
        let running = world.running();
        running.iter().for_each(|offset| world.stage(&[*offset], 1));
        if world.carried.is_some() {
            world.answer(CommitAnswer::Stored);
        }
        world.wait(INTERVAL);
    }
    assert_eq!(
        (world.core.output_bytes(), world.core.counters().sent),
        (0, 399)
    );
}

/// With buffers of four parts the first part is committed at once.
#[test]
fn a_stage_that_fills_does_not_wait_for_the_interval() {
    let mut config = pool(4);
    config.buffers.output_bytes = 400;
    let mut world = world(config);
    world.arrive(&[(1, "a"), (2, "b")]);
    world.stage(&[1], 99);
    assert_eq!(world.carried(), [0_i64; 0]);
    world.stage(&[2], 1);
    assert_eq!(world.carried(), [1, 2]);
}

#[test]
fn what_is_staged_goes_with_a_lost_partition_and_its_late_answer_changes_nothing() {
    let mut world = world(pool(4));
    world.arrive(&[(1, "a"), (2, "b")]);
    world.stage(&[1], 100);
    world.wait(INTERVAL);
    world.stage(&[2], 50);
    world.with(|core, _| core.lost(SLOT));
    assert_eq!(
        world.core.output_bytes(),
        100,
        "the transaction is under way"
    );
    world.assign(0, Some(1), None);
    world.answer(CommitAnswer::Stored);
    let status = world.core.status();
    assert_eq!(
        (status.staged, status.output_bytes, status.records),
        (0, 0, 0)
    );
    assert_eq!(
        world.core.base(SLOT),
        at(1),
        "the new assignment begins where it was restored"
    );
}

#[test]
fn a_revoke_commits_what_is_staged() {
    let mut world = world(pool(4));
    world.arrive(&[(1, "a"), (2, "b")]);
    world.stage(&[1], 100);
    world.with(|core, _| core.revoking(SLOT));
    world.stage(&[2], 100);
    assert!(world.core.is_quiet(SLOT) && !world.core.is_clean(SLOT));
    let planned = world.with(|core, now| core.commit_now(CommitReason::Revoke, Some(&[SLOT]), now));
    assert!(planned.is_some());
    assert_eq!(world.carried(), [1, 2]);
    world.answer(CommitAnswer::Stored);
    assert!(world.core.is_clean(SLOT));
    world.with(|core, _| core.revoked(SLOT));
    assert!(world.core.is_empty());
}

/// A letter that is refused holds up its lane until it is staged again, of itself.
#[test]
fn a_refused_letter_waits_in_front_of_its_lane() {
    let mut world = world(pinned(1));
    world.arrive(&[(1, "a"), (2, "a")]);
    world.end_at(0, &[1], false, |payload| Verdict::DeadLetter { payload });
    assert!(world.letters.is_empty(), "it goes with the transaction");
    world.stage(&[2], 10);
    world.wait(INTERVAL);
    world.refuse(1);
    world.held_back(2);
    assert_eq!(world.core.status().partitions[0].letters_waiting, 1);
    world.wait(Duration::from_secs(1));
    assert_eq!(world.core.status().partitions[0].letters_waiting, 0);
    assert_eq!(world.running(), [2]);
    world.stage(&[2], 10);
    world.wait(INTERVAL);
    if world.carried.is_none() {
        world.wait(INTERVAL);
    }
    while !world.core.is_empty() {
        world.answer(CommitAnswer::Stored);
        world.wait(INTERVAL);
    }
    let counters = world.core.counters();
    assert_eq!(
        (counters.dead_letters, counters.sent, counters.completed),
        (1, 1, 3)
    );
}
