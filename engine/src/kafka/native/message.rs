//! A received message, owned and read in place.
//!
//! ```text
//!   NativeRecord          rd_kafka_message_t            fetched batch
//!   message  ----------->  offset, partition
//!   client (counts it)     key, value    ------------>  bytes, not copied
//! ```
//! A record that was made (for tests and for the in-memory source) points to a [`Made`] whose first
//! field is a filled `rd_kafka_message_t`, so that the fields everybody reads cost no branch.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka_sys::{self as sys, rd_kafka_headers_t, rd_kafka_message_t, rd_kafka_timestamp_type_t};

use super::client::{Client, MessageFailure};
use super::raw::{self, Failure};
use crate::kafka::record::{PartitionToken, RecordParts, Timestamp};

/// One record, two words: the message, and the client that counts it.
///
/// It is read-only, may move to any thread, and outlives the source. Dropping it destroys the
/// message. As long as it lives it pins the fetched batch that it came in.
pub(crate) struct NativeRecord {
    message: NonNull<rd_kafka_message_t>,
    /// Null for a record that was made.
    client: *const Client,
}

// SAFETY: librdkafka's messages may be used and destroyed on any thread, and the client's count is
// atomic. A made record owns plain memory.
unsafe impl Send for NativeRecord {}
// SAFETY: all reading is of fields that nobody writes after the message was received, except for
// the headers, which librdkafka parses at the first request: `headers` takes a lock for that.
unsafe impl Sync for NativeRecord {}

/// A record that was made, not received.
#[repr(C)]
struct Made {
    /// First, so that a pointer to it is a pointer to the whole.
    message: rd_kafka_message_t,
    topic: Arc<str>,
    timestamp: Option<Timestamp>,
    leader_epoch: Option<i32>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// Where a record's headers are.
#[derive(Clone, Copy)]
pub(crate) enum HeaderSource<'r> {
    /// There are none.
    None,
    /// In librdkafka's parsed list.
    Native(&'r rd_kafka_headers_t),
    /// In a made record.
    Made(&'r [(Vec<u8>, Option<Vec<u8>>)]),
}

/// Parsing writes to the message; records share these locks by address.
static PARSING: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

impl NativeRecord {
    /// Takes a message over that the client has counted.
    ///
    /// # Safety
    /// The caller owns the message and gives it up; `client` counted it and stays where it is until
    /// the count goes down.
    pub(super) unsafe fn from_raw(message: NonNull<rd_kafka_message_t>, client: &Client) -> Self {
        Self {
            message,
            client: ptr::from_ref(client),
        }
    }

    /// Makes a record out of its parts.
    pub(crate) fn made(parts: RecordParts) -> Self {
        let (key, key_len) = leak(parts.key);
        let (payload, len) = leak(parts.value);
        let made = Made {
            message: rd_kafka_message_t {
                err: sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR,
                rkt: ptr::null_mut(),
                partition: parts.partition,
                payload,
                len,
                key,
                key_len,
                offset: parts.offset,
                _private: ptr::null_mut(),
            },
            topic: parts.topic,
            timestamp: parts.timestamp,
            leader_epoch: parts.leader_epoch,
            headers: parts.headers,
        };
        let message = NonNull::from(Box::leak(Box::new(made))).cast();
        Self {
            message,
            client: ptr::null(),
        }
    }

    #[inline]
    pub(super) fn message(&self) -> *mut rd_kafka_message_t {
        self.message.as_ptr()
    }

    #[inline]
    fn made_parts(&self) -> Option<&Made> {
        // SAFETY: without a client the message is the first field of a `Made` that this record owns,
        // and the pointer was made from one to the whole.
        self.client
            .is_null()
            .then(|| unsafe { self.message.cast::<Made>().as_ref() })
    }

    /// The record's offset.
    #[inline]
    pub(crate) fn offset(&self) -> i64 {
        // SAFETY: the message is alive as long as the record; nobody writes the field.
        unsafe { (*self.message()).offset }
    }

    /// The record's partition.
    #[inline]
    pub(crate) fn partition(&self) -> i32 {
        // SAFETY: as in `offset`.
        unsafe { (*self.message()).partition }
    }

    /// The partition as two numbers, cheap to compare and to hash. Valid as a name only while the
    /// partition stays assigned: afterwards librdkafka may give the topic's address to another.
    #[inline]
    pub(crate) fn partition_token(&self) -> PartitionToken {
        let topic = match self.made_parts() {
            None => {
                // SAFETY: as in `offset`.
                unsafe { (*self.message()).rkt as usize }
            }
            Some(made) => made.topic.as_ptr() as usize,
        };
        PartitionToken {
            topic,
            partition: self.partition(),
        }
    }

    /// The record's key; `None` for a null key, which is not an empty one.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        // SAFETY: the message is alive, and its key has `key_len` bytes for as long.
        unsafe { bytes((*self.message()).key, (*self.message()).key_len) }
    }

    /// The record's value; `None` for a null value, a tombstone.
    #[inline]
    pub(crate) fn value(&self) -> Option<&[u8]> {
        // SAFETY: as in `key`.
        unsafe { bytes((*self.message()).payload, (*self.message()).len) }
    }

    /// Bytes of key and value: what librdkafka counts as a partition's `rxbytes`.
    #[inline]
    pub(crate) fn payload_bytes(&self) -> usize {
        // SAFETY: as in `offset`.
        unsafe { (*self.message()).key_len + (*self.message()).len }
    }

    /// The topic's name.
    pub(crate) fn topic_name(&self) -> &str {
        if let Some(made) = self.made_parts() {
            return &made.topic;
        }
        // SAFETY: a received record has its topic, whose name lives as long as the message holds it.
        let name = unsafe { CStr::from_ptr(sys::rd_kafka_topic_name((*self.message()).rkt)) };
        // Kafka's topic names are ASCII; a broker that sends others gets an empty name here.
        name.to_str().unwrap_or_default()
    }

    /// When the record was created or appended, where the topic says.
    pub(crate) fn timestamp(&self) -> Option<Timestamp> {
        if let Some(made) = self.made_parts() {
            return made.timestamp;
        }
        let mut kind = rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is alive; the call reads it. Kinds are librdkafka's own.
        let millis = unsafe { sys::rd_kafka_message_timestamp(self.message(), &mut kind) };
        match kind {
            rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_CREATE_TIME => {
                Some(Timestamp::Created(millis))
            }
            rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME => {
                Some(Timestamp::Appended(millis))
            }
            rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE => None,
        }
    }

    /// The leader epoch of the batch, where the broker gives one.
    pub(crate) fn leader_epoch(&self) -> Option<i32> {
        if let Some(made) = self.made_parts() {
            return made.leader_epoch;
        }
        // SAFETY: the message is alive; the call reads it.
        let epoch = unsafe { sys::rd_kafka_message_leader_epoch(self.message()) };
        (epoch >= 0).then_some(epoch)
    }

    /// Where the headers are; an error when they can't be read.
    pub(crate) fn header_source(&self) -> Result<HeaderSource<'_>, Failure> {
        if let Some(made) = self.made_parts() {
            return Ok(HeaderSource::Made(&made.headers));
        }
        let mut headers: *mut rd_kafka_headers_t = ptr::null_mut();
        let lock = &PARSING[(self.message() as usize >> 7) % PARSING.len()];
        let code = {
            let _parsing = lock.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the message is alive. The first call parses and writes to the message, later
            // ones read what it wrote; the lock puts them in an order. The codes are local ones.
            unsafe { sys::rd_kafka_message_headers(self.message(), &mut headers) as i32 }
        };
        if code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__NOENT as i32 {
            return Ok(HeaderSource::None);
        }
        Failure::check(code)?;
        // SAFETY: the list belongs to the message and is not changed after it was parsed.
        Ok(unsafe { headers.as_ref() }.map_or(HeaderSource::None, HeaderSource::Native))
    }

    /// Frees the parsed headers; the next question for them parses them anew.
    pub(crate) fn forget_headers(&mut self) {
        if self.made_parts().is_some() {
            return;
        }
        let mut headers: *mut rd_kafka_headers_t = ptr::null_mut();
        // SAFETY: the message is alive, and nobody else has it or a reference into its headers, as `self` is exclusive.
        // What is detached is the caller's, and librdkafka keeps the bytes from which it was parsed.
        unsafe {
            let code = sys::rd_kafka_message_detach_headers(self.message(), &mut headers);
            if code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR && !headers.is_null() {
                sys::rd_kafka_headers_destroy(headers);
            }
        }
    }
}

impl Drop for NativeRecord {
    fn drop(&mut self) {
        if self.client.is_null() {
            // SAFETY: the box of `made`, given back once; its two leaked blocks too.
            unsafe {
                let made = Box::from_raw(self.message.cast::<Made>().as_ptr());
                unleak(made.message.key, made.message.key_len);
                unleak(made.message.payload, made.message.len);
            }
            return;
        }
        // SAFETY: an owned message, destroyed once, before the count goes down; nothing is touched
        // after that.
        unsafe {
            sys::rd_kafka_message_destroy(self.message());
            Client::record_gone(self.client);
        }
    }
}

impl<'r> HeaderSource<'r> {
    /// How many headers there are.
    pub(crate) fn count(self) -> usize {
        match self {
            Self::None => 0,
            // SAFETY: a list that lives during `'r` and is not changed.
            Self::Native(headers) => unsafe { sys::rd_kafka_header_cnt(headers) },
            Self::Made(headers) => headers.len(),
        }
    }

    /// Name and value of the header at an index.
    pub(crate) fn header(self, index: usize) -> Option<(&'r [u8], Option<&'r [u8]>)> {
        match self {
            Self::None => None,
            Self::Made(headers) => headers
                .get(index)
                .map(|(name, value)| (name.as_slice(), value.as_deref())),
            Self::Native(headers) => {
                let mut name: *const c_char = ptr::null();
                let mut value: *const c_void = ptr::null();
                let mut size = 0;
                // SAFETY: as in `count`; an index past the end is an error code, a local one.
                let code = unsafe {
                    sys::rd_kafka_header_get_all(headers, index, &mut name, &mut value, &mut size)
                        as i32
                };
                if code != 0 || name.is_null() {
                    return None;
                }
                // SAFETY: name and value belong to the list, which lives during `'r`.
                Some(unsafe {
                    (
                        CStr::from_ptr(name).to_bytes(),
                        bytes(value.cast_mut(), size),
                    )
                })
            }
        }
    }
}

/// The error that a message stands for, if it does.
///
/// # Safety
/// `message` points to a message that lives during the call.
pub(super) unsafe fn failure(message: *const rd_kafka_message_t) -> Option<MessageFailure> {
    // SAFETY: alive; the error is read as the integer that it is (see `raw.rs`).
    let code = unsafe { (&raw const (*message).err).cast::<i32>().read() };
    if code == 0 {
        return None;
    }
    // SAFETY: alive; text and topic name belong to the message and are copied.
    unsafe {
        let rkt = (*message).rkt;
        let topic = if rkt.is_null() {
            None
        } else {
            raw::owned(sys::rd_kafka_topic_name(rkt))
        };
        let text = raw::owned(sys::rd_kafka_message_errstr(message)).unwrap_or_default();
        Some(MessageFailure {
            failure: Failure { code, text },
            topic,
            partition: (*message).partition,
            offset: (*message).offset,
        })
    }
}

/// # Safety
/// `start` is null or points to `length` bytes that nobody writes during `'a`.
#[inline]
unsafe fn bytes<'a>(start: *mut c_void, length: usize) -> Option<&'a [u8]> {
    // SAFETY: as the caller vouches.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start.cast::<u8>(), length) })
}

fn leak(bytes: Option<Vec<u8>>) -> (*mut c_void, usize) {
    bytes.map_or((ptr::null_mut(), 0), |bytes| {
        let length = bytes.len();
        (Box::into_raw(bytes.into_boxed_slice()).cast(), length)
    })
}

/// # Safety
/// `start` and `length` are what `leak` answered, and this is the first time.
unsafe fn unleak(start: *mut c_void, length: usize) {
    if !start.is_null() {
        // SAFETY: the parts of a boxed slice.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(start.cast::<u8>(), length)) });
    }
}
