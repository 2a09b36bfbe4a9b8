//! Handlers of every kind, with their types erased, and where each kind runs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use keyway_core::Shape;

use crate::outcome::{BatchOutcome, Outcome};
use crate::record::Record;

pub(crate) type EachFn = dyn Fn(&Record) -> Outcome + Send + Sync;
pub(crate) type BatchFn = dyn Fn(Vec<Record>) -> BatchOutcome + Send + Sync;
pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
pub(crate) type AsyncEachFn = dyn Fn(Record) -> BoxFuture<Outcome> + Send + Sync;
pub(crate) type AsyncBatchFn = dyn Fn(Vec<Record>) -> BoxFuture<BatchOutcome> + Send + Sync;

/// A handler that returns when it is finished.
#[derive(Clone)]
pub(crate) enum SyncHandler {
    Each(Arc<EachFn>),
    Batch(Arc<BatchFn>),
}

/// A handler that returns a future.
#[derive(Clone)]
pub(crate) enum AsyncHandler {
    Each(Arc<AsyncEachFn>),
    Batch(Arc<AsyncBatchFn>),
}

/// A user's handler and the kind of worker that it runs on.
#[derive(Clone)]
pub(crate) enum Handler {
    /// On threads of its own, each inside one call at a time: it may wait.
    Threads(SyncHandler),
    /// On a rayon pool: it computes.
    Cpu(SyncHandler),
    /// On a tokio runtime.
    Async(AsyncHandler),
}

fn each<O: Into<Outcome>>(handler: impl Fn(&Record) -> O + Send + Sync + 'static) -> SyncHandler {
    SyncHandler::Each(Arc::new(move |record: &Record| handler(record).into()))
}

fn batch<O: Into<BatchOutcome>>(
    handler: impl Fn(Vec<Record>) -> O + Send + Sync + 'static,
) -> SyncHandler {
    SyncHandler::Batch(Arc::new(move |records: Vec<Record>| {
        handler(records).into()
    }))
}

impl Handler {
    pub(crate) fn threads<O: Into<Outcome>>(
        handler: impl Fn(&Record) -> O + Send + Sync + 'static,
    ) -> Self {
        Handler::Threads(each(handler))
    }

    pub(crate) fn threads_batch<O: Into<BatchOutcome>>(
        handler: impl Fn(Vec<Record>) -> O + Send + Sync + 'static,
    ) -> Self {
        Handler::Threads(batch(handler))
    }

    pub(crate) fn cpu<O: Into<Outcome>>(
        handler: impl Fn(&Record) -> O + Send + Sync + 'static,
    ) -> Self {
        Handler::Cpu(each(handler))
    }

    pub(crate) fn cpu_batch<O: Into<BatchOutcome>>(
        handler: impl Fn(Vec<Record>) -> O + Send + Sync + 'static,
    ) -> Self {
        Handler::Cpu(batch(handler))
    }

    pub(crate) fn asynchronous<O, F>(handler: impl Fn(Record) -> F + Send + Sync + 'static) -> Self
    where
        O: Into<Outcome>,
        F: Future<Output = O> + Send + 'static,
    {
        Handler::Async(AsyncHandler::Each(Arc::new(move |record| {
            let future = handler(record);
            Box::pin(async move { future.await.into() })
        })))
    }

    pub(crate) fn asynchronous_batch<O, F>(
        handler: impl Fn(Vec<Record>) -> F + Send + Sync + 'static,
    ) -> Self
    where
        O: Into<BatchOutcome>,
        F: Future<Output = O> + Send + 'static,
    {
        Handler::Async(AsyncHandler::Batch(Arc::new(move |records| {
            let future = handler(records);
            Box::pin(async move { future.await.into() })
        })))
    }

    /// Whether it takes batches.
    pub(crate) fn is_batch(&self) -> bool {
        match self {
            Handler::Threads(handler) | Handler::Cpu(handler) => {
                matches!(handler, SyncHandler::Batch(_))
            }
            Handler::Async(handler) => matches!(handler, AsyncHandler::Batch(_)),
        }
    }

    /// How its records get to its workers, for the core's configuration.
    pub(crate) fn shape(&self, concurrency: u32) -> Shape {
        let concurrency = concurrency.max(1);
        match self {
            Handler::Threads(_) => Shape::Pinned {
                workers: concurrency,
            },
            Handler::Cpu(_) | Handler::Async(_) => Shape::Pool { concurrency },
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Handler::Threads(_) => "threads",
            Handler::Cpu(_) => "cpu",
            Handler::Async(_) => "async",
        };
        f.debug_struct("Handler")
            .field("kind", &kind)
            .field("batch", &self.is_batch())
            .finish()
    }
}
