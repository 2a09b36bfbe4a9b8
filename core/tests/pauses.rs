//! Partitions that their user has paused.

mod support;

use keyway_core::{BatchConfig, CommitAnswer, CoreConfig, PartitionSlot, Shape};
use support::{INTERVAL, World, at, batches, pinned, pool};

const SLOT: PartitionSlot = PartitionSlot(0);

fn shapes() -> [CoreConfig; 3] {
    let batch = batches(Shape::Pool { concurrency: 4 }, BatchConfig::default());
    [pool(4), pinned(2), batch]
}

fn pause(world: &mut World) {
    world.with(|core, _| core.pause_by_user(SLOT));
}

fn resume(world: &mut World) {
    world.with(|core, now| core.resume_by_user(SLOT, now));
}

#[test]
fn nothing_starts_and_what_runs_is_finished_and_committed() {
    for config in shapes() {
        let mut world = World::with_partitions(config, 2);
        world.arrive(&[(0, "a")]);
        pause(&mut world);
        assert_eq!(world.paused, [SLOT]);
        world.arrive(&[(1, "a"), (2, "b")]);
        world.arrive_at(1, &[(0, "c")]);
        assert_eq!(world.running(), [0]);
        assert_eq!(world.running_of(1), [0], "another partition goes on");
        world.done(&[0]);
        assert_eq!(world.running(), [0_i64; 0]);
        if world.core.commit_in_flight().is_some() {
            world.answer(CommitAnswer::Stored);
        }
        world.wait(INTERVAL);
        assert_eq!(world.planned().base(), at(1));
        assert!(world.core.status().partitions[0].paused_by_user);
        resume(&mut world);
        assert_eq!(world.resumed, [SLOT]);
        assert_eq!(world.running(), [1, 2]);
        world.done(&[1]);
        world.done(&[2]);
        world.done_at(1, &[0]);
        assert!(world.core.is_empty());
    }
}

#[test]
fn what_follows_at_a_worker_is_not_handed_over_either() {
    let mut world = World::new(pinned(1));
    world.warm_up(0, 64);
    world.arrive(&[(64, "a"), (65, "a")]);
    assert_eq!(world.running(), [64, 65]);
    pause(&mut world);
    world.arrive(&[(66, "a")]);
    world.done(&[64, 65]);
    assert_eq!(world.running(), [0_i64; 0]);
    resume(&mut world);
    assert_eq!(world.running(), [66]);
}

#[test]
fn a_pause_by_the_user_and_one_by_back_pressure_do_not_undo_each_other() {
    let mut config = pool(100);
    config.buffers.partition_records = 4;
    let mut world = World::new(config);
    world.arrive(&[(0, "a"), (1, "b"), (2, "c"), (3, "d")]);
    assert_eq!(world.paused, [SLOT], "by back-pressure");
    pause(&mut world);
    for offset in 0..4 {
        world.done(&[offset]);
    }
    assert!(world.resumed.is_empty(), "the user has not said so");
    resume(&mut world);
    assert_eq!(world.resumed, [SLOT]);

    world.arrive(&[(4, "a"), (5, "b"), (6, "c"), (7, "d")]);
    pause(&mut world);
    resume(&mut world);
    assert_eq!(world.resumed, [SLOT], "back-pressure holds it still");
    for offset in 4..8 {
        world.done(&[offset]);
    }
    assert_eq!(world.resumed, [SLOT, SLOT]);
    assert_eq!(world.paused, [SLOT, SLOT]);
}

#[test]
fn a_new_assignment_is_not_paused() {
    let mut world = World::new(pool(4));
    pause(&mut world);
    world.core.revoked(SLOT);
    world.assign(0, Some(0), None);
    world.arrive(&[(0, "a")]);
    assert_eq!(world.running(), [0]);
    // Nothing is resumed that is not paused.
    resume(&mut world);
    assert!(world.resumed.is_empty());
}
