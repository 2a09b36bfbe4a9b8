//! Who writes what after having read what: chains of records over the topics of a group, and their true ancestors.
//!
//! The one idea: what a person has really read is kept beside its clock, as a set of records by number. The clock's stamps
//! go into the headers; the sets go to the judge, who never looks into a header to know what caused what.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use keyway::causality::{CausalClock, Channel, HEADER, Position, TopicId};
use keyway_tests::cluster::Cluster;
use keyway_tests::random::Random;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Headers as _;
use rdkafka::{Message as _, Offset, TopicPartitionList};

use super::pen::Pen;
use crate::crew::pass;

/// Partitions of each topic.
pub(crate) const PARTITIONS: i32 = 4;

/// Keys of each topic that the group consumes: few, so that lanes are long.
const KEYS: u64 = 8;

/// The persons of one producer at a time, and how much each writes before somebody else comes, who has read nothing.
const PERSONS: usize = 4;
const WRITES: u64 = 4;

/// Between two records of a producer: less than so many milliseconds.
const PAUSE: u64 = 60;

/// How far back somebody reads.
const RECENT: u64 = 100;

/// Topics by their place in [`Topics::names`].
pub(crate) const CONSUMED: usize = 3;
const ELSEWHERE: usize = 3;
const OUT: usize = 4;

/// The three topics that the group consumes, one that it does not, and that of its outputs.
pub(crate) struct Topics {
    pub(crate) names: [String; 5],
    ids: [TopicId; 5],
}

impl Topics {
    pub(crate) fn new(cluster: &Cluster) -> Topics {
        let names = ["questions", "answers", "moderation", "elsewhere", "out"];
        let names = names.map(|name| cluster.unique(name));
        for name in &names {
            cluster.create_topic(name, PARTITIONS, &[]);
        }
        let ids = std::array::from_fn(|topic| cluster.topic_id(&names[topic]));
        Topics { names, ids }
    }

    pub(crate) fn consumed(&self) -> &[String] {
        &self.names[..CONSUMED]
    }

    pub(crate) fn out(&self) -> &str {
        &self.names[OUT]
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|own| own == name)
    }

    pub(crate) fn cause(&self, place: Place) -> (Channel, Position) {
        let partition = u32::try_from(place.partition).expect("a partition");
        let channel = Channel::new(self.ids[place.topic], partition);
        let position = Position::new(place.offset);
        (channel.expect("a partition"), position.expect("an offset"))
    }
}

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) topic: usize,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// Records by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    pub(crate) fn insert(&mut self, number: usize) {
        let word = number / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (number % 64);
    }

    pub(crate) fn has(&self, number: usize) -> bool {
        let word = self.0.get(number / 64);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub(crate) fn merge(&mut self, other: &Set) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own |= other;
        }
    }

    /// What is in it, and not in the other one.
    pub(crate) fn without<'s>(&'s self, other: &'s Set) -> impl Iterator<Item = usize> + 's {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = word & !other.0.get(at).copied().unwrap_or(0);
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                (left != 0).then(|| {
                    left &= left - 1;
                    at * 64 + bit as usize
                })
            })
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        static NONE: Set = Set(Vec::new());
        self.without(&NONE)
    }
}

/// All records that a round knows of, by number.
#[derive(Default)]
pub(crate) struct Truth {
    /// Where each lies; `None` for one that is not acknowledged yet.
    pub(crate) places: Vec<Option<Place>>,
    /// What caused each, without itself.
    pub(crate) ancestors: Vec<Set>,
    /// What the group is to process.
    pub(crate) consumed: BTreeMap<Place, usize>,
    /// What there is to be read, first to last.
    board: Vec<Posted>,
}

/// A record as its reader finds it.
#[derive(Clone)]
struct Posted {
    number: usize,
    stamp: Option<Vec<u8>>,
}

impl Truth {
    fn number(&mut self, ancestors: Set) -> usize {
        self.places.push(None);
        self.ancestors.push(ancestors);
        self.places.len() - 1
    }

    fn post(&mut self, number: usize, place: Place, stamp: Option<Vec<u8>>) {
        self.places[number] = Some(place);
        if place.topic < CONSUMED {
            self.consumed.insert(place, number);
        }
        self.board.push(Posted { number, stamp });
    }

    /// The length of the longest chain of records that the group consumes.
    pub(crate) fn longest_chain(&self) -> usize {
        let mut lengths = vec![0; self.places.len()];
        // An ancestor has its number before whoever has read it.
        for number in 0..self.places.len() {
            let longest = self.ancestors[number].iter().map(|cause| lengths[cause]);
            let is_consumed = self.places[number].is_some_and(|place| place.topic < CONSUMED);
            lengths[number] = longest.max().unwrap_or(0) + usize::from(is_consumed);
        }
        lengths.into_iter().max().unwrap_or(0)
    }
}

/// What all who write share.
pub(crate) struct Forum<'c> {
    pub(crate) cluster: &'c Cluster,
    pub(crate) topics: Topics,
    truth: Mutex<Truth>,
}

/// Somebody with a clock, and what it has really read.
#[derive(Default)]
struct Person {
    clock: CausalClock,
    read: Set,
    written: u64,
}

impl<'c> Forum<'c> {
    pub(crate) fn new(cluster: &'c Cluster) -> Forum<'c> {
        Forum {
            cluster,
            topics: Topics::new(cluster),
            truth: Mutex::default(),
        }
    }

    pub(crate) fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until it is told that it is enough, and at least so many records.
    pub(crate) fn write(&self, mut random: Random, at_least: usize, enough: &AtomicBool) {
        let pen = Pen::new(self.cluster);
        let mut persons: [Person; PERSONS] = Default::default();
        let mut written = 0;
        while written < at_least || !enough.load(Ordering::Relaxed) {
            let person = &mut persons[random.below(0..PERSONS as u64) as usize];
            if person.written == WRITES {
                *person = Person::default();
            }
            for _ in 0..random.below(0..4) {
                self.read_something(person, &mut random);
            }
            if random.below(0..4) == 0 {
                self.read_elsewhere(person, &pen, &mut random);
            }
            let topic = random.below(0..CONSUMED as u64) as usize;
            self.post(person, topic, &pen, &mut random);
            person.written += 1;
            written += 1;
            pass(random.below(0..PAUSE));
        }
    }

    fn read_something(&self, person: &mut Person, random: &mut Random) {
        let truth = self.truth();
        let newest = truth.board.len() as u64;
        if newest == 0 {
            return;
        }
        let at = newest - 1 - random.below(0..RECENT.min(newest));
        self.take_in(person, &truth, &truth.board[at as usize]);
    }

    fn take_in(&self, person: &mut Person, truth: &Truth, posted: &Posted) {
        let place = truth.places[posted.number].expect("what is posted has a place");
        let (channel, position) = self.topics.cause(place);
        let headers = posted.stamp.as_deref().map(|stamp| (HEADER, Some(stamp)));
        let read = person.clock.observe(channel, position, headers);
        read.unwrap_or_else(|fault| panic!("{place:?} has no stamp that can be read: {fault}"));
        person.read.merge(&truth.ancestors[posted.number]);
        person.read.insert(posted.number);
    }

    /// Something comes about in the topic that the group does not consume, and only this person reads it there.
    fn read_elsewhere(&self, person: &mut Person, pen: &Pen, random: &mut Random) {
        let partition = random.below(0..PARTITIONS as u64) as i32;
        let to = &self.topics.names[ELSEWHERE];
        let offset = pen.write(to, partition, ("far", "far"), None);
        let mut truth = self.truth();
        let number = truth.number(Set::default());
        let place = Place {
            topic: ELSEWHERE,
            partition,
            offset,
        };
        truth.places[number] = Some(place);
        let posted = Posted {
            number,
            stamp: None,
        };
        self.take_in(person, &truth, &posted);
    }

    fn post(&self, person: &Person, topic: usize, pen: &Pen, random: &mut Random) {
        let number = self.truth().number(person.read.clone());
        let key = random.below(0..KEYS);
        let partition = (key % PARTITIONS as u64) as i32;
        let (key, value) = (format!("key-{key}"), number.to_string());
        let stamp = person.clock.stamp();
        let header = Some((HEADER, stamp.as_slice()));
        let to = &self.topics.names[topic];
        let offset = pen.write(to, partition, (&key, &value), header);
        let place = Place {
            topic,
            partition,
            offset,
        };
        self.truth().post(number, place, Some(stamp));
    }

    /// Reads what the group sends, for the others to read, until it is told that it is enough.
    pub(crate) fn read_outputs(&self, enough: &AtomicBool) {
        let consumer: BaseConsumer = self
            .cluster
            .client()
            .set("group.id", "reads-outputs")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "20")
            .create()
            .expect("a consumer needs no network to be created");
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(self.topics.out(), partition, Offset::Beginning)
                .expect("`Beginning` is an offset");
        }
        consumer.assign(&list).expect("partitions that are there");
        while !enough.load(Ordering::Relaxed) {
            let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) else {
                continue;
            };
            let of = number_in(message.payload());
            let stamps = message.headers().into_iter().flat_map(|all| all.iter());
            let mut stamps = stamps.filter(|header| header.key == HEADER);
            let stamp = stamps.next().and_then(|header| header.value);
            let mut truth = self.truth();
            let mut ancestors = truth.ancestors[of].clone();
            ancestors.insert(of);
            let number = truth.number(ancestors);
            let place = Place {
                topic: OUT,
                partition: message.partition(),
                offset: message.offset(),
            };
            truth.post(number, place, stamp.map(<[u8]>::to_vec));
        }
    }
}

/// The number of the record of which this is the value.
pub(crate) fn number_in(value: Option<&[u8]>) -> usize {
    let text = value.and_then(|value| std::str::from_utf8(value).ok());
    let number = text.and_then(|text| text.parse().ok());
    number.expect("all values are numbers")
}
