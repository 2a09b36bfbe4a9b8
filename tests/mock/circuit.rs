//! A dependency that is down: the circuit holds what needs it, and tells.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use keyway::{Circuit, CircuitStatus, Exhausted, NotReady, Outcome, Record, Retry, Status};

use crate::world::{LONG, Run, World};

const RECORDS: usize = 400;

/// As many as there are attempts that open the circuit, and fewer than the probes of a test: each key is probed again.
const KEYS: u64 = 4;

/// A dependency that is down until it is told otherwise, and the calls that it has had.
#[derive(Clone, Default)]
struct Dependency(Arc<(AtomicBool, AtomicUsize)>);

impl Dependency {
    fn comes_back(&self) {
        self.0.0.store(true, Ordering::SeqCst);
    }

    fn calls(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }

    fn handler(&self) -> impl Fn(&Record) -> Outcome + Send + Sync + 'static {
        let its = Arc::clone(&self.0);
        move |_: &Record| {
            its.1.fetch_add(1, Ordering::SeqCst);
            match its.0.load(Ordering::SeqCst) {
                true => Outcome::Done,
                false => Outcome::Failed("the dependency is down".into()),
            }
        }
    }
}

fn circuit() -> Circuit {
    Circuit::default()
        .at_least(KEYS as u32)
        .open_for(Duration::from_millis(200))
        .up_to(Duration::from_millis(800))
}

fn start(world: &World, dependency: &Dependency, circuit: Circuit) -> Run {
    world.produce(RECORDS as u64, KEYS);
    world.start(|builder| {
        builder
            .handler(dependency.handler())
            .retry(Retry::every(Duration::from_millis(500)).attempts(2, Exhausted::Skip))
            .circuit(circuit)
    })
}

fn is_open(run: &Run) -> bool {
    let status = run.status();
    let mut routes = status.routes.iter();
    routes.any(|route| matches!(route.circuit, Some(CircuitStatus::Open { .. })))
}

/// With a circuit that holds nothing (`CircuitIgnored`) seven calls come within 0.8 s; with failures that count as ever
/// (`NothingForgiven`) records are passed over.
#[test]
fn while_a_dependency_is_down_it_gets_probes_and_no_record_loses_an_attempt() {
    let world = World::of(4);
    let dependency = Dependency::default();
    let run = start(&world, &dependency, circuit());
    run.until_status("the circuit", |status| {
        status
            .routes
            .iter()
            .any(|route| route.circuit.is_some_and(|circuit| circuit.holds()))
    });
    let is_told = |status: &Status| {
        let circuit_open = NotReady::CircuitOpen { routes: vec![None] };
        status.health.not_ready.contains(&circuit_open)
    };
    run.until_status("that readiness tells", is_told);
    let (probes_begin, begun) = (dependency.calls(), Instant::now());
    keyway_tests::wait::until("some probes", LONG, || {
        (dependency.calls() >= probes_begin + 7).then_some(())
    });
    // One after another, 200 ms apart at first, and then 800 ms.
    assert!(
        begun.elapsed() > Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(run.status().completed, 0);
    dependency.comes_back();
    run.until_done(RECORDS);
    run.until_status("its end", |status| {
        status
            .routes
            .iter()
            .all(|route| route.circuit == Some(CircuitStatus::Closed))
            && status.health.is_ready()
    });
    run.seen.assert_each_done_once(RECORDS);
    run.seen.assert_key_order();
    run.stop();
}

#[test]
fn an_end_does_not_wait_for_the_dependency() {
    for is_drain in [true, false] {
        let world = World::of(1);
        let dependency = Dependency::default();
        let an_hour = Duration::from_secs(3_600);
        let run = start(
            &world,
            &dependency,
            circuit().up_to(an_hour).open_for(an_hour),
        );
        keyway_tests::wait::until("the circuit", LONG, || is_open(&run).then_some(()));
        let begun = Instant::now();
        match is_drain {
            true => run.engine.drain(Duration::from_secs(2)),
            false => run.engine.stop(Duration::from_secs(2)),
        }
        let report = run.end().expect("an orderly end");
        assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
        assert_eq!((report.records, report.left_open), (0, RECORDS));
    }
}
