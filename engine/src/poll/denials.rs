//! What the client may not do, or can't, until somebody changes something: kept until exactly that works again.
//!
//! librdkafka says such an error once, and never that it is over. So each is kept under what it is about, and goes
//! when that has worked:
//!
//! | what was denied | what ends it |
//! |---|---|
//! | reading a partition | something of it was read: a record, or where it ends |
//! | a subscribed topic | a partition of it was assigned or read, or the cluster shows the topic |
//! | the group, the cluster | an assignment came, or a commit was stored |
//! | every broker: none is up, or none takes this client | a broker has answered |
//!
//! Where nothing of that would come by itself (an idle partition tells its end once), the loop asks: [`Probe`]. What
//! is about a partition that is not this member's at the moment is kept and does not count: librdkafka does not say
//! it again when the partition comes back.

use std::time::Duration;

use keyway_core::Timestamp;

use crate::health::NotReady;
use crate::kafka::{ClientError, DeniedWhat, TopicPartition};

/// Between two questions whether a broker is up: as soon as a person would look.
const LOOK_FOR_BROKERS: Duration = Duration::from_secs(1);

/// Between two attempts at anything else that was denied: rights are given by people, and one of the questions lists
/// the whole cluster.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// What an error is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Partition(TopicPartition),
    Topic(String),
    Group,
    Brokers,
}

#[derive(Debug)]
struct Latched {
    subject: Subject,
    error: ClientError,
    since: Timestamp,
}

/// What has to be tried so that it shows whether something works again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Probe {
    /// Ask any broker which topics there are.
    pub(super) look: bool,
    /// Fetch these anew, so that they tell their end once more.
    pub(super) refetch: Vec<TopicPartition>,
    /// Commit, also when there is nothing new.
    pub(super) commit: bool,
}

/// What is denied at the moment.
#[derive(Debug, Default)]
pub(super) struct Denials {
    latched: Vec<Latched>,
    probed_at: Timestamp,
}

impl Denials {
    pub(super) fn is_empty(&self) -> bool {
        self.latched.is_empty()
    }

    /// Keeps an error that lasts; says whether it is news. Others are none of this.
    pub(super) fn note(
        &mut self,
        error: &ClientError,
        partition: Option<&TopicPartition>,
        now: Timestamp,
    ) -> bool {
        let Some(subject) = subject(error, partition) else {
            return false;
        };
        if let Some(known) = self
            .latched
            .iter_mut()
            .find(|known| known.subject == subject)
        {
            known.error = error.clone();
            return false;
        }
        if self.latched.is_empty() {
            // The first question has to wait: whatever failed a moment ago fails now.
            self.probed_at = now;
        }
        self.latched.push(Latched {
            subject,
            error: error.clone(),
            since: now,
        });
        true
    }

    fn heal(&mut self, is_healed: impl Fn(&Subject) -> bool) {
        self.latched.retain(|latched| {
            let healed = is_healed(&latched.subject);
            if healed {
                tracing::info!(error = %latched.error, "works again");
            }
            !healed
        });
    }

    /// Something of the partition was read.
    pub(super) fn read(&mut self, partition: &TopicPartition) {
        self.heal(|subject| match subject {
            Subject::Partition(denied) => denied == partition,
            Subject::Topic(topic) => **topic == *partition.topic,
            Subject::Group | Subject::Brokers => false,
        });
    }

    /// A partition goes. Where it could not be read, its topic is what shows until it can be seen.
    pub(super) fn left(&mut self, partition: &TopicPartition) {
        let subject = Subject::Partition(partition.clone());
        let of_topic = Subject::Topic(partition.topic.to_string());
        let is = |subject: &Subject| {
            let found = |known: &&Latched| known.subject == *subject;
            self.latched.iter().find(found)
        };
        if let (Some(denied), None) = (is(&subject), is(&of_topic)) {
            self.latched.push(Latched {
                subject: of_topic,
                error: denied.error.clone(),
                since: denied.since,
            });
        }
    }

    /// The group has given these partitions, or none.
    pub(super) fn assigned(&mut self, partitions: &[TopicPartition]) {
        let holds = |topic: &str| partitions.iter().any(|given| &*given.topic == topic);
        self.heal(|subject| match subject {
            Subject::Topic(topic) => holds(topic),
            Subject::Group => true,
            Subject::Partition(_) | Subject::Brokers => false,
        });
    }

    /// The coordinator has stored a commit.
    pub(super) fn stored(&mut self) {
        self.heal(|subject| *subject == Subject::Group);
    }

    /// The topic is there, and may be seen.
    pub(super) fn seen(&mut self, topic: &str) {
        if !self.is_empty() {
            self.heal(|subject| matches!(subject, Subject::Topic(denied) if denied == topic));
        }
    }

    /// A broker was asked for the topics, and these are there.
    pub(super) fn answered(&mut self, topics: &[String]) {
        self.heal(|subject| match subject {
            Subject::Topic(topic) => topics.contains(topic),
            Subject::Brokers => true,
            Subject::Partition(_) | Subject::Group => false,
        });
    }

    /// What is to be tried now, of what concerns this member.
    pub(super) fn probe(
        &mut self,
        is_own: impl Fn(&TopicPartition) -> bool,
        now: Timestamp,
    ) -> Option<Probe> {
        let latched = |wanted: &Subject| self.latched.iter().any(|known| known.subject == *wanted);
        let of_brokers = latched(&Subject::Brokers);
        let wait = match of_brokers {
            true => LOOK_FOR_BROKERS,
            false => TRY_AGAIN,
        };
        if self.latched.is_empty() || now.since(self.probed_at) < wait {
            return None;
        }
        let mut probe = Probe {
            look: of_brokers,
            ..Probe::default()
        };
        // Without a broker the rest can't be answered.
        if !of_brokers {
            probe.commit = latched(&Subject::Group);
            for known in &self.latched {
                match &known.subject {
                    Subject::Partition(partition) if is_own(partition) => {
                        probe.refetch.push(partition.clone());
                    }
                    Subject::Topic(_) => probe.look = true,
                    _ => {}
                }
            }
        }
        self.probed_at = now;
        Some(probe)
    }

    /// Why the member is not ready, of what concerns it.
    pub(super) fn reasons(
        &self,
        is_own: impl Fn(&TopicPartition) -> bool,
        now: Timestamp,
    ) -> Vec<NotReady> {
        let concerns = |latched: &&Latched| match &latched.subject {
            Subject::Partition(partition) => is_own(partition),
            Subject::Topic(_) | Subject::Group | Subject::Brokers => true,
        };
        let reason = |latched: &Latched| {
            let lasting = now.since(latched.since);
            match latched.error.is_all_brokers_down() {
                true => NotReady::BrokersDown { lasting },
                false => NotReady::Denied {
                    error: latched.error.clone(),
                    lasting,
                },
            }
        };
        self.latched.iter().filter(concerns).map(reason).collect()
    }
}

fn subject(error: &ClientError, partition: Option<&TopicPartition>) -> Option<Subject> {
    if error.is_all_brokers_down() {
        return Some(Subject::Brokers);
    }
    let ClientError::Denied { what, .. } = error else {
        return None;
    };
    Some(match (what, partition) {
        (DeniedWhat::Authentication, _) => Subject::Brokers,
        (DeniedWhat::Topic(_) | DeniedWhat::MissingTopic(_), Some(partition)) => {
            Subject::Partition(partition.clone())
        }
        // Without a name it came with an answer to the member, and goes with a better one.
        (DeniedWhat::Topic(topic) | DeniedWhat::MissingTopic(topic), None) if !topic.is_empty() => {
            Subject::Topic(topic.clone())
        }
        _ => Subject::Group,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::ErrorCode;

    fn code() -> ErrorCode {
        ErrorCode {
            number: 29,
            name: "TOPIC_AUTHORIZATION_FAILED".to_owned(),
        }
    }

    fn denied(what: DeniedWhat) -> ClientError {
        ClientError::Denied {
            what,
            code: code(),
            text: String::new(),
        }
    }

    fn topic(name: &str) -> ClientError {
        denied(DeniedWhat::Topic(name.to_owned()))
    }

    fn all_down() -> ClientError {
        ClientError::Transient {
            code: ErrorCode {
                number: -187,
                name: "_ALL_BROKERS_DOWN".to_owned(),
            },
            text: String::new(),
        }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    fn tp(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition::new(topic, partition)
    }

    fn reasons(denials: &Denials) -> usize {
        denials.reasons(|_| true, at(100)).len()
    }

    /// With the heal of any event on any other, as it once was, each of these counts is 0.
    #[test]
    fn a_partition_heals_when_it_is_read_and_by_nothing_else() {
        let mut denials = Denials::default();
        assert!(denials.note(&topic("a"), Some(&tp("a", 0)), at(1)));
        assert!(denials.note(&topic("a"), Some(&tp("a", 1)), at(1)));
        assert!(
            !denials.note(&topic("a"), Some(&tp("a", 1)), at(2)),
            "no news"
        );
        denials.read(&tp("b", 0));
        denials.stored();
        denials.assigned(&[tp("a", 0), tp("a", 1)]);
        denials.answered(&["a".to_owned()]);
        assert_eq!(reasons(&denials), 2);
        denials.read(&tp("a", 1));
        assert_eq!(reasons(&denials), 1);
        denials.read(&tp("a", 0));
        assert!(denials.is_empty());
    }

    #[test]
    fn a_topic_that_could_not_be_seen_heals_when_it_can() {
        let missing = |name: &str| denied(DeniedWhat::MissingTopic(name.to_owned()));
        let mut denials = Denials::default();
        for name in ["a", "b", "c"] {
            denials.note(&missing(name), None, at(1));
        }
        denials.stored();
        denials.answered(&["other".to_owned(), "a".to_owned()]);
        assert_eq!(reasons(&denials), 2);
        denials.assigned(&[tp("b", 3)]);
        assert_eq!(reasons(&denials), 1);
        denials.read(&tp("c", 0));
        assert!(denials.is_empty());
    }

    #[test]
    fn a_group_heals_with_an_assignment_or_a_commit_and_not_with_a_record() {
        for heal in [
            Denials::stored as fn(&mut Denials),
            |denials: &mut Denials| denials.assigned(&[]),
        ] {
            let mut denials = Denials::default();
            denials.note(&denied(DeniedWhat::Group), None, at(1));
            denials.read(&tp("a", 0));
            denials.answered(&["a".to_owned()]);
            assert_eq!(reasons(&denials), 1);
            heal(&mut denials);
            assert!(denials.is_empty());
        }
    }

    #[test]
    fn brokers_are_back_when_one_has_answered_and_not_with_what_was_fetched_before() {
        for error in [all_down(), denied(DeniedWhat::Authentication)] {
            let mut denials = Denials::default();
            denials.note(&error, None, at(1));
            denials.read(&tp("a", 0));
            denials.stored();
            assert_eq!(reasons(&denials), 1);
            denials.answered(&[]);
            assert!(denials.is_empty());
        }
    }

    #[test]
    fn what_does_not_come_by_itself_is_asked_for_once_in_a_while() {
        let mut denials = Denials::default();
        assert_eq!(denials.probe(|_| true, at(9)), None);
        denials.note(&topic("a"), Some(&tp("a", 0)), at(10));
        denials.note(&topic("a"), Some(&tp("a", 1)), at(10));
        denials.note(&denied(DeniedWhat::Group), None, at(10));
        assert_eq!(denials.probe(|_| true, at(11)), None);
        let own = |partition: &TopicPartition| partition.partition == 1;
        let probe = denials.probe(own, at(15)).expect("due");
        assert_eq!((probe.look, probe.commit), (false, true));
        assert_eq!(probe.refetch, [tp("a", 1)]);
        assert_eq!(denials.probe(own, at(16)), None);
        denials.note(&all_down(), None, at(16));
        let probe = denials.probe(own, at(17)).expect("due earlier");
        assert_eq!(
            probe,
            Probe {
                look: true,
                ..Probe::default()
            }
        );
    }

    #[test]
    fn of_a_partition_that_went_the_topic_shows_until_it_is_seen_and_the_partition_when_it_is_back()
    {
        let mut denials = Denials::default();
        denials.note(&topic("a"), Some(&tp("a", 0)), at(1));
        denials.left(&tp("a", 0));
        denials.left(&tp("a", 1));
        let elsewhere = |denials: &Denials| denials.reasons(|_| false, at(2)).len();
        assert_eq!(elsewhere(&denials), 1);
        denials.seen("a");
        assert_eq!((elsewhere(&denials), reasons(&denials)), (0, 1));
        denials.read(&tp("a", 0));
        assert!(denials.is_empty());
    }
}
