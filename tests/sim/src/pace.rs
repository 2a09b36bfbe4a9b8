//! A pace with a limit for each third record of a partition, one for each partition and one for the member, and the
//! book of whom it has let through.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keyway_core::{Pace, PartitionSlot, TaskRef, Timestamp, Turn, Whose};

use crate::record::Payload;

/// The time from one start to the next under each limit, where it is set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Intervals {
    pub(crate) third: Option<Duration>,
    pub(crate) partition: Option<Duration>,
    pub(crate) member: Option<Duration>,
}

impl Intervals {
    pub(crate) fn is_set(&self) -> bool {
        self.third.is_some() || self.partition.is_some() || self.member.is_some()
    }
}

/// A record of an assignment: slot, offset, epoch. Not the number of its attempt, which a circuit may take back.
type Starter = (PartitionSlot, i64, u64);

/// The records that were let through and have not failed since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book(Arc<Mutex<BTreeSet<Starter>>>);

fn starter(at: &TaskRef) -> Starter {
    (at.slot, at.offset.get(), at.epoch.0)
}

impl Book {
    /// Notes a record; `false` when it was let through before.
    fn note(&self, at: &TaskRef) -> bool {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        book.insert(starter(at))
    }

    /// An attempt has failed: the next one needs a turn of its own.
    pub(crate) fn forget(&self, at: &TaskRef) {
        let mut book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        book.remove(&starter(at));
    }

    pub(crate) fn holds(&self, at: &TaskRef) -> bool {
        let book = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        book.contains(&starter(at))
    }
}

/// See [`Intervals`].
#[derive(Debug)]
pub(crate) struct SteadyPace {
    pub(crate) intervals: Intervals,
    pub(crate) book: Book,
    free: BTreeMap<(u8, usize, i64), Timestamp>,
}

impl SteadyPace {
    pub(crate) fn new(intervals: Intervals, book: Book) -> Self {
        Self {
            intervals,
            book,
            free: BTreeMap::new(),
        }
    }
}

impl Pace<Payload> for SteadyPace {
    fn turn(&mut self, at: &TaskRef, payload: &Payload, passed: u8, now: Timestamp) -> Turn {
        let (partition, third) = (payload.partition, payload.offset % 3);
        let limits = [
            (self.intervals.third, (0, partition, third), Whose::Lane),
            (
                self.intervals.partition,
                (1, partition, 0),
                Whose::Partition,
            ),
            (self.intervals.member, (2, 0, 0), Whose::Member),
        ];
        for (number, (interval, of, whose)) in (0..).zip(limits).skip(usize::from(passed)) {
            let Some(interval) = interval else { continue };
            let free = self.free.entry(of).or_insert(Timestamp::ZERO);
            if *free > now {
                return Turn::Wait {
                    until: *free,
                    whose,
                    passed: number,
                };
            }
            *free = now.after(interval);
        }
        assert!(self.book.note(at), "{at:?} has its turn twice");
        Turn::Start
    }
}
