//! Calls about the group and the assignment.

use std::ffi::CStr;
use std::ptr::{self, NonNull};
use std::time::Duration;

use rdkafka_sys::{self as sys, rd_kafka_queue_t, rd_kafka_t};

use super::client::Client;
use super::list::{self, PartitionList};
use super::raw::{self, ErrorText, Failure};

/// How an assignment is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// All at once.
    Eager,
    /// By what comes and goes: `cooperative-sticky`, and the consumer protocol.
    Cooperative,
    /// Not joined.
    None,
}

impl Protocol {
    /// # Safety
    /// `rk` is a live client.
    pub(super) unsafe fn of(rk: *mut rd_kafka_t) -> Self {
        // SAFETY: a live client; the answer is null or a static string.
        let name = unsafe { sys::rd_kafka_rebalance_protocol(rk) };
        if name.is_null() {
            return Self::None;
        }
        // SAFETY: not null.
        match unsafe { CStr::from_ptr(name) }.to_bytes() {
            b"COOPERATIVE" => Self::Cooperative,
            b"EAGER" => Self::Eager,
            _ => Self::None,
        }
    }
}

/// A commit that librdkafka has taken; its answer comes on a queue of its own. Dropping it drops the
/// answer.
pub(crate) struct HandOver {
    queue: Queue,
}

/// What came back for a commit: the code of the whole, and each partition with its own.
pub(crate) struct CommitReply {
    pub(crate) code: i32,
    pub(crate) partitions: Vec<(String, i32, i32)>,
}

impl HandOver {
    /// Waits for the answer; `None` when there is none in time.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<CommitReply> {
        let event = self.queue.next(timeout)?;
        // SAFETY: an event that is alive; its list belongs to it and is copied.
        unsafe {
            let code = raw::event_error_code(event.0.as_ptr());
            let offsets = sys::rd_kafka_event_topic_partition_list(event.0.as_ptr());
            let partitions = list::elements(offsets)
                .map(|e| (e.topic.into_owned(), e.partition, e.code))
                .collect();
            Some(CommitReply { code, partitions })
        }
    }
}

impl Client {
    /// Subscribes; names that start with `^` are patterns.
    pub(crate) fn subscribe(&self, topics: &[String]) -> Result<(), Failure> {
        let list = PartitionList::of(topics.iter().map(|topic| (topic.as_str(), -1)))?;
        // SAFETY: a live client and list; the list is copied.
        Failure::check(unsafe { sys::rd_kafka_subscribe(self.handle(), list.as_ptr()) as i32 })
    }

    /// Gives the subscription up; the group takes everything back and is left.
    pub(crate) fn unsubscribe(&self) -> Result<(), Failure> {
        // SAFETY: a live client.
        Failure::check(unsafe { sys::rd_kafka_unsubscribe(self.handle()) as i32 })
    }

    /// How the assignment is changed at this moment.
    pub(crate) fn protocol(&self) -> Protocol {
        // SAFETY: a live client.
        unsafe { Protocol::of(self.handle()) }
    }

    /// Makes this the whole assignment; `None` takes all away.
    pub(crate) fn assign_all(&self, partitions: Option<&PartitionList>) -> Result<(), Failure> {
        let list = partitions.map_or(ptr::null_mut(), PartitionList::as_ptr);
        // SAFETY: a live client; the list is null or alive, and copied.
        Failure::check(unsafe { sys::rd_kafka_assign(self.handle(), list) as i32 })
    }

    /// Adds to the assignment.
    pub(crate) fn assign_more(&self, partitions: &PartitionList) -> Result<(), Failure> {
        // SAFETY: a live client and list, which is copied; the error is ours to free.
        unsafe {
            raw::take_error(sys::rd_kafka_incremental_assign(
                self.handle(),
                partitions.as_ptr(),
            ))
        }
    }

    /// Takes from the assignment.
    pub(crate) fn assign_less(&self, partitions: &PartitionList) -> Result<(), Failure> {
        // SAFETY: as in `assign_more`.
        unsafe {
            raw::take_error(sys::rd_kafka_incremental_unassign(
                self.handle(),
                partitions.as_ptr(),
            ))
        }
    }

    /// Stops delivery of partitions; what was fetched for them and not delivered is thrown away.
    pub(crate) fn pause(&self, partitions: &PartitionList) -> Result<(), Failure> {
        // SAFETY: a live client and list; the list's error fields are written.
        Failure::check(unsafe {
            sys::rd_kafka_pause_partitions(self.handle(), partitions.as_ptr()) as i32
        })
    }

    /// Takes delivery up again.
    pub(crate) fn resume(&self, partitions: &PartitionList) -> Result<(), Failure> {
        // SAFETY: as in `pause`.
        Failure::check(unsafe {
            sys::rd_kafka_resume_partitions(self.handle(), partitions.as_ptr()) as i32
        })
    }

    /// Moves positions; what was fetched from the old ones is never delivered afterwards. The
    /// list's error of each partition is the answer.
    pub(crate) fn seek(
        &self,
        partitions: &PartitionList,
        timeout: Duration,
    ) -> Result<(), Failure> {
        // SAFETY: as in `pause`; the error is ours to free.
        unsafe {
            raw::take_error(sys::rd_kafka_seek_partitions(
                self.handle(),
                partitions.as_ptr(),
                raw::millis(timeout),
            ))
        }
    }

    /// True when the group has given the partitions to others, or may have.
    pub(crate) fn assignment_lost(&self) -> bool {
        // SAFETY: a live client.
        unsafe { sys::rd_kafka_assignment_lost(self.handle()) != 0 }
    }

    /// Member id and generation, as librdkafka would put them into a commit now.
    pub(crate) fn membership(&self) -> Option<(String, i32)> {
        // SAFETY: a live client; the object is ours to free, after its string was copied.
        unsafe {
            let metadata = sys::rd_kafka_consumer_group_metadata(self.handle());
            if metadata.is_null() {
                return None;
            }
            let generation = sys::rd_kafka_consumer_group_metadata_generation_id(metadata);
            let member = raw::owned(sys::rd_kafka_consumer_group_metadata_member_id(metadata));
            sys::rd_kafka_consumer_group_metadata_destroy(metadata);
            Some((member.unwrap_or_default(), generation))
        }
    }

    /// Hands a commit over to librdkafka's thread.
    pub(crate) fn hand_over(&self, offsets: &PartitionList) -> Result<HandOver, Failure> {
        let queue = Queue::new(self);
        // SAFETY: a live client, list (copied) and queue; without a callback the answer is an event.
        let code = unsafe {
            sys::rd_kafka_commit_queue(
                self.handle(),
                offsets.as_ptr(),
                queue.0.as_ptr(),
                None,
                ptr::null_mut(),
            ) as i32
        };
        Failure::check(code)?;
        Ok(HandOver { queue })
    }

    /// Begins to leave for good. Rebalance events still come on the consumer queue and must be
    /// answered until [`Client::left`].
    pub(crate) fn begin_close(&self) -> Result<(), Failure> {
        // SAFETY: a live client and a queue of its own; the error is ours to free.
        unsafe {
            raw::take_error(sys::rd_kafka_consumer_close_queue(
                self.handle(),
                self.close_queue(),
            ))
        }
    }

    /// True when the consumer has left, or has found that nothing is to be left.
    pub(crate) fn left(&self) -> bool {
        // SAFETY: a live client.
        unsafe { sys::rd_kafka_consumer_closed(self.handle()) != 0 }
    }

    /// The client's fatal error, if it has one.
    pub(crate) fn fatal(&self) -> Option<Failure> {
        let mut text = ErrorText::new();
        // SAFETY: a live client and a buffer of the size that is given; fatal codes are from
        // librdkafka's own list.
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

/// Sets the OAUTHBEARER token of a client of either kind.
///
/// # Safety
/// `handle` is a live client.
pub(super) unsafe fn set_token(
    handle: *mut rd_kafka_t,
    token: &str,
    principal: &str,
    lifetime_ms: i64,
    extensions: &[(String, String)],
) -> Result<(), Failure> {
    let (token, principal) = (raw::c_string(token)?, raw::c_string(principal)?);
    let pairs = extensions
        .iter()
        .flat_map(|(name, value)| [name, value])
        .map(|part| raw::c_string(part))
        .collect::<Result<Vec<_>, _>>()?;
    let mut pointers: Vec<_> = pairs.iter().map(|part| part.as_ptr()).collect();
    // librdkafka counts in microseconds.
    let lifetime_ms = lifetime_ms.clamp(0, i64::MAX / 1_000);
    let mut text = ErrorText::new();
    // SAFETY: a live client, C strings and an array of them that live during the call (copied),
    // and a buffer of the size that is given.
    let code = unsafe {
        sys::rd_kafka_oauthbearer_set_token(
            handle,
            token.as_ptr(),
            lifetime_ms,
            principal.as_ptr(),
            pointers.as_mut_ptr(),
            pointers.len(),
            text.as_mut_ptr(),
            text.capacity(),
        ) as i32
    };
    Failure::check(code).map_err(|failure| Failure {
        text: text.read(),
        ..failure
    })
}

/// Says to a client of either kind that there is no token.
///
/// # Safety
/// `handle` is a live client.
pub(super) unsafe fn set_token_failure(
    handle: *mut rd_kafka_t,
    reason: &str,
) -> Result<(), Failure> {
    let reason = raw::c_string(reason)?;
    // SAFETY: a live client and a C string that is copied.
    Failure::check(unsafe {
        sys::rd_kafka_oauthbearer_set_token_failure(handle, reason.as_ptr()) as i32
    })
}

/// A queue of our own, for one answer.
pub(super) struct Queue(pub(super) NonNull<rd_kafka_queue_t>);

// SAFETY: librdkafka's queues may be used from any thread.
unsafe impl Send for Queue {}

/// An event that is owned.
pub(super) struct Event(pub(super) NonNull<sys::rd_kafka_event_t>);

impl Queue {
    pub(super) fn new(client: &Client) -> Self {
        // SAFETY: a live client; librdkafka aborts rather than return null without memory.
        let queue = unsafe { sys::rd_kafka_queue_new(client.handle()) };
        Self(NonNull::new(queue).expect("librdkafka's allocator never returns null"))
    }

    pub(super) fn next(&self, timeout: Duration) -> Option<Event> {
        // SAFETY: a live queue; the event is ours to free.
        NonNull::new(unsafe { sys::rd_kafka_queue_poll(self.0.as_ptr(), raw::millis(timeout)) })
            .map(Event)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once; an answer that comes later is dropped by librdkafka.
        unsafe { sys::rd_kafka_queue_destroy(self.0.as_ptr()) };
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once.
        unsafe { sys::rd_kafka_event_destroy(self.0.as_ptr()) };
    }
}
