//! How long handlers take, and what that allows to queue on one worker.
//!
//! A record that is handed to a worker waits for those ahead of it there. With fast handlers that is cheaper
//! than waking another thread for each record; with slow ones it would hold up other keys. Two measured
//! figures decide: the mean time of an attempt, and the share of attempts that took longer than
//! [`SLOW_ATTEMPT`]. The share guards against mixed loads, in which the mean says little about what the next
//! record will meet.

use std::time::Duration;

use crate::work::SLOW_ATTEMPT;

/// Mean below which queueing on a busy worker is cheaper than waking an idle one: about twice what a thread's
/// wake-up costs.
const WORTH_A_WAKE_UP_NANOS: f64 = 20_000.0;

/// From this share of slow attempts on, nothing queues behind a running record: one record in a hundred would
/// meet a slow one, which is what a 99th percentile sees.
const SLOW_SHARE: f64 = 0.01;

/// Attempts after which an observation has lost about two thirds of its weight.
const WINDOW: f64 = 64.0;

/// Most records queued on a worker, however fast the handler: bounds what a revoke has to take back.
const MAX_DEPTH: u32 = 16_384;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ServiceTime {
    mean_nanos: f64,
    slow_share: f64,
    depth: u32,
}

impl ServiceTime {
    /// Nothing is known: half a slow attempt, so that the first records spread over the workers.
    pub(crate) fn unknown() -> Self {
        let mut service = Self {
            mean_nanos: SLOW_ATTEMPT.as_nanos() as f64 / 2.0,
            slow_share: 0.0,
            depth: 1,
        };
        service.update_depth();
        service
    }

    /// Takes in `attempts` attempts that together took `busy`, `slow` of them longer than [`SLOW_ATTEMPT`].
    pub(crate) fn observe(&mut self, attempts: u32, busy: Duration, slow: u32) {
        if attempts == 0 {
            return;
        }
        let count = f64::from(attempts);
        // The weight that the newest `count` observations have in an exponential average.
        let weight = 1.0 - (-count / WINDOW).exp();
        self.mean_nanos += weight * (busy.as_nanos() as f64 / count - self.mean_nanos);
        self.slow_share += weight * (f64::from(slow) / count - self.slow_share);
        self.update_depth();
    }

    fn update_depth(&mut self) {
        let fits = SLOW_ATTEMPT.as_nanos() as f64 / self.mean_nanos.max(1.0);
        self.depth = if self.slow_share >= SLOW_SHARE {
            1
        } else {
            (fits as u32).clamp(1, MAX_DEPTH)
        };
    }

    /// Most records, the running one included, that one worker may hold.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Whether an idle worker is worth waking rather than queueing on a busy one.
    pub(crate) fn spreads(&self) -> bool {
        self.depth == 1 || self.mean_nanos >= WORTH_A_WAKE_UP_NANOS
    }

    pub(crate) fn mean(&self) -> Duration {
        Duration::from_nanos(self.mean_nanos as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_handlers_queue_deep_and_wake_nobody() {
        let mut service = ServiceTime::unknown();
        service.observe(10_000, Duration::from_millis(1), 0);
        assert!(service.depth() > 5_000, "{}", service.depth());
        assert!(!service.spreads());
    }

    #[test]
    fn slow_handlers_do_not_queue() {
        let mut service = ServiceTime::unknown();
        service.observe(100, Duration::from_millis(4_000), 100);
        assert_eq!(service.depth(), 1);
        assert!(service.spreads());
    }

    #[test]
    fn one_slow_attempt_in_ten_stops_queueing_though_the_mean_is_small() {
        let mut service = ServiceTime::unknown();
        for _ in 0..100 {
            service.observe(10, Duration::from_micros(1_200), 1);
        }
        assert_eq!(service.depth(), 1);
    }

    #[test]
    fn a_single_hiccup_is_forgotten_within_a_few_hundred_attempts() {
        let mut service = ServiceTime::unknown();
        service.observe(100_000, Duration::from_millis(10), 0);
        service.observe(1, Duration::from_millis(5), 1);
        assert_eq!(service.depth(), 1);
        service.observe(600, Duration::from_micros(60), 0);
        assert!(service.depth() > 100, "{}", service.depth());
    }
}
