//! What a send says that it depends on.

use keyway_causal::Causes;
use keyway_core::Mutant;

use crate::bench::{A0, A1, B0, Bench, Committed, a0, a1, b0, position, x0};
use crate::case;

fn named(stamp: &Causes, channel: keyway_causal::Channel) -> Option<i64> {
    stamp.get(channel).map(|position| position.get())
}

#[test]
fn c11_what_a_running_sibling_wrote_may_have_been_read() {
    case(
        &[Mutant::StampWithoutRunning, Mutant::StampByWatermark],
        || {
            let mut bench = Bench::owning_all();
            bench.give(A0, &[(0, &[])]);
            bench.give(B0, &[(3, &[])]);
            bench.finish_with_output(A0, 0);
            assert_eq!(named(&bench.stamp(), b0()), Some(3));
        },
    );
}

#[test]
fn c12_the_highest_started_counts_though_one_below_runs_still() {
    case(&[Mutant::StampByWatermark], || {
        let mut bench = Bench::owning_all();
        bench.give(A0, &[(0, &[]), (1, &[])]);
        bench.finish(A0, 1);
        assert_eq!(named(&bench.stamp(), a0()), Some(1));
    });
}

#[test]
fn c11_the_header_of_a_record_that_is_held_counts() {
    case(&[Mutant::NoMergeOnReceipt], || {
        let mut bench = Bench::owning_all();
        bench.give(B0, &[(0, &[(a0(), 4), (x0(), 9)])]);
        assert!(!bench.runs(B0, 0));
        let stamp = bench.stamp();
        assert_eq!(
            (named(&stamp, a0()), named(&stamp, x0())),
            (Some(4), Some(9))
        );
        assert_eq!(named(&stamp, b0()), None, "it has not started");
    });
}

#[test]
fn c8_a_lower_position_that_comes_later_lowers_nothing() {
    case(&[Mutant::MergeTakesLatest], || {
        let mut bench = Bench::owning_all();
        bench.give(B0, &[(0, &[(x0(), 9)]), (1, &[(x0(), 2)])]);
        assert_eq!(named(&bench.stamp(), x0()), Some(9));
    });
}

#[test]
fn c28a_a_record_that_is_complete_by_the_map_still_has_its_header_merged() {
    case(&[Mutant::SkippedNotMerged], || {
        let mut committed = Committed::default();
        let mut first = Bench::owning_all();
        // 1 is complete above 0, and its header names what its own partition has before it.
        first.give(A0, &[(0, &[]), (1, &[])]);
        first.finish(A0, 1);
        first.commit(&mut committed);
        let mut bench = Bench::new();
        bench.assign(A0, &committed);
        // The record is read again, and this reader has not seen what it names.
        bench.give(A0, &[(0, &[]), (1, &[(x0(), 5)])]);
        assert!(!bench.runs(A0, 1), "it is complete");
        assert_eq!(named(&bench.stamp(), x0()), Some(5));
    });
}

#[test]
fn c13_a_send_is_no_cause_of_the_next_one() {
    let mut bench = Bench::owning_all();
    bench.give(A0, &[(0, &[])]);
    bench.finish_with_output(A0, 0);
    let before = bench.stamp();
    bench.acknowledge();
    assert_eq!(before, bench.stamp());
}

#[test]
fn c14_what_was_not_delivered_is_not_named() {
    let mut committed = Committed::default();
    let mut bench = Bench::new();
    bench.assign_at(A0, &committed, 50);
    bench.assign(A1, &committed);
    bench.position_reached(A0, 60);
    bench.commit(&mut committed);
    assert!(bench.stamp().is_empty());
    bench.give(A1, &[(3, &[])]);
    assert_eq!(
        bench.stamp().iter().collect::<Vec<_>>(),
        [(a1(), position(3))]
    );
}

#[test]
fn c15_an_entry_of_a_channel_that_nobody_here_consumes_is_passed_on() {
    let mut bench = Bench::owning_all();
    bench.give(B0, &[(0, &[(x0(), 7)])]);
    bench.finish_with_output(B0, 0);
    assert_eq!(named(&bench.stamp(), x0()), Some(7));
}

#[test]
fn nothing_is_sent_before_the_groups_commits_are_read() {
    assert!(Bench::new().try_stamp().is_err());
}
