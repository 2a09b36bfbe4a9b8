//! What is committed together, and what follows where it was not.

use keyway_causal::{CausalStop, Reading};
use keyway_core::{CommitAnswer, Mutant, StopCause, mutated};

use crate::bench::{A0, A1, B0, Bench, Committed, a0, at};
use crate::case;

/// The cause a0@0 and its effect b0@0 are done, and neither is committed.
fn both_done(committed: &mut Committed) -> Bench {
    let mut bench = Bench::owning_all();
    bench.commit(committed);
    bench.give(A0, &[(0, &[])]);
    bench.give(B0, &[(0, &[(a0(), 0)])]);
    bench.finish(A0, 0);
    bench.finish(B0, 0);
    bench
}

/// An effect is durable only with its cause.
fn is_closed(committed: &Committed) -> bool {
    committed.is_complete(A0, 0) || !committed.is_complete(B0, 0)
}

#[test]
fn c30_a_commit_of_one_partition_takes_along_what_is_before_it_and_then_a_crash_does_no_harm() {
    case(&[Mutant::SplitCut], || {
        let mut committed = Committed::default();
        let mut bench = both_done(&mut committed);
        bench.plan(Some(&[B0]));
        bench.answer(&mut committed, |_| CommitAnswer::Stored);
        drop(bench);
        assert!(is_closed(&committed));
    });
}

#[test]
fn c30_while_one_partition_has_to_wait_nothing_is_committed() {
    case(&[Mutant::SplitCut], || {
        let mut committed = Committed::default();
        let mut bench = both_done(&mut committed);
        bench.plan(None);
        // Refused as a whole: but for one it would be tried at once.
        bench.answer(&mut committed, |_| CommitAnswer::Repeat);
        bench.give(A1, &[(0, &[])]);
        bench.finish(A1, 0);
        assert!(bench.plan(None).is_none());
    });
}

#[test]
fn c30_what_the_broker_did_not_store_of_a_plan_is_sent_again_at_once() {
    case(&[Mutant::TornCutStays], || {
        let mut committed = Committed::default();
        let mut bench = both_done(&mut committed);
        bench.plan(None);
        bench.answer(&mut committed, |slot| match slot {
            A0 => CommitAnswer::Repeat,
            _ => CommitAnswer::Stored,
        });
        assert!(!is_closed(&committed), "this is what may not stay");
        let rest = bench.plan.as_ref().expect("the rest");
        assert!(rest.partitions.iter().any(|part| part.slot.0 == A0));
        bench.answer(&mut committed, |_| CommitAnswer::Stored);
        assert!(is_closed(&committed));
    });
}

#[test]
fn c30_the_member_stops_where_the_rest_of_a_plan_will_not_be_stored() {
    case(&[Mutant::TornCutStays], || {
        for answer in [
            CommitAnswer::Superseded,
            CommitAnswer::MemberLost,
            CommitAnswer::Denied,
        ] {
            let mut committed = Committed::default();
            let mut bench = both_done(&mut committed);
            bench.plan(None);
            bench.answer(&mut committed, |slot| match slot {
                A0 => answer,
                _ => CommitAnswer::Stored,
            });
            assert!(
                matches!(bench.core_stop, Some(StopCause::CutTorn { .. })),
                "{answer:?}"
            );
        }
    });
}

#[test]
fn c31_after_a_revoke_whose_commit_failed_what_stays_begins_anew() {
    case(&[Mutant::NoDemotion], || {
        let mut committed = Committed::default();
        let mut bench = both_done(&mut committed);
        bench.core.revoking(keyway_core::PartitionSlot(A0));
        bench.plan(None);
        bench.answer(&mut committed, |_| CommitAnswer::Superseded);
        assert!(!bench.core.is_clean(keyway_core::PartitionSlot(A0)));
        bench.core.revoked(keyway_core::PartitionSlot(A0));
        if !mutated(Mutant::NoDemotion) {
            for slot in [A1, B0] {
                bench.assign(slot, &committed);
            }
        }
        bench.wait(std::time::Duration::from_secs(3_600));
        bench.commit(&mut committed);
        assert!(
            is_closed(&committed),
            "the effect is committed, and its cause is gone"
        );
    });
}

#[test]
fn c31_a_revoke_whose_commit_was_stored_demotes_nothing() {
    let mut committed = Committed::default();
    let mut bench = both_done(&mut committed);
    bench.core.revoking(keyway_core::PartitionSlot(A0));
    bench.plan(None);
    bench.answer(&mut committed, |_| CommitAnswer::Stored);
    assert!(bench.core.is_clean(keyway_core::PartitionSlot(A0)));
    assert!(committed.is_complete(A0, 0) && committed.is_complete(B0, 0));
}

#[test]
fn a_commit_that_lands_behind_a_later_one_is_made_good() {
    case(
        &[Mutant::AmbiguousNeedsOne, Mutant::AmbiguousIsStored],
        || {
            let slot = keyway_core::PartitionSlot(A0);
            let mut committed = Committed::default();
            let mut bench = both_done(&mut committed);
            bench.plan(None);
            let late = bench.texts();
            assert!(bench.plan_again().is_none(), "one plan at a time");
            bench.answer(&mut committed, |_| CommitAnswer::Unknown);
            bench.give(A0, &[(1, &[])]);
            bench.finish(A0, 1);
            bench.wait(std::time::Duration::from_secs(1));
            bench.answer(&mut committed, |_| CommitAnswer::Stored);
            assert_eq!(committed.base(A0), Some(2));
            committed.0.extend(late.0);
            assert_eq!(committed.base(A0), Some(1));
            assert!(
                !bench.core.is_clean(slot),
                "what is committed now may be the old one"
            );
            bench.wait(std::time::Duration::from_secs(1));
            bench.commit(&mut committed);
            assert_eq!(committed.base(A0), Some(2));
            assert!(bench.core.is_clean(slot));
        },
    );
}

#[test]
fn c33_a_committed_offset_that_went_down_stops_the_member_if_it_stays_low() {
    let mut bench = Bench::new();
    bench.assign(B0, &Committed::default());
    bench.foreign(a0(), Some(9));
    bench.foreign(a0(), Some(4));
    assert_eq!(bench.stop, None, "an old answer may have come late");
    assert_eq!(bench.core.gate().suspects().collect::<Vec<_>>(), [a0()]);
    bench
        .core
        .gate_mut()
        .foreign_committed(a0(), Some(at(4)), Reading::Again);
    bench.pump();
    let went_down = CausalStop::CommittedWentDown {
        channel: a0(),
        from: 9,
        to: 4,
    };
    assert_eq!(bench.stop, Some(went_down));
}

#[test]
fn c33_an_old_answer_alone_stops_nobody() {
    let mut bench = Bench::new();
    bench.assign(B0, &Committed::default());
    bench.foreign(a0(), Some(9));
    bench.foreign(a0(), Some(4));
    bench
        .core
        .gate_mut()
        .foreign_committed(a0(), Some(at(9)), Reading::Again);
    bench.pump();
    assert_eq!(
        (bench.stop, bench.core.gate().suspects().count()),
        (None, 0)
    );
}
