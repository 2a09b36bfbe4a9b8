//! Typed keys and values.
//!
//! A codec ([`Decode`]) turns bytes into a value; [`value`] and [`typed`] put codecs in front of a handler:
//!
//! ```
//! use keyway::{Outcome, Record, Route, decode};
//!
//! let route = Route::handler(decode::value(decode::Utf8, |record: &Record, order: String| {
//!     println!("{}: {order}", record.id());
//! }));
//! ```
//!
//! Bytes that the codec can't read will not read better the next time, so there is no further attempt: the outcome is
//! [`Outcome::GiveUp`], which names the part and the codec's reason, and what follows is what the route's
//! [`Retry`](crate::Retry) does after a last attempt. Without a word of the user that is
//! [`Exhausted::Hold`](crate::Exhausted::Hold): the key waits until somebody looks, and nothing is lost. With
//! [`Exhausted::DeadLetter`](crate::Exhausted::DeadLetter) the record goes to the dead-letter topic, and with
//! [`Exhausted::Skip`](crate::Exhausted::Skip) it is passed over.
//!
//! Any function of bytes that returns a `Result` is a codec:
//!
//! ```
//! # use keyway::{Record, Route, decode};
//! let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes);
//! let route = Route::handler(decode::typed(decode::Utf8, number, |_: &Record, user: String, total: u64| {
//!     println!("{user}: {total}");
//! }));
//! ```

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use crate::outcome::{Outcome, Reason};
use crate::record::Record;
use crate::workers::panic_text;

/// A codec: what keys or values are made of.
pub trait Decode: Send + Sync + 'static {
    /// What comes out.
    type Output;

    /// Reads a key or a value.
    ///
    /// # Errors
    /// Why it can't be read.
    fn decode(&self, bytes: &[u8]) -> Result<Self::Output, Reason>;

    /// What a null key or a null value stands for, which is not the empty one: [`OrNull`] makes `None` of it.
    ///
    /// # Errors
    /// Unless the codec has an answer.
    fn decode_null(&self) -> Result<Self::Output, Reason> {
        Err("it is null".into())
    }
}

impl<T, E, F> Decode for F
where
    E: fmt::Display,
    F: Fn(&[u8]) -> Result<T, E> + Send + Sync + 'static,
{
    type Output = T;

    fn decode(&self, bytes: &[u8]) -> Result<T, Reason> {
        self(bytes).map_err(Reason::of)
    }
}

/// The bytes as they are, in a copy. A handler that needs none reads [`Record::value`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Bytes;

impl Decode for Bytes {
    type Output = Vec<u8>;

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, Reason> {
        Ok(bytes.to_vec())
    }
}

/// Text in UTF-8.
#[derive(Clone, Copy, Debug, Default)]
pub struct Utf8;

impl Decode for Utf8 {
    type Output = String;

    fn decode(&self, bytes: &[u8]) -> Result<String, Reason> {
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(Reason::of)
    }
}

/// A codec whose null is `None`: for values that may be tombstones, for keys that may be missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrNull<C>(pub C);

impl<C: Decode> Decode for OrNull<C> {
    type Output = Option<C::Output>;

    fn decode(&self, bytes: &[u8]) -> Result<Self::Output, Reason> {
        self.0.decode(bytes).map(Some)
    }

    fn decode_null(&self) -> Result<Self::Output, Reason> {
        Ok(None)
    }
}

/// JSON, by serde; with the feature `json`.
#[cfg(feature = "json")]
pub struct Json<T>(std::marker::PhantomData<fn() -> T>);

/// The codec of a type that serde can read from JSON.
#[cfg(feature = "json")]
pub const fn json<T: serde::de::DeserializeOwned + 'static>() -> Json<T> {
    Json(std::marker::PhantomData)
}

#[cfg(feature = "json")]
impl<T> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Json")
    }
}

#[cfg(feature = "json")]
impl<T: serde::de::DeserializeOwned + 'static> Decode for Json<T> {
    type Output = T;

    fn decode(&self, bytes: &[u8]) -> Result<T, Reason> {
        serde_json::from_slice(bytes).map_err(Reason::of)
    }
}

/// A handler of records whose value is read first.
pub fn value<C: Decode, O: Into<Outcome>>(
    codec: C,
    handler: impl Fn(&Record, C::Output) -> O + Send + Sync + 'static,
) -> impl Fn(&Record) -> Outcome + Send + Sync + 'static {
    move |record| match read("value", record.value(), &codec) {
        Ok(value) => handler(record, value).into(),
        Err(outcome) => outcome,
    }
}

/// A handler of records whose key and value are read first.
pub fn typed<K: Decode, V: Decode, O: Into<Outcome>>(
    key: K,
    value: V,
    handler: impl Fn(&Record, K::Output, V::Output) -> O + Send + Sync + 'static,
) -> impl Fn(&Record) -> Outcome + Send + Sync + 'static {
    move |record| match read_both(record, &key, &value) {
        Ok((key, value)) => handler(record, key, value).into(),
        Err(outcome) => outcome,
    }
}

/// What the async forms return: the handler's future, or an outcome that is there already.
pub type Decoded = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// As [`value`], for [`Route::async_handler`](crate::Route::async_handler).
pub fn value_async<C: Decode, O, F>(
    codec: C,
    handler: impl Fn(Record, C::Output) -> F + Send + Sync + 'static,
) -> impl Fn(Record) -> Decoded + Send + Sync + 'static
where
    O: Into<Outcome>,
    F: Future<Output = O> + Send + 'static,
{
    move |record| match read("value", record.value(), &codec) {
        Ok(value) => in_time(handler(record, value)),
        Err(outcome) => Box::pin(std::future::ready(outcome)),
    }
}

/// As [`typed`], for [`Route::async_handler`](crate::Route::async_handler).
pub fn typed_async<K: Decode, V: Decode, O, F>(
    key: K,
    value: V,
    handler: impl Fn(Record, K::Output, V::Output) -> F + Send + Sync + 'static,
) -> impl Fn(Record) -> Decoded + Send + Sync + 'static
where
    O: Into<Outcome>,
    F: Future<Output = O> + Send + 'static,
{
    move |record| match read_both(&record, &key, &value) {
        Ok((key, value)) => in_time(handler(record, key, value)),
        Err(outcome) => Box::pin(std::future::ready(outcome)),
    }
}

fn in_time<O: Into<Outcome>>(future: impl Future<Output = O> + Send + 'static) -> Decoded {
    Box::pin(async move { future.await.into() })
}

fn read_both<K: Decode, V: Decode>(
    record: &Record,
    key: &K,
    value: &V,
) -> Result<(K::Output, V::Output), Outcome> {
    Ok((
        read("key", record.key(), key)?,
        read("value", record.value(), value)?,
    ))
}

/// One part of a record, or the outcome of a record that has none.
fn read<C: Decode>(part: &str, bytes: Option<&[u8]>, codec: &C) -> Result<C::Output, Outcome> {
    // A codec that panics over these bytes will do so again: no reason for another attempt.
    let read = catch_unwind(AssertUnwindSafe(|| match bytes {
        Some(bytes) => codec.decode(bytes),
        None => codec.decode_null(),
    }));
    let fault = match read {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(reason)) => reason.to_string(),
        Err(panic) => format!("its codec {}", panic_text(panic)),
    };
    Err(Outcome::GiveUp(
        format!("the {part} can't be decoded: {fault}").into(),
    ))
}
