//! The native client: made, polled, and destroyed when nothing of it is in use.

use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka_sys::{self as sys, rd_kafka_message_t, rd_kafka_queue_t, rd_kafka_t, rd_kafka_type_t};

use super::callbacks::{self, Callbacks, Stashed};
use super::message::{self, NativeRecord};
use super::raw::{self, ErrorText, Failure};
use crate::kafka::log;

/// A consumer of librdkafka with its consumer queue.
///
/// Records point to it without owning it, so that receiving one costs no reference count of its
/// own; whoever holds the last `Arc` must not drop it while [`Client::live`] is above 0. The closer
/// thread sees to that (`close.rs`).
pub(crate) struct Client {
    handle: NonNull<rd_kafka_t>,
    queue: NonNull<rd_kafka_queue_t>,
    close_queue: NonNull<rd_kafka_queue_t>,
    callbacks: Box<Callbacks>,
    closing: AtomicBool,
    destroyed: AtomicBool,
    /// Calls of other threads that are inside librdkafka.
    calls: AtomicUsize,
    live: Padded,
}

/// The live count has a cache line of its own: workers write it, and the poll thread reads what is
/// beside it.
#[repr(align(128))]
struct Padded(AtomicUsize);

// SAFETY: librdkafka's handles and queues may be used from any thread; the rest is atomic or locked.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

/// Permission to be inside librdkafka, held by calls from other threads than the poll thread.
pub(crate) struct Call<'c>(&'c Client);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Release);
    }
}

/// The reused array that a poll fills.
#[derive(Default)]
pub(crate) struct Batch(Vec<*mut rd_kafka_message_t>);

// SAFETY: the array is empty between polls.
unsafe impl Send for Batch {}

/// A message that stands for an error of a partition, or of the group.
#[derive(Debug)]
pub(crate) struct MessageFailure {
    /// What happened.
    pub(crate) failure: Failure,
    /// The topic, where there is one.
    pub(crate) topic: Option<String>,
    /// The partition; negative where there is none.
    pub(crate) partition: i32,
    /// The position in question; negative where there is none.
    pub(crate) offset: i64,
}

impl Client {
    /// Makes a consumer and takes its consumer queue, which serves everything from then on.
    pub(crate) fn open(config: &ClientConfig, token_refresh: bool) -> Result<Self, Failure> {
        let native = config
            .create_native_config()
            .map_err(|error| Failure::invalid(error.to_string()))?;
        let callbacks = Callbacks::new();
        // SAFETY: the configuration is alive; the box goes into the client, which outlives the handle.
        unsafe { callbacks::install(native.ptr(), &callbacks, token_refresh) };
        let handle = create(rd_kafka_type_t::RD_KAFKA_CONSUMER, native)?;
        // SAFETY: a live consumer. Without a group these fail, which the checks of `config.rs` and
        // the null test below answer.
        let (redirected, queue, close_queue) = unsafe {
            sys::rd_kafka_set_log_level(
                handle.as_ptr(),
                log::native_level(config.log_level as i32),
            );
            (
                sys::rd_kafka_poll_set_consumer(handle.as_ptr()) as i32,
                sys::rd_kafka_queue_get_consumer(handle.as_ptr()),
                sys::rd_kafka_queue_new(handle.as_ptr()),
            )
        };
        let (Some(queue), Some(close_queue)) = (NonNull::new(queue), NonNull::new(close_queue))
        else {
            // SAFETY: the handle was made above, and nobody else knows it.
            unsafe {
                sys::rd_kafka_destroy_flags(
                    handle.as_ptr(),
                    sys::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE,
                );
            }
            return Err(Failure::of_code(redirected));
        };
        callbacks.set_queue(queue.as_ptr());
        Ok(Self {
            handle,
            queue,
            close_queue,
            callbacks,
            closing: AtomicBool::new(false),
            destroyed: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            live: Padded(AtomicUsize::new(0)),
        })
    }

    pub(super) fn handle(&self) -> *mut rd_kafka_t {
        debug_assert!(
            !self.destroyed.load(Ordering::Relaxed),
            "used after it was destroyed"
        );
        self.handle.as_ptr()
    }

    pub(super) fn close_queue(&self) -> *mut rd_kafka_queue_t {
        self.close_queue.as_ptr()
    }

    /// Receives up to `max` messages: waits at most `timeout` for the first, takes the rest as far
    /// as they are there. Errors among them go to `failures`. Answers the bytes of the records' keys
    /// and values, the measure of librdkafka's `rxbytes`.
    ///
    /// Two calls, because one returns only when its array is full or the time is over.
    pub(crate) fn receive(
        &self,
        batch: &mut Batch,
        max: usize,
        timeout: Duration,
        records: &mut Vec<NativeRecord>,
        failures: &mut Vec<MessageFailure>,
    ) -> u64 {
        let max = max.max(1);
        batch.0.clear();
        batch.0.reserve(max);
        let array = batch.0.as_mut_ptr();
        // SAFETY: the array has room for `max` pointers, and each call writes at most as many as it
        // is told, from the place it is told. Callbacks run in here; they only store.
        let received = unsafe {
            let first = count(sys::rd_kafka_consume_batch_queue(
                self.queue.as_ptr(),
                raw::millis(timeout),
                array,
                1,
            ));
            if first == 1 && max > 1 {
                1 + count(sys::rd_kafka_consume_batch_queue(
                    self.queue.as_ptr(),
                    0,
                    array.add(1),
                    max - 1,
                ))
            } else {
                first
            }
        };
        records.reserve(received);
        self.live.0.fetch_add(received, Ordering::Relaxed);
        let mut bytes = 0;
        for index in 0..received {
            // SAFETY: the first `received` pointers were written and are owned messages, each taken
            // once and counted above.
            let record =
                unsafe { NativeRecord::from_raw(NonNull::new_unchecked(*array.add(index)), self) };
            // SAFETY: the message is alive: `record` owns it.
            match unsafe { message::failure(record.message()) } {
                None => {
                    bytes += record.payload_bytes() as u64;
                    records.push(record);
                }
                Some(failure) => failures.push(failure),
            }
        }
        bytes
    }

    /// Takes what callbacks stored since the last call.
    pub(crate) fn stashed(&self) -> Vec<Stashed> {
        self.callbacks.take()
    }

    /// Ends the wait of the poll that runs, or of the next one that finds no record. Nothing once
    /// closing began.
    pub(crate) fn wake(&self) {
        if let Some(_call) = self.enter() {
            // SAFETY: the call keeps the queue alive.
            unsafe { sys::rd_kafka_queue_yield(self.queue.as_ptr()) };
        }
    }

    /// Permission for a call from another thread than the poll thread; `None` once closing began.
    pub(crate) fn enter(&self) -> Option<Call<'_>> {
        // Sequentially consistent against `quiet`: either this sees `closing`, or that sees the call.
        self.calls.fetch_add(1, Ordering::SeqCst);
        let call = Call(self);
        (!self.closing.load(Ordering::SeqCst)).then_some(call)
    }

    /// No call begins after this.
    pub(crate) fn refuse_calls(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Records that were received and not yet destroyed.
    pub(crate) fn live(&self) -> usize {
        self.live.0.load(Ordering::Acquire)
    }

    /// True when calls are refused, none is inside, and no record lives: from then on for ever.
    pub(crate) fn quiet(&self) -> bool {
        let quiet = self.closing.load(Ordering::SeqCst)
            && self.calls.load(Ordering::SeqCst) == 0
            && self.live.0.load(Ordering::SeqCst) == 0;
        // The last use of each record and call happened before what follows.
        fence(Ordering::Acquire);
        quiet
    }

    /// A record's message was destroyed. Nothing of the client may be touched after this call, since
    /// the closer may go on at once.
    ///
    /// # Safety
    /// `client` points to the client that counted the record, and the record's last use is over.
    pub(super) unsafe fn record_gone(client: *const Self) {
        // SAFETY: while the count is above 0 the client is not freed (`close.rs`). Release: what the
        // record's owner did happens before the closer sees 0.
        unsafe { (*client).live.0.fetch_sub(1, Ordering::Release) };
    }

    /// Destroys the native client without leaving the group; blocks as long as librdkafka wants to.
    /// Does nothing unless [`Client::quiet`], and nothing the second time.
    pub(crate) fn destroy(&self) {
        if !self.quiet() || self.destroyed.swap(true, Ordering::SeqCst) {
            return;
        }
        self.callbacks.set_queue(ptr::null_mut());
        // SAFETY: quiet: no record lives and no call is inside or can begin; the source, which polls
        // without a call, is gone before anybody refuses calls (`close.rs`). Queues go first, and
        // the flag above makes this the only time.
        unsafe {
            sys::rd_kafka_queue_destroy(self.close_queue.as_ptr());
            sys::rd_kafka_queue_destroy(self.queue.as_ptr());
            sys::rd_kafka_destroy_flags(
                self.handle.as_ptr(),
                sys::RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE,
            );
        }
    }
}

/// Makes a client of a configuration, which librdkafka takes over when that succeeds.
pub(super) fn create(
    kind: rd_kafka_type_t,
    config: rdkafka::config::NativeClientConfig,
) -> Result<NonNull<rd_kafka_t>, Failure> {
    let config = ManuallyDrop::new(config);
    let mut text = ErrorText::new();
    // SAFETY: a live configuration and a buffer of the size that is given.
    let handle =
        unsafe { sys::rd_kafka_new(kind, config.ptr(), text.as_mut_ptr(), text.capacity()) };
    NonNull::new(handle).ok_or_else(|| {
        // librdkafka took nothing, so the configuration is freed here.
        drop(ManuallyDrop::into_inner(config));
        Failure::invalid(text.read())
    })
}

fn count(received: isize) -> usize {
    usize::try_from(received).unwrap_or(0)
}
