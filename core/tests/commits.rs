//! What is planned, when, and what an answer means.

mod support;

use std::time::Duration;

use keyway_core::{CommitAnswer, CommitReason, PartitionSlot, Timestamp};
use keyway_offsets::{Limits, ThresholdRatio};
use support::{BACKOFF, INTERVAL, World, at, map, pinned};

/// Without `make_due` in `Core::assigned` it fails: nobody comes at the time.
#[test]
fn the_first_position_of_a_group_is_committed_at_once() {
    let mut world = World::with_gate(pinned(1), keyway_core::OpenGate, 1);
    world.assign_from(0, None, 70, None);
    assert!(world.core.next_deadline() <= world.now);
    world.wait(Duration::ZERO);
    assert_eq!(world.planned(), &map(70, 69, &[]));
}

#[test]
fn a_restored_partition_is_clean() {
    let mut world = World::new(pinned(1));
    assert_eq!(world.core.next_deadline(), Timestamp::NEVER);
    world.wait(INTERVAL * 2);
    assert!(world.plans.is_empty());
    assert!(world.core.is_all_clean());
}

/// With the map as it was, or with what it holds taken for committed, it fails without a plan.
#[test]
fn a_log_start_above_the_committed_offset_is_committed_without_a_completion() {
    let mut world = World::with_gate(pinned(1), keyway_core::OpenGate, 1);
    world.assign_from(0, Some(5), 50, Some(map(5, 60, &[5, 55])));
    world.wait(INTERVAL);
    assert_eq!(world.planned(), &map(55, 60, &[55]));
}

/// Without the note of the gap (`GapNotCommitted`), or with a tracker that steps over no gap, it fails without a plan.
#[test]
fn a_gap_in_front_of_a_record_that_is_complete_is_committed_without_a_completion() {
    let mut world = World::with_gate(pinned(1), keyway_core::OpenGate, 1);
    world.assign(0, Some(5), Some(map(5, 9, &[5, 8])));
    // 5 was compacted away, 6 is complete by the map.
    world.arrive(&[(6, "a")]);
    world.wait(INTERVAL);
    assert_eq!(world.planned(), &map(8, 9, &[8]));
}

/// Without the note of the gap (`GapNotCommitted`), or without `complete_below`, it fails without a plan.
#[test]
fn a_position_without_a_record_is_committed() {
    let mut world = World::new(pinned(1));
    let epoch = world.epochs[0];
    world.with(|core, now| core.position_reached(PartitionSlot(0), epoch, at(12), now));
    world.wait(INTERVAL);
    assert_eq!(world.planned(), &map(12, 11, &[]));
}

/// With a base read later than the map (`BaseFromLater`) the first plan is 2 without a hole; with what completed until
/// the answer taken for committed (`VersionAtAnswer`) there is no second plan.
#[test]
fn offset_and_map_are_of_one_moment_and_what_completes_later_is_in_the_next_plan() {
    let mut world = World::new(pinned(4));
    world.arrive(&[(0, "a"), (1, "b"), (2, "c")]);
    world.done(&[1]);
    world.wait(INTERVAL);
    assert_eq!(world.planned(), &map(0, 1, &[0]));
    // It races the commit, and then the partition goes idle.
    world.done(&[0]);
    world.done(&[2]);
    world.answer(CommitAnswer::Stored);
    world.wait(INTERVAL);
    assert_eq!(world.planned(), &map(3, 2, &[]));
    world.answer(CommitAnswer::Stored);
    world.wait(INTERVAL * 10);
    assert_eq!(world.plans.len(), 2);
    assert!(world.core.is_all_clean());
}

#[test]
fn one_plan_at_a_time() {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a"), (1, "a")]);
    world.done(&[0]);
    world.wait(INTERVAL);
    world.done(&[1]);
    world.wait(INTERVAL * 5);
    assert_eq!(world.plans.len(), 1);
    assert_eq!(
        world.with(|core, now| core.commit_now(CommitReason::Requested, None, now)),
        None
    );
    world.answer(CommitAnswer::Stored);
    assert_eq!(world.plans.len(), 2);
}

#[test]
fn an_answer_that_comes_twice_changes_nothing() {
    let mut world = World::new(pinned(1));
    world.begin();
    world.arrive(&[(1, "a"), (2, "a")]);
    world.done(&[1]);
    world.wait(INTERVAL);
    world.answer(CommitAnswer::Stored);
    world.done(&[2]);
    world.answer(CommitAnswer::Stored);
    assert!(!world.core.is_all_clean());
}

/// Taken for stored (`AmbiguousIsStored`) it fails after 1 of two, with one answer taken for enough
/// (`AmbiguousNeedsOne`) after 2.
#[test]
fn a_commit_without_an_answer_needs_two_acknowledged_ones() {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a")]);
    world.done(&[0]);
    world.wait(INTERVAL);
    world.answer(CommitAnswer::Unknown);
    for acknowledged in 1..=2 {
        assert!(!world.core.is_all_clean(), "after {acknowledged} of two");
        world.wait(INTERVAL);
        assert_eq!(world.plans.len(), 1 + acknowledged);
        assert_eq!(world.planned(), &map(1, 0, &[]));
        world.answer(CommitAnswer::Stored);
    }
    assert!(world.core.is_all_clean());
    world.wait(INTERVAL * 10);
    assert_eq!(world.plans.len(), 3);
}

/// Taken for stored (`RefusalForgotten`) it fails with nothing to come.
#[test]
fn a_commit_that_was_refused_for_a_passing_reason_comes_again_after_the_backoff() {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a")]);
    world.done(&[0]);
    world.wait(INTERVAL);
    world.answer(CommitAnswer::Repeat);
    assert_eq!(world.core.next_deadline(), world.now.after(BACKOFF));
    world.wait(BACKOFF);
    assert_eq!(world.plans.len(), 2);
}

#[test]
fn a_denied_commit_is_latched_and_heals() {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a")]);
    world.done(&[0]);
    world.wait(INTERVAL);
    world.answer(CommitAnswer::Denied);
    assert!(world.core.status().partitions[0].commit_denied);
    world.wait(INTERVAL);
    world.answer(CommitAnswer::Stored);
    assert!(!world.core.status().partitions[0].commit_denied);
    assert!(world.core.is_all_clean());
}

/// Without the second half of `is_settled` a revoke of a topic that was deleted waits for as long as it may.
#[test]
fn a_commit_that_is_denied_is_tried_once_more_at_the_end_and_not_waited_for() {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a")]);
    world.done(&[0]);
    world.wait(INTERVAL);
    world.answer(CommitAnswer::Denied);
    let slot = PartitionSlot(0);
    assert!(world.core.is_settled(slot) && !world.core.is_clean(slot));
    world.with(|core, _| core.revoking(slot));
    assert!(
        !world.core.is_settled(slot),
        "rights may have been given since"
    );
    let plans = world.plans.len();
    world.with(|core, now| core.commit_now(CommitReason::Revoke, Some(&[slot]), now));
    assert_eq!(world.plans.len(), plans + 1, "at once");
    assert!(!world.core.is_settled(slot), "under way");
    world.answer(CommitAnswer::Denied);
    assert!(world.core.is_settled(slot) && world.core.is_all_settled());
    assert!(!world.core.is_committed(slot));
}

#[test]
fn what_is_clean_can_be_committed_once_more() {
    let mut world = World::new(pinned(1));
    world.begin();
    world.with(|core, now| core.commit_again(now));
    world.wait(Duration::ZERO);
    assert_eq!(world.planned(), &map(1, 0, &[]));
    world.answer(CommitAnswer::Stored);
    assert!(world.core.is_all_clean());
}

#[test]
fn only_the_refused_part_of_a_request_is_sent_again() {
    let mut world = World::with_partitions(pinned(2), 2);
    world.begin();
    world.arrive_at(0, &[(1, "a")]);
    world.arrive_at(1, &[(0, "a")]);
    world.done_at(0, &[1]);
    world.done_at(1, &[0]);
    world.wait(INTERVAL);
    assert_eq!(world.last_plan().partitions.len(), 2);
    world.answer_each(|slot| {
        if slot == 0 {
            CommitAnswer::Stored
        } else {
            CommitAnswer::Repeat
        }
    });
    world.wait(BACKOFF);
    let slots: Vec<u32> = world
        .last_plan()
        .partitions
        .iter()
        .map(|partition| partition.slot.0)
        .collect();
    assert_eq!(slots, [1]);
}

#[test]
fn a_text_that_is_too_large_teaches_the_cap_and_the_commit_comes_again_at_once() {
    let mut world = World::new(pinned(16));
    world.begin();
    world.arrive(&[(1, "slow")]);
    let others: Vec<i64> = (2..40).collect();
    for offset in others.iter().step_by(2) {
        world.arrive(&[(*offset, &format!("key-{offset}")), (*offset + 1, "slow")]);
        world.done(&[*offset]);
    }
    world.wait(INTERVAL);
    let sent = world.last_plan().clone();
    world.answer(CommitAnswer::TooLarge);
    assert_eq!(world.core.counters().caps_learned, 1);
    world.wait(Duration::ZERO);
    assert_eq!(world.plans.len(), 2, "at once");
    assert_eq!(world.last_plan().partitions, sent.partitions);
    assert!(world.last_plan().limits.cap_chars < sent.limits.cap_chars);
}

#[test]
fn a_commit_of_some_partitions_leaves_the_others_due() {
    let mut world = World::with_partitions(pinned(2), 2);
    world.begin();
    world.arrive_at(0, &[(1, "a")]);
    world.arrive_at(1, &[(0, "a")]);
    world.done_at(0, &[1]);
    world.done_at(1, &[0]);
    let only = [PartitionSlot(1)];
    let plan = world.with(|core, now| core.commit_now(CommitReason::Revoke, Some(&only), now));
    assert!(plan.is_some());
    assert_eq!(world.last_plan().partitions.len(), 1);
    world.answer(CommitAnswer::Stored);
    world.wait(INTERVAL);
    assert_eq!(world.last_plan().partitions[0].slot, PartitionSlot(0));
}

#[test]
fn a_late_answer_to_an_older_assignment_does_not_make_the_new_one_clean() {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a")]);
    world.done(&[0]);
    world.wait(INTERVAL);
    world.with(|core, _| core.lost(PartitionSlot(0)));
    world.assign(0, Some(0), None);
    world.arrive(&[(0, "a")]);
    world.done(&[0]);
    world.answer(CommitAnswer::Stored);
    assert!(!world.core.is_all_clean());
}

#[test]
fn a_window_of_nothing_never_blocks_a_partition_that_is_caught_up() {
    let mut config = pinned(1);
    config.limits = Limits::new(100, ThresholdRatio::default()).with_max_window(0);
    let mut world = World::new(config);
    assert!(!world.is_blocked());
    world.arrive(&[(0, "a")]);
    assert_eq!(world.running(), [0]);
}

#[test]
fn the_age_of_what_is_not_committed_counts_from_its_oldest_completion() {
    let mut world = World::new(pinned(1));
    let since = |world: &World| world.core.status().partitions[0].uncommitted_since;
    world.begin();
    assert_eq!(since(&world), None);
    world.arrive(&[(1, "a"), (2, "b"), (3, "c")]);
    let first = world.now;
    world.done(&[1]);
    world.wait(INTERVAL / 4);
    world.done(&[2]);
    assert_eq!(since(&world), Some(first));
    world.wait(INTERVAL);
    let planned = world.now;
    world.wait(INTERVAL / 4);
    world.done(&[3]);
    assert_eq!(since(&world), Some(first), "not acknowledged yet");
    world.answer(CommitAnswer::Stored);
    assert_eq!(
        since(&world),
        Some(planned),
        "of what came after the snapshot"
    );
    world.wait(INTERVAL);
    world.answer(CommitAnswer::Stored);
    assert_eq!(since(&world), None);
}
