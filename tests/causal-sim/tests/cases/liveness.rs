//! Nothing that may run is kept from it by what may not.

use keyway_core::Mutant;

use crate::bench::{A0, A1, B0, Bench, Committed, Setup, a0, a1, b0};
use crate::case;

/// One place in memory and one worker, for three partitions.
fn cramped() -> Bench {
    let mut bench = Bench::with(Setup {
        calls: 1,
        records: 1,
        ..Setup::default()
    });
    for slot in [A0, A1, B0] {
        bench.assign(slot, &Committed::default());
    }
    bench
}

#[test]
fn c48_three_partitions_that_wait_for_each_other_in_turn_get_done_with_one_place_and_one_worker() {
    case(&[Mutant::NoReservedPlace, Mutant::HeldTakesWorker], || {
        let mut bench = cramped();
        // b0@0 <- a1@0 <- a0@0 <- b0@1 <- a1@1 <- a0@1: all arrive latest first.
        for round in 0..20 {
            let before = (round > 0).then_some((b0(), round - 1));
            assert_eq!(bench.give(B0, &[(round, &[(a1(), round)])]), 1);
            assert_eq!(bench.give(A1, &[(round, &[(a0(), round)])]), 1);
            assert_eq!(bench.give(A0, &[(round, before.as_slice())]), 1);
            for slot in [A0, A1, B0] {
                bench.finish(slot, round);
            }
        }
        assert!(bench.core.is_empty());
    });
}

#[test]
fn c22_a_held_record_takes_no_worker() {
    case(&[Mutant::HeldTakesWorker], || {
        let mut bench = Bench::with(Setup {
            calls: 1,
            ..Setup::default()
        });
        for slot in [A0, A1, B0] {
            bench.assign(slot, &Committed::default());
        }
        bench.give(B0, &[(0, &[(a0(), 0)])]);
        bench.give(A0, &[(0, &[])]);
        assert!(bench.runs(A0, 0));
        bench.finish(A0, 0);
        assert!(bench.runs(B0, 0));
    });
}

#[test]
fn ten_thousand_completions_above_one_held_base_go_by() {
    const MANY: i64 = 10_000;
    let mut committed = Committed::default();
    let mut bench = Bench::owning_all();
    bench.give(A0, &[(0, &[(b0(), 0)])]);
    for offset in 1..=MANY {
        bench.give(A0, &[(offset, &[])]);
        bench.finish(A0, offset);
    }
    bench.commit(&mut committed);
    assert_eq!(committed.base(A0), Some(0));
    assert!(committed.is_complete(A0, MANY) && !committed.is_complete(A0, 0));
    assert!(!bench.runs(A0, 0));
    bench.give(B0, &[(0, &[])]);
    bench.finish(B0, 0);
    bench.finish(A0, 0);
    bench.commit(&mut committed);
    assert_eq!(committed.base(A0), Some(MANY + 1));
}

#[test]
fn c46_a_cause_that_keeps_failing_holds_its_effects_and_nobody_else() {
    let mut bench = Bench::owning_all();
    bench.give(A0, &[(0, &[])]);
    bench.give(B0, &[(0, &[(a0(), 0)])]);
    bench.fail(A0, 0);
    for offset in 0..50 {
        bench.give(A1, &[(offset, &[])]);
        bench.finish(A1, offset);
        bench.give(B0, &[(offset + 1, &[(a1(), offset)])]);
        bench.finish(B0, offset + 1);
        bench.wait(std::time::Duration::from_secs(1));
        bench.fail(A0, 0);
    }
    assert!(!bench.runs(B0, 0));
    bench.wait(std::time::Duration::from_secs(1));
    bench.finish(A0, 0);
    assert!(bench.runs(B0, 0));
}

#[test]
fn a_held_record_is_forgotten_with_its_assignment() {
    let mut bench = Bench::owning_all();
    bench.give(B0, &[(0, &[(a0(), 0)])]);
    bench.lose(B0);
    bench.give(A0, &[(0, &[])]);
    bench.finish(A0, 0);
    assert_eq!(bench.core.gate().status().held, 0);
    assert!(bench.running().is_empty());
}
