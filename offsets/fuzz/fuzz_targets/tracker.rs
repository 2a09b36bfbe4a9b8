//! Any sequence of steps on a tracker, against a model that knows every offset by itself.
//!
//! Two bytes choose the base, then every three bytes are one step.

#![no_main]

#[path = "../../tests/common/model.rs"]
mod model;

use keyway_offsets::{HoleMap, Offset, Tracker};
use libfuzzer_sys::fuzz_target;
use model::Model;

/// Enough for every order of a few steps; the model's cost grows with what it knows.
const MOST_STEPS: usize = 200;

fn offset(at: i64) -> Offset {
    Offset::new(at.max(0)).expect("not negative")
}

fuzz_target!(|data: &[u8]| {
    let Some((base, steps)) = data.split_first_chunk() else { return };
    let start = HoleMap::caught_up(offset(u16::from_be_bytes(*base).into()));
    let (mut tracker, mut model) = (Tracker::restore(&start), Model::restore(&start));
    let mut before = tracker.snapshot();
    for step in steps.chunks_exact(3).take(MOST_STEPS) {
        let number = i64::from(u16::from_be_bytes([step[1], step[2]]));
        let near = (model.next() + number % 80 - 60).max(0);
        let version = tracker.version();
        match step[0] % 6 {
            0 => assert_eq!(tracker.receive(offset(model.next())), model.receive(model.next())),
            1 => {
                let at = model.next() + number % 600;
                assert_eq!(tracker.receive(offset(at)), model.receive(at));
            }
            2 => assert_eq!(tracker.receive(offset(near)), model.receive(near)),
            3 => assert_eq!(tracker.complete(offset(near)), model.complete(near)),
            4 => {
                tracker.complete_below(offset(near));
                model.complete_below(near);
            }
            _ => {
                tracker = Tracker::restore(&before);
                model = Model::restore(&before);
                assert_eq!(tracker.snapshot(), before);
                continue;
            }
        }
        let map = tracker.snapshot();
        assert_eq!(map, model.snapshot());
        assert!(map.base() >= before.base());
        assert_eq!(tracker.version() == version, map == before);
        assert_eq!(tracker.incomplete_received(), model.running().len() as u64);
        before = map;
    }
});
