//! The native producer: messages in, delivery reports out, each with the number that its message was given.
//!
//! It has no callbacks but the log's. What librdkafka has to say comes as events of its main queue, which one
//! thread takes ([`NativeProducer::next`]). It is destroyed where its last owner drops it, on the thread of whoever writes.

use std::ffi::{c_char, c_void};
use std::ptr::{self, NonNull};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka_sys::{
    self as sys, rd_kafka_headers_t, rd_kafka_t, rd_kafka_topic_t, rd_kafka_type_t,
    rd_kafka_vtype_t as Vtype, rd_kafka_vu_t,
};

use super::callbacks;
use super::client::{self, MessageFailure};
use super::group::{Event, Queue, set_token, set_token_failure};
use super::message;
use super::raw::{self, ErrorText, Failure};
use crate::kafka::log;

/// A producer of librdkafka with its main queue.
pub(crate) struct NativeProducer {
    handle: NonNull<rd_kafka_t>,
    /// `None` only while it is dropped: queues go before the client.
    queue: Option<Queue>,
}

// SAFETY: librdkafka's handles and queues may be used from any thread.
unsafe impl Send for NativeProducer {}
// SAFETY: as above.
unsafe impl Sync for NativeProducer {}

/// What a message is made of; copied by [`NativeProducer::produce`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'m> {
    pub(crate) topic: &'m str,
    /// `None` lets the key decide.
    pub(crate) partition: Option<i32>,
    pub(crate) key: Option<&'m [u8]>,
    pub(crate) value: Option<&'m [u8]>,
    /// In order. Names are bytes, since a record may have come with one that is no text.
    pub(crate) headers: &'m [RawHeader<'m>],
    /// Milliseconds since 1970; `None` for the time of sending.
    pub(crate) timestamp: Option<i64>,
}

/// Name and value of a header.
pub(crate) type RawHeader<'h> = (&'h [u8], Option<&'h [u8]>);

/// Something that the producer says.
#[derive(Debug)]
pub(crate) enum Said {
    /// What became of a message with this number.
    Delivered {
        number: u64,
        result: Result<(), MessageFailure>,
    },
    /// An error that belongs to the whole client.
    Error(Failure),
    /// The OAUTHBEARER token is missing or about to end.
    TokenRefresh,
}

impl NativeProducer {
    /// Makes a producer. Nothing is waited for.
    pub(crate) fn open(config: &ClientConfig, token_refresh: bool) -> Result<Self, Failure> {
        let native = config
            .create_native_config()
            .map_err(|error| Failure::invalid(error.to_string()))?;
        let mut events = sys::RD_KAFKA_EVENT_DR | sys::RD_KAFKA_EVENT_ERROR;
        if token_refresh {
            events |= sys::RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH;
        }
        // SAFETY: a live configuration.
        unsafe {
            callbacks::install_log(native.ptr());
            sys::rd_kafka_conf_set_events(native.ptr(), events);
        }
        let handle = client::create(rd_kafka_type_t::RD_KAFKA_PRODUCER, native)?;
        // SAFETY: a live producer, which always has a main queue.
        let queue = unsafe {
            sys::rd_kafka_set_log_level(
                handle.as_ptr(),
                log::native_level(config.log_level as i32),
            );
            NonNull::new(sys::rd_kafka_queue_get_main(handle.as_ptr()))
        };
        Ok(Self {
            handle,
            queue: queue.map(Queue),
        })
    }

    pub(super) fn handle(&self) -> *mut rd_kafka_t {
        self.handle.as_ptr()
    }

    /// Gives a message to librdkafka, which copies it. Its report comes under `number`, unless this fails.
    pub(crate) fn produce(&self, message: &Outgoing<'_>, number: u64) -> Result<(), Failure> {
        let topic = raw::c_string(message.topic)?;
        let headers = Headers::of(message.headers)?;
        let (key, key_size) = parts(message.key);
        let (value, value_size) = parts(message.value);
        let mem = |vtype, start, size| {
            let mut part = part(vtype);
            part.u.mem = sys::rd_kafka_vu_s__bindgen_ty_1__bindgen_ty_1 { ptr: start, size };
            part
        };
        let mut arguments = vec![
            mem(Vtype::RD_KAFKA_VTYPE_KEY, key, key_size),
            mem(Vtype::RD_KAFKA_VTYPE_VALUE, value, value_size),
        ];
        let mut of_topic = part(Vtype::RD_KAFKA_VTYPE_TOPIC);
        of_topic.u.cstr = topic.as_ptr();
        let mut flags = part(Vtype::RD_KAFKA_VTYPE_MSGFLAGS);
        flags.u.i = sys::RD_KAFKA_MSG_F_COPY;
        let mut opaque = part(Vtype::RD_KAFKA_VTYPE_OPAQUE);
        opaque.u.ptr = ptr::without_provenance_mut(number as usize);
        let mut with_headers = part(Vtype::RD_KAFKA_VTYPE_HEADERS);
        with_headers.u.headers = headers.0;
        arguments.extend([of_topic, flags, opaque, with_headers]);
        if let Some(number) = message.partition {
            let mut partition = part(Vtype::RD_KAFKA_VTYPE_PARTITION);
            partition.u.i32_ = number;
            arguments.push(partition);
        }
        if let Some(millis) = message.timestamp {
            let mut timestamp = part(Vtype::RD_KAFKA_VTYPE_TIMESTAMP);
            timestamp.u.i64_ = millis;
            arguments.push(timestamp);
        }
        // SAFETY: a live producer and as many arguments as are said, each with the field of its kind; key, value
        // and topic live during the call, which copies them. librdkafka takes the headers over when it succeeds.
        unsafe {
            raw::take_error(sys::rd_kafka_produceva(
                self.handle(),
                arguments.as_ptr(),
                arguments.len(),
            ))?;
        }
        headers.given_away();
        Ok(())
    }

    /// Waits at most `timeout` for something to be said, and takes what comes together with it. Says whether something
    /// was. For one thread.
    pub(crate) fn next(&self, timeout: Duration, into: &mut Vec<Said>) -> bool {
        let Some(event) = self.queue.as_ref().and_then(|queue| queue.next(timeout)) else {
            return false;
        };
        // SAFETY: a live event.
        match unsafe { sys::rd_kafka_event_type(event.0.as_ptr()) } {
            sys::RD_KAFKA_EVENT_DR => reports(&event, into),
            sys::RD_KAFKA_EVENT_ERROR => {
                // SAFETY: a live event, whose text is copied.
                let (code, text) = unsafe {
                    (
                        raw::event_error_code(event.0.as_ptr()),
                        raw::owned(sys::rd_kafka_event_error_string(event.0.as_ptr())),
                    )
                };
                into.push(Said::Error(Failure {
                    code,
                    text: text.unwrap_or_default(),
                }));
            }
            sys::RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH => into.push(Said::TokenRefresh),
            _ => {}
        }
        true
    }

    /// Asks the cluster for a topic, so that one which was missing is found as soon as it is there.
    pub(crate) fn look_for(&self, topic: &str, timeout: Duration) -> Result<(), Failure> {
        let topic = Topic::of(self, topic)?;
        let mut metadata = ptr::null();
        // SAFETY: a live producer and topic, and a place for the answer, which is written when the code is 0 and
        // ours to free then. librdkafka takes for itself what it says of the topic.
        unsafe {
            Failure::check(raw::metadata(
                self.handle(),
                0,
                topic.0.as_ptr(),
                &mut metadata,
                raw::millis(timeout),
            ))?;
            sys::rd_kafka_metadata_destroy(metadata);
        }
        Ok(())
    }

    /// The producer's fatal error, if it has one: then it never sends anything again.
    pub(crate) fn fatal(&self) -> Option<Failure> {
        let mut text = ErrorText::new();
        // SAFETY: a live client and a buffer of the size that is given; fatal codes are from librdkafka's own list.
        let code = unsafe {
            sys::rd_kafka_fatal_error(self.handle(), text.as_mut_ptr(), text.capacity()) as i32
        };
        (code != 0).then(|| Failure {
            code,
            text: text.read(),
        })
    }

    /// Sets the OAUTHBEARER token.
    pub(crate) fn set_token(
        &self,
        token: &str,
        principal: &str,
        lifetime_ms: i64,
        extensions: &[(String, String)],
    ) -> Result<(), Failure> {
        // SAFETY: a live client.
        unsafe { set_token(self.handle(), token, principal, lifetime_ms, extensions) }
    }

    /// Says that there is no token; librdkafka asks again later.
    pub(crate) fn set_token_failure(&self, reason: &str) -> Result<(), Failure> {
        // SAFETY: a live client.
        unsafe { set_token_failure(self.handle(), reason) }
    }
}

impl Drop for NativeProducer {
    /// Throws away what was not sent, and blocks as long as librdkafka takes to end its threads.
    fn drop(&mut self) {
        self.queue = None;
        // SAFETY: owned, destroyed once; its queue is gone. Purged messages have no reader any more.
        unsafe {
            sys::rd_kafka_purge(
                self.handle(),
                sys::RD_KAFKA_PURGE_F_QUEUE
                    | sys::RD_KAFKA_PURGE_F_INFLIGHT
                    | sys::RD_KAFKA_PURGE_F_NON_BLOCKING,
            );
            sys::rd_kafka_destroy(self.handle());
        }
    }
}

/// The delivery reports of an event.
fn reports(event: &Event, into: &mut Vec<Said>) {
    loop {
        // SAFETY: a live event; its messages live as long, and there are no more after null.
        let message = unsafe { sys::rd_kafka_event_message_next(event.0.as_ptr()) };
        if message.is_null() {
            return;
        }
        // SAFETY: not null, hence a live message; `_private` is the number that it was given.
        let (number, failure) =
            unsafe { ((*message)._private.addr() as u64, message::failure(message)) };
        into.push(Said::Delivered {
            number,
            result: failure.map_or(Ok(()), Err),
        });
    }
}

/// An argument of a kind, zeroed.
fn part(vtype: Vtype) -> rd_kafka_vu_t {
    rd_kafka_vu_t {
        vtype,
        u: sys::rd_kafka_vu_s__bindgen_ty_1 { _pad: [0; 64] },
    }
}

/// Null for none, which is not the empty one.
fn parts(bytes: Option<&[u8]>) -> (*mut c_void, usize) {
    bytes.map_or((ptr::null_mut(), 0), |bytes| {
        (bytes.as_ptr().cast_mut().cast(), bytes.len())
    })
}

/// A list of headers until librdkafka takes it over.
struct Headers(*mut rd_kafka_headers_t);

impl Headers {
    fn of(headers: &[RawHeader<'_>]) -> Result<Self, Failure> {
        // SAFETY: makes an empty list.
        let list = Self(unsafe { sys::rd_kafka_headers_new(headers.len()) });
        for (name, value) in headers {
            let (value, size) = parts(*value);
            // SAFETY: a live list, and bytes of the given lengths that are copied.
            Failure::check(unsafe {
                sys::rd_kafka_header_add(
                    list.0,
                    name.as_ptr().cast::<c_char>(),
                    name.len() as isize,
                    value,
                    size as isize,
                ) as i32
            })?;
        }
        Ok(list)
    }

    fn given_away(mut self) {
        self.0 = ptr::null_mut();
    }
}

impl Drop for Headers {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: owned, destroyed once.
            unsafe { sys::rd_kafka_headers_destroy(self.0) };
        }
    }
}

/// A handle of a topic.
struct Topic(NonNull<rd_kafka_topic_t>);

impl Topic {
    fn of(producer: &NativeProducer, name: &str) -> Result<Self, Failure> {
        let name = raw::c_string(name)?;
        // SAFETY: a live producer and a C string that is copied.
        let topic =
            unsafe { sys::rd_kafka_topic_new(producer.handle(), name.as_ptr(), ptr::null_mut()) };
        NonNull::new(topic)
            .map(Self)
            .ok_or_else(|| Failure::invalid("librdkafka does not take the topic's name"))
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once, before its producer.
        unsafe { sys::rd_kafka_topic_destroy(self.0.as_ptr()) };
    }
}
