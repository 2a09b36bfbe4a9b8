//! Questions to the cluster. Those about logs and topics are librdkafka's admin requests, which
//! answer each partition for itself and are split by broker there.

use std::ptr::{self, NonNull};
use std::slice;
use std::time::Duration;

use rdkafka_sys::{
    self as sys, rd_kafka_AdminOptions_t, rd_kafka_OffsetSpec_t, rd_kafka_admin_op_t,
};

use super::client::Client;
use super::group::{Event, Queue};
use super::list::{self, Element, PartitionList};
use super::raw::{self, ErrorText, Failure};

/// Which offset of a log is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetSpec {
    /// The first that is kept.
    Earliest,
    /// One past the last, transactions that are open included.
    Latest,
    /// The first record at or after a time, milliseconds since 1970.
    Time(i64),
}

impl OffsetSpec {
    /// How the request writes it, in the place of an offset.
    pub(crate) fn as_offset(self) -> i64 {
        match self {
            Self::Earliest => rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_EARLIEST as i64,
            Self::Latest => rd_kafka_OffsetSpec_t::RD_KAFKA_OFFSET_SPEC_LATEST as i64,
            Self::Time(millis) => millis,
        }
    }
}

/// What a group's coordinator says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// librdkafka's name of the state: `Stable`, `Empty`, .., `Unknown` for those that it has no name for.
    pub(crate) state: String,
    /// Members, those that have lately crashed included.
    pub(crate) members: usize,
}

/// A topic's name, and the two halves of its id.
pub(crate) type Identity = (String, Result<(i64, i64), Failure>);

/// Options of one request.
struct Options(NonNull<rd_kafka_AdminOptions_t>);

impl Options {
    fn new(
        client: &Client,
        operation: rd_kafka_admin_op_t,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        // SAFETY: a live client and a known operation.
        let options = unsafe { sys::rd_kafka_AdminOptions_new(client.handle(), operation) };
        let options = Self(NonNull::new(options).expect("the operation is one of librdkafka's"));
        let mut text = ErrorText::new();
        // SAFETY: live options and a buffer of the size that is given; the code is a local one.
        let code = unsafe {
            sys::rd_kafka_AdminOptions_set_request_timeout(
                options.0.as_ptr(),
                raw::millis(timeout).clamp(1, 3_600_000),
                text.as_mut_ptr(),
                text.capacity(),
            ) as i32
        };
        Failure::check(code).map_err(|failure| Failure {
            text: text.read(),
            ..failure
        })?;
        Ok(options)
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: owned, destroyed once.
        unsafe { sys::rd_kafka_AdminOptions_destroy(self.0.as_ptr()) };
    }
}

/// Time for librdkafka to give its own timeout as the answer.
const GRACE: Duration = Duration::from_millis(500);

fn answer(queue: &Queue, timeout: Duration) -> Result<Event, Failure> {
    let event = queue.next(timeout.saturating_add(GRACE)).ok_or_else(|| {
        Failure::of_code(sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__TIMED_OUT as i32)
    })?;
    // SAFETY: a live event; its error text belongs to it and is copied.
    let (code, text) = unsafe {
        (
            raw::event_error_code(event.0.as_ptr()),
            raw::owned(sys::rd_kafka_event_error_string(event.0.as_ptr())),
        )
    };
    Failure::check(code).map_err(|failure| Failure {
        text: text.unwrap_or(failure.text),
        code,
    })?;
    Ok(event)
}

impl Client {
    /// What this client's group has committed, into the list. It waits for a coordinator, and
    /// librdkafka asks again (twice) while a partition's offset is part of an open transaction.
    ///
    /// Not the admin request for a group's offsets: once that has timed out, librdkafka 2.12.1 uses
    /// memory that it has freed, and aborts the process when the client is destroyed.
    pub(crate) fn committed(
        &self,
        partitions: &mut PartitionList,
        timeout: Duration,
    ) -> Result<(), Failure> {
        partitions.mark_unanswered();
        // SAFETY: a live client and list, which is written before the call returns.
        Failure::check(unsafe {
            raw::committed(self.handle(), partitions.as_ptr(), raw::millis(timeout))
        })
    }

    /// One past the last offset of a partition's log, as the last fetch of it said; `None` before the first. Asks
    /// nobody.
    pub(crate) fn fetched_log_end(&self, topic: &str, partition: i32) -> Option<i64> {
        let topic = raw::c_string(topic).ok()?;
        let (mut start, mut end) = (-1, -1);
        // SAFETY: a live client, a C string, and two places, which are written when the code is 0.
        let code = unsafe {
            sys::rd_kafka_get_watermark_offsets(
                self.handle(),
                topic.as_ptr(),
                partition,
                &mut start,
                &mut end,
            ) as i32
        };
        (code == 0 && end >= 0).then_some(end)
    }

    /// Every topic that this client may see, with its partitions.
    pub(crate) fn topics(&self, timeout: Duration) -> Result<Vec<(String, Vec<i32>)>, Failure> {
        let mut metadata = ptr::null();
        // SAFETY: a live client and a place for the answer, which is written when the code is 0.
        Failure::check(unsafe {
            raw::metadata(
                self.handle(),
                1,
                ptr::null_mut(),
                &mut metadata,
                raw::millis(timeout),
            )
        })?;
        let mut topics = Vec::new();
        // SAFETY: an answer that is ours: arrays of the lengths that stand beside them. Fields are read one by one,
        // without a reference to a whole, since the errors in there may be numbers that their type does not list.
        unsafe {
            for topic in 0..usize::try_from((*metadata).topic_cnt).unwrap_or(0) {
                let topic = (*metadata).topics.add(topic);
                let count = usize::try_from((*topic).partition_cnt).unwrap_or(0);
                let partitions = (0..count)
                    .map(|partition| (*(*topic).partitions.add(partition)).id)
                    .collect();
                topics.extend(raw::owned((*topic).topic).map(|name| (name, partitions)));
            }
            sys::rd_kafka_metadata_destroy(metadata);
        }
        Ok(topics)
    }

    /// The id of each of these topics, as its two halves; an error of one that does not exist or may not be seen.
    pub(crate) fn topic_ids(
        &self,
        topics: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Identity>, Failure> {
        let names = topics.iter().map(|topic| raw::c_string(topic));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let mut pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let options = Options::new(
            self,
            rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS,
            timeout,
        )?;
        let queue = Queue::new(self);
        // SAFETY: live client, array of C strings, options and queue; the strings are copied, and so is the collection,
        // which is destroyed once.
        unsafe {
            let collection =
                sys::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
            sys::rd_kafka_DescribeTopics(
                self.handle(),
                collection,
                options.0.as_ptr(),
                queue.0.as_ptr(),
            );
            sys::rd_kafka_TopicCollection_destroy(collection);
        }
        let event = answer(&queue, timeout)?;
        let mut ids = Vec::new();
        // SAFETY: the result and all that it points to belong to the event, which lives to the end.
        unsafe {
            let result = sys::rd_kafka_event_DescribeTopics_result(event.0.as_ptr());
            if !result.is_null() {
                let mut count = 0;
                let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
                for &topic in array(topics.cast_const(), count) {
                    let Some(name) = raw::owned(sys::rd_kafka_TopicDescription_name(topic)) else {
                        continue;
                    };
                    let error = raw::peek_error(sys::rd_kafka_TopicDescription_error(topic));
                    let id = error.map(|()| {
                        let id = sys::rd_kafka_TopicDescription_topic_id(topic);
                        (
                            sys::rd_kafka_Uuid_most_significant_bits(id),
                            sys::rd_kafka_Uuid_least_significant_bits(id),
                        )
                    });
                    ids.push((name, id));
                }
            }
        }
        Ok(ids)
    }

    /// What the coordinator says of a group, whichever its protocol: librdkafka asks as of the consumer protocol
    /// and, where there is no such group, as of the classic one.
    pub(crate) fn describe_group(
        &self,
        group: &str,
        timeout: Duration,
    ) -> Result<Description, Failure> {
        let group = raw::c_string(group)?;
        let options = Options::new(
            self,
            rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS,
            timeout,
        )?;
        let queue = Queue::new(self);
        let mut groups = [group.as_ptr()];
        // SAFETY: live client, array of one C string, options and queue; the string is copied.
        unsafe {
            sys::rd_kafka_DescribeConsumerGroups(
                self.handle(),
                groups.as_mut_ptr(),
                groups.len(),
                options.0.as_ptr(),
                queue.0.as_ptr(),
            );
        }
        let event = answer(&queue, timeout)?;
        // SAFETY: the result and all that it points to belong to the event, which lives to the end.
        unsafe {
            let result = sys::rd_kafka_event_DescribeConsumerGroups_result(event.0.as_ptr());
            let mut count = 0;
            let groups = if result.is_null() {
                ptr::null_mut()
            } else {
                sys::rd_kafka_DescribeConsumerGroups_result_groups(result, &mut count)
            };
            let Some(&group) = array(groups.cast_const(), count).first() else {
                return Err(Failure::of_code(
                    sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__BAD_MSG as i32,
                ));
            };
            raw::peek_error(sys::rd_kafka_ConsumerGroupDescription_error(group))?;
            Ok(Description {
                state: raw::owned(raw::group_state_name(raw::group_state(group)))
                    .unwrap_or_else(|| "Unknown".to_owned()),
                members: sys::rd_kafka_ConsumerGroupDescription_member_count(group),
            })
        }
    }

    /// One offset of each partition's log; the list's offsets are [`OffsetSpec::as_offset`].
    pub(crate) fn log_offsets<T>(
        &self,
        partitions: &PartitionList,
        timeout: Duration,
        mut read: impl FnMut(Element<'_>) -> T,
    ) -> Result<Vec<T>, Failure> {
        let options = Options::new(
            self,
            rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTOFFSETS,
            timeout,
        )?;
        let queue = Queue::new(self);
        // SAFETY: live client, list, options and queue; the list is copied. The isolation level is
        // left at its default, read_uncommitted.
        unsafe {
            sys::rd_kafka_ListOffsets(
                self.handle(),
                partitions.as_ptr(),
                options.0.as_ptr(),
                queue.0.as_ptr(),
            );
        }
        let event = answer(&queue, timeout)?;
        let mut offsets = Vec::new();
        // SAFETY: the result and all that it points to belong to the event, which lives to the end.
        unsafe {
            let result = sys::rd_kafka_event_ListOffsets_result(event.0.as_ptr());
            if !result.is_null() {
                let mut count = 0;
                let infos = sys::rd_kafka_ListOffsets_result_infos(result, &mut count);
                for &info in array(infos.cast_const(), count) {
                    let partition = sys::rd_kafka_ListOffsetsResultInfo_topic_partition(info);
                    offsets.push(read(list::element(partition)));
                }
            }
        }
        Ok(offsets)
    }
}

/// An array that librdkafka answers; empty for null.
///
/// # Safety
/// `start` is null or points to `count` values that live during `'a`.
unsafe fn array<'a, T>(start: *const *const T, count: usize) -> &'a [*const T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: as the caller vouches.
    unsafe { slice::from_raw_parts(start, count) }
}
