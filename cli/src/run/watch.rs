//! Waits for the engine's end, and asks for it where an option or a signal says so.

use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use keyway::{Engine, Report, StopReason};

use super::events::Fault;
use super::progress::Progress;

/// Bound of the drain that the first signal or idleness asks for.
const DRAIN_WITHIN: Duration = Duration::from_secs(30);

/// Bound of the stop that the second signal asks for.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// How often the end, idleness and progress are looked at.
const TICK: Duration = Duration::from_millis(20);

/// The exit code of a process that the third signal ends.
const ENDED_AT_ONCE: i32 = 1;

/// What is watched for.
pub(crate) struct Watch<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) signals: Receiver<()>,
    pub(crate) until_idle: Option<Duration>,
    /// Of the files of what happens.
    pub(crate) faults: Vec<Fault>,
    /// Shows on the terminal how it goes.
    pub(crate) progress: Option<Progress>,
    /// Done before the third signal ends the process.
    pub(crate) before_exit: Box<dyn Fn()>,
}

/// How the engine ended.
pub(crate) struct End {
    pub(crate) result: Result<Report, StopReason>,
    /// Who asked first.
    pub(crate) cause: Cause,
    /// The event log, or the file of records, could not be written.
    pub(crate) fault: Option<String>,
    /// Since the engine's start.
    pub(crate) elapsed: Duration,
}

/// What an end is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The engine itself: as many records as were asked for are complete, or it had to stop.
    Engine,
    /// Nothing was there to do any more.
    Idle,
    /// A signal.
    Signal,
    /// What happens can't be written down.
    Fault,
}

impl Watch<'_> {
    /// Returns when the engine has ended.
    pub(crate) fn until_end(mut self) -> End {
        let begun = Instant::now();
        let mut cause = None;
        let mut signals = 0;
        loop {
            if self.signalled() {
                signals += 1;
                cause = cause.or(Some(Cause::Signal));
                self.obey(signals);
            }
            if let Some(result) = self.engine.ended() {
                if let Some(progress) = self.progress.take() {
                    progress.clear();
                }
                return End {
                    result,
                    cause: cause.unwrap_or(Cause::Engine),
                    fault: self.faults.iter().find_map(|fault| fault.get().cloned()),
                    elapsed: begun.elapsed(),
                };
            }
            if cause.is_none() {
                cause = self.ask_for_the_end();
            }
            if let Some(progress) = &mut self.progress {
                progress.show(&self.engine.status());
            }
        }
    }

    /// Waits a tick for a signal.
    fn signalled(&self) -> bool {
        match self.signals.recv_timeout(TICK) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => {
                // The thread that listens never ends by itself; without it there are no signals, but still ticks.
                std::thread::sleep(TICK);
                false
            }
        }
    }

    fn obey(&self, signals: u32) {
        match signals {
            1 => {
                tracing::info!("signalled: finishing what is buffered; a second signal stops");
                self.engine.drain(DRAIN_WITHIN);
            }
            2 => {
                tracing::info!(
                    "signalled again: finishing what runs; a third signal ends the process"
                );
                self.engine.stop(STOP_WITHIN);
            }
            _ => {
                (self.before_exit)();
                process::exit(ENDED_AT_ONCE)
            }
        }
    }

    fn ask_for_the_end(&self) -> Option<Cause> {
        if self.faults.iter().any(|fault| fault.get().is_some()) {
            self.engine.stop(STOP_WITHIN);
            return Some(Cause::Fault);
        }
        let idle = self.engine.status().idle_for;
        if self
            .until_idle
            .is_some_and(|enough| idle.is_some_and(|idle| idle >= enough))
        {
            self.engine.drain(DRAIN_WITHIN);
            return Some(Cause::Idle);
        }
        None
    }
}
