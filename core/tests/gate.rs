//! The gate's hook: what it holds waits with its lane, takes no worker, and runs when it is released.

mod support;

use keyway_core::{Admission, Gate, PartitionSlot};
use keyway_offsets::Offset;
use support::{World, pinned};

/// Holds odd offsets.
struct OddGate;

impl Gate<u64> for OddGate {
    fn admit(&mut self, _: PartitionSlot, offset: Offset, _: &mut u64) -> Admission {
        if offset.get() % 2 == 1 {
            Admission::Held
        } else {
            Admission::Ready
        }
    }
}

fn world() -> World<OddGate> {
    let mut world = World::with_gate(pinned(2), OddGate, 1);
    world.assign(0, Some(0), None);
    world
}

#[test]
fn a_held_record_holds_its_lane_and_nothing_else() {
    let mut world = world();
    world.arrive(&[(1, "a"), (2, "a"), (4, "b")]);
    assert_eq!(world.running(), [4]);
    world.release(1);
    assert!(world.running().contains(&1));
}

#[test]
fn a_held_record_behind_a_running_one_waits_for_both() {
    let mut world = world();
    world.arrive(&[(0, "a"), (1, "a")]);
    world.release(1);
    world.done(&[0]);
    assert_eq!(world.running(), [1]);
}

#[test]
fn the_order_of_release_is_not_the_order_of_the_lane() {
    let mut world = world();
    world.arrive(&[(1, "a"), (3, "a")]);
    world.release(3);
    assert!(world.running().is_empty());
    world.release(1);
    assert_eq!(world.running().first(), Some(&1));
    world.done(&[1]);
    assert_eq!(world.running(), [3]);
}

#[test]
fn a_release_of_what_is_not_held_does_nothing() {
    let mut world = world();
    world.arrive(&[(0, "a")]);
    world.release(0);
    world.release(9);
    assert_eq!(world.running(), [0]);
}

#[test]
fn a_held_record_of_an_ended_assignment_is_forgotten() {
    let mut world = world();
    world.arrive(&[(1, "a")]);
    world.with(|core, _| core.revoked(PartitionSlot(0)));
    world.release(1);
    assert!(world.running().is_empty());
    assert_eq!(world.core.load(), (0, 0));
}

/// Where all that is here waits for what is not, no patience makes room: full, it would be fetched only after a second.
#[test]
fn buffers_full_of_held_records_do_not_end_fetching() {
    let mut config = pinned(2);
    config.buffers.total_records = 10;
    let mut world = World::with_gate(config, OddGate, 2);
    world.assign(0, Some(0), None);
    world.assign(1, Some(0), None);
    world.arrive(&[(0, "z"), (1, "a"), (3, "b"), (5, "c"), (7, "d"), (9, "e")]);
    assert!(world.core.is_full(), "what runs makes room");
    world.done(&[0]);
    world.arrive(&[(11, "f")]);
    assert!(!world.core.is_full());
    world.release(1);
    assert!(world.core.is_full());
}
