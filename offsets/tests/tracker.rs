//! The tracker against its rules, and against a model that knows every offset by itself.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/model.rs"]
mod model;

use common::{map, map_of_runs, offset, range};
use keyway_offsets::{HoleMap, Offset, Received, Tracker};
use model::Model;
use proptest::prelude::*;

fn received(base: i64, offsets: impl IntoIterator<Item = i64>) -> Tracker {
    let mut tracker = Tracker::new(offset(base));
    for at in offsets {
        assert_eq!(tracker.receive(offset(at)), Received::Fresh);
    }
    tracker
}

#[test]
fn a_new_tracker_has_nothing_to_say() {
    let tracker = Tracker::new(offset(5));
    assert_eq!(
        (tracker.base(), tracker.next(), tracker.highest_complete()),
        (offset(5), offset(5), 4)
    );
    assert!(tracker.is_caught_up());
    assert_eq!(tracker.snapshot(), HoleMap::caught_up(offset(5)));
    assert_eq!(Tracker::new(Offset::ZERO).highest_complete(), -1);
}

#[test]
fn the_base_waits_for_the_lowest_incomplete_offset() {
    let mut tracker = received(10, 10..20);
    assert!(tracker.complete(offset(12)) && tracker.complete(offset(15)));
    assert_eq!(tracker.base(), offset(10));
    assert_eq!(tracker.snapshot(), map(10, 15, &[(10, 11), (13, 14)]));
    assert!(tracker.complete(offset(10)) && tracker.complete(offset(11)));
    assert_eq!(
        (tracker.base(), tracker.highest_complete(), tracker.span()),
        (offset(13), 15, 3)
    );
    assert_eq!(tracker.incomplete_received(), 6);
}

/// Without making the bits below the base anew, 10 stays complete and the base at 13.
#[test]
fn what_did_not_come_about_is_incomplete_again_below_the_base_too() {
    let mut tracker = received(10, [10, 11, 12, 13, 15]);
    for at in [10, 11, 12, 15] {
        tracker.complete(offset(at));
    }
    assert_eq!(tracker.snapshot(), map(13, 15, &[(13, 13)]));
    tracker.reopen([10, 12, 9, 40].map(offset));
    // 14, which the log skipped, and what was never received, are what they were.
    assert_eq!(tracker.snapshot(), map(10, 15, &[(10, 10), (12, 13)]));
    assert_eq!(tracker.incomplete_received(), 3);
    tracker.reopen([offset(15)]);
    assert_eq!(tracker.snapshot(), map(10, 14, &[(10, 10), (12, 13)]));
    assert!(tracker.complete(offset(10)) && tracker.complete(offset(12)));
    assert_eq!(tracker.base(), offset(13));
}

/// Without `complete_below` it fails with a base of 15 that ought to be 30; with gaps that nobody steps over, with
/// one of 11 that ought to be 14.
#[test]
fn what_the_log_skips_is_complete() {
    let mut tracker = received(10, [10, 14]);
    // But above all that was completed it is not spoken about.
    assert_eq!(tracker.snapshot(), HoleMap::caught_up(offset(10)));
    tracker.complete(offset(10));
    assert_eq!(tracker.base(), offset(14));
    tracker.complete(offset(14));
    tracker.complete_below(offset(30));
    assert_eq!((tracker.base(), tracker.next()), (offset(30), offset(30)));
    assert!(tracker.is_caught_up());
}

#[test]
fn a_position_completes_nothing_that_is_running() {
    let mut tracker = received(10, [10, 11]);
    tracker.complete_below(offset(11));
    assert!(!tracker.is_complete(offset(10)));
    tracker.complete_below(offset(20));
    assert!(tracker.is_complete(offset(15)) && !tracker.is_complete(offset(11)));
    tracker.complete(offset(11));
    assert_eq!(tracker.snapshot(), map(10, 11, &[(10, 10)]));
    tracker.complete(offset(10));
    assert_eq!(tracker.base(), offset(20));
}

#[test]
fn a_restored_map_answers_for_what_it_knows() {
    let mut tracker = Tracker::restore(&map(100, 109, &[(100, 100), (103, 104)]));
    assert_eq!(tracker.receive(offset(100)), Received::Fresh);
    assert_eq!(tracker.receive(offset(101)), Received::AlreadyComplete);
    assert_eq!(tracker.receive(offset(99)), Received::AlreadyComplete);
    assert_eq!(tracker.receive(offset(100)), Received::Repeated);
    // The log has no 103 any more.
    assert_eq!(tracker.receive(offset(104)), Received::Fresh);
    assert_eq!(tracker.snapshot(), map(100, 109, &[(100, 100), (104, 104)]));
    tracker.complete(offset(104));
    tracker.complete(offset(100));
    // Beyond what was received: the map is complete to its end.
    assert_eq!((tracker.base(), tracker.next()), (offset(110), offset(105)));
    assert_eq!(tracker.receive(offset(109)), Received::AlreadyComplete);
    assert_eq!(tracker.receive(offset(110)), Received::Fresh);
}

#[test]
fn completing_twice_or_outside_changes_nothing() {
    let mut tracker = received(10, 10..13);
    assert!(tracker.complete(offset(11)));
    let version = tracker.version();
    for at in [11, 9, 0, 13, i64::MAX] {
        assert!(!tracker.complete(offset(at)), "{at}");
    }
    assert_eq!(tracker.version(), version);
}

#[test]
fn the_end_of_the_number_line_is_no_end_of_the_world() {
    let mut tracker = received(i64::MAX - 2, [i64::MAX - 2, i64::MAX]);
    assert!(tracker.complete(Offset::MAX));
    assert!(tracker.complete(offset(i64::MAX - 2)));
    assert_eq!((tracker.base(), tracker.next()), (Offset::MAX, Offset::MAX));
    assert!(tracker.is_caught_up() && tracker.snapshot().is_caught_up());
    assert!(!tracker.complete(Offset::MAX));
    assert_eq!(tracker.receive(Offset::MAX), Received::Repeated);
}

#[test]
fn a_log_may_jump_any_distance() {
    let mut tracker = received(0, [0, 1 << 31, 1 << 62, i64::MAX - 1]);
    tracker.complete(offset(i64::MAX - 1));
    let holes = [(0, 0), (1 << 31, 1 << 31), (1 << 62, 1 << 62)];
    assert_eq!(tracker.snapshot(), map(0, i64::MAX - 1, &holes));
    tracker.complete(offset(1 << 31));
    tracker.complete(offset(0));
    assert_eq!(tracker.base(), offset(1 << 62));
    tracker.complete(offset(1 << 62));
    assert_eq!(tracker.base(), Offset::MAX);
}

#[test]
fn a_map_that_was_made_up_costs_no_more_than_a_window() {
    let tracker = Tracker::restore(&map_of_runs(0, &[1 << 62, 1 << 60]));
    assert_eq!(tracker.base(), Offset::ZERO);
    assert!(
        tracker.is_caught_up(),
        "what lies too far above counts as unknown"
    );
}

#[test]
fn wide_maps_are_restored_as_they_were() {
    for runs in [
        vec![1, 1 << 31],
        vec![1 << 31, 5],
        vec![4096, 4096, 1, 1 << 24, 3, 1 << 25, 9, 4095],
    ] {
        let map = map_of_runs(77, &runs);
        let tracker = Tracker::restore(&map);
        assert_eq!(tracker.snapshot(), map);
        for hole in map.holes() {
            assert!(!tracker.is_complete(hole.first) && !tracker.is_complete(hole.last));
            assert!(tracker.is_complete(hole.last.next()));
        }
    }
}

#[test]
fn what_comes_after_the_last_complete_offset_is_not_in_a_map() {
    let tracker = Tracker::restore(&map(100, 104, &[(100, 100), (103, 104)]));
    assert_eq!(tracker.snapshot(), map(100, 102, &[(100, 100)]));
    assert_eq!(
        Tracker::restore(&map(9, 9, &[(9, 9)])).snapshot(),
        HoleMap::caught_up(offset(9))
    );
    assert_eq!(map(9, 9, &[(9, 9)]).holes(), [range(9, 9)]);
}

#[derive(Clone, Debug)]
enum Step {
    /// The next offset after so many that the log skips.
    Receive(i64),
    /// An offset so far from the next one, again or never received.
    ReceiveAt(i64),
    /// The running offset at this share of all.
    Complete(usize),
    CompleteAt(i64),
    CompleteBelow(i64),
    /// Of what was completed since the restart each that this number divides.
    Reopen(usize),
    /// A commit, a crash, a restore.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => Just(Step::Receive(0)),
        2 => (0..9_i64).prop_map(Step::Receive),
        1 => (0..9_000_i64).prop_map(Step::Receive),
        1 => (-40..5_i64).prop_map(Step::ReceiveAt),
        12 => any::<usize>().prop_map(Step::Complete),
        1 => (-40..40_i64).prop_map(Step::CompleteAt),
        1 => (-40..40_i64).prop_map(Step::CompleteBelow),
        1 => (1..40_usize).prop_map(Step::Reopen),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..200)
}

/// Bases at the edges of words and chunks.
fn bases() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(0),
        0..200_i64,
        4000..4200_i64,
        Just(1 << 40),
        Just(1 << 62)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tracker_does_what_the_model_does(base in bases(), steps in steps()) {
        let start = HoleMap::caught_up(offset(base));
        let (mut tracker, mut model) = (Tracker::restore(&start), Model::restore(&start));
        let mut completed: Vec<i64> = Vec::new();
        for step in steps {
            let (version, before) = (tracker.version(), tracker.snapshot());
            let mut reopened = false;
            let at = |distance: i64| (model.next() + distance).max(0);
            match step {
                Step::Receive(skipped) => {
                    let at = at(skipped);
                    prop_assert_eq!(tracker.receive(offset(at)), model.receive(at));
                }
                Step::ReceiveAt(distance) => {
                    let at = at(distance);
                    prop_assert_eq!(tracker.receive(offset(at)), model.receive(at));
                }
                Step::Complete(share) => {
                    let running = model.running();
                    if let Some(&at) = running.iter().nth(share % running.len().max(1)) {
                        prop_assert!(tracker.complete(offset(at)) && model.complete(at));
                        completed.push(at);
                    }
                }
                Step::CompleteAt(distance) => {
                    let at = at(distance);
                    let is_new = model.complete(at);
                    prop_assert_eq!(tracker.complete(offset(at)), is_new);
                    completed.extend(is_new.then_some(at));
                }
                Step::Reopen(share) => {
                    let (again, kept) = std::mem::take(&mut completed)
                        .into_iter()
                        .partition(|at| *at as usize % share == 0);
                    let again: Vec<i64> = again;
                    completed = kept;
                    reopened = !again.is_empty();
                    tracker.reopen(again.iter().copied().map(offset));
                    model.reopen(&again);
                }
                Step::CompleteBelow(distance) => {
                    let at = at(distance);
                    tracker.complete_below(offset(at));
                    model.complete_below(at);
                }
                Step::Restart => {
                    tracker = Tracker::restore(&before);
                    model = Model::restore(&before);
                    completed.clear();
                    prop_assert_eq!(tracker.snapshot(), before);
                    continue;
                }
            }
            let map = tracker.snapshot();
            prop_assert_eq!(&map, &model.snapshot());
            prop_assert!(reopened || map.base() >= before.base(), "the base went down");
            prop_assert_eq!(tracker.version() == version, map == before);
            prop_assert_eq!(tracker.base(), map.base());
            prop_assert_eq!(tracker.highest_complete(), map.highest());
            prop_assert_eq!(tracker.highest_complete(), map.highest_complete());
            prop_assert_eq!(tracker.span(), map.span());
            prop_assert_eq!(tracker.next().get(), model.next());
            prop_assert_eq!(tracker.incomplete_received(), model.running().len() as u64);
            prop_assert_eq!(tracker.is_caught_up(), model.running().is_empty() && map.is_caught_up());
            for near in -70..5 {
                let near = (model.next() + near).max(0);
                prop_assert_eq!(tracker.is_complete(offset(near)), model.is_complete(near));
            }
        }
    }
}
