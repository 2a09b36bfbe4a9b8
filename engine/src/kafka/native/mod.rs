//! Every `unsafe` block of the project: librdkafka behind types that can't be misused.
//!
//! The safe files beside this folder decide; these files only call. What makes the calls sound:
//!
//! - **One owner.** [`Client`] holds the native handle. It is destroyed once, by the closer thread,
//!   when no record of it lives and no call is inside it ([`Client::quiet`]).
//! - A [`NativeProducer`] has its owners counted by an `Arc`, and nothing points into it.
//! - **Counted guests.** A [`NativeRecord`] is counted from the moment it is received until its
//!   message was destroyed. A call from another thread holds a [`Call`], which can't be had once
//!   closing began.
//! - **Callbacks store and return.** They run inside a poll, hold no lock while librdkafka's code
//!   runs, and never call back except for `rd_kafka_queue_yield` (see `callbacks.rs`).
//! - **Codes are numbers.** A broker may answer with an error number that the bindings' enum does
//!   not list; reading it as that enum would be undefined behaviour, so `raw.rs` reads integers.
//!
//! The workspace denies `unsafe_code`; this folder is the exception that `docs/` names.
#![allow(unsafe_code)]

mod callbacks;
mod client;
mod group;
mod list;
mod message;
mod mock;
mod producer;
mod queries;
mod raw;
mod transactions;

pub(crate) use callbacks::Stashed;
pub(crate) use client::{Batch, Call, Client, MessageFailure};
pub(crate) use group::{HandOver, Protocol};
pub(crate) use list::{Element, PartitionList};
pub(crate) use message::NativeRecord;
pub(crate) use mock::MockCluster;
pub(crate) use producer::{NativeProducer, Outgoing, RawHeader, Said};
pub(crate) use queries::{Description, OffsetSpec};
pub(crate) use raw::{Failure, name_of};
pub(crate) use transactions::{GroupMetadata, StepFailure};
