//! Topics that come, go, and come again.

use keyway_causal::CausalStop;

use crate::bench::{A0, A1, B0, Bench, Committed, Setup, a0, b0, channel, id, position, x0};

/// A member that consumes topic `a` alone has seen b0@4.
fn before() -> Committed {
    let mut committed = Committed::default();
    let mut bench = Bench::with(Setup {
        topics: vec![("a", id(1), 2)],
        ..Setup::default()
    });
    bench.assign(A0, &committed);
    bench.assign(A1, &committed);
    bench.give(A0, &[(0, &[(b0(), 4)])]);
    bench.finish(A0, 0);
    bench.commit(&mut committed);
    committed
}

#[test]
fn c42_a_channel_that_joins_after_its_effects_are_out_is_refused() {
    let mut bench = Bench::new();
    bench.assign(A0, &before());
    let joined = CausalStop::ChannelJoined {
        channel: b0(),
        position: position(4),
    };
    assert_eq!(bench.stop, Some(joined));
}

#[test]
fn c41_a_channel_that_leaves_stays_in_the_stamp() {
    let mut committed = Committed::default();
    let mut bench = Bench::owning_all();
    bench.give(B0, &[(3, &[])]);
    bench.finish(B0, 3);
    bench.commit(&mut committed);
    let mut narrower = Bench::with(Setup {
        topics: vec![("a", id(1), 2), ("b2", id(7), 1)],
        ..Setup::default()
    });
    // The commit of `b` is still read, under a name that nobody consumes.
    narrower.read_group(&Committed::default());
    let (base, text) = committed.0[&B0].clone();
    let group = [keyway_causal::GroupPartition {
        topic: "b".to_owned(),
        partition: 0,
        committed: base,
        rider: crate::bench::read(base, &text).1,
    }];
    narrower.core.gate_mut().read_group(&group);
    assert!(narrower.stamp().covers(b0(), position(3)));
}

#[test]
fn c44_a_topic_that_was_made_again_under_its_name_is_another_one() {
    let mut committed = Committed::default();
    Bench::owning_all().commit(&mut committed);
    let mut bench = Bench::with(Setup {
        topics: vec![("a", id(1), 2), ("b", id(5), 1)],
        ..Setup::default()
    });
    bench.assign(A0, &committed);
    let is_it = matches!(
        &bench.stop,
        Some(CausalStop::TopicReplaced { name, before, now })
            if name == "b" && *before == id(2) && *now == id(5)
    );
    assert!(is_it, "{:?}", bench.stop);
}

#[test]
fn c25_a_topic_that_is_confirmed_to_be_deleted_holds_nothing_and_is_not_named() {
    let mut bench = Bench::owning_all();
    bench.give(A0, &[(0, &[(b0(), 4), (x0(), 2)])]);
    assert!(!bench.runs(A0, 0));
    bench.core.gate_mut().topic_deleted(id(2));
    bench.core.pass_gate(Default::default());
    bench.pump();
    assert!(bench.runs(A0, 0));
    let stamp = bench.stamp();
    assert_eq!(stamp.get(b0()), None);
    assert!(stamp.covers(x0(), position(2)));
}

#[test]
fn c25_a_topic_of_which_nothing_can_be_learned_is_not_taken_for_deleted() {
    // Metadata denied: nobody says anything to the gate, and the entry stays where it is.
    let mut committed = Committed::default();
    let secret = channel(8, 3);
    let mut bench = Bench::owning_all();
    bench.give(A0, &[(0, &[(secret, 11)])]);
    bench.finish(A0, 0);
    bench.commit(&mut committed);
    for slot in [A0, A1, B0] {
        let mut bench = Bench::new();
        bench.assign(slot, &committed);
        bench.commit(&mut committed);
        assert!(bench.stamp().covers(secret, position(11)));
    }
}

#[test]
fn c7_an_entry_of_a_topics_earlier_life_holds_nothing() {
    let mut bench = Bench::owning_all();
    // Topic `a` had the id 6 once.
    bench.give(B0, &[(0, &[(channel(6, 0), 100)])]);
    assert!(bench.runs(B0, 0));
    assert!(bench.stamp().covers(channel(6, 0), position(100)));
    assert_eq!(bench.stamp().get(a0()), None);
}
