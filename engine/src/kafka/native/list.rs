//! A partition list that is owned, with metadata as bytes.
//!
//! rdkafka's own wrapper panics on metadata that is not UTF-8 and leaks when it is set twice.

use std::borrow::Cow;
use std::ffi::{CStr, c_int};
use std::ptr::{self, NonNull};
use std::slice;

use rdkafka_sys::{
    self as sys, rd_kafka_resp_err_t, rd_kafka_topic_partition_list_t, rd_kafka_topic_partition_t,
};

use super::raw::{self, Failure};

/// An owned `rd_kafka_topic_partition_list_t`.
pub(crate) struct PartitionList(NonNull<rd_kafka_topic_partition_list_t>);

// SAFETY: the list owns all that it points to, and no call keeps a pointer into it: librdkafka
// copies lists that it keeps.
unsafe impl Send for PartitionList {}

/// One partition of a list, borrowed.
pub(crate) struct Element<'a> {
    /// The topic's name.
    pub(crate) topic: Cow<'a, str>,
    /// The partition's number.
    pub(crate) partition: i32,
    /// An offset, or one of librdkafka's negative markers.
    pub(crate) offset: i64,
    /// The leader epoch that goes with the offset.
    pub(crate) leader_epoch: Option<i32>,
    /// The metadata beside a committed offset; any bytes.
    pub(crate) metadata: &'a [u8],
    /// The error of this partition; 0 is none.
    pub(crate) code: i32,
}

impl PartitionList {
    pub(crate) fn with_capacity(partitions: usize) -> Self {
        let size = c_int::try_from(partitions).unwrap_or(c_int::MAX);
        // SAFETY: any size is accepted; librdkafka aborts rather than return null without memory.
        let list = unsafe { sys::rd_kafka_topic_partition_list_new(size) };
        Self(NonNull::new(list).expect("librdkafka's allocator never returns null"))
    }

    /// A list of partitions without offsets.
    pub(crate) fn of<'a>(
        partitions: impl ExactSizeIterator<Item = (&'a str, i32)>,
    ) -> Result<Self, Failure> {
        let mut list = Self::with_capacity(partitions.len());
        for (topic, partition) in partitions {
            list.add(topic, partition)?;
        }
        Ok(list)
    }

    /// Adds a partition at an offset, with its leader epoch and metadata where there are any.
    pub(crate) fn push(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        leader_epoch: Option<i32>,
        metadata: &[u8],
    ) -> Result<(), Failure> {
        let element = self.add(topic, partition)?;
        // SAFETY: `element` points into the list, which no other call changes before the last use.
        unsafe {
            (*element).offset = offset;
            if let Some(epoch) = leader_epoch {
                sys::rd_kafka_topic_partition_set_leader_epoch(element, epoch);
            }
        }
        if metadata.is_empty() {
            return Ok(());
        }
        // SAFETY: the block comes from librdkafka's allocator because the list's destructor frees
        // it; it has room for exactly these bytes, and `add` gives a new element, so that no
        // earlier block is lost.
        unsafe {
            let block = sys::rd_kafka_mem_malloc(ptr::null_mut(), metadata.len()).cast::<u8>();
            ptr::copy_nonoverlapping(metadata.as_ptr(), block, metadata.len());
            (*element).metadata = block.cast();
            (*element).metadata_size = metadata.len();
        }
        Ok(())
    }

    fn add(
        &mut self,
        topic: &str,
        partition: i32,
    ) -> Result<*mut rd_kafka_topic_partition_t, Failure> {
        let topic = raw::c_string(topic)?;
        // SAFETY: the list is ours and the name is copied.
        Ok(unsafe {
            sys::rd_kafka_topic_partition_list_add(self.0.as_ptr(), topic.as_ptr(), partition)
        })
    }

    /// Gives each partition an error that only an answer takes away, so that one which the answer
    /// leaves out can't be taken for one without an offset.
    pub(super) fn mark_unanswered(&mut self) {
        // SAFETY: the list is ours, and `elems` points to `cnt` elements.
        unsafe {
            let list = self.0.as_ptr();
            for index in 0..usize::try_from((*list).cnt).unwrap_or(0) {
                (*(*list).elems.add(index)).err = rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__PARTIAL;
            }
        }
    }

    pub(super) fn as_ptr(&self) -> *mut rd_kafka_topic_partition_list_t {
        self.0.as_ptr()
    }

    /// The partitions, in the list's order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Element<'_>> {
        // SAFETY: the list lives as long as the borrow of `self`.
        unsafe { elements(self.0.as_ptr()) }
    }
}

impl Drop for PartitionList {
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once.
        unsafe { sys::rd_kafka_topic_partition_list_destroy(self.0.as_ptr()) };
    }
}

/// The partitions of a list that belongs to somebody else; none for a null pointer.
///
/// # Safety
/// `list` is null or a list that is neither changed nor freed during `'a`.
pub(super) unsafe fn elements<'a>(
    list: *const rd_kafka_topic_partition_list_t,
) -> impl ExactSizeIterator<Item = Element<'a>> {
    let items: &'a [rd_kafka_topic_partition_t_read] = if list.is_null() {
        &[]
    } else {
        // SAFETY: `elems` points to `cnt` elements (null only when there are none), of the layout
        // that the twin type repeats.
        unsafe {
            let count = usize::try_from((*list).cnt).unwrap_or(0);
            if count == 0 {
                &[]
            } else {
                slice::from_raw_parts((*list).elems.cast(), count)
            }
        }
    };
    // SAFETY: each element of the list is complete and alive during `'a`.
    items
        .iter()
        .map(|item| unsafe { element(ptr::from_ref(item).cast()) })
}

/// Reads one partition.
///
/// # Safety
/// `item` points to a partition that is neither changed nor freed during `'a`.
pub(super) unsafe fn element<'a>(item: *const rd_kafka_topic_partition_t) -> Element<'a> {
    // SAFETY: the twin type has the same layout and reads the error as a number.
    let read = unsafe { &*item.cast::<rd_kafka_topic_partition_t_read>() };
    let topic = if read.topic.is_null() {
        Cow::Borrowed("")
    } else {
        // SAFETY: not null; a C string that the element owns.
        unsafe { CStr::from_ptr(read.topic) }.to_string_lossy()
    };
    let metadata: &[u8] = if read.metadata.is_null() || read.metadata_size == 0 {
        &[]
    } else {
        // SAFETY: librdkafka keeps `metadata_size` bytes there.
        unsafe { slice::from_raw_parts(read.metadata.cast(), read.metadata_size) }
    };
    // SAFETY: a complete element; the call only reads it.
    let epoch = unsafe { sys::rd_kafka_topic_partition_get_leader_epoch(item) };
    Element {
        topic,
        partition: read.partition,
        offset: read.offset,
        leader_epoch: (epoch >= 0).then_some(epoch),
        metadata,
        code: read.err,
    }
}

/// `rd_kafka_topic_partition_t` with the error as the number that it is (see `raw.rs`).
#[repr(C)]
#[allow(non_camel_case_types)]
struct rd_kafka_topic_partition_t_read {
    topic: *mut std::ffi::c_char,
    partition: i32,
    offset: i64,
    metadata: *mut std::ffi::c_void,
    metadata_size: usize,
    opaque: *mut std::ffi::c_void,
    err: c_int,
    private: *mut std::ffi::c_void,
}

const _: () = assert!(
    size_of::<rd_kafka_topic_partition_t_read>() == size_of::<rd_kafka_topic_partition_t>()
        && std::mem::offset_of!(rd_kafka_topic_partition_t_read, err)
            == std::mem::offset_of!(rd_kafka_topic_partition_t, err)
);
