//! The gate's memory: what is lost, what is gathered again, and what is too much.

mod common;

use common::{at, causes, channel, offset, topic};
use keyway_causal::{
    CarriesCauses, CausalConfig, CausalGate, CausalStop, Causes, CausesError, CausesView,
    GroupPartition, Reading, Shard, StampError,
};
use keyway_core::{Admission, Gate, PartitionSlot, Restored};
use keyway_rider::Rider;

const SLOT: PartitionSlot = PartitionSlot(0);

/// A record with these causes.
struct Carrier(Vec<u8>);

impl CarriesCauses for Carrier {
    fn causes(&self) -> Result<Option<CausesView<'_>>, CausesError> {
        CausesView::parse(&self.0).map(Some)
    }
}

fn carrier(entries: &[(u8, u32, i64)]) -> Carrier {
    Carrier(causes(entries).encode())
}

/// A member that owns partition 0 of the one topic that its group consumes, 1, and was told what the group has committed.
fn gate(config: CausalConfig, committed: &[GroupPartition]) -> CausalGate {
    let mut gate = CausalGate::new(config);
    gate.add_topic("one", topic(1), 2);
    gate.bind(SLOT, channel(1, 0));
    gate.read_group(committed);
    gate
}

fn begin(gate: &mut CausalGate, committed: Option<i64>, rider: Rider) {
    let restored = Restored {
        committed: committed.map(offset),
        start: offset(committed.unwrap_or(0)),
        map: None,
        leader_epoch: None,
        rider,
    };
    Gate::<Carrier>::begun(gate, SLOT, restored.start, &restored);
}

fn committed(partition: u32, at: i64, rider: Rider) -> GroupPartition {
    GroupPartition {
        topic: "one".to_owned(),
        partition,
        committed: offset(at),
        rider,
    }
}

fn shard(learned: Causes, is_lossy: bool) -> Rider {
    let shard = Shard {
        topic: topic(1),
        baseline: offset(0),
        highest_complete: None,
        learned,
        is_lossy,
    };
    Rider::Present(shard.encode())
}

fn written(gate: &mut CausalGate) -> Shard {
    let rider = Gate::<Carrier>::rider(gate, SLOT).expect("a shard");
    Shard::decode(&rider).expect("a shard that can be read")
}

/// What the next stamp says.
fn stamped(gate: &mut CausalGate) -> Causes {
    Causes::decode(&gate.stamp().expect("a stamp")).expect("readable")
}

#[test]
fn c38_nothing_is_stamped_before_the_group_was_read() {
    let mut gate = CausalGate::default();
    assert_eq!(gate.stamp(), Err(StampError::NotRead));
}

#[test]
fn c38_a_commit_without_a_shard_is_a_loss_and_the_next_shards_say_so() {
    let mut gate = gate(CausalConfig::default(), &[committed(1, 5, Rider::None)]);
    begin(&mut gate, None, Rider::None);
    let lost = StampError::FrontierLost {
        channel: channel(1, 1),
    };
    assert_eq!(gate.stamp(), Err(lost));
    assert!(written(&mut gate).is_lossy);
    // Gating needs no rider.
    let held = gate.admit(SLOT, offset(1), &mut carrier(&[(1, 0, 0)]));
    assert_eq!(held, Admission::Held);
}

#[test]
fn c38_what_is_gathered_again_ends_the_loss() {
    let mut gate = gate(CausalConfig::default(), &[committed(0, 5, Rider::None)]);
    gate.rebuilt(&causes(&[(1, 0, 4), (9, 0, 33)]));
    begin(&mut gate, Some(5), Rider::None);
    let stamp = stamped(&mut gate);
    assert_eq!(stamp.get(channel(9, 0)), Some(at(33)));
    assert_eq!(stamp.get(channel(1, 0)), Some(at(4)));
    let shard = written(&mut gate);
    assert!(!shard.is_lossy);
    assert_eq!(
        shard.learned.get(channel(9, 0)),
        Some(at(33)),
        "and is kept"
    );
    // At the next reading the others have still not written theirs.
    gate.read_group(&[committed(1, 5, Rider::None)]);
    assert!(gate.stamp().is_err());
}

#[test]
fn c38_a_loss_that_another_member_wrote_down_is_one() {
    let mut gate = gate(
        CausalConfig::default(),
        &[committed(1, 5, shard(Causes::default(), true))],
    );
    assert!(gate.stamp().is_err());
    gate.read_group(&[committed(1, 5, shard(Causes::default(), false))]);
    assert!(gate.stamp().is_ok());
}

#[test]
fn c36_what_is_in_a_shard_elsewhere_is_not_written_again_and_what_is_newer_is() {
    let elsewhere = shard(causes(&[(9, 0, 33)]), false);
    let mut gate = gate(CausalConfig::default(), &[committed(1, 5, elsewhere)]);
    begin(&mut gate, None, Rider::None);
    gate.admit(SLOT, offset(0), &mut carrier(&[(9, 0, 30), (9, 1, 7)]));
    let learned = written(&mut gate).learned;
    assert_eq!(learned, causes(&[(9, 1, 7)]));
    gate.admit(SLOT, offset(1), &mut carrier(&[(9, 0, 34)]));
    let learned = written(&mut gate).learned;
    assert_eq!(learned, causes(&[(9, 0, 34), (9, 1, 7)]));
}

#[test]
fn c36_a_shard_is_inherited_whole() {
    let inherited = shard(causes(&[(9, 0, 33)]), false);
    let mut gate = gate(
        CausalConfig::default(),
        &[committed(0, 5, inherited.clone())],
    );
    begin(&mut gate, Some(5), inherited);
    assert!(
        !Gate::<Carrier>::owes_rider(&gate, SLOT),
        "the broker has it"
    );
    gate.admit(SLOT, offset(5), &mut carrier(&[(9, 0, 2)]));
    assert_eq!(written(&mut gate).learned, causes(&[(9, 0, 33)]));
}

#[test]
fn c37_what_is_learned_is_owed_until_it_is_acknowledged() {
    let mut gate = gate(CausalConfig::default(), &[]);
    begin(&mut gate, None, Rider::None);
    let owes = |gate: &CausalGate| Gate::<Carrier>::owes_rider(gate, SLOT);
    assert!(owes(&gate), "the first commit has one too");
    let answer = |gate: &mut CausalGate, is_stored| {
        written(gate);
        Gate::<Carrier>::rider_answered(gate, SLOT, is_stored);
    };
    answer(&mut gate, true);
    assert!(!owes(&gate));
    gate.admit(SLOT, offset(0), &mut carrier(&[(9, 0, 3)]));
    assert!(owes(&gate));
    answer(&mut gate, false);
    assert!(owes(&gate));
    answer(&mut gate, true);
    assert!(!owes(&gate));
}

#[test]
fn c39_a_shard_that_does_not_fit_stops_the_member() {
    let mut gate = gate(CausalConfig::default(), &[]);
    begin(&mut gate, None, Rider::None);
    let many: Vec<_> = (0..200).map(|n| (9, n, i64::from(n) << 40)).collect();
    gate.admit(SLOT, offset(0), &mut carrier(&many));
    assert!(Gate::<Carrier>::riders_fit(&mut gate, 3_069));
    assert!(!Gate::<Carrier>::riders_fit(&mut gate, 100));
    assert!(matches!(
        gate.take_stop(),
        Some(CausalStop::ShardTooLarge { budget: 100, .. })
    ));
}

#[test]
fn c9_headers_and_stamps_have_a_budget() {
    let small = || CausalConfig {
        causes_budget: 60,
        ..CausalConfig::default()
    };
    let mut many = carrier(&[(9, 0, 1), (9, 1, 1), (9, 2, 1), (9, 3, 1), (9, 4, 1)]);
    let mut gate = self::gate(small(), &[]);
    begin(&mut gate, None, Rider::None);
    assert_eq!(gate.admit(SLOT, offset(0), &mut many), Admission::Held);
    assert!(matches!(
        gate.take_stop(),
        Some(CausalStop::HeaderTooLarge { .. })
    ));
    let mut gate = self::gate(small(), &[]);
    begin(&mut gate, None, Rider::None);
    for n in 2..5 {
        gate.admit(SLOT, offset(i64::from(n)), &mut carrier(&[(n, 0, 1)]));
    }
    assert!(matches!(
        gate.take_stop(),
        Some(CausalStop::FrontierTooLarge { budget: 60, .. })
    ));
}

#[test]
fn c33_a_committed_offset_that_went_down_is_believed_at_the_second_reading() {
    let mut gate = gate(CausalConfig::default(), &[]);
    begin(&mut gate, None, Rider::None);
    let other = channel(1, 1);
    gate.foreign_committed(other, Some(offset(9)), Reading::First);
    gate.foreign_committed(other, Some(offset(4)), Reading::First);
    assert_eq!(gate.take_stop(), None, "an old answer, maybe");
    assert_eq!(gate.suspects().collect::<Vec<_>>(), [other]);
    gate.foreign_committed(other, Some(offset(10)), Reading::Again);
    assert_eq!(gate.suspects().count(), 0);
    gate.foreign_committed(other, None, Reading::First);
    gate.foreign_committed(other, None, Reading::Again);
    assert_eq!(
        gate.take_stop(),
        Some(CausalStop::CommittedWentDown {
            channel: other,
            from: 10,
            to: -1,
        })
    );
}

#[test]
fn c44_a_topic_made_anew_under_its_name_is_refused() {
    let mut gate = gate(CausalConfig::default(), &[]);
    gate.add_topic("one", topic(7), 2);
    assert!(matches!(
        gate.take_stop(),
        Some(CausalStop::TopicReplaced { .. })
    ));
    let of_old = Shard {
        topic: topic(7),
        baseline: offset(0),
        highest_complete: None,
        learned: Causes::default(),
        is_lossy: false,
    };
    let rider = Rider::Present(of_old.encode());
    let mut gate = self::gate(CausalConfig::default(), &[committed(0, 5, rider)]);
    assert!(matches!(
        gate.take_stop(),
        Some(CausalStop::TopicReplaced { .. })
    ));
}

#[test]
fn c41_what_a_topic_that_is_read_no_more_had_is_learned_and_kept() {
    let of_other = Shard {
        topic: topic(5),
        baseline: offset(0),
        highest_complete: Some(at(70)),
        learned: causes(&[(9, 0, 33)]),
        is_lossy: false,
    };
    let gone = GroupPartition {
        topic: "five".to_owned(),
        partition: 3,
        committed: offset(71),
        rider: Rider::Present(of_other.encode()),
    };
    let mut gate = gate(CausalConfig::default(), &[gone]);
    begin(&mut gate, None, Rider::None);
    let stamp = stamped(&mut gate);
    assert_eq!(stamp.get(channel(5, 3)), Some(at(70)));
    assert_eq!(stamp.get(channel(9, 0)), Some(at(33)));
    // Its commits expire, and what they say with them: a partition that is owned keeps it.
    let kept = written(&mut gate).learned;
    assert_eq!(kept, causes(&[(5, 3, 70), (9, 0, 33)]));
}

#[test]
fn c25_a_deleted_topic_holds_nobody_and_is_named_no_more() {
    let mut gate = gate(CausalConfig::default(), &[]);
    gate.add_topic("two", topic(2), 1);
    begin(&mut gate, None, Rider::None);
    let held = gate.admit(SLOT, offset(0), &mut carrier(&[(2, 0, 8)]));
    assert_eq!(held, Admission::Held);
    gate.topic_deleted(topic(2));
    let freed = Gate::<Carrier>::next_freed(&mut gate);
    assert_eq!(freed, Some((SLOT, offset(0))));
    assert_eq!(stamped(&mut gate).get(channel(2, 0)), None);
}
