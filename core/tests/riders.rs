//! What rides beside the map: whose it is, and that it is of the same moment.

mod support;

use std::time::Duration;

use keyway_core::{
    CommitAnswer, CommitReason, Missing, PartitionSlot, PlannedRider, RiderSource, Verdict,
};
use keyway_rider::{Rider, RiderState, StateCell, StateFault, Update};
use support::{INTERVAL, World, at, map, pool};

/// The sum of what records bring.
#[derive(Clone)]
struct Sum(u64);

impl RiderState for Sum {
    type Update = u64;

    fn apply(&mut self, update: &u64) {
        assert!(*update != 13, "thirteen");
        self.0 += update;
    }

    fn encode(&self, _: usize) -> Option<Vec<u8>> {
        Some(self.0.to_be_bytes().to_vec())
    }
}

fn with_state() -> World {
    let mut config = pool(64);
    config.riders = RiderSource::State;
    let mut world = World::new(config);
    world
        .core
        .attach_state(PartitionSlot(0), StateCell::new(Sum(0)));
    world
}

fn done_with(world: &mut World, offset: i64, update: Update) {
    world.end_at(0, &[offset], false, |_| Verdict::DoneWith(update.clone()));
}

/// What the state of slot 0 was when the latest plan was made.
fn planned_sum(world: &World) -> u64 {
    match &world.last_plan().partitions[0].rider {
        PlannedRider::State(state) => {
            let bytes = state.encode(100).expect("a rider");
            u64::from_be_bytes(bytes.try_into().expect("8 bytes"))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn state_offset_and_map_are_of_one_moment() {
    let mut world = with_state();
    world.begin();
    world.arrive(&[(1, "a"), (2, "b"), (3, "c")]);
    done_with(&mut world, 2, Update::new(20_u64));
    world.wait(INTERVAL);
    // What completes while the commit is made belongs to the next one, in every respect.
    done_with(&mut world, 1, Update::new(10_u64));
    assert_eq!(
        (planned_sum(&world), world.planned()),
        (20, &map(1, 2, &[1]))
    );
    world.answer(CommitAnswer::Stored);
    world.wait(INTERVAL);
    assert_eq!((planned_sum(&world), world.planned().base()), (30, at(3)));
}

#[test]
fn an_update_of_an_ended_assignment_is_dropped_with_its_result() {
    let mut world = with_state();
    world.begin();
    world.arrive(&[(1, "a")]);
    world.core.lost(PartitionSlot(0));
    world.assign(0, Some(1), None);
    world
        .core
        .attach_state(PartitionSlot(0), StateCell::new(Sum(5)));
    done_with(&mut world, 1, Update::new(10_u64));
    world.arrive(&[(1, "a")]);
    done_with(&mut world, 1, Update::new(1_u64));
    world.wait(INTERVAL);
    assert_eq!(planned_sum(&world), 6);
}

#[test]
fn a_failed_attempt_brings_nothing_and_a_lost_state_is_told_once() {
    let mut world = with_state();
    world.begin();
    world.arrive(&[(1, "a"), (2, "b"), (3, "c")]);
    done_with(&mut world, 1, Update::new(13_u64));
    done_with(&mut world, 2, Update::new(1_u64));
    assert_eq!(world.states_lost, [(1, StateFault::Panicked)]);
    world.wait(INTERVAL);
    let rider = &world.last_plan().partitions[0].rider;
    assert_eq!(*rider, PlannedRider::Marker(Missing::StateLost));
    assert_eq!(
        world.planned().base(),
        at(3),
        "the records are done all the same"
    );
}

#[test]
fn an_update_that_nobody_takes_is_told() {
    let mut world = World::new(pool(64));
    world.begin();
    world.arrive(&[(1, "a")]);
    done_with(&mut world, 1, Update::new(1_u64));
    assert_eq!(world.states_lost, [(1, StateFault::Lost)]);
}

#[test]
fn a_member_without_a_supplier_marks_what_it_found() {
    for (rider, planned) in [
        (Rider::None, PlannedRider::Nothing),
        (Rider::Dropped, PlannedRider::Marker(Missing::NoSupplier)),
        (Rider::Unreadable, PlannedRider::Marker(Missing::NoSupplier)),
        (
            Rider::Present(vec![1]),
            PlannedRider::Marker(Missing::NoSupplier),
        ),
    ] {
        let mut world = World::with_gate(pool(4), keyway_core::OpenGate, 1);
        world.restored_rider = rider;
        world.assign(0, Some(0), None);
        for offset in 0..2 {
            world.arrive(&[(offset, "a")]);
            world.done(&[offset]);
            world.wait(INTERVAL);
            assert_eq!(world.last_plan().partitions[0].rider, planned);
            world.answer(CommitAnswer::Stored);
        }
    }
}

const REFRESH: Duration = Duration::from_secs(10);

#[test]
fn idle_partitions_are_planned_anew_for_their_riders() {
    let mut config = pool(64);
    config.riders = RiderSource::Supplier {
        refresh: Some(REFRESH),
    };
    let mut world = World::with_partitions(config, 2);
    world.begin();
    assert_eq!(world.core.next_deadline(), world.now.after(REFRESH));
    world.wait(REFRESH);
    let plan = world.last_plan();
    assert_eq!(
        (plan.reason, plan.partitions.len()),
        (CommitReason::Refresh, 2)
    );
    assert!(plan.partitions.iter().all(|part| part.rider_only));
    assert_eq!(plan.partitions[0].rider, PlannedRider::Ask);
    let commits = world.core.counters().commits;
    world.answer(CommitAnswer::Unchanged);
    assert_eq!(world.core.counters().commits, commits, "nothing was sent");
    assert!(world.core.is_all_clean());

    // A request that is under way may land on what the next owner commits: the partition stays until it is answered.
    world.wait(REFRESH);
    assert!(world.core.is_all_committed());
    assert!(!world.core.is_clean(PartitionSlot(0)) && !world.core.is_all_clean());
    // And one that may land late makes even an idle partition uncertain.
    world.answer(CommitAnswer::Unknown);
    assert!(!world.core.is_all_committed());
}

#[test]
fn a_refresh_neither_brings_a_commit_forward_nor_waits_behind_a_steady_load() {
    let mut config = pool(64);
    config.commit.interval = 100 * REFRESH;
    config.riders = RiderSource::Supplier {
        refresh: Some(REFRESH),
    };
    let mut world = World::with_partitions(config.clone(), 2);
    world.begin();
    world.arrive(&[(1, "a")]);
    world.done(&[1]);
    world.wait(REFRESH);
    let plan = world.last_plan();
    let slots: Vec<u32> = plan.partitions.iter().map(|part| part.slot.0).collect();
    assert_eq!(
        (plan.reason, slots),
        (CommitReason::Refresh, vec![1]),
        "the other has its own time"
    );
    world.answer(CommitAnswer::Unchanged);

    // Commits follow each other without a pause.
    config.commit.interval = Duration::ZERO;
    let mut world = World::with_partitions(config, 2);
    let (mut refreshed, mut offset) = (0, 0);
    for _ in 0..100 {
        world.arrive(&[(offset, "a")]);
        world.done(&[offset]);
        offset += 1;
        if world.core.commit_in_flight().is_some() {
            let plan = world.last_plan();
            refreshed += usize::from(plan.partitions.iter().any(|part| part.slot.0 == 1));
            world.arrive(&[(offset, "a")]);
            world.done(&[offset]);
            offset += 1;
            world.answer(CommitAnswer::Stored);
        }
        world.now = world.now.after(REFRESH / 10);
    }
    assert!(
        (8..=12).contains(&refreshed),
        "{refreshed} in ten intervals"
    );
}

#[test]
fn the_last_commit_of_a_partition_asks_the_supplier_once_more() {
    let mut config = pool(64);
    config.riders = RiderSource::Supplier { refresh: None };
    let mut world = World::with_partitions(config, 2);
    world.begin();
    assert!(world.core.is_all_clean());
    world.core.revoking(PartitionSlot(0));
    assert!(!world.core.is_clean(PartitionSlot(0)));
    let plan =
        |world: &mut World, reason| world.with(|core, now| core.commit_now(reason, None, now));
    plan(&mut world, CommitReason::Revoke);
    assert_eq!(world.last_plan().partitions.len(), 1);
    assert!(world.last_plan().partitions[0].rider_only);
    // Refused for a passing reason it comes again.
    world.answer(CommitAnswer::Repeat);
    assert!(!world.core.is_clean(PartitionSlot(0)));
    world.wait(support::BACKOFF);
    plan(&mut world, CommitReason::Revoke);
    world.answer(CommitAnswer::Unchanged);
    assert!(world.core.is_clean(PartitionSlot(0)));
    world.core.begin_last_commit();
    world.core.begin_last_commit();
    assert!(!world.core.is_all_clean());
    plan(&mut world, CommitReason::Shutdown);
    let slots: Vec<u32> = world
        .last_plan()
        .partitions
        .iter()
        .map(|part| part.slot.0)
        .collect();
    assert_eq!(slots, [1], "the first one was asked");
    world.answer(CommitAnswer::Stored);
    assert!(world.core.is_all_clean());
}

#[test]
fn nothing_is_refreshed_unless_asked_for() {
    for riders in [
        RiderSource::None,
        RiderSource::State,
        RiderSource::Supplier { refresh: None },
    ] {
        let mut config = pool(64);
        config.riders = riders;
        let mut world = World::new(config);
        world.begin();
        world.wait(REFRESH * 1_000);
        assert!(world.plans.is_empty(), "{riders:?}");
    }
}
