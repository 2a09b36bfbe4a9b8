//! Waking the poll thread, only when it sleeps and never too late.
//!
//! The poll thread sleeps inside librdkafka, and waking it costs far more than telling it something. So it
//! raises a flag before it sleeps, and whoever has something for it wakes it only if the flag is up:
//!
//! ```text
//!   poll thread                      worker
//!   raise the flag                   send the report
//!   ---- fence ----                  ---- fence ----
//!   look once more for reports       is the flag up? take it down, wake
//!   none: sleep
//! ```
//!
//! Either the worker sees the flag, or the last look sees the report: the two fences are in one order, and
//! what stands before the first of them is seen by what stands after the second. A worker that sees the flag
//! but comes too late to take it down leaves the wake-up to the one that did.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Whether somebody sleeps, or is about to.
#[derive(Debug, Default)]
pub(crate) struct SleepFlag {
    up: AtomicBool,
}

impl SleepFlag {
    /// Called by the sleeper before its last look for work.
    pub(crate) fn raise(&self) {
        // A swap, in a chain of acquire and release with `take`: a worker that takes down what was raised
        // before this can't undo it.
        self.up.swap(true, Ordering::AcqRel);
        // SeqCst: no later load may be done before the store. A release or acquire would not forbid that.
        fence(Ordering::SeqCst);
    }

    /// Called by the sleeper when it is awake.
    pub(crate) fn lower(&self) {
        // Relaxed: a worker that still sees the flag up wakes once for nothing.
        self.up.store(false, Ordering::Relaxed);
    }

    /// Called by a worker after its work can be seen; `true` tells it to wake the sleeper, and tells nobody
    /// else.
    pub(crate) fn take(&self) -> bool {
        // SeqCst: the pair of the fence in `raise`.
        fence(Ordering::SeqCst);
        // Looking before swapping keeps the cache line shared while nobody sleeps.
        self.up.load(Ordering::Relaxed) && self.up.swap(false, Ordering::AcqRel)
    }
}

/// Wakes the poll thread from any thread.
pub(crate) struct Wake {
    flag: SleepFlag,
    hook: Box<dyn Fn() + Send + Sync>,
}

impl Wake {
    /// `hook` ends the sleep under way, or else the next one: the flag is up shortly before the sleep begins.
    /// `rd_kafka_queue_yield` does that.
    pub(crate) fn new(hook: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            flag: SleepFlag::default(),
            hook: Box::new(hook),
        }
    }

    /// The sleeper is about to sleep; it must look for work once more after this.
    pub(crate) fn raise(&self) {
        self.flag.raise();
    }

    /// The sleeper is awake.
    pub(crate) fn lower(&self) {
        self.flag.lower();
    }

    /// Wakes the sleeper if it sleeps. Called after what it is woken for can be seen.
    pub(crate) fn wake(&self) {
        if self.flag.take() {
            (self.hook)();
        }
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wake")
            .field("flag", &self.flag)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_sleeper_is_woken_and_only_once() {
        let (woken, wakes) = mpsc::channel();
        let wake = Wake::new(move || woken.send(()).expect("the receiver lives"));
        wake.wake();
        assert!(wakes.try_recv().is_err());
        wake.raise();
        wake.wake();
        wake.wake();
        assert_eq!(wakes.try_iter().count(), 1);
        wake.raise();
        wake.lower();
        wake.wake();
        assert!(wakes.try_recv().is_err());
    }

    #[test]
    fn no_wake_up_is_lost() {
        const ROUNDS: usize = 20_000;
        let (woken, sleep) = mpsc::channel();
        let wake = Arc::new(Wake::new(move || woken.send(()).unwrap_or_default()));
        let (sender, work) = crossbeam_channel::unbounded();
        let worker = {
            let wake = Arc::clone(&wake);
            std::thread::spawn(move || {
                for round in 0..ROUNDS {
                    sender.send(round).expect("the receiver lives");
                    wake.wake();
                    if round % 7 == 0 {
                        std::thread::yield_now();
                    }
                }
            })
        };
        let mut seen = 0;
        while seen < ROUNDS {
            seen += work.try_iter().count();
            wake.raise();
            if work.is_empty() && seen < ROUNDS {
                sleep
                    .recv_timeout(Duration::from_secs(20))
                    .expect("woken for the work that came");
            }
            wake.lower();
        }
        worker.join().expect("no panic");
    }
}
