//! Calls at once, changed while records run: nothing is broken off, nothing is lost, and no key runs twice at once.

mod support;

use keyway_core::{RouteId, WorkerIndex};
use support::{World, pinned, pool};

const ROUTE: RouteId = RouteId(0);

fn resize(world: &mut World, calls: u32) {
    world.with(|core, now| core.set_concurrency(ROUTE, calls, now));
}

fn leaving(world: &World) -> usize {
    world.core.status().routes[0].leaving
}

#[test]
fn a_pool_starts_more_at_once_and_fewer_when_those_have_ended() {
    let mut world = World::new(pool(1));
    world.arrive(&[(0, "a"), (1, "b"), (2, "c"), (3, "d")]);
    assert_eq!(world.running(), [0]);
    resize(&mut world, 3);
    assert_eq!(world.running(), [0, 1, 2]);
    resize(&mut world, 1);
    world.done(&[0]);
    world.done(&[1]);
    assert_eq!(world.running(), [2]);
    world.done(&[2]);
    assert_eq!(world.running(), [3]);
}

#[test]
fn a_new_worker_takes_what_waits() {
    let mut world = World::new(pinned(1));
    world.took = 2 * keyway_core::SLOW_ATTEMPT;
    world.arrive(&[(0, "a")]);
    world.done(&[0]);
    world.arrive(&[(1, "a"), (2, "b"), (3, "c")]);
    assert_eq!(world.running(), [1], "slow ones do not queue");
    resize(&mut world, 3);
    assert_eq!(world.running(), [1, 2, 3]);
    assert_eq!(world.core.status().routes[0].concurrency, 3);
}

// That the worker gets nothing more is seen by the simulator as well: mutant `RetiredGetsMore`.
#[test]
fn a_worker_too_many_gives_back_its_queue_and_keeps_the_lane_that_it_runs() {
    let mut world = World::new(pinned(2));
    world.warm_up(0, 640);
    // Slow enough to be spread, and for some to queue.
    world.arrive(&[(640, "a"), (641, "b"), (642, "a"), (643, "b"), (644, "a")]);
    assert_eq!(world.running(), [640, 641, 642, 643, 644]);
    let (a, b) = (world.worker_of(640), world.worker_of(641));
    assert!(a != b && world.worker_of(644) == a);
    let (goes, of_goer): (_, &[i64]) = match a {
        WorkerIndex(1) => (a, &[642, 644]),
        _ => (b, &[643]),
    };
    resize(&mut world, 1);
    assert_eq!(
        (world.taking_back.as_slice(), leaving(&world)),
        (&[goes][..], 1)
    );
    world.take_back(of_goer);
    assert!(
        of_goer
            .iter()
            .all(|offset| !world.running().contains(offset)),
        "their lane's first one runs still"
    );
    assert!(world.retired.is_empty(), "it runs a record");
    let running = if goes == a { 640 } else { 641 };
    world.done(&[running]);
    assert_eq!(
        (world.retired.as_slice(), leaving(&world)),
        (&[goes][..], 0)
    );
    let left = world.running();
    assert!(of_goer.iter().all(|offset| left.contains(offset)));
    assert!(left.iter().all(|offset| world.worker_of(*offset) != goes));
}

#[test]
fn a_worker_that_is_wanted_again_before_it_has_ended_stays() {
    let mut world = World::new(pinned(2));
    world.took = 2 * keyway_core::SLOW_ATTEMPT;
    world.arrive(&[(0, "a"), (1, "b")]);
    resize(&mut world, 1);
    resize(&mut world, 2);
    world.done(&[0]);
    world.done(&[1]);
    assert!(world.retired.is_empty());
    world.arrive(&[(2, "c"), (3, "d"), (4, "e")]);
    assert_eq!(world.running(), [2, 3]);
    assert_ne!(world.worker_of(2), world.worker_of(3));
}

#[test]
fn one_that_has_ended_is_used_again() {
    let mut world = World::new(pinned(2));
    world.took = 2 * keyway_core::SLOW_ATTEMPT;
    world.arrive(&[(0, "a"), (1, "b")]);
    world.done(&[0]);
    world.done(&[1]);
    resize(&mut world, 1);
    assert_eq!(world.retired, [WorkerIndex(1)]);
    world.arrive(&[(2, "c"), (3, "d")]);
    assert_eq!(world.running(), [2]);
    resize(&mut world, 2);
    assert_eq!(world.running(), [2, 3]);
}
