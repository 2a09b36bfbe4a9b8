//! What the causal layer asks of the cluster, on a thread and with a client of its own: a broker that is away holds up
//! neither polling nor a restore of another kind.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use keyway_causal::{Causes, Channel, GroupPartition, Reading, TopicId};
use keyway_offsets::Offset;

use super::CausalSettings;
use super::rebuild::rebuild;
use crate::kafka::{self, ClientError, DeniedWhat, GroupClient, Outsider, TopicPartition};
use crate::poll::{Inbound, InboxSender};

/// How long one question may take before it is asked again.
const ANSWER: Duration = Duration::from_secs(10);

/// What is asked.
#[derive(Debug)]
pub(crate) enum Question {
    /// The ids and sizes of these topics, and what the group has committed anywhere: for an assignment.
    Group {
        /// Returned with the answer.
        id: u64,
        topics: Vec<Arc<str>>,
    },
    /// What the group has committed of these channels.
    Committed {
        channels: Vec<(Channel, TopicPartition)>,
        reading: Reading,
    },
}

/// What a broker said.
#[derive(Debug)]
pub(crate) enum CausalAnswer {
    Group {
        id: u64,
        facts: Result<Facts, ClientError>,
    },
    /// So many records were read again so far.
    Scanned(u64),
    Committed {
        /// `None` for nothing; those without an answer are left out.
        offsets: Vec<(Channel, Option<Offset>)>,
        reading: Reading,
        failure: Option<ClientError>,
    },
}

/// Topics and commits of the group at one moment.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Name, id and number of partitions; a topic that does not exist is left out.
    pub(crate) topics: Vec<(Arc<str>, TopicId, u32)>,
    pub(crate) partitions: Vec<GroupPartition>,
    /// What the group had learned, where it was lost and could be gathered again.
    pub(crate) rebuilt: Option<Causes>,
}

impl Facts {
    /// The id of a topic that the group consumes.
    pub(super) fn topic(&self, name: &str) -> Option<TopicId> {
        let mut topics = self.topics.iter();
        topics.find_map(|(its, id, _)| (**its == *name).then_some(*id))
    }
}

/// Asks.
pub(crate) struct CausalReader {
    /// Whom to ask: the client beside the group, where there is one, since a member's own questions wait for open
    /// transactions, and a lower bound is enough here.
    pub(crate) group: GroupClient,
    /// Keeps that client.
    pub(crate) beside: Option<Outsider>,
    pub(crate) settings: CausalSettings,
    pub(crate) max_window: u64,
    pub(crate) inbox: InboxSender,
}

impl CausalReader {
    /// Starts the thread; it ends when the sender is dropped.
    pub(crate) fn start(self) -> std::io::Result<Sender<Question>> {
        let (sender, questions) = crossbeam_channel::unbounded();
        std::thread::Builder::new()
            .name("keyway-causal".to_owned())
            .spawn(move || self.run(&questions))?;
        Ok(sender)
    }

    fn run(self, questions: &Receiver<Question>) {
        for question in questions {
            let answer = match question {
                Question::Group { id, topics } => CausalAnswer::Group {
                    id,
                    facts: self.facts(&topics),
                },
                Question::Committed { channels, reading } => self.committed(&channels, reading),
            };
            if !self.inbox.send(Inbound::Causal(answer)) {
                break;
            }
        }
        drop(self.beside);
    }

    fn facts(&self, topics: &[Arc<str>]) -> Result<Facts, ClientError> {
        let all = self.group.partitions(ANSWER)?;
        let ids = self.group.topic_ids(topics, ANSWER)?;
        let mut known = Vec::with_capacity(topics.len());
        for (name, id) in ids {
            let topic = topics.iter().find(|topic| ***topic == *name);
            let (Some(topic), Some(id)) = (topic, typed(id)?) else {
                continue;
            };
            let count = all.iter().filter(|tp| tp.topic == *topic).count();
            known.push((
                Arc::clone(topic),
                id,
                u32::try_from(count).unwrap_or(u32::MAX),
            ));
        }
        let mut partitions = Vec::new();
        for (partition, committed) in self.group.committed(&all, ANSWER)? {
            let committed = match committed {
                Ok(committed) => committed,
                Err(error) if topics.contains(&partition.topic) => return Err(error),
                // Of a topic that the group may not see it has no commits.
                Err(_) => continue,
            };
            let offset = committed.offset.and_then(Offset::new);
            if let (Some(offset), Ok(number)) = (offset, u32::try_from(partition.partition)) {
                let read = keyway_rider::read(offset, &committed.metadata, self.max_window);
                partitions.push(GroupPartition {
                    topic: partition.topic.to_string(),
                    partition: number,
                    committed: offset,
                    rider: read.rider,
                });
            }
        }
        let mut facts = Facts {
            topics: known,
            partitions,
            rebuilt: None,
        };
        if self.settings.causal.rebuild_lost_frontier {
            let tell = |records| {
                let scanned = CausalAnswer::Scanned(records);
                self.inbox.send(Inbound::Causal(scanned))
            };
            facts.rebuilt = rebuild(&self.settings, &self.group, &facts, tell)?;
        }
        Ok(facts)
    }

    fn committed(&self, channels: &[(Channel, TopicPartition)], reading: Reading) -> CausalAnswer {
        let names: Vec<_> = channels.iter().map(|(_, name)| name.clone()).collect();
        let (committed, failure) = match self.group.committed(&names, ANSWER) {
            Ok(committed) => (committed, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let mut offsets = Vec::with_capacity(channels.len());
        for (partition, committed) in committed {
            let channel = channels.iter().find(|(_, name)| *name == partition);
            if let (Some((channel, _)), Ok(committed)) = (channel, committed) {
                offsets.push((*channel, committed.offset.and_then(Offset::new)));
            }
        }
        CausalAnswer::Committed {
            offsets,
            reading,
            failure,
        }
    }
}

/// The id of a topic; none of one that does not exist at the moment.
fn typed(id: Result<kafka::TopicId, ClientError>) -> Result<Option<TopicId>, ClientError> {
    match id {
        Ok(id) => Ok(TopicId::new(id.bytes())),
        Err(ClientError::Denied {
            what: DeniedWhat::MissingTopic(_),
            ..
        }) => Ok(None),
        Err(error) => Err(error),
    }
}
