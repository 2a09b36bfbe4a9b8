//! A record in the hands of a handler.
//!
//! A [`Record`] is a pointer to the client's own message beside the context of the call; nothing is copied.
//! What travels between the core and the workers is the [`Message`] alone; a worker lends it the [`Member`]
//! block for the length of a call:
//!
//! ```text
//!   Task{at, Message} + the worker's Arc<Member> --> Record --> handler
//!                 '------ taken apart again <----------'
//! ```
//!
//! so that a record on the synchronous path costs no allocation and no reference count.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use keyway_core::{Epoch, LaneIndex, Leases, PartitionSlot, TaskRef};
use keyway_offsets::Offset;

use crate::context::{Fence, Member, RecordId};
use crate::kafka::{NativeRecord, Timestamp};
use crate::output::Output;

/// What the core carries for a record.
///
/// A record starts out owned. It becomes shared when a handler takes records by value: the worker then keeps
/// a reference of its own, to give back to the core if the attempt fails.
pub(crate) enum Message {
    Owned(NativeRecord),
    Shared(Arc<SharedRecord>),
}

/// A record that several hold, with what travels beside it.
pub(crate) struct SharedRecord {
    native: NativeRecord,
    aside: Mutex<Aside>,
}

#[derive(Default)]
struct Aside {
    /// Kept where a dead letter may be asked for its story.
    failures: Option<Box<Failures>>,
    /// What its handler wants to be sent, on the way from there to the writer.
    outputs: Vec<Output>,
}

/// The failed attempts at a record, as far as its dead letter tells of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failures {
    /// Milliseconds since 1970.
    pub(crate) first_at: i64,
    pub(crate) last_at: i64,
    /// What the last one gave as its reason.
    pub(crate) error: Box<str>,
}

/// Most bytes kept of an error's text: what a person reads, and little enough for a million records that wait.
const LONGEST_ERROR: usize = 4_096;

impl Message {
    fn native(&self) -> &NativeRecord {
        match self {
            Message::Owned(native) => native,
            Message::Shared(shared) => &shared.native,
        }
    }

    pub(crate) fn topic_name(&self) -> &str {
        self.native().topic_name()
    }

    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.native().key()
    }

    /// Frees what was made for reading the headers. Whoever reads them again makes it again: here, where it was made a moment
    /// ago, that costs less than to have the handler's thread free it.
    pub(crate) fn forget_headers(&mut self) {
        if let Message::Owned(native) = self {
            native.forget_headers();
        }
    }

    /// Names and values of the headers; `None` when they can't be read.
    pub(crate) fn raw_headers(
        &self,
    ) -> Option<impl Iterator<Item = (&[u8], Option<&[u8]>)> + use<'_>> {
        let source = self.native().header_source().ok()?;
        Some((0..source.count()).filter_map(move |index| source.header(index)))
    }

    /// The value of the first header with this name, unless it is null.
    pub(crate) fn raw_header(&self, name: &str) -> Option<&[u8]> {
        let mut headers = self.raw_headers()?;
        headers.find(|(its, _)| *its == name.as_bytes())?.1
    }

    pub(crate) fn into_shared(self) -> Arc<SharedRecord> {
        match self {
            Message::Owned(native) => Arc::new(SharedRecord {
                native,
                aside: Mutex::default(),
            }),
            Message::Shared(shared) => shared,
        }
    }

    /// Notes a failed attempt, for the record's dead letter.
    pub(crate) fn with_failure(self, at: i64, error: &str) -> Self {
        let shared = self.into_shared();
        {
            let failures = &mut lock(&shared.aside).failures;
            let first_at = failures.as_ref().map_or(at, |failures| failures.first_at);
            *failures = Some(Box::new(Failures {
                first_at,
                last_at: at,
                error: shortened(error, LONGEST_ERROR).into(),
            }));
        }
        Message::Shared(shared)
    }

    /// What was noted of its failed attempts.
    pub(crate) fn failures(&self) -> Option<Failures> {
        match self {
            Message::Owned(_) => None,
            Message::Shared(shared) => lock(&shared.aside).failures.as_deref().cloned(),
        }
    }

    /// Takes outputs along.
    pub(crate) fn with_outputs(self, outputs: Vec<Output>) -> Self {
        let shared = self.into_shared();
        lock(&shared.aside).outputs = outputs;
        Message::Shared(shared)
    }

    /// Looks at the outputs that it took along.
    pub(crate) fn read_outputs<T>(&self, read: impl FnOnce(&[Output]) -> T) -> T {
        match self {
            Message::Owned(_) => read(&[]),
            Message::Shared(shared) => read(&lock(&shared.aside).outputs),
        }
    }

    /// The outputs that it took along.
    pub(crate) fn take_outputs(&self) -> Vec<Output> {
        match self {
            Message::Owned(_) => Vec::new(),
            Message::Shared(shared) => std::mem::take(&mut lock(&shared.aside).outputs),
        }
    }
}

fn lock(aside: &Mutex<Aside>) -> MutexGuard<'_, Aside> {
    // Nothing of a user runs under the lock.
    aside.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest part of `text` of at most `most` bytes.
fn shortened(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let native = self.native();
        write!(
            f,
            "Message({}/{}/{})",
            native.topic_name(),
            native.partition(),
            native.offset()
        )
    }
}

impl From<NativeRecord> for Message {
    fn from(native: NativeRecord) -> Self {
        Message::Owned(native)
    }
}

/// One record of a topic, with the context of the call that handles it.
///
/// Key, value and headers are read in place, without a copy. A handler that gets a `Record` by value may keep
/// it as long as it likes, across awaits and on other threads; the memory of the fetch that it came from
/// stays pinned meanwhile.
pub struct Record {
    message: Message,
    member: Arc<Member>,
    epoch: Epoch,
    /// 0 for none.
    fence: u64,
    slot: PartitionSlot,
    attempt: u32,
}

impl Record {
    pub(crate) fn new(message: Message, at: &TaskRef, fence: u64, member: Arc<Member>) -> Self {
        Self {
            message,
            member,
            epoch: at.epoch,
            fence,
            slot: at.slot,
            attempt: at.attempt,
        }
    }

    /// A record that is looked at and handled by nobody.
    pub(crate) fn alone(message: Message) -> Self {
        let at = TaskRef {
            offset: Offset::ZERO,
            epoch: Epoch::NONE,
            slot: PartitionSlot(0),
            lane: LaneIndex(0),
            bytes: 0,
            attempt: 1,
        };
        let nobody = Member::new(Arc::new(Leases::default()));
        Self::new(message, &at, 0, Arc::new(nobody))
    }

    /// Whether its outputs would go with a transaction.
    pub(crate) fn stages_outputs(&self) -> bool {
        self.member.stages_outputs()
    }

    /// What was noted of its failed attempts.
    pub(crate) fn failures(&self) -> Option<Failures> {
        self.message.failures()
    }

    /// Gives back what was lent.
    pub(crate) fn into_parts(self) -> (Message, Arc<Member>) {
        (self.message, self.member)
    }

    /// Name of the topic.
    pub fn topic(&self) -> &str {
        self.message.native().topic_name()
    }

    /// Partition of the topic.
    pub fn partition(&self) -> i32 {
        self.message.native().partition()
    }

    /// Offset in the partition.
    pub fn offset(&self) -> i64 {
        self.message.native().offset()
    }

    /// The key; `None` for a null key, which is not the empty key.
    pub fn key(&self) -> Option<&[u8]> {
        self.message.native().key()
    }

    /// The value; `None` for a null value (a tombstone in a compacted topic).
    pub fn value(&self) -> Option<&[u8]> {
        self.message.native().value()
    }

    /// When the record was created, or appended where the topic says so, in milliseconds since 1970.
    pub fn timestamp(&self) -> Option<i64> {
        self.message.native().timestamp().map(Timestamp::millis)
    }

    /// The headers in the order in which they were written; a name may come more than once.
    ///
    /// # Errors
    /// When the header block does not follow the protocol. A name that is not UTF-8 is no error here, see
    /// [`Header::name`].
    pub fn headers(&self) -> Result<impl Iterator<Item = Header<'_>>, UnreadableHeaders> {
        let source =
            self.message
                .native()
                .header_source()
                .map_err(|failure| UnreadableHeaders {
                    reason: failure.text,
                })?;
        let headers = (0..source.count()).filter_map(move |index| source.header(index));
        Ok(headers.map(|(name, value)| Header::new(name, value)))
    }

    /// The last header with this name: by convention a later one overrides an earlier one.
    ///
    /// # Errors
    /// As [`Record::headers`].
    pub fn header(&self, name: &str) -> Result<Option<Header<'_>>, UnreadableHeaders> {
        Ok(self
            .headers()?
            .filter(|header| header.name == name.as_bytes())
            .last())
    }

    /// Bytes of key and value.
    pub fn size(&self) -> usize {
        self.message.native().payload_bytes()
    }

    /// Which attempt this is: 1 for the first. Counted in memory, so a restart or a move of the partition
    /// begins at 1 again.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether this attempt is no longer wanted: the partition was revoked or lost, or the member is
    /// stopping. Cheap enough to ask in a loop.
    ///
    /// A handler that sees `true` does best to return soon. What it returns still counts when it was in time.
    pub fn cancelled(&self) -> bool {
        self.member.cancelled(self.slot, self.epoch)
    }

    /// The identity of the record: the same for every attempt, on every member.
    pub fn id(&self) -> RecordId {
        RecordId {
            topic: self.topic().to_owned(),
            partition: self.partition(),
            offset: self.offset(),
        }
    }

    /// The fence of the assignment under which this attempt began. It stays the same after the partition has
    /// gone to another member, whose fence is higher. `None` where the group protocol can't give one.
    pub fn fence(&self) -> Option<Fence> {
        Fence::new(self.fence)
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("topic", &self.topic())
            .field("partition", &self.partition())
            .field("offset", &self.offset())
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// A record's headers do not follow the protocol; its other parts can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record's headers can't be read: {reason}")]
pub struct UnreadableHeaders {
    reason: String,
}

/// A header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'r> {
    name: &'r [u8],
    value: Option<&'r [u8]>,
}

impl<'r> Header<'r> {
    pub(crate) fn new(name: &'r [u8], value: Option<&'r [u8]>) -> Self {
        Self { name, value }
    }

    /// The name; `None` when it is not UTF-8, which the protocol asks for but brokers do not check.
    pub fn name(&self) -> Option<&'r str> {
        std::str::from_utf8(self.name).ok()
    }

    /// The name as it was sent, up to a NUL byte: librdkafka tells no more of it.
    pub fn name_bytes(&self) -> &'r [u8] {
        self.name
    }

    /// The value; `None` for a null value, which is not the empty value.
    pub fn value(&self) -> Option<&'r [u8]> {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::RecordParts;

    fn record(parts: RecordParts, fence: u64) -> Record {
        let member = Member::new(Arc::new(Leases::default()));
        member.leases().grant(PartitionSlot(2), Epoch(9));
        let at = TaskRef {
            offset: Offset::new(parts.offset).expect("not negative"),
            epoch: Epoch(9),
            slot: PartitionSlot(2),
            lane: keyway_core::LaneIndex(0),
            bytes: 0,
            attempt: 3,
        };
        Record::new(
            NativeRecord::made(parts).into(),
            &at,
            fence,
            Arc::new(member),
        )
    }

    #[test]
    fn a_record_is_read_in_place() {
        let mut parts = RecordParts::new("orders", 4, 42);
        parts.key = Some(b"k".to_vec());
        parts.value = Some(Vec::new());
        parts.timestamp = Some(Timestamp::Created(1_700_000_000_000));
        let record = record(parts, 0);
        assert_eq!(
            (record.topic(), record.partition(), record.offset()),
            ("orders", 4, 42)
        );
        assert_eq!(record.key(), Some(b"k".as_slice()));
        assert_eq!(record.value(), Some(b"".as_slice()), "empty is not null");
        assert_eq!(record.timestamp(), Some(1_700_000_000_000));
        assert_eq!(record.size(), 1);
        assert_eq!(record.attempt(), 3);
        assert_eq!(record.id().to_string(), "orders/4/42");
        assert_eq!(record.fence(), None);
    }

    #[test]
    fn headers_keep_order_duplicates_nulls_and_names_that_are_no_text() {
        let mut parts = RecordParts::new("orders", 4, 42);
        parts.headers = vec![
            (b"a".to_vec(), Some(b"1".to_vec())),
            (b"\xff".to_vec(), Some(b"2".to_vec())),
            (b"a".to_vec(), None),
        ];
        let record = record(parts, 0);
        let headers: Vec<_> = record.headers().expect("readable").collect();
        let names: Vec<_> = headers.iter().map(Header::name).collect();
        assert_eq!(names, [Some("a"), None, Some("a")]);
        assert_eq!(headers[1].name_bytes(), b"\xff");
        let last = record.header("a").expect("readable").expect("there");
        assert_eq!(last.value(), None, "the later of two");
        assert_eq!(record.header("b"), Ok(None));
    }

    #[test]
    fn a_record_knows_when_its_assignment_ends_and_keeps_its_fence() {
        let record = record(RecordParts::new("orders", 0, 0), 17);
        assert!(!record.cancelled());
        record.member.leases().end(PartitionSlot(2));
        assert!(record.cancelled());
        assert_eq!(record.fence().map(Fence::get), Some(17));
    }

    #[test]
    fn a_message_is_as_small_as_the_clients_record() {
        assert_eq!(size_of::<Message>(), size_of::<NativeRecord>());
        fn assert_free<T: Send + Sync + 'static>() {}
        assert_free::<Record>();
    }
}
