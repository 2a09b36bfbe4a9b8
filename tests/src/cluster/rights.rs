//! Rights given and taken away, in a cluster that asks who its clients are.
#![allow(
    unsafe_code,
    reason = "rdkafka's admin client has no call for access control lists"
)]

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use rdkafka::producer::Producer as _;
use rdkafka_sys as sys;

use super::{Cluster, Config, PATIENCE};

/// Broker properties with which clients have to say who they are, and may do only what was [granted](Cluster::grant):
/// all but [`ADMIN`], who may do everything. The brokers among themselves are nobody, who may do everything, too.
pub const PROTECTED: Config<'static> = Config {
    nodes: 1,
    properties: &[
        (
            "authorizer.class.name",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        ),
        ("super.users", "User:admin;User:ANONYMOUS"),
        (
            "listener.security.protocol.map",
            "PLAINTEXT:SASL_PLAINTEXT,BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        ),
        ("sasl.enabled.mechanisms", "PLAIN"),
        (
            "listener.name.plaintext.plain.sasl.jaas.config",
            "org.apache.kafka.common.security.plain.PlainLoginModule required \
             user_admin=\"secret\" user_reader=\"secret\";",
        ),
    ],
    client: &ADMIN,
};

/// What a client sets to be the one who may do everything.
pub const ADMIN: [(&str, &str); 4] = as_user("admin");

/// What a client sets to be the one who may do what was granted.
pub const READER: [(&str, &str); 4] = as_user("reader");

const fn as_user(name: &str) -> [(&str, &str); 4] {
    [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", name),
        ("sasl.password", "secret"),
    ]
}

/// What a right is about.
#[derive(Clone, Copy, Debug)]
pub enum Resource<'a> {
    /// A topic.
    Topic(&'a str),
    /// A consumer group.
    Group(&'a str),
}

impl Cluster {
    /// Lets [`READER`] read it.
    ///
    /// # Panics
    /// When the cluster does not do that.
    pub fn grant(&self, resource: Resource<'_>) {
        self.change(resource, |client, acls, queue| {
            // SAFETY: a live client, queue and array of one, which is copied.
            unsafe { sys::rd_kafka_CreateAcls(client, acls, 1, ptr::null(), queue) };
        });
    }

    /// Takes that right away again.
    ///
    /// # Panics
    /// As [`Cluster::grant`].
    pub fn revoke(&self, resource: Resource<'_>) {
        self.change(resource, |client, acls, queue| {
            // SAFETY: as in `grant`; a filter is a binding.
            unsafe { sys::rd_kafka_DeleteAcls(client, acls, 1, ptr::null(), queue) };
        });
    }

    fn change(
        &self,
        resource: Resource<'_>,
        ask: impl FnOnce(
            *mut sys::rd_kafka_t,
            *mut *mut sys::rd_kafka_AclBinding_t,
            *mut sys::rd_kafka_queue_t,
        ),
    ) {
        use sys::rd_kafka_ResourceType_t as Type;
        let (kind, name) = match resource {
            Resource::Topic(name) => (Type::RD_KAFKA_RESOURCE_TOPIC, name),
            Resource::Group(name) => (Type::RD_KAFKA_RESOURCE_GROUP, name),
        };
        let text = |text: &str| CString::new(text).expect("no zero byte in a name");
        let [name, principal, host] = [name, "User:reader", "*"].map(text);
        let client = self.producer().client().native_ptr();
        let mut why: [c_char; 256] = [0; 256];
        // SAFETY: live strings, a buffer of the size that is given, and a live client. What is made here is destroyed
        // here, once, after the answer, which belongs to the event.
        unsafe {
            let acl = sys::rd_kafka_AclBinding_new(
                kind,
                name.as_ptr(),
                sys::rd_kafka_ResourcePatternType_t::RD_KAFKA_RESOURCE_PATTERN_LITERAL,
                principal.as_ptr(),
                host.as_ptr(),
                sys::rd_kafka_AclOperation_t::RD_KAFKA_ACL_OPERATION_READ,
                sys::rd_kafka_AclPermissionType_t::RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW,
                why.as_mut_ptr(),
                why.len(),
            );
            assert!(!acl.is_null(), "{:?}", CStr::from_ptr(why.as_ptr()));
            let queue = sys::rd_kafka_queue_new(client);
            let mut acls = [acl];
            ask(client, acls.as_mut_ptr(), queue);
            let event = sys::rd_kafka_queue_poll(queue, PATIENCE.as_millis() as i32);
            assert!(!event.is_null(), "no answer to {resource:?}");
            let error = sys::rd_kafka_event_error_string(event);
            let ok = sys::rd_kafka_event_error(event) as i32 == 0;
            assert!(ok, "{resource:?}: {:?}", CStr::from_ptr(error));
            sys::rd_kafka_event_destroy(event);
            sys::rd_kafka_queue_destroy(queue);
            sys::rd_kafka_AclBinding_destroy(acl);
        }
    }
}
