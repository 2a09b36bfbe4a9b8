//! Runs by hand, for the tests of the judge: one partition, one line of text.
//!
//! `start 3/k by m; done 3/k by m; committed 2 holes 2,4; committed 2 text XYZ; killed m; assigned; lost`. Without `/k` a
//! record has no key; without `by` the member is `m`. A commit with holes is complete up to the highest offset that has
//! finished so far.

use keyway_offsets::{HoleMap, Offset, OffsetRange};

use super::{Commit, Evidence, Invariant, Place, Rules, Violation, judge};
use crate::event_log::{Event, Kind};

const TOPIC: &str = "t";

pub(super) struct World {
    evidence: Evidence,
    rules: Rules,
    highest_finished: i64,
}

impl World {
    /// The records 0 to `count` - 1 were produced.
    pub(super) fn produced(count: i64) -> World {
        let produced = (0..count).map(|at| (place(), offset(at))).collect();
        World {
            evidence: Evidence {
                produced,
                ..Evidence::default()
            },
            rules: Rules::default(),
            highest_finished: -1,
        }
    }

    pub(super) fn rules(mut self, rules: Rules) -> World {
        self.rules = rules;
        self
    }

    pub(super) fn before(mut self, base: i64, holes: &[i64]) -> World {
        let highest = self
            .evidence
            .produced
            .last()
            .map_or(-1, |(_, last)| last.get());
        self.evidence.before.push(commit(base, highest, holes));
        self
    }

    pub(super) fn after(mut self, base: i64, holes: &[i64]) -> World {
        self.evidence
            .after
            .push(commit(base, self.highest_finished, holes));
        self
    }

    pub(super) fn run(mut self, events: &str) -> World {
        for text in events
            .split(';')
            .map(str::trim)
            .filter(|text| !text.is_empty())
        {
            let event = self.event(text);
            self.evidence.log.events.push(event);
        }
        self
    }

    #[track_caller]
    pub(super) fn clean(self) {
        assert_eq!(self.violations(), []);
    }

    /// This promise is broken at this offset, and nowhere else; others may be, too.
    #[track_caller]
    pub(super) fn breaks(self, invariant: Invariant, at: i64) {
        self.breaks_only(invariant, &[at]);
    }

    #[track_caller]
    pub(super) fn breaks_only(self, invariant: Invariant, at: &[i64]) {
        let violations = self.violations();
        let of_it = violations
            .iter()
            .filter(|violation| violation.invariant == invariant);
        let found: Vec<i64> = of_it.map(|violation| violation.offset.get()).collect();
        assert_eq!(found, at, "{violations:?}");
    }

    fn violations(&self) -> Vec<Violation> {
        judge(&self.evidence, &self.rules)
            .err()
            .map(|verdict| verdict.violations)
            .unwrap_or_default()
    }

    fn event(&mut self, text: &str) -> Event {
        let (text, member) = text.split_once(" by ").unwrap_or((text, "m"));
        let words: Vec<&str> = text.split(' ').collect();
        let (kind, member) = match words[..] {
            ["killed", member] => (Kind::Killed, member),
            [kind, ..] => (self::kind(kind), member),
            [] => unreachable!("a split has a first part"),
        };
        let mut event = Event {
            ns: 0,
            kind,
            member: member.to_owned(),
            topic: TOPIC.to_owned(),
            partition: 0,
            offset: None,
            key: None,
            attempt: 1,
            metadata: String::new(),
        };
        if let (true, Some(position)) = (kind != Kind::Killed, words.get(1)) {
            let (at, key) = position
                .split_once('/')
                .map_or((*position, None), |(at, key)| (at, Some(key)));
            let at = at.parse().expect("an offset");
            event.offset = Offset::new(at);
            event.key = key.map(|key| key.as_bytes().to_vec());
            if matches!(kind, Kind::Done | Kind::Dead) {
                self.highest_finished = self.highest_finished.max(at);
            }
            event.metadata = match words[2..] {
                ["holes", list] => {
                    let holes: Vec<i64> = list
                        .split(',')
                        .map(|hole| hole.parse().expect("an offset"))
                        .collect();
                    text_of(at, self.highest_finished, &holes)
                }
                ["text", text] => text.to_owned(),
                _ => String::new(),
            };
        }
        event
    }
}

fn kind(word: &str) -> Kind {
    serde_json::from_value(word.into()).unwrap_or_else(|_| panic!("{word} is no event"))
}

fn place() -> Place {
    (TOPIC.to_owned(), 0)
}

fn offset(at: i64) -> Offset {
    Offset::new(at).expect("an offset of a test")
}

pub(super) fn text_of(base: i64, highest: i64, holes: &[i64]) -> String {
    let ranges = holes.iter().map(|&hole| OffsetRange::single(offset(hole)));
    let map = HoleMap::new(offset(base), highest, ranges).expect("a map of a test");
    keyway_offsets::encode(&map).text
}

fn commit(base: i64, highest: i64, holes: &[i64]) -> Commit {
    Commit {
        place: place(),
        offset: offset(base),
        metadata: text_of(base, highest, holes).into_bytes(),
    }
}
