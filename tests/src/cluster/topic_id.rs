//! The ids of topics, for which rdkafka has no call.
#![allow(
    unsafe_code,
    reason = "rdkafka does not describe topics; librdkafka does"
)]

use std::ffi::{CStr, CString};
use std::ptr;

use keyway::causality::TopicId;
use rdkafka_sys as sys;

use super::{Cluster, PATIENCE};
use crate::wait;

/// One question may take so long before it is asked again.
const ANSWER_MILLIS: i32 = 10_000;

impl Cluster {
    /// The id that the broker gave the topic when it was made.
    pub fn topic_id(&self, topic: &str) -> TopicId {
        wait::until("a topic's id", PATIENCE, || self.described(topic))
    }

    fn described(&self, topic: &str) -> Option<TopicId> {
        let name = CString::new(topic).expect("a topic's name has no zero");
        let client = self.admin.inner().native_ptr();
        let mut names = [name.as_ptr()];
        // SAFETY: the client lives as long as the cluster; the collection copies the name, and the request the collection;
        // what the answer points to belongs to its event, which is destroyed last, and everything is destroyed once.
        unsafe {
            let queue = sys::rd_kafka_queue_new(client);
            let collection =
                sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
            sys::rd_kafka_DescribeTopics(client, collection, ptr::null(), queue);
            sys::rd_kafka_TopicCollection_destroy(collection);
            let event = sys::rd_kafka_queue_poll(queue, ANSWER_MILLIS);
            let id = id_in(event, &name);
            if !event.is_null() {
                sys::rd_kafka_event_destroy(event);
            }
            sys::rd_kafka_queue_destroy(queue);
            id
        }
    }
}

/// # Safety
/// `event` is null, or an event that lives.
unsafe fn id_in(event: *mut sys::rd_kafka_event_t, name: &CStr) -> Option<TopicId> {
    // SAFETY: as the caller says; the description is one of `count`.
    unsafe {
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        if event.is_null() || result.is_null() {
            return None;
        }
        let mut count = 0;
        let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        let topic = (count == 1).then(|| *topics)?;
        assert_eq!(
            CStr::from_ptr(sys::rd_kafka_TopicDescription_name(topic)),
            name
        );
        let id = sys::rd_kafka_TopicDescription_topic_id(topic);
        let halves = [
            sys::rd_kafka_Uuid_most_significant_bits(id),
            sys::rd_kafka_Uuid_least_significant_bits(id),
        ];
        let mut bytes = [0; 16];
        for (to, half) in bytes.chunks_mut(8).zip(halves) {
            to.copy_from_slice(&half.to_be_bytes());
        }
        TopicId::new(bytes)
    }
}
