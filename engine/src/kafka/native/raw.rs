//! What all calls share: strings, error objects, and error numbers read as numbers.

use std::ffi::{CStr, CString, c_char, c_int};
use std::time::Duration;

use rdkafka_sys::{
    rd_kafka_ConsumerGroupDescription_t, rd_kafka_error_t, rd_kafka_event_t, rd_kafka_metadata,
    rd_kafka_resp_err_t, rd_kafka_t, rd_kafka_topic_partition_list_t, rd_kafka_topic_t,
};

// The bindings declare these with the enum `rd_kafka_resp_err_t`. Brokers may send numbers that the
// enum does not list, and such a value of the enum is undefined behaviour. An `int` is what the C
// side passes. The state of a group is likewise read as a number: a later librdkafka has more of them.
#[allow(clashing_extern_declarations)]
unsafe extern "C" {
    #[link_name = "rd_kafka_event_error"]
    pub(super) fn event_error_code(event: *mut rd_kafka_event_t) -> c_int;
    #[link_name = "rd_kafka_committed"]
    pub(super) fn committed(
        client: *mut rd_kafka_t,
        partitions: *mut rd_kafka_topic_partition_list_t,
        timeout_ms: c_int,
    ) -> c_int;
    #[link_name = "rd_kafka_metadata"]
    pub(super) fn metadata(
        client: *mut rd_kafka_t,
        all_topics: c_int,
        only: *mut rd_kafka_topic_t,
        metadata: *mut *const rd_kafka_metadata,
        timeout_ms: c_int,
    ) -> c_int;
    #[link_name = "rd_kafka_ConsumerGroupDescription_state"]
    pub(super) fn group_state(group: *const rd_kafka_ConsumerGroupDescription_t) -> c_int;
    #[link_name = "rd_kafka_consumer_group_state_name"]
    pub(super) fn group_state_name(state: c_int) -> *const c_char;
    #[link_name = "rd_kafka_error_code"]
    fn error_object_code(error: *const rd_kafka_error_t) -> c_int;
    #[link_name = "rd_kafka_err2name"]
    fn code_name(code: c_int) -> *const c_char;
    #[link_name = "rd_kafka_err2str"]
    fn code_text(code: c_int) -> *const c_char;
}

/// An error as librdkafka gives it: a number and a text. `errors.rs` makes a typed one of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The protocol's error number, or one of librdkafka's own, which are negative.
    pub(crate) code: i32,
    /// What librdkafka says about it; never empty.
    pub(crate) text: String,
}

impl Failure {
    /// The failure of a code, with librdkafka's own description of it.
    pub(crate) fn of_code(code: i32) -> Self {
        Self {
            code,
            text: describe(code),
        }
    }

    /// As [`Failure::of_code`]; `None` for code 0.
    pub(super) fn check(code: i32) -> Result<(), Self> {
        if code == 0 {
            Ok(())
        } else {
            Err(Self::of_code(code))
        }
    }

    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self {
            code: rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__INVALID_ARG as i32,
            text: text.into(),
        }
    }
}

/// librdkafka's name of an error number, such as `TOPIC_AUTHORIZATION_FAILED` or `_TIMED_OUT`.
pub(crate) fn name_of(code: i32) -> String {
    // SAFETY: any integer is accepted; the answer is a static or thread-local C string that is
    // copied before another call could reuse its buffer.
    unsafe { owned(code_name(code)) }.unwrap_or_default()
}

fn describe(code: i32) -> String {
    // SAFETY: as in `name_of`.
    unsafe { owned(code_text(code)) }.unwrap_or_default()
}

/// Copies a C string; `None` for a null pointer. Bytes that are not UTF-8 are replaced.
///
/// # Safety
/// `text` is null or points to a C string that lives during the call.
pub(super) unsafe fn owned(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller vouches for the rest.
    Some(
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
    )
}

/// Takes an error object apart and frees it; `Ok` for a null pointer, which means no error.
///
/// # Safety
/// `error` is null or an error object that the caller owns and does not use again.
pub(super) unsafe fn take_error(error: *mut rd_kafka_error_t) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the pointer.
    let outcome = unsafe { peek_error(error) };
    if !error.is_null() {
        // SAFETY: not null and owned; destroyed once, here.
        unsafe { rdkafka_sys::rd_kafka_error_destroy(error) };
    }
    outcome
}

/// Reads an error object that stays its owner's; `Ok` for a null pointer or code 0.
///
/// # Safety
/// `error` is null or points to an error object that lives during the call.
pub(super) unsafe fn peek_error(error: *const rd_kafka_error_t) -> Result<(), Failure> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: not null, alive as the caller vouches; the string belongs to the object and is copied.
    let (code, text) = unsafe {
        (
            error_object_code(error),
            owned(rdkafka_sys::rd_kafka_error_string(error)),
        )
    };
    if code == 0 {
        return Ok(());
    }
    let text = text
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| describe(code));
    Err(Failure { code, text })
}

/// Room for the error text that some calls write.
pub(super) struct ErrorText([c_char; 512]);

impl ErrorText {
    pub(super) fn new() -> Self {
        Self([0; 512])
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut c_char {
        self.0.as_mut_ptr()
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.len()
    }

    pub(super) fn read(&self) -> String {
        let bytes: Vec<u8> = self
            .0
            .iter()
            .take_while(|&&c| c != 0)
            .map(|&c| c as u8)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// A C string of `text`; text with a NUL inside is the caller's mistake and a typed failure.
pub(super) fn c_string(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::invalid(format!("{text:?} contains a NUL byte")))
}

/// Whole milliseconds, rounded up so that a short wait does not become none.
pub(super) fn millis(duration: Duration) -> c_int {
    let up = duration.as_micros().div_ceil(1_000);
    c_int::try_from(up).unwrap_or(c_int::MAX)
}
