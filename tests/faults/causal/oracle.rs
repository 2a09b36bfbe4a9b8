//! The judge of a round. It knows each record's true ancestors from whoever made it, and looks into no header to learn
//! what caused what.
//!
//! ```text
//!   event logs of all lives, by the wall clock --> each start:  every ancestor done, and never undone since
//!                                              --> each commit: what it completes has its ancestors complete
//!   what the broker held, looked at all the time ------------>  the same, of all partitions at one moment
//!   what was sent ------------------------------------------->  names its ancestors, and what shards said before
//! ```

use std::collections::{BTreeMap, BTreeSet};

use keyway::causality::{Causes, Channel, HEADER, Position, Shard};
use keyway_offsets::{DEFAULT_MAX_WINDOW, HoleMap, Offset};
use keyway_rider::{Rider, read};
use keyway_tests::cluster::Received;
use keyway_tests::event_log::{Event, EventLog, Kind};

use super::chains::{CONSUMED, Place, Set, Topics, Truth, number_in};

/// A member writes the line of a commit when it has heard of it; another one may have read the commit before that.
const LINE_LATE: u64 = 300_000_000;

/// The lines of one request come one after the other, and those of handlers, or of what is held, between them.
const REQUEST: u64 = 50_000_000;

/// The group's commits are read this long before the line of an assignment at the earliest.
const READ_EARLY: u64 = 2_000_000_000;

/// So many faults are told.
const TOLD: usize = 10;

/// A partition of a topic by its place.
type Lane = (usize, i32);

/// What the broker held for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) topic: usize,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) metadata: String,
}

/// All that is known of a round.
pub(crate) struct Case<'a> {
    pub(crate) topics: &'a Topics,
    pub(crate) truth: &'a Truth,
    /// Of each life: when it was made, and what it wrote.
    pub(crate) lives: &'a [(u64, EventLog)],
    /// What the broker held, one moment after the other; the last is the end.
    pub(crate) snapshots: &'a [Vec<Held>],
    pub(crate) outputs: &'a [Received],
}

/// What occurred.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) records: usize,
    pub(crate) repeated: usize,
    pub(crate) held: usize,
    /// Holds for a record in a partition of another member.
    pub(crate) foreign: usize,
    pub(crate) moves: usize,
    pub(crate) commits: usize,
    pub(crate) snapshots: usize,
    pub(crate) outputs: usize,
    /// Outputs of which it is known that shards of before name a topic that the group does not consume.
    pub(crate) carried: usize,
}

/// # Errors
/// Every broken promise, or the first few.
pub(crate) fn judge(case: &Case<'_>) -> Result<Tally, String> {
    let mut judge = Judge::new(case);
    judge.lives();
    judge.snapshots();
    judge.outputs();
    match judge.faults.is_empty() {
        true => Ok(judge.tally),
        false => Err(judge.faults.join("\n")),
    }
}

struct Judge<'a> {
    case: &'a Case<'a>,
    /// When each record was started, in the order of all lines.
    starts: Vec<Vec<usize>>,
    /// What shards must have told whoever sent the output of a record that ran once.
    owed: BTreeMap<usize, Causes>,
    tally: Tally,
    faults: Vec<String>,
}

/// The last end of a record.
#[derive(Clone, Copy)]
struct Done {
    life: usize,
    /// The life gave the partition away after that.
    has_left: bool,
}

/// What is known at one moment of the walk.
#[derive(Default)]
struct Moment {
    done: BTreeMap<usize, Done>,
    owned: BTreeMap<usize, BTreeSet<Lane>>,
    /// By commit lines.
    complete: BTreeMap<Lane, Set>,
    shards: BTreeMap<Lane, Causes>,
    /// All that shards have said, from when on.
    said: Vec<(u64, Causes)>,
    /// Of each life, what the shards told it.
    told: BTreeMap<usize, Causes>,
    /// Lanes of lives that were killed, where a commit may be without its line.
    unsure: BTreeSet<Lane>,
    /// Lines that have to come by then: the effect, and the cause that it waits for.
    expected: Vec<(u64, usize, usize)>,
}

impl Moment {
    fn is_complete(&self, lane: Lane, record: usize) -> bool {
        let of = self.complete.get(&lane);
        of.is_some_and(|complete| complete.has(record))
    }
}

impl<'a> Judge<'a> {
    fn new(case: &'a Case<'a>) -> Self {
        Judge {
            case,
            starts: vec![Vec::new(); case.truth.places.len()],
            owed: BTreeMap::new(),
            tally: Tally::default(),
            faults: Vec::new(),
        }
    }

    fn fault(&mut self, what: String) {
        if self.faults.len() < TOLD {
            self.faults.push(what);
        }
    }

    fn place(&self, record: usize) -> Place {
        self.case.truth.places[record].expect("it was acknowledged")
    }

    fn lane(&self, record: usize) -> Lane {
        let place = self.place(record);
        (place.topic, place.partition)
    }

    fn name(&self, record: usize) -> String {
        let Place {
            topic,
            partition,
            offset,
        } = self.place(record);
        format!("{}-{partition}@{offset}", self.case.topics.names[topic])
    }

    /// Ancestors that the group processes.
    fn causes_of(&self, record: usize) -> Vec<usize> {
        let ancestors = self.case.truth.ancestors[record].iter();
        ancestors
            .filter(|cause| self.place(*cause).topic < CONSUMED)
            .collect()
    }

    fn record(&self, event: &Event) -> Option<usize> {
        let place = Place {
            topic: self.case.topics.find(&event.topic)?,
            partition: event.partition,
            offset: event.offset?.get(),
        };
        self.case.truth.consumed.get(&place).copied()
    }

    fn lane_of(&self, event: &Event) -> Option<Lane> {
        Some((self.case.topics.find(&event.topic)?, event.partition))
    }

    /// What this commit calls complete, of the records that there are.
    fn completed(&self, lane: Lane, offset: i64, metadata: &str) -> (Set, Option<Shard>) {
        let base = Offset::new(offset).expect("committed offsets are not negative");
        let metadata = read(base, metadata.as_bytes(), DEFAULT_MAX_WINDOW);
        let map: HoleMap = metadata.map.expect("a map that can be read").map;
        let mut complete = Set::default();
        let first = Place {
            topic: lane.0,
            partition: lane.1,
            offset: 0,
        };
        let last = Place {
            offset: i64::MAX,
            ..first
        };
        for (place, record) in self.case.truth.consumed.range(first..=last) {
            if Offset::new(place.offset).is_some_and(|offset| map.is_complete(offset)) {
                complete.insert(*record);
            }
        }
        let shard = match metadata.rider {
            Rider::Present(rider) => Shard::decode(&rider).ok(),
            _ => None,
        };
        (complete, shard)
    }

    /// All lines, in the order of the wall clock, which never turns those of one life.
    fn lines(&self) -> Vec<(usize, usize)> {
        let mut lines = Vec::new();
        for (life, (_, log)) in self.case.lives.iter().enumerate() {
            let mut latest = 0;
            for (at, event) in log.events.iter().enumerate() {
                latest = event.ns.max(latest);
                lines.push((latest, life, at));
            }
        }
        lines.sort();
        lines.into_iter().map(|(_, life, at)| (life, at)).collect()
    }

    fn lives(&mut self) {
        let lives = self.case.lives;
        let lines = self.lines();
        for (when, &(life, at)) in lines.iter().enumerate() {
            let event = &lives[life].1.events[at];
            if let (Kind::Start, Some(record)) = (event.kind, self.record(event)) {
                self.starts[record].push(when);
            }
        }
        let mut moment = Moment::default();
        for (when, &(life, at)) in lines.iter().enumerate() {
            let event = &lives[life].1.events[at];
            match event.kind {
                Kind::Committed => self.committed(&mut moment, life, event),
                _ => self.line(&mut moment, when, life, event),
            }
        }
        for (record, starts) in self.starts.iter().enumerate() {
            self.tally.repeated += starts.len().saturating_sub(1);
            self.tally.records += usize::from(moment.done.contains_key(&record));
        }
        let all = self.case.truth.consumed.len();
        if self.tally.records != all {
            self.fault(format!("{} of {all} are done", self.tally.records));
        }
        self.expect(&mut moment, u64::MAX);
    }

    fn line(&mut self, moment: &mut Moment, when: usize, life: usize, event: &Event) {
        let (record, lane) = (self.record(event), self.lane_of(event));
        match (event.kind, record, lane) {
            (Kind::Start, Some(record), _) => self.started(moment, when, life, record),
            (Kind::Done, Some(record), _) => {
                let done = Done {
                    life,
                    has_left: false,
                };
                moment.done.insert(record, done);
            }
            (Kind::Held, Some(record), _) => {
                self.tally.held += 1;
                let owned = moment.owned.get(&life);
                let is_foreign = |cause: &usize| {
                    let lane = self.lane(*cause);
                    let owns = owned.is_some_and(|owned| owned.contains(&lane));
                    !owns && !moment.is_complete(lane, *cause)
                };
                let foreign = self.causes_of(record).iter().any(is_foreign);
                self.tally.foreign += usize::from(foreign);
            }
            (Kind::Assigned, _, Some(lane)) => {
                self.tally.moves += usize::from(moment.shards.contains_key(&lane));
                moment.owned.entry(life).or_default().insert(lane);
                let read = event
                    .ns
                    .saturating_sub(READ_EARLY)
                    .max(self.case.lives[life].0);
                let told = moment.told.entry(life).or_default();
                let said = moment.said.iter().rev().find(|(since, _)| *since <= read);
                let said = said.map(|(_, said)| said);
                for causes in said.into_iter().chain(moment.shards.get(&lane)) {
                    told.merge_all(causes);
                }
            }
            (Kind::Revoked | Kind::Lost, _, Some(lane)) => {
                moment.owned.entry(life).or_default().remove(&lane);
                for (record, done) in &mut moment.done {
                    done.has_left |= done.life == life && self.lane(*record) == lane;
                }
            }
            (Kind::Killed, ..) => {
                let owned = moment.owned.remove(&life);
                moment.unsure.extend(owned.into_iter().flatten());
            }
            _ => {}
        }
    }

    fn started(&mut self, moment: &Moment, when: usize, life: usize, record: usize) {
        for cause in self.causes_of(record) {
            let (effect, cause_name) = (self.name(record), self.name(cause));
            let Some(done) = moment.done.get(&cause) else {
                self.fault(format!(
                    "{effect} started before its cause {cause_name} was ever done"
                ));
                continue;
            };
            let elsewhere = done.life != life || done.has_left;
            let again = self.starts[cause].last().is_some_and(|last| *last > when);
            if elsewhere && again {
                self.fault(format!("{effect} started after its cause {cause_name} was done by another member, which was undone: it ran again"));
            }
        }
        if let ([_], Some(told)) = (&self.starts[record][..], moment.told.get(&life)) {
            self.owed.insert(record, told.clone());
        }
    }

    /// One partition of a request.
    fn committed(&mut self, moment: &mut Moment, life: usize, event: &Event) {
        self.tally.commits += 1;
        self.expect(moment, event.ns);
        let (Some(lane), Some(offset)) = (self.lane_of(event), event.offset) else {
            return;
        };
        let (complete, shard) = self.completed(lane, offset.get(), &event.metadata);
        let Some(shard) = shard else {
            self.fault(format!("a commit without a shard: {event:?}"));
            return;
        };
        self.shard(moment, lane, event, &shard);
        moment.unsure.remove(&lane);
        let before = moment.complete.insert(lane, complete).unwrap_or_default();
        let fresh: Vec<_> = moment.complete[&lane].without(&before).collect();
        for effect in fresh {
            for cause in self.causes_of(effect) {
                let lane = self.lane(cause);
                let owned = moment.owned.get(&life);
                let late = match owned.is_some_and(|owned| owned.contains(&lane)) {
                    true => REQUEST,
                    false => LINE_LATE,
                };
                if !moment.is_complete(lane, cause) {
                    moment.expected.push((event.ns + late, effect, cause));
                }
            }
        }
    }

    /// What a commit says of other topics, and of its own.
    fn shard(&mut self, moment: &mut Moment, lane: Lane, event: &Event, shard: &Shard) {
        let mut causes = shard.learned.clone();
        let own = Place {
            topic: lane.0,
            partition: lane.1,
            offset: 0,
        };
        let (channel, _) = self.case.topics.cause(own);
        if shard.topic != channel.topic() || shard.is_lossy {
            self.fault(format!(
                "a shard of another topic, or one that lacks something: {event:?}"
            ));
        }
        if let Some(highest) = shard.highest_complete {
            causes.merge(channel, highest);
        }
        let before = moment.shards.get(&lane);
        let lost = before.and_then(|before| lacking(&causes, before).first().copied());
        if let Some((channel, position)) = lost {
            self.fault(format!("a shard lost {channel} at {position}: {event:?}"));
        }
        let mut said = moment
            .said
            .last()
            .map_or_else(Causes::new, |last| last.1.clone());
        said.merge_all(&causes);
        moment.said.push((event.ns, said));
        moment.shards.insert(lane, causes);
    }

    /// Lines that had to come by now.
    fn expect(&mut self, moment: &mut Moment, now: u64) {
        for (until, effect, cause) in std::mem::take(&mut moment.expected) {
            let lane = self.lane(cause);
            let is_known = moment.is_complete(lane, cause) || moment.unsure.contains(&lane);
            match is_known {
                true => {}
                false if until > now => moment.expected.push((until, effect, cause)),
                false => {
                    let (effect, cause) = (self.name(effect), self.name(cause));
                    self.fault(format!(
                        "{effect} was committed, and its cause {cause} was not by {until}"
                    ));
                }
            }
        }
    }

    /// The broker's own word: at no moment is an effect complete without its causes.
    fn snapshots(&mut self) {
        let case = self.case;
        self.tally.snapshots = case.snapshots.len();
        let mut others = Set::default();
        for (record, place) in case.truth.places.iter().enumerate() {
            if place.is_none_or(|place| place.topic >= CONSUMED) {
                others.insert(record);
            }
        }
        for (at, snapshot) in case.snapshots.iter().enumerate() {
            let mut complete = Set::default();
            for held in snapshot {
                let lane = (held.topic, held.partition);
                complete.merge(&self.completed(lane, held.offset, &held.metadata).0);
            }
            let mut settled = others.clone();
            settled.merge(&complete);
            for effect in complete.iter() {
                let missing = case.truth.ancestors[effect].without(&settled).next();
                if let Some(cause) = missing {
                    let (effect, cause) = (self.name(effect), self.name(cause));
                    self.fault(format!(
                        "at moment {at} the broker held {effect} as complete, and not its cause {cause}"
                    ));
                }
            }
            let open = case
                .truth
                .consumed
                .values()
                .find(|record| !complete.has(**record));
            if let (Some(open), true) = (open, at + 1 == case.snapshots.len()) {
                self.fault(format!("at the end {} is not committed", self.name(*open)));
            }
        }
    }

    fn outputs(&mut self) {
        let case = self.case;
        self.tally.outputs = case.outputs.len();
        let mut sent = vec![0; case.truth.places.len()];
        for output in case.outputs {
            let record = number_in(output.value.as_deref());
            sent[record] += 1;
            let at = format!("the output {}@{}", output.partition, output.offset);
            let mut stamps = output.headers.iter().filter(|(name, _)| name == HEADER);
            let (Some((_, Some(stamp))), None) = (stamps.next(), stamps.next()) else {
                self.fault(format!("{at} has not exactly one stamp"));
                continue;
            };
            let causes = match Causes::decode(stamp) {
                Ok(causes) => causes,
                Err(fault) => {
                    self.fault(format!("{at} has a stamp that can't be read: {fault}"));
                    continue;
                }
            };
            let ancestors = case.truth.ancestors[record].iter();
            for cause in ancestors.chain([record]) {
                let (channel, position) = case.topics.cause(self.place(cause));
                if !causes.covers(channel, position) {
                    let (of, cause) = (self.name(record), self.name(cause));
                    self.fault(format!("{at} of {of} does not name {cause}"));
                }
            }
            if let Some(owed) = self.owed.get(&record) {
                let learned = |(channel, _): (Channel, Position)| {
                    let mut consumed = (0..CONSUMED).map(|topic| {
                        case.topics
                            .cause(Place {
                                topic,
                                partition: 0,
                                offset: 0,
                            })
                            .0
                            .topic()
                    });
                    consumed.all(|consumed| consumed != channel.topic())
                };
                self.tally.carried += usize::from(owed.iter().any(learned));
                if let Some((channel, position)) = lacking(&causes, owed).first() {
                    let of = self.name(record);
                    self.fault(format!("{at} of {of} does not name {channel} at {position}, which a shard of before said"));
                }
            }
        }
        for record in case.truth.consumed.values() {
            let is_right = match self.starts[*record].len() {
                1 => sent[*record] == 1,
                _ => sent[*record] > 0,
            };
            if !is_right {
                let (of, starts) = (self.name(*record), self.starts[*record].len());
                let sent = sent[*record];
                self.fault(format!("{of} ran {starts} times and was sent {sent} times"));
            }
        }
    }
}

/// What `wanted` says and `found` does not.
fn lacking(found: &Causes, wanted: &Causes) -> Vec<(Channel, Position)> {
    let entries = wanted.iter();
    entries
        .filter(|(channel, position)| !found.covers(*channel, *position))
        .collect()
}
