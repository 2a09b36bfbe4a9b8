//! A thread that the application may keep for as long as it likes: nobody waits for it past a deadline.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TryRecvError};

use crate::poll::panic_text;

/// Why the application gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// It panicked.
    Panicked(String),
    /// It took longer than it may.
    TimedOut,
    /// The time was used up before it was its turn.
    NotAsked,
    /// It is inside an earlier call still.
    Busy,
}

type Answer = Result<Option<Vec<u8>>, String>;
type Call = Box<dyn FnOnce() -> Option<Vec<u8>> + Send>;

/// Who runs the application's code.
pub(crate) struct Guard(Runner);

enum Runner {
    Thread {
        calls: Sender<(Call, Sender<Answer>)>,
        /// The answer of a call that was given up.
        late: Option<Receiver<Answer>>,
    },
    /// On the spot, for the engine whose time is the test's.
    Inline,
}

impl Guard {
    /// Starts the thread. It ends when the guard is dropped and its last call has returned; nobody waits for it.
    pub(crate) fn start() -> std::io::Result<Self> {
        let (calls, incoming) = crossbeam_channel::unbounded::<(Call, Sender<Answer>)>();
        std::thread::Builder::new()
            .name("keyway-rider".to_owned())
            .spawn(move || {
                for (call, reply) in incoming {
                    let _ = reply.send(run(call));
                }
            })?;
        Ok(Self(Runner::Thread { calls, late: None }))
    }

    /// A guard without a thread.
    pub(crate) const fn inline() -> Self {
        Self(Runner::Inline)
    }

    /// Runs `call` until `deadline`.
    pub(super) fn call(
        &mut self,
        deadline: Instant,
        call: impl FnOnce() -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<Option<Vec<u8>>, NoAnswer> {
        match &mut self.0 {
            Runner::Inline => run(Box::new(call)).map_err(NoAnswer::Panicked),
            Runner::Thread { calls, late } => {
                if let Some(answer) = late {
                    if matches!(answer.try_recv(), Err(TryRecvError::Empty)) {
                        return Err(NoAnswer::Busy);
                    }
                    *late = None;
                }
                if Instant::now() >= deadline {
                    return Err(NoAnswer::NotAsked);
                }
                let (reply, answer) = crossbeam_channel::bounded(1);
                // The thread ends only after this guard.
                let _ = calls.send((Box::new(call), reply));
                match answer.recv_deadline(deadline) {
                    Ok(answer) => answer.map_err(NoAnswer::Panicked),
                    Err(_) => {
                        *late = Some(answer);
                        Err(NoAnswer::TimedOut)
                    }
                }
            }
        }
    }
}

fn run(call: Call) -> Answer {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let words = panic_text(&*panic);
        // What was thrown is the application's, and may panic again when it is dropped.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
        words
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    fn in_time() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_call_that_hangs_is_given_up_and_not_made_again_until_it_returned() {
        let mut guard = Guard::start().expect("a thread");
        let (go_on, gate) = crossbeam_channel::bounded::<()>(0);
        let hangs = move || {
            let _ = gate.recv();
            Some(vec![1])
        };
        assert_eq!(guard.call(soon(), hangs), Err(NoAnswer::TimedOut));
        assert_eq!(guard.call(in_time(), || Some(vec![2])), Err(NoAnswer::Busy));
        drop(go_on);
        let answer = loop {
            match guard.call(in_time(), || Some(vec![3])) {
                Err(NoAnswer::Busy) => std::thread::yield_now(),
                answer => break answer,
            }
        };
        assert_eq!(answer, Ok(Some(vec![3])), "and never the late answer");
    }

    #[test]
    fn a_panic_is_an_answer_and_the_next_call_is_made() {
        for mut guard in [Guard::start().expect("a thread"), Guard::inline()] {
            assert_eq!(
                guard.call(in_time(), || panic!("no rider today")),
                Err(NoAnswer::Panicked("no rider today".to_owned()))
            );
            assert_eq!(guard.call(in_time(), || None), Ok(None));
        }
    }

    #[test]
    fn past_the_deadline_nobody_is_called() {
        let mut guard = Guard::start().expect("a thread");
        let called = guard.call(Instant::now(), || panic!("called"));
        assert_eq!(called, Err(NoAnswer::NotAsked));
    }
}
