//! The tracker again, offset by offset and with nothing clever: sets of numbers.

#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeSet;

use keyway_offsets::{HoleMap, Offset, OffsetRange, Received};

/// What is complete and what is running, each offset by itself.
pub struct Model {
    start: i64,
    next: i64,
    complete: BTreeSet<i64>,
    /// The highest that was completed or restored as complete, and not only skipped by the log.
    highest: i64,
    running: BTreeSet<i64>,
}

impl Model {
    pub fn restore(map: &HoleMap) -> Self {
        let start = map.base().get();
        let complete: BTreeSet<i64> = (start..=map.highest())
            .filter(|&at| {
                !map.holes()
                    .iter()
                    .any(|hole| hole.first.get() <= at && at <= hole.last.get())
            })
            .collect();
        Self {
            start,
            next: start,
            highest: complete.last().copied().unwrap_or(-1),
            complete,
            running: BTreeSet::new(),
        }
    }

    pub fn receive(&mut self, at: i64) -> Received {
        if at < self.start {
            return Received::AlreadyComplete;
        }
        if at < self.next {
            return Received::Repeated;
        }
        self.complete_below(at);
        self.next = at + 1;
        if self.complete.contains(&at) {
            return Received::AlreadyComplete;
        }
        self.running.insert(at);
        Received::Fresh
    }

    pub fn complete(&mut self, at: i64) -> bool {
        self.highest = match self.running.contains(&at) {
            true => self.highest.max(at),
            false => self.highest,
        };
        self.running.remove(&at) && self.complete.insert(at)
    }

    /// What was completed here is incomplete again.
    pub fn reopen(&mut self, offsets: &[i64]) {
        if offsets.is_empty() {
            return;
        }
        let spoken_of = self.snapshot().highest();
        for at in offsets {
            self.complete.remove(at);
            self.running.insert(*at);
        }
        let highest = self.complete.range(..=spoken_of).next_back();
        self.highest = highest.copied().unwrap_or(-1);
    }

    pub fn complete_below(&mut self, at: i64) {
        self.complete.extend(self.next..at);
        self.next = self.next.max(at);
    }

    pub fn next(&self) -> i64 {
        self.next
    }

    pub fn running(&self) -> &BTreeSet<i64> {
        &self.running
    }

    pub fn is_complete(&self, at: i64) -> bool {
        at < self.start || self.complete.contains(&at)
    }

    pub fn snapshot(&self) -> HoleMap {
        let base = (self.start..)
            .find(|at| !self.complete.contains(at))
            .unwrap_or(i64::MAX);
        let highest = self.highest.max(base - 1);
        let holes = (base..=highest)
            .filter(|at| !self.complete.contains(at))
            .filter_map(Offset::new)
            .map(OffsetRange::single);
        #[allow(clippy::expect_used)]
        HoleMap::new(Offset::new(base).expect("not negative"), highest, holes).expect("ascending")
    }
}
