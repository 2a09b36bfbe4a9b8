//! One line on the terminal that says how it goes.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use keyway::Status;

/// Often enough for an eye.
const EVERY: Duration = Duration::from_millis(250);

/// Return to the line's start, and erase it.
const ERASE: &str = "\r\x1b[2K";

/// Writes over the same line of stderr again and again.
pub(crate) struct Progress {
    shown_at: Instant,
    completed: u64,
}

impl Progress {
    /// A line, if stderr is a terminal.
    pub(crate) fn on_terminal() -> Option<Self> {
        io::stderr().is_terminal().then(|| Self {
            shown_at: Instant::now(),
            completed: 0,
        })
    }

    /// Shows a status, if it is time.
    pub(crate) fn show(&mut self, status: &Status) {
        let since = self.shown_at.elapsed();
        if since < EVERY {
            return;
        }
        let rate = (status.completed - self.completed) as f64 / since.as_secs_f64();
        self.shown_at = Instant::now();
        self.completed = status.completed;
        // Progress is nice to have: a terminal that is gone is no fault.
        let _ = write!(
            io::stderr(),
            "{ERASE}{} partitions, {} records done, {rate:.0}/s, {} running, {} buffered, {} awaiting a retry",
            status.partitions.len(),
            status.completed,
            status.running,
            status.buffered,
            status.retries,
        );
    }

    /// Takes the line away.
    pub(crate) fn clear(self) {
        let _ = write!(io::stderr(), "{ERASE}");
    }
}
