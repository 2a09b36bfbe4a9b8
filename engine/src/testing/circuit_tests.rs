//! A dependency that goes down and comes back, under a clock that moves by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{AttemptOutcome, TestEngine};
use crate::{
    BuildError, Builder, Circuit, ClientConfig, Exhausted, Keyway, Outcome, Record, Retry, Route,
};

const SECOND: Duration = Duration::from_secs(1);

/// A handler whose dependency is there or not.
#[derive(Clone, Default)]
struct Dependency(Arc<AtomicBool>);

impl Dependency {
    fn goes_down(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn comes_back(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn route(&self) -> Route {
        let down = Arc::clone(&self.0);
        Route::handler(move |_: &Record| match down.load(Ordering::Relaxed) {
            true => Outcome::Failed("down".into()),
            false => Outcome::Done,
        })
        .retry(Retry::every(SECOND).attempts(3, Exhausted::Skip))
        .circuit(Circuit::default())
    }
}

fn wish(route: Route) -> Builder {
    Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["t"])
        .route(route)
}

fn engine(builder: Builder) -> TestEngine {
    TestEngine::new(builder).expect("a configuration that is right")
}

fn feed(engine: &mut TestEngine, records: usize) {
    for number in 0..records {
        engine.feed("t", 0, number.to_string(), "");
    }
}

fn skipped(engine: &TestEngine) -> usize {
    let outcomes = engine.outcomes();
    let skipped = outcomes.iter().map(|(_, outcome)| outcome);
    skipped
        .filter(|outcome| matches!(outcome, AttemptOutcome::Skipped))
        .count()
}

// Without a circuit all hundred are passed over after three seconds.
#[test]
fn an_outage_of_ten_minutes_spends_no_attempts_and_costs_few_calls() {
    let dependency = Dependency::default();
    let mut engine = engine(wish(dependency.route()));
    feed(&mut engine, 100);
    dependency.goes_down();
    engine.advance(600 * SECOND);
    // Twenty and what ran beside them open it; then a probe after 5, 10, 20, 40 and each 60 s.
    let calls = engine.attempts().len();
    assert!((20..70).contains(&calls), "{calls}");
    assert!(engine.attempts().iter().all(|attempt| attempt.number == 1));
    dependency.comes_back();
    engine.advance(61 * SECOND);
    assert_eq!((engine.buffered(), skipped(&engine)), (0, 0));
}

#[test]
fn without_a_circuit_the_same_outage_spends_them_all() {
    let dependency = Dependency::default();
    let route = Route {
        circuit: None,
        ..dependency.route()
    };
    let mut engine = engine(wish(route));
    feed(&mut engine, 100);
    dependency.goes_down();
    engine.advance(5 * SECOND);
    assert_eq!((engine.buffered(), skipped(&engine)), (0, 100));
}

#[test]
fn a_few_poison_records_among_good_ones_do_not_open_it() {
    let route = Route::handler(|record: &Record| match record.key() {
        Some(b"poison") => Outcome::Failed("poison".into()),
        _ => Outcome::Done,
    })
    .retry(Retry::every(SECOND).attempts(3, Exhausted::Skip))
    .circuit(Circuit::default());
    let mut engine = engine(wish(route));
    for number in 0..200 {
        let key = match number % 10 {
            0 => "poison".to_owned(),
            _ => number.to_string(),
        };
        engine.feed("t", 0, key, "");
    }
    engine.advance(120 * SECOND);
    assert_eq!((engine.buffered(), skipped(&engine)), (0, 20));
}

#[test]
fn a_drain_and_a_stop_end_while_it_is_open() {
    for is_drain in [true, false] {
        let dependency = Dependency::default();
        let mut engine = engine(wish(dependency.route()));
        feed(&mut engine, 100);
        dependency.goes_down();
        engine.advance(SECOND);
        let begun = engine.now();
        let report = match is_drain {
            true => engine.drain(3 * SECOND),
            false => engine.stop(3 * SECOND),
        };
        let report = report.expect("an orderly end");
        assert_eq!((report.records, report.left_open), (0, 100));
        assert!(engine.now() - begun <= 3 * SECOND);
    }
}

#[test]
fn another_route_does_not_notice() {
    let dependency = Dependency::default();
    let other = Route::handler(|_: &Record| ());
    let mut engine = engine(wish(dependency.route()).topic("u", other));
    dependency.goes_down();
    feed(&mut engine, 100);
    engine.advance(SECOND);
    engine.feed("u", 0, "k", "");
    engine.run();
    assert!(
        engine
            .attempts()
            .iter()
            .any(|attempt| attempt.id.topic == "u")
    );
}

#[test]
fn numbers_that_make_no_circuit_are_refused() {
    let refused = |circuit: Circuit, setting: &str| {
        let builder = wish(Route::handler(|_: &Record| ()).circuit(circuit));
        match TestEngine::new(builder) {
            Err(BuildError::OutOfRange { setting: its, .. }) => assert_eq!(its, setting),
            other => panic!("{setting}: {other:?}"),
        }
    };
    let circuit = Circuit::default;
    refused(circuit().share(0.0), "circuit.share");
    refused(circuit().share(1.5), "circuit.share");
    refused(circuit().share(f64::NAN), "circuit.share");
    refused(circuit().of_last(0), "circuit.of_last");
    refused(circuit().at_least(0), "circuit.at_least");
    refused(circuit().at_least(51), "circuit.at_least");
    refused(circuit().window(Duration::ZERO), "circuit.window");
    refused(circuit().open_for(Duration::ZERO), "circuit.open_for");
    refused(circuit().up_to(SECOND), "circuit.up_to");
    refused(circuit().probes(0), "circuit.probes");
}
