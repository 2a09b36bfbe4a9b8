//! Who is still alive, and a bounded wait until nobody is.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

/// Kept by whoever is to be waited for, for as long as it lives.
#[derive(Clone, Debug)]
pub(super) struct Life {
    // Never sent to: the channel's end is the message.
    _sender: Arc<Sender<Infallible>>,
}

/// Counts lives, and waits for their end.
#[derive(Debug)]
pub(super) struct Lives {
    own: Option<Life>,
    all: Weak<Sender<Infallible>>,
    over: Receiver<Infallible>,
}

impl Lives {
    pub(super) fn new() -> Self {
        let (sender, over) = crossbeam_channel::bounded(0);
        let sender = Arc::new(sender);
        Self {
            all: Arc::downgrade(&sender),
            own: Some(Life { _sender: sender }),
            over,
        }
    }

    /// A new life; `None` once closed.
    pub(super) fn life(&self) -> Option<Life> {
        self.own.clone()
    }

    /// From now on there are no new lives.
    pub(super) fn close(&mut self) {
        self.own = None;
    }

    /// Waits until all lives are over, at most until `deadline`; the number of those that are not.
    pub(super) fn wait(&mut self, deadline: Instant) -> usize {
        self.close();
        match self.over.recv_deadline(deadline) {
            Err(RecvTimeoutError::Timeout) => self.all.strong_count(),
            Err(RecvTimeoutError::Disconnected) => 0,
            Ok(never) => match never {},
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_wait_ends_with_the_last_life() {
        let mut lives = Lives::new();
        let life = lives.life().expect("open");
        let other = life.clone();
        let thread = std::thread::spawn(move || drop((life, other)));
        assert_eq!(lives.wait(Instant::now() + Duration::from_secs(20)), 0);
        assert!(lives.life().is_none());
        thread.join().expect("no panic");
    }

    #[test]
    fn the_wait_is_bounded_and_counts_who_is_left() {
        let mut lives = Lives::new();
        let _stuck = lives.life().expect("open");
        assert_eq!(lives.wait(Instant::now() + Duration::from_millis(5)), 1);
    }
}
