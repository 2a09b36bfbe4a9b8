//! Worlds in one line: a broker with a topic, an engine, and what was seen of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use keyway::rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use keyway::rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use keyway::rdkafka::{Offset, TopicPartitionList};
use keyway::testing::MockBroker;
use keyway::{
    Builder, ClientConfig, Engine, Keyway, Observer, Record, RecordId, Report, StartAt, Status,
    StopReason, TopicPartition,
};
use keyway_tests::wait;

/// As long as anything may take on a machine that does much else besides.
pub(crate) const LONG: Duration = Duration::from_secs(40);

/// The mock takes a second less than this for each rebalance but the first of a group.
const SESSION_MILLIS: &str = "3000";

/// A broker with the topic `t`, and the group `g`.
pub(crate) struct World {
    pub(crate) broker: MockBroker,
    partitions: u32,
}

impl World {
    /// One broker; `t` with so many partitions.
    pub(crate) fn of(partitions: u32) -> Self {
        Self::with_brokers(1, partitions)
    }

    pub(crate) fn with_brokers(brokers: i32, partitions: u32) -> Self {
        let broker = MockBroker::start(brokers).expect("a broker");
        broker.set_first_rebalance_delay(Duration::ZERO);
        broker
            .create_topic("t", partitions as i32)
            .expect("a topic");
        Self { broker, partitions }
    }

    /// One partition that holds `records` records of as many keys.
    pub(crate) fn filled(records: u64) -> Self {
        let world = Self::of(1);
        world.produce(records, records);
        world
    }

    /// Appends records whose values are their numbers and whose keys are these modulo `keys`, those of a key
    /// to one partition.
    pub(crate) fn produce(&self, records: u64, keys: u64) {
        let partitions = u64::from(self.partitions);
        self.produce_to(
            "t",
            (0..records).map(|n| {
                let key = n % keys;
                (
                    (key % partitions) as i32,
                    Some(key.to_string()),
                    n.to_string(),
                )
            }),
        );
    }

    /// Appends records given as partition, key and value.
    pub(crate) fn produce_to(
        &self,
        topic: &str,
        records: impl IntoIterator<Item = (i32, Option<String>, String)>,
    ) {
        let producer: BaseProducer = self
            .client()
            .set("linger.ms", "5")
            .set("queue.buffering.max.messages", "1000000")
            .create()
            .expect("a producer");
        for (partition, key, value) in records {
            let mut record = BaseRecord::to(topic).partition(partition).payload(&value);
            if let Some(key) = &key {
                record = record.key(key);
            }
            producer.send(record).expect("room in the queue");
        }
        producer.flush(LONG).expect("delivered");
    }

    /// Properties for a client of this broker.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", self.broker.bootstrap());
        client
    }

    /// The group `g` over `t`, from the first record, with commits that need no patience.
    pub(crate) fn builder(&self) -> Builder {
        Keyway::builder(self.client())
            .group("g")
            .topics(["t"])
            .start_at(StartAt::Earliest)
            .commit_interval(Duration::from_millis(100))
            .property("session.timeout.ms", SESSION_MILLIS)
            .property("heartbeat.interval.ms", "100")
            .property("reconnect.backoff.max.ms", "500")
    }

    pub(crate) fn start(&self, wish: impl FnOnce(Builder) -> Builder) -> Run {
        Run::of(wish(self.builder()))
    }

    /// Offset and metadata as the broker has them for a partition of `t`.
    pub(crate) fn committed(&self, partition: i32) -> Option<(i64, String)> {
        let consumer: BaseConsumer = self.client().set("group.id", "g").create().ok()?;
        let mut list = TopicPartitionList::new();
        list.add_partition("t", partition);
        let list = consumer
            .committed_offsets(list, Duration::from_secs(5))
            .ok()?;
        let part = list.find_partition("t", partition)?;
        match part.offset() {
            Offset::Offset(offset) => Some((offset, part.metadata().to_owned())),
            _ => None,
        }
    }

    /// Commits as a program that is no member.
    pub(crate) fn commit_as_stranger(&self, group: &str, partition: i32, offset: i64, text: &str) {
        let stranger: BaseConsumer = self
            .client()
            .set("group.id", group)
            .create()
            .expect("a consumer");
        let mut list = TopicPartitionList::new();
        let mut part = list.add_partition("t", partition);
        part.set_offset(Offset::Offset(offset)).expect("an offset");
        part.set_metadata(text);
        stranger.commit(&list, CommitMode::Sync).expect("committed");
    }

    /// Waits until partition 0 is committed up to `offset` without a hole.
    #[track_caller]
    pub(crate) fn until_committed(&self, offset: i64) {
        let mut last = None;
        let all = wait::try_until(LONG, || {
            last = self.committed(0);
            (last == Some((offset, String::new()))).then_some(())
        });
        assert!(
            all.is_some(),
            "waited for a commit at {offset}, there is {last:?}"
        );
    }
}

/// An engine, and what was seen of it. Stopped at its end, within moments.
pub(crate) struct Run {
    pub(crate) engine: Engine,
    pub(crate) seen: Seen,
}

impl Run {
    pub(crate) fn of(builder: Builder) -> Self {
        let seen = Seen::default();
        let keyway = builder
            .observer(seen.clone())
            .build()
            .expect("a configuration");
        let engine = keyway.start().expect("started");
        Self { engine, seen }
    }

    pub(crate) fn status(&self) -> Arc<Status> {
        self.engine.status()
    }

    /// Waits until so many records are done.
    #[track_caller]
    pub(crate) fn until_done(&self, records: usize) {
        let done = wait::try_until(LONG, || (self.seen.done().len() >= records).then_some(()));
        let number = self.seen.done().len();
        assert!(
            done.is_some(),
            "{number} of {records} done; {:?} {:?}",
            self.status(),
            self.engine.ended()
        );
    }

    /// Waits until the status says so.
    #[track_caller]
    pub(crate) fn until_status(&self, what: &str, says: impl Fn(&Status) -> bool) {
        let there = wait::try_until(LONG, || says(&self.status()).then_some(()));
        assert!(there.is_some(), "waited for {what}: {:?}", self.status());
    }

    /// Waits until partitions are assigned, and restored.
    #[track_caller]
    pub(crate) fn until_assigned(&self, partitions: usize) {
        self.until_status("an assignment", |status| {
            status.partitions.len() == partitions
        });
    }

    /// Its end, whatever the reason.
    pub(crate) fn end(&self) -> Result<Report, StopReason> {
        wait::until("its end", 3 * LONG, || self.engine.ended())
    }

    /// Stops in an orderly way.
    #[track_caller]
    pub(crate) fn stop(self) -> Report {
        self.engine.stop(Duration::from_secs(10));
        self.end().expect("an orderly end")
    }

    /// Finishes what is buffered.
    #[track_caller]
    pub(crate) fn drain(self) -> Report {
        self.engine.drain(LONG);
        self.end().expect("an orderly end")
    }
}

/// What happened to a record or a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Started(RecordId, Vec<u8>, u32),
    Done(RecordId),
    Dead(RecordId),
    Failed(RecordId, String),
    Assigned(TopicPartition),
    Revoked(TopicPartition),
    Lost(TopicPartition),
    Committed(TopicPartition, i64, String),
}

/// All that happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<Event>>>);

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.0.lock().expect("nobody panics under the lock")
    }

    fn note(&self, event: Event) {
        self.lock().push(event);
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.lock().clone()
    }

    fn collect<T>(&self, pick: impl FnMut(&Event) -> Option<T>) -> Vec<T> {
        self.lock().iter().filter_map(pick).collect()
    }

    /// Records in the order in which they were done.
    pub(crate) fn done(&self) -> Vec<RecordId> {
        self.collect(|event| match event {
            Event::Done(id) => Some(id.clone()),
            _ => None,
        })
    }

    pub(crate) fn done_offsets(&self) -> Vec<i64> {
        self.done().into_iter().map(|id| id.offset).collect()
    }

    /// Offsets in the order in which attempts began.
    pub(crate) fn started(&self) -> Vec<i64> {
        self.collect(|event| match event {
            Event::Started(id, ..) => Some(id.offset),
            _ => None,
        })
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        self.collect(|event| match event {
            Event::Failed(_, text) => Some(text.clone()),
            _ => None,
        })
    }

    pub(crate) fn count(&self, is: impl Fn(&Event) -> bool) -> usize {
        self.lock().iter().filter(|event| is(event)).count()
    }

    pub(crate) fn revoked(&self) -> usize {
        self.count(|event| matches!(event, Event::Revoked(_)))
    }

    pub(crate) fn lost(&self) -> usize {
        self.count(|event| matches!(event, Event::Lost(_)))
    }

    pub(crate) fn assigned(&self) -> usize {
        self.count(|event| matches!(event, Event::Assigned(_)))
    }

    /// Each of so many records was done, once.
    #[track_caller]
    pub(crate) fn assert_each_done_once(&self, records: usize) {
        let mut done = self.done();
        let number = done.len();
        done.sort();
        done.dedup();
        assert_eq!((done.len(), number), (records, records), "distinct, all");
    }

    /// Within each lane, as `lane` names it, no attempt began while another ran, and offsets were done in order.
    #[track_caller]
    pub(crate) fn assert_lanes(&self, lane: impl Fn(&RecordId, &[u8]) -> Vec<u8>) {
        let mut lanes = HashMap::new();
        let mut inside: HashMap<Vec<u8>, RecordId> = HashMap::new();
        let mut last: HashMap<Vec<u8>, i64> = HashMap::new();
        for event in self.events() {
            match event {
                Event::Started(id, key, _) => {
                    let lane = lane(&id, &key);
                    lanes.insert(id.clone(), lane.clone());
                    if let Some(other) = inside.insert(lane, id.clone()) {
                        panic!("{id} began while {other} ran");
                    }
                }
                Event::Done(id) => {
                    let lane = lanes[&id].clone();
                    inside.remove(&lane);
                    let before = last.insert(lane.clone(), id.offset);
                    if before.is_some_and(|before| before >= id.offset) {
                        let story = self.story(|event| lanes.get(event) == Some(&lane));
                        panic!("{id} after {before:?}:\n{story}");
                    }
                }
                Event::Failed(id, _) | Event::Dead(id) => {
                    inside.remove(&lanes[&id]);
                }
                _ => {}
            }
        }
    }

    /// The last events of the records that `of` picks.
    fn story(&self, of: impl Fn(&RecordId) -> bool) -> String {
        let events = self.events();
        let picked = events.iter().filter(|event| match event {
            Event::Started(id, ..) | Event::Done(id) | Event::Dead(id) | Event::Failed(id, _) => {
                of(id)
            }
            _ => true,
        });
        let lines: Vec<_> = picked.map(|event| format!("{event:?}")).collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// As [`Seen::assert_lanes`], for records with equal keys in one partition.
    #[track_caller]
    pub(crate) fn assert_key_order(&self) {
        self.assert_lanes(|id, key| [&id.partition.to_be_bytes(), key].concat());
    }
}

impl Observer for Seen {
    fn started(&self, record: &Record) {
        let key = record.key().unwrap_or_default().to_vec();
        self.note(Event::Started(record.id(), key, record.attempt()));
    }

    fn done(&self, record: &Record) {
        self.note(Event::Done(record.id()));
    }

    fn dead(&self, record: &Record) {
        self.note(Event::Dead(record.id()));
    }

    fn failed(&self, record: &Record, error: &str) {
        self.note(Event::Failed(record.id(), error.to_owned()));
    }

    fn assigned(&self, partition: &TopicPartition) {
        self.note(Event::Assigned(partition.clone()));
    }

    fn revoked(&self, partition: &TopicPartition) {
        self.note(Event::Revoked(partition.clone()));
    }

    fn lost(&self, partition: &TopicPartition) {
        self.note(Event::Lost(partition.clone()));
    }

    fn committed(&self, partition: &TopicPartition, offset: i64, metadata: &str) {
        self.note(Event::Committed(
            partition.clone(),
            offset,
            metadata.to_owned(),
        ));
    }
}

/// A door that handlers stand before until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Door(Arc<(Mutex<bool>, std::sync::Condvar)>);

impl Door {
    pub(crate) fn pass(&self) {
        let mut open = self.0.0.lock().expect("no panic");
        while !*open {
            open = self.0.1.wait(open).expect("no panic");
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.0.lock().expect("no panic")
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock().expect("no panic") = true;
        self.0.1.notify_all();
    }

    pub(crate) fn close(&self) {
        *self.0.0.lock().expect("no panic") = false;
    }
}

/// Opens the door when a test ends, however it ends, so that no handler is left standing there.
pub(crate) struct OpenAtEnd(pub(crate) Door);

impl Drop for OpenAtEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}
