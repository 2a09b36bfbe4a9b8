//! Calls in place of ones that hang: beyond the concurrency, for as long as these do not return.

mod support;

use std::collections::BTreeSet;

use keyway_core::{RouteId, WorkerIndex};
use support::{World, pinned, pool};

const ROUTE: RouteId = RouteId(0);

fn surplus(world: &mut World, calls: u32) {
    world.with(|core, now| core.set_surplus(ROUTE, calls, now));
}

/// A world whose only worker hangs in record 0 of key `a`.
fn hanging() -> World {
    let mut world = World::new(pinned(1));
    world.arrive(&[(0, "a")]);
    world.take_back(&[]);
    world
}

/// Without a further call it fails: 2 is at no worker.
#[test]
fn a_further_worker_runs_what_the_hanging_one_holds_up_and_never_its_lane() {
    let mut world = hanging();
    world.arrive(&[(1, "a"), (2, "b"), (3, "c")]);
    assert_eq!(world.running(), [0], "it hangs");
    surplus(&mut world, 1);
    assert_eq!(world.worker_of(2), WorkerIndex(1));
    world.done(&[2]);
    world.done(&[3]);
    assert_eq!(world.running(), [0], "the lane of the one that hangs waits");
    world.done(&[0]);
    world.done(&[1]);
    assert!(world.running().is_empty());
}

/// With more for a worker that is one too many (`RetiredGetsMore`) it fails with 2 running behind 1.
#[test]
fn a_worker_that_is_one_too_many_gets_nothing_more_and_goes_when_it_holds_nothing() {
    let mut world = hanging();
    surplus(&mut world, 1);
    world.arrive(&[(1, "b")]);
    assert_eq!(world.worker_of(1), WorkerIndex(1));
    world.take_back(&[]);
    world.done(&[0]);
    surplus(&mut world, 0);
    assert_eq!(
        (&world.taking_back[..], &world.retired[..]),
        (&[WorkerIndex(1)][..], &[][..])
    );
    world.arrive(&[(2, "b"), (3, "c")]);
    assert_eq!(world.running(), [1, 3], "its lane waits for what it is in");
    assert_eq!(world.worker_of(3), WorkerIndex(0));
    world.done(&[1]);
    assert_eq!(world.retired, [WorkerIndex(1)]);
    world.done(&[3]);
    assert_eq!(world.worker_of(2), WorkerIndex(0));
}

#[test]
fn what_is_wished_for_and_what_stands_in_for_others_do_not_touch_each_other() {
    let mut world = hanging();
    surplus(&mut world, 1);
    world.with(|core, now| core.set_concurrency(ROUTE, 2, now));
    world.arrive(&[(1, "b"), (2, "c"), (3, "d")]);
    let running = world.running();
    let workers: BTreeSet<_> = running.iter().map(|at| world.worker_of(*at)).collect();
    assert_eq!(workers.len(), 3, "two, and one in place of one");
    assert_eq!(world.core.status().routes[0].concurrency, 2);
    surplus(&mut world, 0);
    world.with(|core, now| core.set_concurrency(ROUTE, 1, now));
    assert_eq!(world.core.status().routes[0].concurrency, 1);
    assert_eq!(world.core.status().routes[0].leaving, 2);
}

/// Without further calls it fails with 0 alone.
#[test]
fn a_pool_makes_as_many_calls_more() {
    let mut world = World::new(pool(1));
    world.arrive(&[(0, "a"), (1, "b"), (2, "c")]);
    assert_eq!(world.running(), [0]);
    surplus(&mut world, 1);
    assert_eq!(world.running(), [0, 1]);
    surplus(&mut world, 0);
    world.done(&[0]);
    assert_eq!(world.running(), [1]);
    world.done(&[1]);
    assert_eq!(world.running(), [2]);
}
