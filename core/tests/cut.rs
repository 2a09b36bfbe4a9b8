//! Commits that are closed under causes: a gate asks that no completion is committed without all that completed before it,
//! in whatever partition.

mod support;

use keyway_core::{
    Admission, CommitAnswer, CommitReason, CoreConfig, Gate, PartitionSlot, StopCause,
};
use keyway_offsets::Offset;
use support::{BACKOFF, INTERVAL, RETRY_DELAY, World, pinned, pool};

/// Lets everything through, and keeps the cut.
struct Cut;

impl Gate<u64> for Cut {
    fn admit(&mut self, _: PartitionSlot, _: Offset, _: &mut u64) -> Admission {
        Admission::Ready
    }

    fn keeps_cut(&self) -> bool {
        true
    }
}

/// Two partitions whose first commit is over.
fn world(config: CoreConfig) -> World<Cut> {
    let mut world = World::with_gate(config, Cut, 2);
    for slot in 0..2 {
        world.assign(slot, Some(0), None);
    }
    world.begin();
    world
}

fn both_done(world: &mut World<Cut>) {
    for slot in 0..2 {
        world.arrive_at(slot, &[(1, "a")]);
        world.done_at(slot, &[1]);
    }
    world.wait(INTERVAL);
}

fn slots(world: &World<Cut>) -> Vec<u32> {
    let parts = world.last_plan().partitions.iter();
    parts.map(|part| part.slot.0).collect()
}

// The simulator takes this out with its mutant `SplitCut`.
#[test]
fn where_one_partition_has_to_wait_all_wait() {
    let mut world = world(pinned(2));
    both_done(&mut world);
    assert_eq!(slots(&world), [0, 1]);
    world.answer(CommitAnswer::Repeat);
    world.arrive_at(1, &[(2, "b")]);
    world.done_at(1, &[2]);
    let planned = world.with(|core, now| {
        core.commit_now(CommitReason::Requested, None, now)
            .is_some()
    });
    assert!(!planned, "the refused ones wait for their backoff");
    world.wait(BACKOFF);
    assert_eq!(slots(&world), [0, 1]);
}

// The simulator takes this out with its mutant `TornCutStays`.
#[test]
fn what_was_stored_in_part_is_made_whole_at_once() {
    let mut world = world(pinned(2));
    both_done(&mut world);
    let before = world.plans.len();
    world.answer_each(|slot| match slot {
        0 => CommitAnswer::Repeat,
        _ => CommitAnswer::Stored,
    });
    assert_eq!(world.plans.len(), before + 1, "without a wait");
    assert_eq!(slots(&world), [0]);
    world.answer(CommitAnswer::Stored);
    assert!(world.core.is_all_clean());
}

#[test]
fn where_the_rest_is_denied_the_member_stops() {
    let mut world = world(pinned(2));
    both_done(&mut world);
    world.answer_each(|slot| match slot {
        0 => CommitAnswer::Denied,
        _ => CommitAnswer::Stored,
    });
    assert_eq!(
        world.stop,
        Some(StopCause::CutTorn {
            slot: PartitionSlot(0)
        })
    );
}

#[test]
fn a_revoke_commits_what_stays_as_well() {
    let mut world = world(pinned(2));
    for slot in 0..2 {
        world.arrive_at(slot, &[(1, "a")]);
        world.done_at(slot, &[1]);
    }
    world.with(|core, _| core.revoking(PartitionSlot(1)));
    let revoked = [PartitionSlot(1)];
    world.with(|core, now| core.commit_now(CommitReason::Revoke, Some(&revoked), now));
    assert_eq!(slots(&world), [0, 1]);
}

/// Without the order of the stage the transaction after the refusal carries 2 and 3, whose cause may be 1.
#[test]
fn a_transaction_has_nothing_that_was_staged_behind_what_came_back() {
    let mut config = pool(4);
    config.commit.transactional = true;
    let mut world = world(config);
    world.arrive(&[(1, "a"), (2, "b"), (3, "c")]);
    world.stage(&[1], 1);
    world.stage(&[2], 1);
    world.wait(INTERVAL);
    assert_eq!(world.carried(), [1, 2]);
    world.refuse(1);
    world.stage(&[3], 1);
    assert!(!world.core.is_clean(PartitionSlot(0)));
    world.wait(BACKOFF);
    world.wait(INTERVAL / 2);
    if world.carried.is_some() {
        assert_eq!(world.carried(), [0_i64; 0], "only the offsets of before");
        world.answer(CommitAnswer::Stored);
    }
    world.wait(RETRY_DELAY);
    world.stage(&[1], 1);
    world.wait(INTERVAL);
    assert_eq!(world.carried(), [1, 2, 3]);
    world.answer(CommitAnswer::Stored);
    assert!(world.core.is_empty() && world.core.is_all_clean());
}
