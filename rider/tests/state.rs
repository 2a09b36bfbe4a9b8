//! A state that moves with completions.

#![allow(clippy::unwrap_used)]

use keyway_rider::{RiderState, StateCell, StateFault, Update};

#[derive(Clone)]
struct Sum(u64);

impl RiderState for Sum {
    type Update = u64;

    fn apply(&mut self, update: &u64) {
        assert!(*update != 13, "thirteen");
        self.0 += update;
    }

    fn encode(&self, max_bytes: usize) -> Option<Vec<u8>> {
        (max_bytes >= 8).then(|| self.0.to_be_bytes().to_vec())
    }
}

#[test]
fn a_snapshot_stays_what_it_was() {
    let mut cell = StateCell::new(Sum(1));
    let before = cell.snapshot().unwrap();
    cell.apply(&Update::new(2_u64)).unwrap();
    let after = cell.snapshot().unwrap();
    assert_eq!(before.encode(8).unwrap(), 1_u64.to_be_bytes());
    assert_eq!(after.encode(8).unwrap(), 3_u64.to_be_bytes());
    assert_eq!(after.encode(7), None);
}

#[test]
fn a_state_that_could_not_follow_is_lost_and_says_so() {
    for (update, fault) in [
        (Update::new(13_u64), StateFault::Panicked),
        (Update::new("five"), StateFault::WrongType),
    ] {
        let mut cell = StateCell::new(Sum(0));
        assert_eq!(cell.apply(&update), Err(fault));
        assert!(cell.snapshot().is_none());
        assert_eq!(cell.apply(&Update::new(1_u64)), Err(StateFault::Lost));
    }
}

/// Panics when it ends.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the end of a value");
    }
}

/// Throws what panics when it is dropped, and panics itself when it is.
#[derive(Clone)]
struct Explosive {
    _bomb: std::sync::Arc<Bomb>,
}

impl RiderState for Explosive {
    type Update = Bomb;

    fn apply(&mut self, _: &Bomb) {
        std::panic::panic_any(Bomb);
    }

    fn encode(&self, _: usize) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn whatever_the_application_throws_or_drops_nothing_comes_through() {
    let mut cell = StateCell::new(Explosive {
        _bomb: std::sync::Arc::new(Bomb),
    });
    let update = Update::new(Bomb);
    assert_eq!(cell.apply(&update), Err(StateFault::Panicked));
    assert!(cell.snapshot().is_none(), "nothing half changed stays");
    drop(update);
    drop(cell);
    drop(StateCell::new(Explosive {
        _bomb: std::sync::Arc::new(Bomb),
    }));
}
