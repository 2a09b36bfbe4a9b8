//! What librdkafka calls: each callback stores what it was told and returns.
//!
//! They run inside `rd_kafka_consume_batch_queue`, in the middle of a batch whose first records are
//! already out of the queue. So nothing is handled here; the source handles the records first, then
//! what was stored. Each callback that stores something asks the queue to yield, so that a poll
//! which found no record returns at once and not at its timeout. That is `rd_kafka_queue_yield`,
//! which only ends a wait on an empty queue; `rd_kafka_yield` would drop the next record.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use rdkafka_sys::{
    self as sys, rd_kafka_conf_t, rd_kafka_queue_t, rd_kafka_resp_err_t, rd_kafka_t,
    rd_kafka_topic_partition_list_t,
};

use super::group::Protocol;
use super::{list, raw};
use crate::kafka::log;

/// Something that a callback stored, in the order of happening.
#[derive(Debug)]
pub(crate) enum Stashed {
    /// The group gave partitions. Nothing is delivered until the answer.
    Assign {
        partitions: Vec<(String, i32)>,
        protocol: Protocol,
    },
    /// The group takes partitions back, or has lost them.
    Revoke {
        partitions: Vec<(String, i32)>,
        protocol: Protocol,
        lost: bool,
    },
    /// An error that belongs to the whole client.
    Error { code: i32, text: String },
    /// The statistics as JSON.
    Statistics(Vec<u8>),
    /// The OAUTHBEARER token is missing or about to end.
    TokenRefresh,
}

/// The callbacks' side of a client; librdkafka's opaque pointer points to it.
pub(super) struct Callbacks {
    stash: Mutex<Vec<Stashed>>,
    pending: AtomicBool,
    queue: AtomicPtr<rd_kafka_queue_t>,
}

impl Callbacks {
    pub(super) fn new() -> Box<Self> {
        Box::new(Self {
            stash: Mutex::new(Vec::new()),
            pending: AtomicBool::new(false),
            queue: AtomicPtr::new(ptr::null_mut()),
        })
    }

    /// The queue to wake. Null before the client exists and after it was destroyed.
    pub(super) fn set_queue(&self, queue: *mut rd_kafka_queue_t) {
        self.queue.store(queue, Ordering::Release);
    }

    /// Takes what was stored since the last call.
    pub(super) fn take(&self) -> Vec<Stashed> {
        if !self.pending.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut *self.stash.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn store(&self, event: Stashed) {
        self.stash
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(event);
        self.pending.store(true, Ordering::Release);
        let queue = self.queue.load(Ordering::Acquire);
        if !queue.is_null() {
            // SAFETY: the queue lives until the client is destroyed, and callbacks run only before;
            // librdkafka holds no lock of the queue while it runs a callback.
            unsafe { sys::rd_kafka_queue_yield(queue) };
        }
    }
}

/// Puts the callbacks into a configuration.
///
/// # Safety
/// `conf` is a live configuration, and `callbacks` outlives the client that is made of it.
pub(super) unsafe fn install(
    conf: *mut rd_kafka_conf_t,
    callbacks: &Callbacks,
    token_refresh: bool,
) {
    // SAFETY: the configuration is the caller's; the functions have the signatures that are asked.
    unsafe {
        sys::rd_kafka_conf_set_opaque(conf, ptr::from_ref(callbacks).cast_mut().cast());
        sys::rd_kafka_conf_set_rebalance_cb(conf, Some(on_rebalance));
        sys::rd_kafka_conf_set_error_cb(conf, Some(on_error));
        sys::rd_kafka_conf_set_stats_cb(conf, Some(on_statistics));
        sys::rd_kafka_conf_set_log_cb(conf, Some(on_log));
        if token_refresh {
            sys::rd_kafka_conf_set_oauthbearer_token_refresh_cb(conf, Some(on_token_refresh));
        }
    }
}

/// Only the log callback, for clients that are not sources.
///
/// # Safety
/// `conf` is a live configuration.
pub(super) unsafe fn install_log(conf: *mut rd_kafka_conf_t) {
    // SAFETY: as the caller vouches.
    unsafe { sys::rd_kafka_conf_set_log_cb(conf, Some(on_log)) };
}

unsafe extern "C" fn on_rebalance(
    rk: *mut rd_kafka_t,
    code: rd_kafka_resp_err_t,
    partitions: *mut rd_kafka_topic_partition_list_t,
    opaque: *mut c_void,
) {
    // SAFETY: librdkafka passes back the pointer of `install`, a live client, and a list that lives
    // during the call.
    let (callbacks, partitions, protocol, lost) = unsafe {
        (
            &*opaque.cast::<Callbacks>(),
            list::elements(partitions)
                .map(|e| (e.topic.into_owned(), e.partition))
                .collect::<Vec<_>>(),
            Protocol::of(rk),
            sys::rd_kafka_assignment_lost(rk) != 0,
        )
    };
    callbacks.store(match code {
        rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Stashed::Assign {
            partitions,
            protocol,
        },
        _ => Stashed::Revoke {
            partitions,
            protocol,
            lost,
        },
    });
}

unsafe extern "C" fn on_error(
    rk: *mut rd_kafka_t,
    code: c_int,
    reason: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: as in `on_rebalance`; `reason` is a C string.
    let (callbacks, mut text) = unsafe {
        (
            &*opaque.cast::<Callbacks>(),
            raw::owned(reason).unwrap_or_default(),
        )
    };
    if code == rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__FATAL as i32 {
        let mut cause = raw::ErrorText::new();
        // SAFETY: a live client, and a buffer of the size that is given. The code is one of
        // librdkafka's list: fatal errors are raised by its own code only.
        unsafe { sys::rd_kafka_fatal_error(rk, cause.as_mut_ptr(), cause.capacity()) };
        text = cause.read();
    }
    callbacks.store(Stashed::Error { code, text });
}

unsafe extern "C" fn on_statistics(
    _rk: *mut rd_kafka_t,
    json: *mut c_char,
    length: usize,
    opaque: *mut c_void,
) -> c_int {
    // SAFETY: as in `on_rebalance`; `json` has `length` bytes, which librdkafka frees afterwards
    // because 0 is returned.
    let (callbacks, json) = unsafe {
        (
            &*opaque.cast::<Callbacks>(),
            slice::from_raw_parts(json.cast::<u8>(), length).to_vec(),
        )
    };
    callbacks.store(Stashed::Statistics(json));
    0
}

unsafe extern "C" fn on_token_refresh(
    _rk: *mut rd_kafka_t,
    _config: *const c_char,
    opaque: *mut c_void,
) {
    // SAFETY: as in `on_rebalance`.
    unsafe { &*opaque.cast::<Callbacks>() }.store(Stashed::TokenRefresh);
}

unsafe extern "C" fn on_log(
    _rk: *const rd_kafka_t,
    level: c_int,
    facility: *const c_char,
    text: *const c_char,
) {
    // SAFETY: two C strings that live during the call.
    let (facility, text) = unsafe { (raw::owned(facility), raw::owned(text)) };
    // A subscriber of the application runs here, on any of librdkafka's threads; its panic must not
    // cross C.
    let _ = panic::catch_unwind(AssertUnwindSafe(|| {
        log::emit(
            level,
            &facility.unwrap_or_default(),
            &text.unwrap_or_default(),
        );
    }));
}
