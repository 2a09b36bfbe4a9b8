//! A circuit: when it opens and closes, what it holds, and which failures cost nothing.

mod support;

use std::num::NonZeroU32;
use std::time::Duration;

use keyway_core::{
    BatchConfig, CircuitPolicy, CircuitState, CoreConfig, Exhausted, PartitionSlot, RetryPolicy,
    Shape, Verdict,
};
use support::{World, at, batches, pinned, pool};

const SECOND: Duration = Duration::from_secs(1);
const OPEN: Duration = Duration::from_secs(10);

/// Half of the last eight, at least four.
const POLICY: CircuitPolicy = CircuitPolicy {
    share: 0.5,
    of_last: 8,
    at_least: 4,
    window: Duration::from_secs(60),
    open_for: OPEN,
    longest: Duration::from_secs(35),
    probes: 1,
};

fn with_circuit(mut config: CoreConfig) -> World {
    config.routes[0].circuit = Some(POLICY);
    config.routes[0].retry = RetryPolicy {
        attempts: NonZeroU32::new(3),
        exhausted: Exhausted::Skip,
        ..RetryPolicy::fixed(SECOND)
    };
    World::new(config)
}

fn keys(offsets: std::ops::Range<i64>) -> Vec<(i64, String)> {
    offsets.map(|offset| (offset, offset.to_string())).collect()
}

/// Records of keys of their own arrive.
fn arrive(world: &mut World, offsets: std::ops::Range<i64>) {
    let keys = keys(offsets);
    let records: Vec<_> = keys
        .iter()
        .map(|(offset, key)| (*offset, key.as_str()))
        .collect();
    world.arrive(&records);
}

/// Four records fail, one after the other, and with the fourth the circuit opens.
fn opened(config: CoreConfig) -> World {
    let mut world = with_circuit(config);
    arrive(&mut world, 0..4);
    for offset in 0..4 {
        assert!(world.circuit.is_empty());
        world.fail(&[offset]);
    }
    assert!(is_open(&world));
    world
}

fn is_open(world: &World) -> bool {
    matches!(state(world), CircuitState::Open { .. })
}

fn state(world: &World) -> CircuitState {
    world.core.status().routes[0].circuit.expect("a circuit")
}

// ---- opening ----

#[test]
fn it_opens_with_the_share_of_the_last_attempts_and_not_before_there_are_enough() {
    let mut world = with_circuit(pool(64));
    arrive(&mut world, 0..40);
    for offset in 0..3 {
        world.fail(&[offset]);
    }
    assert_eq!(state(&world), CircuitState::Closed, "three are no share");
    let mut world = with_circuit(pool(64));
    arrive(&mut world, 0..40);
    for offset in 0..20 {
        world.done(&[offset]);
    }
    for offset in 20..23 {
        world.fail(&[offset]);
    }
    assert_eq!(
        state(&world),
        CircuitState::Closed,
        "three of the last eight"
    );
    world.fail(&[23]);
    assert!(is_open(&world));
    assert_eq!(world.core.counters().circuits_opened, 1);
}

#[test]
fn attempts_of_long_ago_and_records_that_were_not_started_say_nothing() {
    let mut world = with_circuit(pool(64));
    arrive(&mut world, 0..8);
    for offset in 0..3 {
        world.fail(&[offset]);
    }
    world.wait(POLICY.window + SECOND);
    for offset in 3..6 {
        world.fail(&[offset]);
    }
    world.give_back(&[6]);
    assert_eq!(state(&world), CircuitState::Closed);
    world.fail(&[7]);
    assert!(is_open(&world));
}

#[test]
fn a_batch_that_fails_as_a_whole_is_one_attempt() {
    let config = batches(Shape::Pool { concurrency: 1 }, BatchConfig::default());
    let mut world = with_circuit(config);
    arrive(&mut world, 0..8);
    let batch = world.running();
    assert_eq!(batch.len(), 8);
    world.fail_batch(&batch);
    assert_eq!(state(&world), CircuitState::Closed, "one of at least four");
}

// ---- while it is open ----

// Without the hold (`Mutant::CircuitIgnored`) the fifth record runs at once.
#[test]
fn nothing_of_its_route_starts_and_retries_that_are_due_wait() {
    for config in [pool(4), pinned(4)] {
        let mut world = opened(config);
        arrive(&mut world, 4..8);
        world.wait(SECOND);
        world.wait(SECOND);
        assert_eq!(world.running(), [0_i64; 0]);
        assert!(!world.core.is_idle(), "it will go on by itself");
        assert_eq!(world.core.counters().failed, 4);
    }
}

#[test]
fn another_route_goes_on() {
    let mut config = pool(4);
    config.routes.push(config.routes[0].clone());
    let mut world = opened(config);
    let other = world.core.add_partition(keyway_core::RouteId(1));
    let other = other.expect("a slot");
    world.epochs.push(keyway_core::Epoch::NONE);
    world.assign(other.0, Some(0), None);
    world.arrive_at(other.0, &[(0, "a")]);
    assert_eq!(world.running_of(other.0), [0]);
}

#[test]
fn what_is_queued_at_its_workers_is_wanted_back() {
    let mut world = with_circuit(pinned(1));
    world.warm_up(0, 640);
    arrive(&mut world, 640..656);
    assert_eq!(world.running().len(), 16);
    for offset in 640..644 {
        world.fail(&[offset]);
    }
    assert!(is_open(&world));
    assert_eq!(world.taking_back.len(), 1);
    let queued: Vec<i64> = (645..656).collect();
    world.take_back(&queued);
    assert_eq!(world.running(), [644], "inside the handler");
    world.done(&[644]);
    assert!(is_open(&world), "what began before says nothing");
}

#[test]
fn a_drain_waits_for_a_probe_in_time_and_for_no_later_one() {
    let mut world = opened(pool(4));
    world.with(|core, now| core.begin_drain(now));
    world.wait(SECOND);
    assert!(world.core.is_drained(world.now.after(SECOND)));
    assert!(!world.core.is_drained(world.now.after(OPEN)));
}

#[test]
fn a_stopping_core_waits_for_nothing() {
    let mut world = opened(pool(4));
    world.wait(SECOND);
    world.core.begin_stop();
    assert!(world.core.is_all_quiet());
    world.wait(OPEN);
    assert_eq!(world.running(), [0_i64; 0]);
}

// ---- half open ----

#[test]
fn after_its_time_one_probe_runs_and_when_it_is_done_everything_does() {
    for config in [pool(4), pinned(4)] {
        let mut world = opened(config);
        arrive(&mut world, 4..8);
        world.wait(OPEN - Duration::from_millis(1));
        assert_eq!(world.running(), [0_i64; 0]);
        assert_eq!(
            world.core.next_deadline(),
            world.now.after(Duration::from_millis(1))
        );
        world.wait(Duration::from_millis(1));
        assert_eq!(world.running().len(), 1);
        assert_eq!(state(&world), CircuitState::HalfOpen);
        let probe = world.running();
        world.done(&probe);
        assert_eq!(state(&world), CircuitState::Closed);
        assert!(world.running().len() >= 4);
        assert!(matches!(
            world.circuit.as_slice(),
            [CircuitState::Open { .. }, CircuitState::Closed]
        ));
    }
}

#[test]
fn a_probe_that_fails_opens_it_for_twice_as_long_up_to_the_longest() {
    let mut world = opened(pool(4));
    for open in [10, 20, 35, 35] {
        world.wait(Duration::from_secs(open) - Duration::from_millis(1));
        assert_eq!(world.running(), [0_i64; 0]);
        world.wait(Duration::from_millis(1));
        let probe = world.running();
        assert_eq!(probe.len(), 1);
        world.fail(&probe);
        assert!(is_open(&world));
    }
    world.wait(Duration::from_secs(35));
    let probe = world.running();
    world.done(&probe);
    // What comes next begins with the first time again.
    arrive(&mut world, 4..20);
    for _ in 0..4 {
        let first = world.running()[0];
        world.fail(&[first]);
    }
    let until = world.now.after(OPEN);
    assert_eq!(state(&world), CircuitState::Open { until });
}

#[test]
fn what_began_before_it_opened_is_no_probe() {
    let mut world = with_circuit(pool(8));
    arrive(&mut world, 0..6);
    for offset in 0..4 {
        world.fail(&[offset]);
    }
    assert!(is_open(&world));
    assert_eq!(world.running(), [4, 5], "they began before");
    world.wait(OPEN);
    let probe: Vec<i64> = world.running().into_iter().filter(|at| *at < 4).collect();
    assert_eq!(probe.len(), 1);
    world.done(&[4]);
    assert_eq!(state(&world), CircuitState::HalfOpen);
    world.fail(&[5]);
    assert_eq!(state(&world), CircuitState::HalfOpen);
    world.done(&probe);
    assert_eq!(state(&world), CircuitState::Closed);
}

#[test]
fn a_probe_that_comes_back_unstarted_is_none_and_one_that_hangs_is_not_waited_for() {
    let mut world = opened(pool(4));
    world.wait(OPEN);
    let probe = world.running();
    world.give_back(&probe);
    assert_eq!(world.running().len(), 1, "another one");
    // It hangs.
    world.wait(2 * OPEN);
    assert_eq!(world.running().len(), 2);
}

#[test]
fn several_probes_close_it_together() {
    let mut config = pool(8);
    config.routes[0].circuit = Some(CircuitPolicy {
        probes: 3,
        ..POLICY
    });
    let mut world = World::new(config);
    arrive(&mut world, 0..4);
    (0..4).for_each(|offset| world.fail(&[offset]));
    world.wait(OPEN);
    let probes = world.running();
    assert_eq!(probes.len(), 3);
    world.fail(&probes[..1]);
    world.done(&probes[1..2]);
    assert_eq!(state(&world), CircuitState::HalfOpen);
    world.done(&probes[2..]);
    assert_eq!(
        state(&world),
        CircuitState::Closed,
        "one of three is no half"
    );
}

#[test]
fn a_batch_is_one_probe() {
    let config = batches(Shape::Pool { concurrency: 4 }, BatchConfig::default());
    let mut world = with_circuit(config);
    for offset in 0..4 {
        arrive(&mut world, offset..offset + 1);
        world.fail_batch(&[offset]);
    }
    assert!(is_open(&world));
    arrive(&mut world, 4..8);
    world.wait(OPEN);
    let batch = world.running();
    assert_eq!(
        batch,
        [4, 5, 6, 7],
        "one call; those that failed alone stay alone"
    );
    arrive(&mut world, 8..9);
    assert_eq!(world.running(), batch);
    world.done(&batch);
    assert_eq!(state(&world), CircuitState::Closed);
    assert!(world.running().len() > 1);
}

// ---- what is forgiven ----

// Without forgiveness (`Mutant::NothingForgiven`) the probe's third failure is its last.
#[test]
fn probes_never_exhaust_a_record() {
    let mut world = with_circuit(pool(4));
    arrive(&mut world, 0..4);
    (0..4).for_each(|offset| world.fail(&[offset]));
    for _ in 0..10 {
        world.wait(Duration::from_secs(35));
        let probe = world.running();
        assert_eq!(probe.len(), 1);
        assert_eq!(world.attempt(probe[0]), 1, "nothing was spent");
        world.fail(&probe);
    }
    assert!(world.passed_over.is_empty());
    assert_eq!(
        world.core.counters().failed,
        14,
        "they are counted as failures all the same"
    );
}

#[test]
fn the_failures_that_opened_it_are_forgiven_and_earlier_ones_are_not() {
    let mut world = with_circuit(pool(4));
    arrive(&mut world, 0..1);
    // Two failures of record 0, far enough apart to say nothing.
    world.fail(&[0]);
    world.wait(2 * POLICY.window);
    world.fail(&[0]);
    world.wait(2 * POLICY.window);
    assert_eq!(world.attempt(0), 3);
    world.give_back(&[0]);
    arrive(&mut world, 1..5);
    for offset in [1, 2, 3, 4] {
        world.fail(&[offset]);
        if is_open(&world) {
            break;
        }
    }
    assert!(is_open(&world));
    world.wait(OPEN);
    let mut attempts = Vec::new();
    let probe = world.running();
    world.done(&probe);
    for offset in world.running() {
        if offset > 0 {
            attempts.push(world.attempt(offset));
        }
    }
    assert!(!attempts.is_empty() && attempts.iter().all(|attempt| *attempt == 1));
}

#[test]
fn what_failed_last_before_it_opened_is_given_up() {
    let mut world = with_circuit(pool(4));
    arrive(&mut world, 0..1);
    for _ in 0..2 {
        world.fail(&[0]);
        world.wait(2 * POLICY.window);
    }
    world.fail(&[0]);
    assert_eq!(world.passed_over, [(0, 3)]);
    assert_eq!(state(&world), CircuitState::Closed);
}

#[test]
fn what_ran_when_it_opened_is_forgiven_when_it_fails() {
    let mut world = with_circuit(pool(8));
    arrive(&mut world, 0..5);
    (0..4).for_each(|offset| world.fail(&[offset]));
    assert!(is_open(&world));
    world.fail(&[4]);
    world.wait(OPEN);
    let probe = world.running();
    world.done(&probe);
    for offset in world.running() {
        assert_eq!(world.attempt(offset), 1);
    }
}

#[test]
fn a_forgiven_first_attempt_leaves_its_start_to_others_under_a_limit_of_starts() {
    let mut world = with_circuit(pool(8));
    world.with(|core, _| core.limit_starts(4));
    arrive(&mut world, 0..6);
    assert_eq!(world.running(), [0, 1, 2, 3]);
    (0..4).for_each(|offset| world.fail(&[offset]));
    world.wait(OPEN);
    let mut done = 0;
    while let Some(offset) = world.running().first().copied() {
        world.done(&[offset]);
        done += 1;
    }
    assert_eq!(done, 4, "no record past the fourth is completed");
}

// ---- assignments ----

#[test]
fn a_probe_that_is_lost_with_its_partition_does_not_keep_it_half_open() {
    let mut world = opened(pool(4));
    world.wait(OPEN);
    let probe = world.running();
    world.core.revoked(PartitionSlot(0));
    world.assign(0, Some(0), None);
    world.arrive(&[(0, "a"), (1, "b")]);
    assert_eq!(world.running(), probe, "it still runs");
    world.end_at(0, &probe, false, |_| Verdict::Done);
    assert_eq!(state(&world), CircuitState::Closed);
    assert_eq!(world.running(), [0, 1]);
    assert_eq!(world.core.base(PartitionSlot(0)), at(0));
}
