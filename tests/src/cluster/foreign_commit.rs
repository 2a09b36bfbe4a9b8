//! Commit metadata as bytes.
//!
//! rdkafka takes and gives metadata as `str`, and panics over anything else; what other programs left in a group may
//! be anything. So the list's entries are read and written where librdkafka keeps them.
#![allow(
    unsafe_code,
    reason = "rdkafka has no way to read or write commit metadata that is not UTF-8"
)]

use std::{ptr, slice};

use rdkafka::TopicPartitionList;
use rdkafka_sys::{
    rd_kafka_mem_malloc, rd_kafka_topic_partition_get_leader_epoch,
    rd_kafka_topic_partition_set_leader_epoch, rd_kafka_topic_partition_t,
};

use super::Committed;

/// The list's entries that have an offset.
pub(super) fn entries(list: &TopicPartitionList) -> Vec<Committed> {
    // SAFETY: the list is alive and not shared; `elems` holds `cnt` entries, and is null only when `cnt` is 0.
    let entries: &[rd_kafka_topic_partition_t] = unsafe {
        let raw = &*list.ptr();
        match usize::try_from(raw.cnt) {
            Ok(count) if count > 0 => slice::from_raw_parts(raw.elems, count),
            _ => &[],
        }
    };
    entries
        .iter()
        .filter(|entry| entry.offset >= 0)
        .map(read)
        .collect()
}

fn read(entry: &rd_kafka_topic_partition_t) -> Committed {
    let metadata = match entry.metadata.is_null() {
        true => Vec::new(),
        // SAFETY: not null, so it points to `metadata_size` bytes that live as long as the list.
        false => unsafe {
            slice::from_raw_parts(entry.metadata.cast::<u8>(), entry.metadata_size).to_vec()
        },
    };
    // SAFETY: the entry is alive, and the call only reads it.
    let epoch = unsafe { rd_kafka_topic_partition_get_leader_epoch(entry) };
    Committed {
        partition: entry.partition,
        offset: entry.offset,
        metadata,
        leader_epoch: Some(epoch).filter(|&epoch| epoch >= 0),
    }
}

/// Gives each of the list's entries its metadata, in their order.
pub(super) fn attach(list: &mut TopicPartitionList, metadata: &[&[u8]]) {
    assert_eq!(list.count(), metadata.len(), "each entry has its metadata");
    for (at, text) in metadata
        .iter()
        .enumerate()
        .filter(|(_, text)| !text.is_empty())
    {
        // SAFETY: the list is alive, borrowed exclusively, and has an entry at `at`, without metadata. The copy comes
        // from librdkafka's allocator, with which the list frees it.
        unsafe {
            let entry = &mut *(*list.ptr()).elems.add(at);
            assert!(entry.metadata.is_null(), "the entry has metadata already");
            let copy = rd_kafka_mem_malloc(ptr::null_mut(), text.len());
            ptr::copy_nonoverlapping(text.as_ptr(), copy.cast::<u8>(), text.len());
            entry.metadata = copy;
            entry.metadata_size = text.len();
        }
    }
}

/// Gives every entry of a list this leader epoch, for which rdkafka has no call.
pub fn set_leader_epoch(list: &mut TopicPartitionList, epoch: i32) {
    for at in 0..list.count() {
        // SAFETY: the list is alive, borrowed exclusively, and has an entry at `at`.
        unsafe { rd_kafka_topic_partition_set_leader_epoch((*list.ptr()).elems.add(at), epoch) };
    }
}
