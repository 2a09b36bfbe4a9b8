//! What a new owner knows.

use keyway_causal::{Causes, Shard, StampError};
use keyway_core::Mutant;

use crate::bench::{A0, A1, B0, Bench, Committed, a0, a1, b0, position, read, x0};
use crate::case;

/// One member has read all of this and committed it: a0@2, done above a0@0, which runs still; b0@1 after x0@6.
fn history() -> Committed {
    let mut committed = Committed::default();
    let mut bench = Bench::owning_all();
    bench.give(A0, &[(0, &[]), (2, &[])]);
    bench.give(B0, &[(1, &[(x0(), 6)])]);
    bench.finish(A0, 2);
    bench.finish(B0, 1);
    bench.commit(&mut committed);
    committed
}

fn learned(committed: &Committed) -> Vec<(u32, Causes)> {
    let texts = committed.0.iter();
    let shards = texts.filter_map(|(slot, (base, text))| {
        let shard = Shard::decode(read(*base, text).1.bytes()?).ok()?;
        Some((*slot, shard.learned))
    });
    shards.collect()
}

#[test]
fn c35_a_new_owner_that_sends_at_once_names_what_the_group_has_done() {
    case(
        &[
            Mutant::OwnHighestLeftOut,
            Mutant::LearnedNotWritten,
            Mutant::OtherShardsIgnored,
        ],
        || {
            let mut bench = Bench::new();
            bench.assign(A1, &history());
            let stamp = bench.stamp();
            assert!(stamp.covers(a0(), position(2)), "complete above the base");
            assert!(stamp.covers(b0(), position(1)));
            assert!(stamp.covers(x0(), position(6)));
        },
    );
}

#[test]
fn c34_a_stamp_after_a_move_needs_no_map() {
    case(&[Mutant::OwnHighestLeftOut], || {
        let mut committed = history();
        committed.strip_maps();
        assert!(!committed.is_complete(A0, 2));
        let mut bench = Bench::new();
        bench.assign(A1, &committed);
        assert!(bench.stamp().covers(a0(), position(2)));
    });
}

#[test]
fn c36_what_an_earlier_owner_had_learned_is_written_on() {
    case(&[Mutant::NoCustody, Mutant::LearnedNotWritten], || {
        let mut committed = history();
        // Each partition gets an owner that learns nothing by itself, and commits.
        for slot in [A0, A1, B0] {
            let mut bench = Bench::new();
            bench.assign(slot, &committed);
            let from = committed.base(slot).unwrap_or_default();
            bench.give(slot, &[(from + 10, &[])]);
            bench.finish(slot, from + 10);
            bench.commit(&mut committed);
        }
        let mut bench = Bench::new();
        bench.assign(A1, &committed);
        assert!(bench.stamp().covers(x0(), position(6)));
    });
}

#[test]
fn c36_what_some_shard_has_already_is_not_written_again() {
    let mut committed = history();
    let homes = |committed: &Committed| {
        let all = learned(committed).into_iter();
        all.filter(|(_, learned)| learned.covers(x0(), position(6)))
            .count()
    };
    assert_eq!(homes(&committed), 1);
    let home = learned(&committed)
        .into_iter()
        .find(|(_, learned)| !learned.is_empty());
    let other = [A0, A1, B0]
        .into_iter()
        .find(|slot| Some(*slot) != home.as_ref().map(|at| at.0));
    let mut bench = Bench::new();
    let other = other.expect("three partitions");
    bench.assign(other, &committed);
    bench.give(other, &[(20, &[(x0(), 5)])]);
    bench.finish(other, 20);
    bench.commit(&mut committed);
    assert_eq!(homes(&committed), 1);
}

#[test]
fn c37_what_was_learned_is_committed_though_nothing_completed() {
    case(&[Mutant::LearnedNotWritten], || {
        let mut committed = Committed::default();
        let mut bench = Bench::owning_all();
        bench.commit(&mut committed);
        bench.give(B0, &[(0, &[(a0(), 0), (x0(), 6)])]);
        bench.commit(&mut committed);
        let all = learned(&committed);
        assert!(
            all.iter()
                .any(|(_, learned)| learned.covers(x0(), position(6)))
        );
    });
}

#[test]
fn c38_a_commit_that_tells_nothing_else_carries_a_shard() {
    let mut committed = Committed::default();
    Bench::owning_all().commit(&mut committed);
    for (slot, (base, text)) in &committed.0 {
        let rider = read(*base, text).1;
        let shard = rider.bytes().map(Shard::decode);
        assert!(shard.is_some_and(|shard| shard.is_ok()), "{slot}");
    }
    assert_eq!(committed.0.len(), 3);
}

#[test]
fn c38_a_rider_that_is_dropped_absent_or_unreadable_is_lost_and_never_empty() {
    case(&[Mutant::LostIsEmpty], || {
        let dropped = "ygUA";
        for text in ["", dropped, "!", "AAAA"] {
            let mut committed = history();
            committed.replace(B0, text);
            let mut bench = Bench::new();
            bench.assign(A0, &committed);
            let refused = bench.try_stamp();
            assert_eq!(
                refused,
                Err(StampError::FrontierLost { channel: b0() }),
                "{text:?}"
            );
            // Gating needs no rider.
            bench.give(A0, &[(0, &[]), (3, &[(a0(), 0)])]);
            assert_eq!(bench.running(), [(A0, 0)]);
            bench.finish(A0, 0);
            assert!(bench.runs(A0, 3));
        }
    });
}

#[test]
fn c38_a_loss_is_told_on_until_it_is_accepted() {
    let mut committed = history();
    committed.replace(B0, "");
    let mut bench = Bench::new();
    bench.assign(B0, &committed);
    bench.give(B0, &[(9, &[])]);
    bench.finish(B0, 9);
    bench.commit(&mut committed);
    let mut next = Bench::new();
    next.assign(B0, &committed);
    assert!(
        next.try_stamp().is_err(),
        "a shard is there again, and what it lacks is not"
    );
    let mut setup = crate::bench::Setup::default();
    setup.config.accept_lost_frontier = true;
    let mut accepts = Bench::with(setup);
    accepts.assign(B0, &committed);
    assert!(accepts.try_stamp().is_ok());
}

#[test]
fn a_partition_without_a_commit_has_lost_nothing() {
    let mut committed = history();
    committed.0.remove(&A1);
    let mut bench = Bench::new();
    bench.assign(A1, &committed);
    assert!(bench.stamp().covers(a0(), position(2)));
    assert_eq!(bench.stamp().get(a1()), None);
}
