//! librdkafka's broker inside the process.
//!
//! rdkafka's `MockCluster` keeps its pointer to itself, so that the delay before a group's first
//! assignment can't be shortened through it.

use std::ptr::NonNull;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka_sys::{
    self as sys, rd_kafka_mock_cluster_t, rd_kafka_resp_err_t, rd_kafka_t, rd_kafka_type_t,
};

use super::client;
use super::raw::{self, Failure};

/// A mock cluster and the client whose threads run it.
pub(crate) struct MockCluster {
    cluster: NonNull<rd_kafka_mock_cluster_t>,
    handle: NonNull<rd_kafka_t>,
}

// SAFETY: the mock's functions lock, or send a message to its thread.
unsafe impl Send for MockCluster {}
// SAFETY: as above.
unsafe impl Sync for MockCluster {}

impl MockCluster {
    pub(crate) fn start(brokers: i32) -> Result<Self, Failure> {
        let config = ClientConfig::new()
            .create_native_config()
            .map_err(|error| Failure::invalid(error.to_string()))?;
        // SAFETY: a live configuration.
        unsafe { super::callbacks::install_log(config.ptr()) };
        let handle = client::create(rd_kafka_type_t::RD_KAFKA_PRODUCER, config)?;
        // SAFETY: a live client.
        let cluster = unsafe { sys::rd_kafka_mock_cluster_new(handle.as_ptr(), brokers) };
        let Some(cluster) = NonNull::new(cluster) else {
            // SAFETY: made above, known to nobody.
            unsafe { sys::rd_kafka_destroy(handle.as_ptr()) };
            return Err(Failure::of_code(
                rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__FAIL as i32,
            ));
        };
        Ok(Self { cluster, handle })
    }

    pub(crate) fn bootstrap(&self) -> String {
        // SAFETY: a live cluster; the string belongs to it and is copied.
        unsafe { raw::owned(sys::rd_kafka_mock_cluster_bootstraps(self.cluster.as_ptr())) }
            .unwrap_or_default()
    }

    pub(crate) fn create_topic(
        &self,
        topic: &str,
        partitions: i32,
        replicas: i32,
    ) -> Result<(), Failure> {
        let topic = raw::c_string(topic)?;
        // SAFETY: a live cluster and name.
        Failure::check(unsafe {
            sys::rd_kafka_mock_topic_create(
                self.cluster.as_ptr(),
                topic.as_ptr(),
                partitions,
                replicas,
            ) as i32
        })
    }

    pub(crate) fn first_rebalance_delay(&self, delay: Duration) {
        // SAFETY: a live cluster.
        unsafe {
            sys::rd_kafka_mock_group_initial_rebalance_delay_ms(
                self.cluster.as_ptr(),
                raw::millis(delay),
            );
        }
    }

    /// The next requests of a kind fail, each with one of these, in order.
    pub(crate) fn fail_requests(&self, api_key: i16, errors: &[rd_kafka_resp_err_t]) {
        // SAFETY: a live cluster, and an array that is copied.
        unsafe {
            sys::rd_kafka_mock_push_request_errors_array(
                self.cluster.as_ptr(),
                api_key,
                errors.len(),
                errors.as_ptr(),
            );
        }
    }

    pub(crate) fn clear_failures(&self, api_key: i16) {
        // SAFETY: a live cluster.
        unsafe { sys::rd_kafka_mock_clear_request_errors(self.cluster.as_ptr(), api_key) };
    }

    pub(crate) fn set_reachable(&self, broker: i32, reachable: bool) -> Result<(), Failure> {
        // SAFETY: a live cluster; an unknown broker is an error code.
        Failure::check(unsafe {
            if reachable {
                sys::rd_kafka_mock_broker_set_up(self.cluster.as_ptr(), broker) as i32
            } else {
                sys::rd_kafka_mock_broker_set_down(self.cluster.as_ptr(), broker) as i32
            }
        })
    }

    pub(crate) fn set_round_trip(&self, broker: i32, time: Duration) -> Result<(), Failure> {
        // SAFETY: as in `set_reachable`.
        Failure::check(unsafe {
            sys::rd_kafka_mock_broker_set_rtt(self.cluster.as_ptr(), broker, raw::millis(time))
                as i32
        })
    }

    pub(crate) fn set_coordinator(&self, group: &str, broker: i32) -> Result<(), Failure> {
        let group = raw::c_string(group)?;
        // SAFETY: a live cluster, and C strings that are copied.
        Failure::check(unsafe {
            sys::rd_kafka_mock_coordinator_set(
                self.cluster.as_ptr(),
                c"group".as_ptr(),
                group.as_ptr(),
                broker,
            ) as i32
        })
    }
}

impl Drop for MockCluster {
    fn drop(&mut self) {
        // SAFETY: owned; the cluster goes before the client whose threads run it, each once.
        unsafe {
            sys::rd_kafka_mock_cluster_destroy(self.cluster.as_ptr());
            sys::rd_kafka_destroy(self.handle.as_ptr());
        }
    }
}
