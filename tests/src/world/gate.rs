//! Which records are stopped, told to handlers on threads and in futures.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

type Rule = dyn Fn(i32, i64) -> bool + Send + Sync;

/// Stops the records for which its rule holds, until the rule changes.
pub(super) struct Gate {
    rule: Mutex<Arc<Rule>>,
    threads: Condvar,
    futures: Notify,
}

impl Default for Gate {
    fn default() -> Self {
        Gate {
            rule: Mutex::new(Arc::new(|_, _| false)),
            threads: Condvar::new(),
            futures: Notify::new(),
        }
    }
}

impl Gate {
    pub(super) fn set(&self, rule: impl Fn(i32, i64) -> bool + Send + Sync + 'static) {
        *self.lock() = Arc::new(rule);
        self.threads.notify_all();
        self.futures.notify_waiters();
    }

    pub(super) fn open(&self) {
        self.set(|_, _| false);
    }

    pub(super) fn stops(&self, partition: i32, offset: i64) -> bool {
        let rule = Arc::clone(&self.lock());
        rule(partition, offset)
    }

    /// Blocks the thread while the record is stopped.
    pub(super) fn pass(&self, partition: i32, offset: i64) {
        let mut rule = self.lock();
        while rule(partition, offset) {
            rule = self
                .threads
                .wait(rule)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits while the record is stopped.
    pub(super) async fn pass_async(&self, partition: i32, offset: i64) {
        loop {
            // Made before the look, so that a change in between is not missed.
            let changed = self.futures.notified();
            if !self.stops(partition, offset) {
                return;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Rule>> {
        self.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
