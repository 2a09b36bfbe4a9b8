//! Questions about the cluster that nobody waits for, asked on a thread of their own: a broker that is away must not hold
//! up a restore.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use keyway_core::Timestamp;

use super::inbox::{Inbound, InboxSender};
use crate::kafka::{GroupClient, TopicIdentity};

/// What is asked.
#[derive(Debug)]
pub(crate) enum Look {
    /// Which topics there are, of any broker.
    Topics,
    /// Which life of these topics there is.
    Identities {
        topics: Vec<Arc<str>>,
        asked_at: Timestamp,
    },
}

/// The ids of topics, as a broker gave them.
#[derive(Debug)]
pub(crate) struct Identified {
    pub(crate) asked_at: Timestamp,
    /// `None` when no broker has answered.
    pub(crate) ids: Option<Vec<TopicIdentity>>,
}

/// A broker that is up answers in milliseconds.
const ANSWER: Duration = Duration::from_secs(1);

pub(crate) struct Looker {
    pub(crate) group: GroupClient,
    pub(crate) inbox: InboxSender,
}

impl Looker {
    /// Starts the thread; it ends when the sender is dropped.
    pub(crate) fn start(self) -> std::io::Result<Sender<Look>> {
        let (sender, looks) = crossbeam_channel::unbounded();
        std::thread::Builder::new()
            .name("keyway-look".to_owned())
            .spawn(move || self.run(&looks))?;
        Ok(sender)
    }

    fn run(self, looks: &Receiver<Look>) {
        for look in looks {
            let answer = match look {
                Look::Topics => Inbound::Looked(self.group.topics(ANSWER).ok()),
                Look::Identities { topics, asked_at } => Inbound::Identified(Identified {
                    asked_at,
                    ids: self.group.topic_ids(&topics, ANSWER).ok(),
                }),
            };
            if !self.inbox.send(answer) {
                return;
            }
        }
    }
}
