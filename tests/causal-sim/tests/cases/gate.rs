//! What holds a record, and what does not.

use keyway_core::Mutant;

use crate::bench::{A0, A1, B0, Bench, Committed, Payload, a0, a1, b0};
use crate::case;

#[test]
fn c17_eight_done_and_five_running_is_not_enough_for_a_cause_at_eight() {
    case(&[Mutant::GateByMembership], || {
        let mut bench = Bench::owning_all();
        bench.give(A0, &[(5, &[]), (8, &[])]);
        bench.give(B0, &[(0, &[(a0(), 8)])]);
        bench.finish(A0, 8);
        assert!(!bench.runs(B0, 0), "5 may be a cause too");
        bench.finish(A0, 5);
        assert!(bench.runs(B0, 0));
    });
}

#[test]
fn c17_a_record_waits_for_one_below_in_its_own_partition_that_has_another_key() {
    case(&[Mutant::OwnChannelIgnored], || {
        let mut bench = Bench::owning_all();
        bench.give(A0, &[(0, &[]), (1, &[(a0(), 0)])]);
        assert_eq!(bench.running(), [(A0, 0)]);
        bench.finish(A0, 0);
        assert!(bench.runs(A0, 1));
    });
}

#[test]
fn c17_an_entry_for_its_own_partition_at_or_above_itself_holds_no_record() {
    let mut bench = Bench::owning_all();
    bench.give(A0, &[(0, &[(a0(), 7)]), (1, &[])]);
    assert!(bench.runs(A0, 0));
}

#[test]
fn c18_a_cause_that_has_started_is_not_complete() {
    case(&[Mutant::GateOnStarted], || {
        let mut bench = Bench::owning_all();
        bench.give(A0, &[(0, &[])]);
        bench.give(B0, &[(0, &[(a0(), 0)])]);
        assert_eq!(bench.running(), [(A0, 0)]);
    });
}

#[test]
fn c18_a_cause_that_is_finished_and_whose_output_is_not_acknowledged_is_not_complete() {
    case(&[Mutant::GateOnStarted, Mutant::OutputsNotAwaited], || {
        let mut bench = Bench::owning_all();
        bench.give(A0, &[(0, &[])]);
        bench.give(B0, &[(0, &[(a0(), 0)])]);
        bench.finish_with_output(A0, 0);
        assert!(!bench.runs(B0, 0));
        bench.acknowledge();
        assert!(bench.runs(B0, 0));
    });
}

#[test]
fn c20_a_channel_of_which_nothing_is_known_holds() {
    case(&[Mutant::UnknownIsSettled, Mutant::ForeignIgnored], || {
        let mut bench = Bench::new();
        bench.assign(B0, &Committed::default());
        bench.give(B0, &[(0, &[(a1(), 0)])]);
        assert!(!bench.runs(B0, 0));
        assert_eq!(bench.core.gate().foreign_waited_for(), [a1()]);
    });
}

#[test]
fn c20_a_partition_that_the_topic_does_not_have_yet_holds() {
    let mut bench = Bench::owning_all();
    bench.give(B0, &[(0, &[(crate::bench::channel(1, 6), 0)])]);
    assert!(!bench.runs(B0, 0));
}

#[test]
fn c19_a_channel_that_the_group_does_not_consume_holds_nothing() {
    let mut bench = Bench::owning_all();
    bench.give(B0, &[(0, &[(crate::bench::x0(), 1_000)])]);
    assert!(bench.runs(B0, 0));
}

#[test]
fn c29_a_cause_of_another_member_counts_once_it_is_committed() {
    case(&[Mutant::ForeignIgnored], || {
        let mut committed = Committed::default();
        let mut other = Bench::new();
        other.assign(A0, &committed);
        other.commit(&mut committed);
        let mut bench = Bench::new();
        bench.assign(B0, &committed);
        bench.give(B0, &[(0, &[(a0(), 0)])]);
        other.give(A0, &[(0, &[])]);
        other.finish(A0, 0);
        bench.foreign(a0(), committed.base(A0));
        assert!(!bench.runs(B0, 0), "it is done there, and not committed");
        other.commit(&mut committed);
        bench.foreign(a0(), committed.base(A0));
        assert!(bench.runs(B0, 0));
    });
}

#[test]
fn c29_a_cause_that_was_done_and_not_committed_by_a_member_that_died_runs_first() {
    case(&[Mutant::ForeignIgnored], || {
        let mut committed = Committed::default();
        let mut dies = Bench::new();
        dies.assign(A0, &committed);
        dies.commit(&mut committed);
        dies.give(A0, &[(0, &[])]);
        dies.finish(A0, 0);
        drop(dies);
        let mut bench = Bench::new();
        bench.assign(B0, &committed);
        bench.give(B0, &[(0, &[(a0(), 0)])]);
        assert!(!bench.runs(B0, 0));
        bench.assign(A0, &committed);
        bench.give(A0, &[(0, &[])]);
        assert_eq!(bench.running(), [(A0, 0)]);
        bench.finish(A0, 0);
        assert!(bench.runs(B0, 0));
    });
}

#[test]
fn c23_what_lies_between_two_received_offsets_is_settled() {
    // Markers, aborted batches, compacted ranges: none of them is ever received.
    let mut bench = Bench::owning_all();
    bench.give(B0, &[(0, &[(a0(), 7)])]);
    bench.give(A0, &[(0, &[])]);
    bench.finish(A0, 0);
    assert!(!bench.runs(B0, 0), "nobody knows what is at 7");
    bench.give(A0, &[(8, &[])]);
    assert!(
        bench.runs(B0, 0),
        "8 arrived, so there is nothing at 1 to 7"
    );
}

#[test]
fn c26_a_position_report_settles_nothing_that_was_received_and_is_not_complete() {
    let mut bench = Bench::owning_all();
    bench.give(A0, &[(0, &[]), (3, &[])]);
    bench.give(B0, &[(0, &[(a0(), 5)])]);
    bench.finish(A0, 0);
    bench.position_reached(A0, 9);
    assert!(!bench.runs(B0, 0), "3 still runs");
    bench.finish(A0, 3);
    assert!(bench.runs(B0, 0));
}

#[test]
fn c27_an_entry_where_there_is_no_record_yet_holds_and_says_so() {
    let mut bench = Bench::owning_all();
    bench.give(A0, &[(0, &[])]);
    bench.give(B0, &[(0, &[(a0(), 4)])]);
    bench.finish(A0, 0);
    let status = bench.core.gate().status();
    assert_eq!(status.held, 1);
    let blocker = &status.heads[0].blockers[0];
    assert_eq!((blocker.channel, blocker.needed_below.get()), (a0(), 5));
    assert_eq!(blocker.settled_below.get(), 1);
    bench.give(A0, &[(4, &[])]);
    bench.finish(A0, 4);
    assert!(bench.runs(B0, 0));
}

#[test]
fn c24_positions_below_the_groups_start_are_settled() {
    let none = Committed::default();
    let mut bench = Bench::new();
    bench.assign_at(A0, &none, 10);
    bench.assign(B0, &none);
    bench.give(B0, &[(0, &[(a0(), 9)]), (1, &[(a0(), 10)])]);
    assert!(bench.runs(B0, 0) && !bench.runs(B0, 1));
}

#[test]
fn c21_time_frees_nothing() {
    let mut bench = Bench::owning_all();
    bench.give(B0, &[(0, &[(a0(), 0)])]);
    bench.wait(std::time::Duration::from_secs(1_000_000));
    assert!(!bench.runs(B0, 0));
}

#[test]
fn c1_a_record_without_the_header_starts_at_once() {
    let mut bench = Bench::owning_all();
    bench.give_payloads(B0, vec![(0, Payload::default())]);
    assert!(bench.runs(B0, 0));
}

#[test]
fn an_output_that_comes_back_waits_for_the_record_that_it_came_of() {
    case(&[Mutant::GateOnStarted], || {
        let mut bench = Bench::owning_all();
        bench.give(A0, &[(0, &[])]);
        bench.finish_with_output(A0, 0);
        let stamp: Vec<_> = bench
            .stamp()
            .iter()
            .map(|(of, at)| (of, at.get()))
            .collect();
        assert_eq!(stamp, [(a0(), 0)]);
        bench.give(A0, &[(1, &stamp)]);
        assert!(!bench.runs(A0, 1));
        bench.acknowledge();
        assert!(bench.runs(A0, 1));
    });
}

#[test]
fn records_without_a_path_between_them_run_at_once() {
    let mut bench = Bench::owning_all();
    bench.give(A0, &[(0, &[]), (1, &[])]);
    bench.give(A1, &[(0, &[])]);
    bench.give(B0, &[(0, &[(crate::bench::x0(), 3)])]);
    assert_eq!(bench.running().len(), 4);
    // Two effects of one cause run beside each other too.
    bench.give(A1, &[(1, &[(b0(), 0)]), (2, &[(b0(), 0)])]);
    bench.finish(B0, 0);
    assert!(bench.runs(A1, 1) && bench.runs(A1, 2));
}
