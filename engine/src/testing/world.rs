//! What the tests of this folder begin with.

use std::sync::Arc;
use std::time::Duration;

use super::TestEngine;
use crate::{Builder, ClientConfig, Keyway, Outcome, Record};

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn wish() -> Builder {
    Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["t"])
}

pub(super) fn engine(builder: Builder) -> TestEngine {
    TestEngine::new(builder).expect("a configuration that is right")
}

pub(super) fn with_handler<O: Into<Outcome>>(
    handler: impl Fn(&Record) -> O + Send + Sync + 'static,
) -> TestEngine {
    engine(wish().handler(handler))
}

/// Offsets of the attempts from the `skip`th on.
pub(super) fn offsets(engine: &TestEngine, skip: usize) -> Vec<i64> {
    engine.attempts()[skip..]
        .iter()
        .map(|attempt| attempt.id.offset)
        .collect()
}

pub(super) fn base(engine: &TestEngine, partition: i32) -> Option<i64> {
    engine.committed("t", partition).map(|commit| commit.offset)
}

/// A handler that waits until it is let go, record by record.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<tokio::sync::Notify>);

impl Gate {
    pub(super) fn builder(&self) -> Builder {
        let gate = self.clone();
        wish().async_handler(move |_record: Record| {
            let gate = gate.clone();
            async move { gate.0.notified().await }
        })
    }

    pub(super) fn open_once(&self) {
        self.0.notify_one();
    }
}
