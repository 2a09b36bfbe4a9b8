//! `exec:CMD`: records go to children of this process, a line each, and each answers with one.
//!
//! A call takes a place, of which there are as many as calls at once, and with it the child that sits there:
//!
//! ```text
//!   call --> place { child, failures } --line--> sh -c CMD --line--> answer --> place is free again
//!                      '-- broken: killed; the next call waits out the pause, then starts another
//! ```
//!
//! A child can say more than it was asked, and what it says late looks like the answer about the next record. So nothing
//! is handed to one that has spoken unasked, and an answer that names its record is held to that.
//!
//! A call that is abandoned takes its place along, and the child is killed with it.

mod child;
mod line;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use keyway::{Outcome, Record};

use super::Finish;
use child::{Broken, Group, Talk};

/// Pause before the child that follows a broken one, doubled with each that breaks before it has given a good answer.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Children whose stdin is closed have so long to end before they are killed.
const LEAVE_TIME: Duration = Duration::from_secs(2);
const LEAVE_POLL: Duration = Duration::from_millis(5);

/// The children of a run.
#[derive(Debug)]
pub(in crate::run) struct Children {
    command: String,
    timeout: Duration,
    finish: Finish,
    /// Places that no call is in: those with a child at the back, the one used last behind all others.
    free: Mutex<VecDeque<Place>>,
    living: Mutex<Living>,
}

/// All children, also those whose calls were abandoned.
#[derive(Debug, Default)]
struct Living {
    groups: Vec<Weak<Group>>,
    /// The run is over.
    closed: bool,
}

#[derive(Debug, Default)]
struct Place {
    child: Option<Talk>,
    /// Children that broke since the last good answer.
    failures: u32,
    not_before: Option<Instant>,
}

impl Children {
    pub(super) fn new(command: &str, timeout: Duration, finish: Finish) -> Self {
        Self {
            command: command.to_owned(),
            timeout,
            finish,
            free: Mutex::default(),
            living: Mutex::default(),
        }
    }

    /// Has a record handled by a child.
    pub(super) async fn handle(&self, record: &Record) -> Outcome {
        let question = match line::question(record) {
            Ok(question) => question,
            // No further attempt would read it.
            Err(unreadable) => return Outcome::GiveUp(unreadable.into()),
        };
        let mut place = lock(&self.free).pop_back().unwrap_or_default();
        let outcome = place.ask(self, record, &question).await;
        {
            let mut free = lock(&self.free);
            match place.child {
                Some(_) => free.push_back(place),
                // Nobody waits out its pause while another child is at leisure.
                None => free.push_front(place),
            }
        }
        outcome.unwrap_or_else(|reason| Outcome::Failed(format!("exec: {reason}").into()))
    }

    fn outcome(&self, answer: &[u8], record: &Record, names: &mut bool) -> Result<Outcome, String> {
        match line::outcome(answer, record.into(), names, self.finish.output.as_ref()) {
            Ok(Outcome::Done) => Ok(self.finish.of(record)),
            Ok(outcome) => Ok(outcome),
            Err(reason) => Err(format!("{}: {reason}", line::beginning(answer))),
        }
    }

    fn start(&self) -> Result<Talk, String> {
        let mut living = lock(&self.living);
        if living.closed {
            return Err("the run is over".to_owned());
        }
        let talk = Talk::start(&self.command)?;
        living.groups.retain(|group| group.strong_count() > 0);
        living.groups.push(Arc::downgrade(&talk.group));
        Ok(talk)
    }

    /// Ends the children: they see the end of their stdin, and are killed if that is not enough.
    pub(in crate::run) fn end(&self) {
        let mut leaving = self.close();
        // Closes their pipes.
        lock(&self.free).clear();
        let deadline = Instant::now() + LEAVE_TIME;
        while !leaving.is_empty() && Instant::now() < deadline {
            leaving.retain(|group| !group.has_ended());
            std::thread::sleep(LEAVE_POLL);
        }
        kill(&leaving);
    }

    /// Kills the children.
    pub(in crate::run) fn kill(&self) {
        kill(&self.close());
    }

    /// Lets no other child start, and tells which there are.
    fn close(&self) -> Vec<Arc<Group>> {
        let mut living = lock(&self.living);
        living.closed = true;
        living.groups.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Place {
    /// What became of the record, or why the attempt failed.
    async fn ask(
        &mut self,
        children: &Children,
        record: &Record,
        question: &[u8],
    ) -> Result<Outcome, String> {
        self.look_after();
        loop {
            let is_new = self.child.is_none();
            let child = self.child(children).await?;
            let asked = tokio::time::timeout(children.timeout, child.ask(question)).await;
            let said = match asked {
                Ok(Ok(answer)) => children.outcome(&answer, record, &mut child.names),
                // It ended before it was asked, which no new one can have done.
                Ok(Err(Broken { unread: true, .. })) if !is_new => {
                    self.child = None;
                    continue;
                }
                Ok(Err(broken)) => Err(broken.reason),
                Err(_) => Err(format!(
                    "no answer within {:?} (--handler-timeout)",
                    children.timeout
                )),
            };
            return match said {
                Ok(outcome) => {
                    self.failures = 0;
                    Ok(outcome)
                }
                // Who says one thing that is not understood may be about to say another: its next line is not believed.
                Err(reason) => Err(self.broke(reason)),
            };
        }
    }

    /// The child that sits here; a new one where there is none.
    async fn child(&mut self, children: &Children) -> Result<&mut Talk, String> {
        let child = match self.child.take() {
            Some(child) => child,
            None => {
                if let Some(not_before) = self.not_before.take() {
                    tokio::time::sleep_until(not_before.into()).await;
                }
                children.start().map_err(|reason| self.broke(reason))?
            }
        };
        Ok(self.child.insert(child))
    }

    /// Parts from a child that has spoken unasked.
    fn look_after(&mut self) {
        if self.child.as_ref().is_some_and(Talk::has_spoken) {
            tracing::warn!(
                "exec: a child said more than the one line it was asked for, and is replaced: what it says later would be \
                 taken for the answer about another record"
            );
            self.broke(String::new());
        }
    }

    /// Kills the child, and sets when another may follow.
    fn broke(&mut self, reason: String) -> String {
        self.child = None;
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + pause.min(LONGEST_PAUSE));
        reason
    }
}

/// Each of them, whoever else holds it.
fn kill(groups: &[Arc<Group>]) {
    for group in groups {
        group.kill();
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
