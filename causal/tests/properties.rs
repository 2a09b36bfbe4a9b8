//! What holds for every set of causes and every shard, and for any bytes.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use keyway_causal::{Causes, CausesView, Channel, MAX_PARTITION, Position, Shard, TopicId};
use keyway_offsets::Offset;
use proptest::collection::vec;
use proptest::prelude::*;

fn topic() -> impl Strategy<Value = TopicId> {
    prop_oneof![
        4 => (1..5_u8).prop_map(common::topic),
        1 => any::<[u8; 16]>().prop_filter_map("zero", TopicId::new),
    ]
}

fn position() -> impl Strategy<Value = Position> {
    (0..=Position::MAX.get(), 0..63_u32).prop_map(|(position, bits)| common::at(position >> bits))
}

fn channel() -> impl Strategy<Value = Channel> {
    let partition = prop_oneof![6 => 0..12_u32, 2 => 120..140_u32, 1 => 0..=MAX_PARTITION];
    (topic(), partition).prop_map(|(topic, partition)| Channel::new(topic, partition).unwrap())
}

fn entries() -> impl Strategy<Value = Vec<(Channel, Position)>> {
    vec((channel(), position()), 0..60)
}

fn shards() -> impl Strategy<Value = Shard> {
    let parts = (
        topic(),
        0..=i64::MAX,
        proptest::option::of(position()),
        entries(),
        proptest::bool::ANY,
    );
    parts.prop_map(
        |(topic, baseline, highest_complete, entries, is_lossy)| Shard {
            topic,
            baseline: Offset::new(baseline).unwrap(),
            highest_complete,
            learned: entries.into_iter().collect(),
            is_lossy,
        },
    )
}

/// The same by the simplest means.
fn model(entries: &[(Channel, Position)]) -> BTreeMap<Channel, Position> {
    let mut model = BTreeMap::new();
    for &(channel, position) in entries {
        let own = model.entry(channel).or_insert(position);
        *own = position.max(*own);
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_set_is_its_model(entries in entries()) {
        let model = model(&entries);
        let collected: Causes = entries.iter().copied().collect();
        prop_assert!(collected.iter().eq(model.clone()));
        let mut merged = Causes::new();
        for &(channel, position) in &entries {
            let covered = merged.covers(channel, position);
            prop_assert_eq!(merged.merge(channel, position), !covered);
        }
        prop_assert_eq!(&merged, &collected);
        prop_assert_eq!(merged.len(), model.len());
        for (&channel, &position) in &model {
            prop_assert_eq!(merged.get(channel), Some(position));
            merged.remove(channel);
            prop_assert_eq!(merged.get(channel), None);
        }
        prop_assert_eq!(merged, Causes::new());
    }

    #[test]
    fn a_set_is_read_back(entries in entries()) {
        let causes: Causes = entries.into_iter().collect();
        let value = causes.encode();
        prop_assert_eq!(value.len(), causes.encoded_len());
        let view = CausesView::parse(&value).unwrap();
        prop_assert!(view.iter().eq(causes.iter()));
        prop_assert_eq!(Causes::from(view), causes);
    }

    #[test]
    fn merging_is_the_same_however_it_is_done(one in entries(), other in entries()) {
        let (own, other_set): (Causes, Causes) = (one.iter().copied().collect(), other.iter().copied().collect());
        let (mut by_set, mut by_header, mut by_entry, mut extended) = (own.clone(), own.clone(), own.clone(), own.clone());
        let value = other_set.encode();
        let has_changed = by_set.merge_all(&other_set);
        prop_assert_eq!(by_header.merge_header(&CausesView::parse(&value).unwrap()), has_changed);
        let each = other.iter().map(|&(channel, position)| by_entry.merge(channel, position));
        let each: Vec<bool> = each.collect();
        extended.extend(other.iter().copied());
        prop_assert_eq!(each.contains(&true), has_changed);
        prop_assert_eq!(by_set != own, has_changed);
        prop_assert_eq!(&by_set, &by_header);
        prop_assert_eq!(&by_set, &by_entry);
        prop_assert_eq!(&by_set, &extended);
        prop_assert!(by_set.iter().eq(model(&[one, other].concat())));
    }

    #[test]
    fn a_shard_is_read_back(shard in shards()) {
        let rider = shard.encode();
        prop_assert_eq!(rider.len(), shard.encoded_len());
        prop_assert!(Shard::is_shard(&rider));
        prop_assert_eq!(Shard::decode(&rider), Ok(shard));
    }

    /// Small numbers, so that they get far.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(prop_oneof![4 => 0..3_u8, 1 => any::<u8>()], 0..80)) {
        let value = [&[1][..], &bytes].concat();
        if let Ok(causes) = Causes::decode(&value) {
            prop_assert_eq!(causes.encode(), value);
        }
        let rider = [&[0xca, 0x05, 0x01][..], &[1; 16], &bytes].concat();
        if let Ok(shard) = Shard::decode(&rider) {
            prop_assert_eq!(shard.encode(), rider);
        }
    }
}
