//! Which life of a topic a partition belongs to.
//!
//! A topic that is deleted and made again under its name keeps its members, and librdkafka goes on reading the new log
//! where it stood in the old one. A log that is shorter shows by itself, as a position that is not there. One that is
//! longer does not: its first records would never be read, and commits of the old life would call them complete. So
//! the cluster is asked for the topic's id now and then, and a partition whose topic has another one than it was restored
//! under is restored anew, from the log's beginning, whatever was committed. The same answer tells of topics that do not exist,
//! which librdkafka does not say under the consumer protocol.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use keyway_core::Timestamp;
use keyway_offsets::Offset;

use super::look::Identified;
use crate::kafka::{TopicId, TopicPartition};

/// Between two questions: how late the first records of a new life may be read.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// After a question without an answer, doubled up to the second figure: at the start there may be no connection yet, and
/// older brokers never answer this one.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

/// What is known of a partition that this member has.
#[derive(Debug)]
struct Life {
    restored_at: Timestamp,
    committed: Option<Offset>,
    /// `None` until a question that was asked later has its answer.
    id: Option<TopicId>,
}

/// What is known of a partition that this member has had.
#[derive(Debug)]
struct Former {
    id: TopicId,
    base: Offset,
}

/// Which life each partition is of.
#[derive(Debug)]
pub(super) struct Identities {
    lives: HashMap<TopicPartition, Life>,
    former: HashMap<TopicPartition, Former>,
    ask_at: Timestamp,
    asking: bool,
    /// Questions without an answer, in a row.
    unanswered: u32,
}

impl Default for Identities {
    fn default() -> Self {
        Self {
            lives: HashMap::new(),
            former: HashMap::new(),
            // The first question follows the first restore, for which there is a connection. A topic that does not exist
            // is asked for after a while without one.
            ask_at: Timestamp::ZERO.after(ASK_EVERY),
            asking: false,
            unanswered: 0,
        }
    }
}

impl Identities {
    /// Whether it is known which life of its topic a partition is of.
    pub(super) fn knows(&self, partition: &TopicPartition) -> bool {
        self.lives
            .get(partition)
            .is_some_and(|life| life.id.is_some())
    }

    /// A partition was restored from this commit: whichever life its topic has now is its own.
    pub(super) fn restored(
        &mut self,
        partition: &TopicPartition,
        committed: Option<Offset>,
        now: Timestamp,
    ) {
        let life = Life {
            restored_at: now,
            committed,
            id: None,
        };
        self.lives.insert(partition.clone(), life);
        if self.unanswered == 0 {
            // Soon, so that the time in which a change goes unseen is short.
            self.ask_at = self.ask_at.min(now);
        }
    }

    /// A partition goes, from this base.
    pub(super) fn left(&mut self, partition: &TopicPartition, base: Offset) {
        if let Some(id) = self.lives.remove(partition).and_then(|life| life.id) {
            self.former.insert(partition.clone(), Former { id, base });
        }
    }

    /// The topics to be asked for, when it is time.
    pub(super) fn question(
        &mut self,
        subscribed: &[Arc<str>],
        now: Timestamp,
    ) -> Option<Vec<Arc<str>>> {
        if self.asking || now < self.ask_at {
            return None;
        }
        let assigned = self.lives.keys().map(|tp| &tp.topic);
        let topics: HashSet<_> = subscribed.iter().chain(assigned).cloned().collect();
        self.ask_at = now.after(ASK_EVERY);
        self.asking = !topics.is_empty();
        self.asking.then(|| topics.into_iter().collect())
    }

    /// The partitions whose topic was made anew since they were restored, or before it and restored from what its
    /// former life had committed.
    pub(super) fn answered(&mut self, answer: &Identified, now: Timestamp) -> Vec<TopicPartition> {
        self.asking = false;
        let Some(ids) = &answer.ids else {
            let doubled = ASK_AGAIN.0 * 2_u32.saturating_pow(self.unanswered.min(16));
            self.unanswered += 1;
            self.ask_at = now.after(doubled.min(ASK_AGAIN.1));
            return Vec::new();
        };
        self.unanswered = 0;
        let known = ids
            .iter()
            .filter_map(|(topic, id)| Some((&**topic, *id.as_ref().ok()?)));
        let ids: HashMap<&str, TopicId> = known.collect();
        let mut anew = Vec::new();
        for (partition, life) in &mut self.lives {
            let Some(&id) = ids.get(&*partition.topic) else {
                continue;
            };
            let is_anew = match life.id {
                Some(known) => known != id,
                None if life.restored_at > answer.asked_at => continue,
                None => {
                    life.id = Some(id);
                    let is_its =
                        |former: &Former| former.id != id && life.committed == Some(former.base);
                    self.former.remove(partition).as_ref().is_some_and(is_its)
                }
            };
            if is_anew {
                anew.push(partition.clone());
            }
        }
        anew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    fn offset(offset: i64) -> Offset {
        Offset::new(offset).expect("not negative")
    }

    /// The partitions that an answer to a question of `asked_at` finds of another life.
    fn answer(identities: &mut Identities, asked_at: u64, id: i64) -> Vec<TopicPartition> {
        let answer = Identified {
            asked_at: at(asked_at),
            ids: Some(vec![("t".to_owned(), Ok(TopicId(id, 0)))]),
        };
        identities.answered(&answer, at(asked_at))
    }

    #[test]
    fn a_partition_of_another_life_is_found_and_one_that_was_restored_since_is_not() {
        let mut identities = Identities::default();
        identities.restored(&tp(0), None, at(1));
        identities.restored(&tp(1), None, at(1));
        assert_eq!(identities.question(&[], at(2)).expect("at once").len(), 1);
        assert_eq!(identities.question(&[], at(30)), None, "one at a time");
        assert!(answer(&mut identities, 2, 7).is_empty());
        assert_eq!(identities.question(&[], at(11)), None);
        identities.restored(&tp(1), None, at(12));
        assert!(identities.question(&[], at(12)).is_some());
        assert_eq!(answer(&mut identities, 11, 8), [tp(0)]);
        identities.restored(&tp(0), None, at(13));
        assert!(answer(&mut identities, 14, 8).is_empty());
        assert!(answer(&mut identities, 24, 8).is_empty());
        identities.left(&tp(1), offset(3));
        assert_eq!(answer(&mut identities, 34, 9), [tp(0)]);
    }

    #[test]
    fn what_the_former_life_had_committed_is_found_when_the_partition_comes_back() {
        let mut identities = Identities::default();
        for partition in [0, 1, 2] {
            identities.restored(&tp(partition), None, at(1));
        }
        assert!(answer(&mut identities, 2, 7).is_empty());
        for partition in [0, 1, 2] {
            identities.left(&tp(partition), offset(20));
        }
        identities.restored(&tp(0), Some(offset(20)), at(3));
        identities.restored(&tp(1), Some(offset(4)), at(3));
        identities.restored(&tp(2), None, at(3));
        assert_eq!(
            answer(&mut identities, 4, 8),
            [tp(0)],
            "others have been read since"
        );
        identities.left(&tp(1), offset(5));
        identities.restored(&tp(1), Some(offset(5)), at(6));
        assert!(
            !answer(&mut identities, 7, 8).contains(&tp(1)),
            "the same life"
        );
    }

    #[test]
    fn brokers_that_do_not_answer_are_asked_less_and_less() {
        let mut identities = Identities::default();
        identities.restored(&tp(0), None, at(0));
        let mut asked = Vec::new();
        for second in 0..2_000 {
            if identities.question(&[], at(second)).is_some() {
                asked.push(second);
                let nothing = Identified {
                    asked_at: at(second),
                    ids: None,
                };
                assert!(identities.answered(&nothing, at(second)).is_empty());
            }
        }
        assert_eq!(asked[..4], [0, 1, 3, 7]);
        assert!(asked.len() < 17, "{asked:?}");
    }
}
