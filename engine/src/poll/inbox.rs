//! What other threads tell the poll thread.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use keyway_core::{CommitFinished, DeadLetter, Sending, Sent, TaskRef};

use super::look::Identified;
use super::pauses::Which;
use super::restore::RestoreAnswer;
use crate::causal::CausalAnswer;
use crate::commits::Transacted;
use crate::kafka::{ClientError, NotWritten};
use crate::limits::Change;
use crate::record::Message;
use crate::stop::CommitError;
use crate::workers::Wake;

/// A message to the poll thread.
#[derive(Debug)]
pub(crate) enum Inbound {
    /// The answer to the plan that was under way.
    Committed(CommitFinished),
    /// The same of a transaction, with what it carried.
    Transacted(Box<Transacted>),
    /// What the group had committed for partitions that were assigned.
    Restored(RestoreAnswer),
    /// What the causal layer asked the cluster.
    Causal(CausalAnswer),
    /// The topics that a broker shows; none when no broker has answered.
    Looked(Option<Vec<String>>),
    /// Which life of the topics there is.
    Identified(Identified),
    /// Finish what is buffered, then end.
    Drain { deadline: Instant },
    /// Finish what runs, then end.
    Stop { deadline: Instant },
    /// Commit, and say when all that is complete now is committed.
    Commit {
        deadline: Instant,
        reply: Sender<Result<(), CommitError>>,
    },
    /// The broker has all outputs of these records.
    OutputsAcknowledged {
        sent: Vec<Sent>,
        /// Topics that had refused outputs, and took some now.
        healed: Vec<String>,
    },
    /// Outputs of a record could not be sent.
    OutputsFailed {
        sending: Sending<Message>,
        failure: NotWritten,
    },
    /// Outputs of a record were not sent, since those before it in its lane could not be.
    OutputsNotSent(Sending<Message>),
    /// The broker has this record's dead letter.
    LetterWritten(TaskRef),
    /// A dead letter could not be written.
    LetterFailed {
        letter: DeadLetter<Message>,
        topic: Arc<str>,
        error: ClientError,
    },
    /// The user pauses partitions.
    Pause(Which),
    /// The user resumes them.
    Resume(Which),
    /// A limit changes.
    Limit(Change),
    /// End at once as a crash would.
    Abandon,
}

/// The end of those who tell.
#[derive(Clone, Debug)]
pub(crate) struct InboxSender {
    messages: Sender<Inbound>,
    wake: Arc<Wake>,
}

impl InboxSender {
    /// Says whether the poll thread still listens.
    pub(crate) fn send(&self, message: Inbound) -> bool {
        let heard = self.messages.send(message).is_ok();
        self.wake.wake();
        heard
    }
}

/// The poll thread's end.
#[derive(Debug)]
pub(crate) struct Inbox {
    messages: Receiver<Inbound>,
    wake: Arc<Wake>,
}

impl Inbox {
    pub(crate) fn next(&self) -> Option<Inbound> {
        self.messages.try_recv().ok()
    }

    /// Announces that the poll thread is about to sleep; `false` when a message came in the meantime.
    pub(crate) fn may_sleep(&self) -> bool {
        self.wake.raise();
        self.messages.is_empty()
    }

    pub(crate) fn awake(&self) {
        self.wake.lower();
    }
}

pub(crate) fn inbox(wake: Arc<Wake>) -> (InboxSender, Inbox) {
    // Unbounded, and never long: one answer of each thread, what a person asks for, and of outputs and dead letters at
    // most the records in the buffers.
    let (sender, messages) = crossbeam_channel::unbounded();
    (
        InboxSender {
            messages: sender,
            wake: Arc::clone(&wake),
        },
        Inbox { messages, wake },
    )
}
