//! Transactions of a producer, and the consumer's word for which member of its group a transaction is.

use std::ptr::NonNull;
use std::time::Duration;

use rdkafka_sys::{self as sys, rd_kafka_consumer_group_metadata_t, rd_kafka_error_t};

use super::client::Client;
use super::list::PartitionList;
use super::producer::NativeProducer;
use super::raw::{self, Failure};

/// Member and generation as they were at one moment: what offsets of a transaction are judged by.
pub(crate) struct GroupMetadata(NonNull<rd_kafka_consumer_group_metadata_t>);

// SAFETY: the object owns all that it points to, and is only read after it was made.
unsafe impl Send for GroupMetadata {}

impl Drop for GroupMetadata {
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once.
        unsafe { sys::rd_kafka_consumer_group_metadata_destroy(self.0.as_ptr()) };
    }
}

/// Why a step of a transaction did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepFailure {
    pub(crate) failure: Failure,
    /// The same step goes on where it is called again.
    pub(crate) is_retriable: bool,
}

impl Client {
    /// Member and generation of this moment; `None` while librdkafka has no group to tell of.
    pub(crate) fn group_metadata(&self) -> Option<GroupMetadata> {
        // SAFETY: a live client; the object is ours.
        NonNull::new(unsafe { sys::rd_kafka_consumer_group_metadata(self.handle()) })
            .map(GroupMetadata)
    }
}

impl NativeProducer {
    /// Takes the transactional id over: what an earlier producer of that id has open is ended first.
    pub(crate) fn init_transactions(&self, timeout: Duration) -> Result<(), StepFailure> {
        // SAFETY: a live producer; the error is ours to free.
        unsafe {
            take_step_error(sys::rd_kafka_init_transactions(
                self.handle(),
                raw::millis(timeout),
            ))
        }
    }

    pub(crate) fn begin_transaction(&self) -> Result<(), StepFailure> {
        // SAFETY: as above.
        unsafe { take_step_error(sys::rd_kafka_begin_transaction(self.handle())) }
    }

    pub(crate) fn send_offsets(
        &self,
        offsets: &PartitionList,
        group: &GroupMetadata,
        timeout: Duration,
    ) -> Result<(), StepFailure> {
        // SAFETY: as above; list and metadata live during the call, which copies them.
        unsafe {
            take_step_error(sys::rd_kafka_send_offsets_to_transaction(
                self.handle(),
                offsets.as_ptr(),
                group.0.as_ptr(),
                raw::millis(timeout),
            ))
        }
    }

    pub(crate) fn commit_transaction(&self, timeout: Duration) -> Result<(), StepFailure> {
        // SAFETY: as above.
        unsafe {
            take_step_error(sys::rd_kafka_commit_transaction(
                self.handle(),
                raw::millis(timeout),
            ))
        }
    }

    pub(crate) fn abort_transaction(&self, timeout: Duration) -> Result<(), StepFailure> {
        // SAFETY: as above.
        unsafe {
            take_step_error(sys::rd_kafka_abort_transaction(
                self.handle(),
                raw::millis(timeout),
            ))
        }
    }
}

/// # Safety
/// As [`raw::take_error`].
unsafe fn take_step_error(error: *mut rd_kafka_error_t) -> Result<(), StepFailure> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: not null, and alive until it is taken.
    let (is_retriable, outcome) = unsafe {
        let is_retriable = sys::rd_kafka_error_is_retriable(error) != 0;
        (is_retriable, raw::take_error(error))
    };
    outcome.map_err(|failure| StepFailure {
        failure,
        is_retriable,
    })
}
