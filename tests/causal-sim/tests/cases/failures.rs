//! Headers that can't be read, and budgets.

use keyway_causal::{CausalStop, StampError};
use keyway_core::Mutant;

use crate::bench::{A0, B0, Bench, Committed, Payload, Setup, a0, causes, x0};
use crate::case;

fn malformed() -> Payload {
    Payload(vec![b"\x01\xff".to_vec()])
}

#[test]
fn c45_a_header_that_can_not_be_read_stops_the_member_and_its_record_does_not_run() {
    case(&[Mutant::UndecodableIsNone], || {
        for value in [&b""[..], b"\x01\xff", b"\x02\x00", b"\x01\x00\x00"] {
            let mut bench = Bench::owning_all();
            let payload = Payload(vec![value.to_vec()]);
            bench.give_payloads(A0, vec![(0, payload), (1, Payload::default())]);
            let is_it = matches!(
                bench.stop,
                Some(CausalStop::Undecodable { channel, offset: 0, .. }) if channel == a0()
            );
            assert!(is_it, "{value:?}: {:?}", bench.stop);
            assert!(!bench.runs(A0, 0));
        }
    });
}

#[test]
fn c10_a_dead_letter_tool_that_adds_a_second_header_is_noticed() {
    case(&[Mutant::UndecodableIsNone], || {
        let mut bench = Bench::owning_all();
        let twice = Payload(vec![causes(&[]), causes(&[(x0(), 3)])]);
        bench.give_payloads(A0, vec![(0, twice)]);
        assert!(matches!(bench.stop, Some(CausalStop::Undecodable { .. })));
        assert!(!bench.runs(A0, 0));
    });
}

/// An operator has accepted the record a0@0.
fn accepting() -> Setup {
    let mut setup = Setup::default();
    setup
        .config
        .undecodable_accepted
        .insert(("a".to_owned(), 0, 0));
    setup
}

#[test]
fn c45_a_record_that_is_accepted_by_name_runs_and_sending_is_refused_from_then_on() {
    let mut bench = Bench::with(accepting());
    bench.assign(A0, &Committed::default());
    assert!(bench.try_stamp().is_ok());
    bench.give_payloads(A0, vec![(0, malformed())]);
    assert!(bench.runs(A0, 0) && bench.stop.is_none());
    assert!(matches!(
        bench.try_stamp(),
        Err(StampError::FrontierLost { .. })
    ));
}

#[test]
fn c45_the_next_assignment_does_not_make_it_forget_that_sending_is_refused() {
    let none = Committed::default();
    let mut bench = Bench::with(accepting());
    bench.assign(A0, &none);
    bench.give_payloads(A0, vec![(0, malformed())]);
    bench.assign(B0, &none);
    assert!(bench.try_stamp().is_err());
}

#[test]
fn c45_nor_does_the_next_owner() {
    let mut committed = Committed::default();
    let mut bench = Bench::with(accepting());
    bench.assign(A0, &committed);
    bench.give_payloads(A0, vec![(0, malformed())]);
    bench.finish(A0, 0);
    bench.commit(&mut committed);
    let mut next = Bench::new();
    next.assign(A0, &committed);
    assert!(next.try_stamp().is_err());
}

#[test]
fn c9_a_header_beyond_the_budget_stops_the_member() {
    let mut setup = Setup::default();
    setup.config.causes_budget = 40;
    let mut bench = Bench::with(setup);
    bench.assign(A0, &Committed::default());
    bench.give(A0, &[(0, &[(x0(), 1)])]);
    assert_eq!(bench.stop, None);
    let many: Vec<_> = (0..5).map(|p| (crate::bench::channel(9, p), 1)).collect();
    bench.give(A0, &[(1, &many)]);
    assert!(matches!(
        bench.stop,
        Some(CausalStop::HeaderTooLarge { .. })
    ));
    assert!(!bench.runs(A0, 1));
}

#[test]
fn c9_what_was_seen_beyond_the_budget_stops_the_member_before_a_send_can_fail() {
    let mut setup = Setup::default();
    setup.config.causes_budget = 60;
    let mut bench = Bench::with(setup);
    bench.assign(A0, &Committed::default());
    for partition in 0..6 {
        bench.give(
            A0,
            &[(
                i64::from(partition),
                &[(crate::bench::channel(9, partition), 1)],
            )],
        );
    }
    assert!(matches!(
        bench.stop,
        Some(CausalStop::FrontierTooLarge { .. })
    ));
}

#[test]
fn c39_a_shard_beyond_what_a_commit_has_room_for_stops_the_member() {
    let mut bench = Bench::with(Setup {
        cap_chars: 80,
        ..Setup::default()
    });
    bench.assign(A0, &Committed::default());
    let many: Vec<_> = (10..20)
        .map(|topic| (crate::bench::channel(topic, 0), 1))
        .collect();
    bench.give(A0, &[(0, &many)]);
    assert!(bench.plan(None).is_none());
    assert!(matches!(bench.stop, Some(CausalStop::ShardTooLarge { .. })));
}
