//! The queue between the poll thread and one worker.
//!
//! ```text
//!   poll thread: push ----> [ task task batch task ] ----> next :worker
//!                take_back <----------'
//! ```
//!
//! A worker takes one record at a time and leaves the rest in the queue, so that whatever it has not started
//! can be taken back when one record turns out to be slow. A plain mutex is what makes that possible; it is
//! held for a few nanoseconds and contended only while a push is under way.

use std::collections::VecDeque;

use crate::ids::LaneIndex;
use crate::running::Running;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::work::{Task, Work};

/// What a worker takes from its queue.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<P> {
    /// One record.
    Task(Task<P>),
    /// Records for one call of a batch handler.
    Batch(Vec<Task<P>>),
    /// Everything of a lane that failed here has come back to the core: records of it may run again.
    Reopen(LaneIndex),
}

#[derive(Debug)]
struct Queue<P> {
    items: VecDeque<Item<P>>,
    /// The worker waits for the condition; a push that finds it running need not signal.
    waiting: bool,
    closed: bool,
}

/// Work handed to one worker and not started yet.
#[derive(Debug)]
pub struct WorkQueue<P> {
    queue: Mutex<Queue<P>>,
    filled: Condvar,
    /// What its worker is inside of.
    running: Running,
}

impl<P> Default for WorkQueue<P> {
    fn default() -> Self {
        Self {
            queue: Mutex::new(Queue {
                items: VecDeque::new(),
                waiting: false,
                closed: false,
            }),
            filled: Condvar::new(),
            running: Running::default(),
        }
    }
}

impl<P> WorkQueue<P> {
    fn lock(&self) -> MutexGuard<'_, Queue<P>> {
        // No code of a user runs under the lock, so a poisoned queue is whole; going on beats losing records.
        match self.queue.lock() {
            Ok(queue) => queue,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    fn push_with(&self, fill: impl FnOnce(&mut VecDeque<Item<P>>)) {
        let mut queue = self.lock();
        fill(&mut queue.items);
        let wake = std::mem::take(&mut queue.waiting);
        drop(queue);
        if wake {
            self.filled.notify_one();
        }
    }

    /// Appends work and returns the emptied vector for reuse (none for a batch, which travels whole).
    pub fn push(&self, work: Work<P>) -> Option<Vec<Task<P>>> {
        match work {
            Work::Records(mut tasks) => {
                self.push_with(|items| items.extend(tasks.drain(..).map(Item::Task)));
                Some(tasks)
            }
            Work::Batch(tasks) => {
                self.push_with(|items| items.push_back(Item::Batch(tasks)));
                None
            }
        }
    }

    /// Lets a lane that failed on this worker run here again; takes effect behind what is queued.
    pub fn reopen(&self, lane: LaneIndex) {
        self.push_with(|items| items.push_back(Item::Reopen(lane)));
    }

    /// The next item if there is one; `None` says nothing about whether the queue is closed.
    pub fn try_next(&self) -> Option<Item<P>> {
        self.lock().items.pop_front()
    }

    /// The next item, waiting for it; `None` once the queue is closed and empty.
    pub fn next(&self) -> Option<Item<P>> {
        let mut queue = self.lock();
        loop {
            if let Some(item) = queue.items.pop_front() {
                return Some(item);
            }
            if queue.closed {
                return None;
            }
            queue.waiting = true;
            queue = match self.filled.wait(queue) {
                Ok(queue) => queue,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
    }

    /// Takes back what was not started, in order. What is no record (a reopened lane) stays.
    pub fn take_back(&self, into: &mut Vec<Task<P>>) {
        let mut queue = self.lock();
        let mut kept = VecDeque::new();
        for item in queue.items.drain(..) {
            match item {
                Item::Task(task) => into.push(task),
                Item::Batch(tasks) => into.extend(tasks),
                Item::Reopen(_) => kept.push_back(item),
            }
        }
        queue.items = kept;
    }

    /// No more work will come: the worker ends when it has run what is queued.
    pub fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        queue.waiting = false;
        drop(queue);
        self.filled.notify_all();
    }

    /// What its worker is inside of.
    pub fn running(&self) -> &Running {
        &self.running
    }
}
