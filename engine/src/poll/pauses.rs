//! What the user has paused: all partitions or some, also such as are not assigned yet.

use std::collections::HashSet;

use crate::kafka::TopicPartition;

/// Of which partitions a call speaks.
#[derive(Clone, Debug)]
pub(crate) enum Which {
    All,
    Some(Vec<TopicPartition>),
}

/// Either none but some, or all but some.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    all: bool,
    except: HashSet<TopicPartition>,
}

impl Pauses {
    pub(super) fn pause(&mut self, which: &Which) {
        self.set(which, true);
    }

    pub(super) fn resume(&mut self, which: &Which) {
        self.set(which, false);
    }

    fn set(&mut self, which: &Which, paused: bool) {
        match which {
            Which::All => {
                *self = Self {
                    all: paused,
                    except: HashSet::new(),
                }
            }
            Which::Some(partitions) => {
                for partition in partitions {
                    match paused == self.all {
                        true => drop(self.except.remove(partition)),
                        false => drop(self.except.insert(partition.clone())),
                    }
                }
            }
        }
    }

    pub(super) fn holds(&self, partition: &TopicPartition) -> bool {
        self.all != self.except.contains(partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts() {
        let [a, b] = [0, 1].map(|partition| TopicPartition::new("t", partition));
        let mut pauses = Pauses::default();
        let some = |partition: &TopicPartition| Which::Some(vec![partition.clone()]);
        pauses.pause(&some(&a));
        pauses.pause(&some(&a));
        assert!(pauses.holds(&a) && !pauses.holds(&b));
        pauses.resume(&some(&a));
        assert!(!pauses.holds(&a));
        pauses.pause(&Which::All);
        pauses.resume(&some(&a));
        assert!(!pauses.holds(&a) && pauses.holds(&b));
        pauses.pause(&some(&a));
        assert!(pauses.holds(&a));
        pauses.resume(&some(&b));
        pauses.resume(&Which::All);
        assert!(!pauses.holds(&a) && !pauses.holds(&b));
    }
}
