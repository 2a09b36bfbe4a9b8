//! Exactly once on a real broker: what a reader of committed data finds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::process::Command;
use std::time::Duration;

use keyway::{
    Builder, CommitMode, DeadLetters, Engine, Exhausted, Keyway, Output, Record, Retry, StartAt,
};
use keyway_tests::cluster::{Cluster, Received};
use keyway_tests::{command, wait};

use crate::SOON;

const INTERVAL: Duration = Duration::from_millis(100);

/// A topic of inputs, one for outputs, and a group.
pub(crate) struct Pipeline<'c> {
    pub(crate) cluster: &'c Cluster,
    pub(crate) topic: String,
    pub(crate) out: String,
    pub(crate) group: String,
}

impl<'c> Pipeline<'c> {
    fn new(partitions: i32) -> Self {
        Self::on(Cluster::start(), partitions)
    }

    pub(crate) fn on(cluster: &'c Cluster, partitions: i32) -> Self {
        let topic = cluster.unique("in");
        let out = format!("{topic}.out");
        cluster.create_topic(&topic, partitions, &[]);
        cluster.create_topic(&out, partitions, &[]);
        Self {
            group: cluster.unique("g"),
            cluster,
            topic,
            out,
        }
    }

    /// Records of so many keys, which lie in one partition each; their values are numbers from 0 on.
    fn fill(&self, keys: usize, records: usize) {
        self.add(keys, 0..records);
    }

    pub(crate) fn add(&self, keys: usize, numbers: Range<usize>) {
        let partitions = self.cluster.partitions(&self.topic) as usize;
        self.cluster.produce(
            &self.topic,
            numbers.map(|n| {
                let key = n % keys;
                let partition = Some((key % partitions) as i32);
                (partition, Some(format!("key-{key}")), format!("{n}"))
            }),
        );
    }

    pub(crate) fn builder(&self) -> Builder {
        Keyway::builder(self.cluster.client())
            .group(&self.group)
            .topics([self.topic.clone()])
            .start_at(StartAt::Earliest)
            .commit_mode(CommitMode::Transactional(INTERVAL))
            .retry(Retry::every(Duration::from_millis(100)))
    }

    /// A member that copies each record.
    pub(crate) fn copying(&self) -> Builder {
        let to = self.out.clone();
        self.builder().handler(move |record: &Record| {
            Output::copy_of(record, to.as_str()).map(|copy| vec![copy])
        })
    }

    pub(crate) fn outputs(&self) -> Vec<Received> {
        self.cluster.read(&self.out)
    }

    pub(crate) fn committed(&self) -> i64 {
        let parts = self.cluster.committed(&self.group, &self.topic);
        parts.iter().map(|part| part.offset.max(0)).sum()
    }
}

pub(crate) fn start(builder: Builder) -> Engine {
    builder
        .build()
        .expect("a configuration")
        .start()
        .expect("started")
}

pub(crate) fn end(engine: &Engine) {
    engine.drain(Duration::from_secs(10));
    engine.wait().expect("an orderly end");
}

/// Values by key, in the order in which they were read.
fn by_key(outputs: &[Received]) -> BTreeMap<String, Vec<u64>> {
    let text = |bytes: &Option<Vec<u8>>| {
        String::from_utf8(bytes.clone().unwrap_or_default()).expect("text")
    };
    let mut keys: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for output in outputs {
        let value = text(&output.value).parse().expect("a number");
        keys.entry(text(&output.key)).or_default().push(value);
    }
    keys
}

/// Each input once, and those of a key in their order.
pub(crate) fn assert_each_once(outputs: &[Received], records: usize) {
    let keys = by_key(outputs);
    for (key, values) in &keys {
        assert!(values.is_sorted(), "{key}: {values:?}");
    }
    let all: Vec<u64> = keys.into_values().flatten().collect();
    let distinct: BTreeSet<u64> = all.iter().copied().collect();
    assert_eq!((all.len(), distinct.len()), (records, records));
}

#[test]
fn outputs_and_offsets_are_committed_together() {
    let pipeline = Pipeline::new(3);
    pipeline.fill(50, 2_000);
    let engine = start(pipeline.copying());
    wait::until("all complete", SOON, || {
        (engine.status().completed == 2_000).then_some(())
    });
    let status = engine.status();
    assert_eq!((status.sent, status.staged), (2_000, 0));
    assert_eq!(pipeline.committed(), 2_000, "before any drain");
    assert_each_once(&pipeline.outputs(), 2_000);
    end(&engine);
}

/// What was staged by a member that died is written by nobody; its transaction that was open holds its partitions up only
/// until its time is over.
#[test]
fn a_member_that_dies_leaves_neither_outputs_nor_offsets_of_its_last_transaction() {
    let pipeline = Pipeline::new(2);
    pipeline.fill(20, 500);
    let rare = pipeline
        .copying()
        .commit_mode(CommitMode::Transactional(Duration::from_secs(600)))
        .property("session.timeout.ms", "2000")
        .property("heartbeat.interval.ms", "300");
    let engine = start(rare);
    wait::until("all staged", SOON, || {
        (engine.status().staged == 500).then_some(())
    });
    assert_eq!(engine.status().completed, 0);
    engine.abandon();
    assert!(engine.wait().is_err());
    assert_eq!(pipeline.outputs(), []);
    let engine = start(pipeline.copying());
    wait::until("all complete", SOON, || {
        (engine.status().completed == 500).then_some(())
    });
    end(&engine);
    assert_each_once(&pipeline.outputs(), 500);
}

/// A batch may be as large as a record may, and is refused as a whole. With the refusal believed of each record in it this
/// fails: outputs that fit have failed attempts, become dead letters, and never come.
#[test]
fn outputs_that_fit_are_written_though_together_they_are_a_batch_that_does_not() {
    const LIMIT: usize = 64 << 10;
    let pipeline = Pipeline::new(1);
    pipeline.fill(20, 400);
    let (to, dead) = (
        format!("{}.small", pipeline.topic),
        format!("{}.dead", pipeline.topic),
    );
    let limit = LIMIT.to_string();
    pipeline
        .cluster
        .create_topic(&to, 1, &[("max.message.bytes", &limit)]);
    pipeline.cluster.create_topic(&dead, 1, &[]);
    let small = to.clone();
    let engine = start(
        pipeline
            .builder()
            .retry(Retry::every(Duration::from_millis(10)).attempts(2, Exhausted::DeadLetter))
            .dead_letters(DeadLetters::headers(&dead))
            .handler(move |record: &Record| {
                let copy = Output::copy_of(record, small.as_str())?;
                let bytes = match record.value() {
                    Some(b"7") => LIMIT + 1,
                    _ => 1_000,
                };
                Ok::<_, keyway::UnreadableHeaders>(vec![copy.value(vec![b'x'; bytes])])
            }),
    );
    wait::until("all complete", SOON, || {
        (engine.status().completed == 400).then_some(())
    });
    let status = engine.status();
    assert_eq!(
        (status.sends_failed, status.dead_letters, status.sent),
        (2, 1, 399),
        "only the one that is too large alone"
    );
    assert_eq!(pipeline.committed(), 400);
    end(&engine);
    assert_eq!(pipeline.cluster.read(&to).len(), 399);
    assert_eq!(pipeline.cluster.read(&dead).len(), 1);
}

#[test]
fn a_refused_output_is_a_failed_attempt_of_its_record_and_no_others() {
    let pipeline = Pipeline::new(1);
    pipeline.fill(5, 50);
    let (to, dead) = (pipeline.out.clone(), format!("{}.dead", pipeline.topic));
    pipeline.cluster.create_topic(&dead, 1, &[]);
    let engine = start(
        pipeline
            .builder()
            .retry(Retry::every(Duration::from_millis(10)).attempts(2, Exhausted::DeadLetter))
            .dead_letters(DeadLetters::headers(&dead))
            .handler(move |record: &Record| {
                let copy = Output::copy_of(record, to.as_str())?;
                // 1 MiB is what the broker takes.
                Ok::<_, keyway::UnreadableHeaders>(vec![match record.value() {
                    Some(b"7") => copy.value(vec![0; 2 << 20]),
                    _ => copy,
                }])
            }),
    );
    wait::until("all complete", SOON, || {
        (engine.status().completed == 50).then_some(())
    });
    let status = engine.status();
    assert_eq!(
        (status.sends_failed, status.dead_letters, status.sent),
        (2, 1, 49)
    );
    assert_eq!(pipeline.committed(), 50);
    end(&engine);
    assert_each_once(&pipeline.outputs(), 49);
    let letters = pipeline.cluster.read(&dead);
    let [letter] = &letters[..] else {
        panic!("{letters:?}");
    };
    assert_eq!(letter.value.as_deref(), Some(b"7".as_slice()));
    let error = letter
        .headers
        .iter()
        .find(|(name, _)| name == "keyway.dlq.error");
    let error = error
        .and_then(|(_, value)| value.clone())
        .unwrap_or_default();
    let error = String::from_utf8(error).expect("text");
    assert!(error.contains("MSG_SIZE_TOO_LARGE"), "{error}");
}

/// Its first member is broken off while orders are on the stage, and it judges itself what a reader of committed data finds.
/// With periodic commits it fails with an order that is there twice.
#[test]
fn the_enrichment_example_sends_each_order_once_over_a_crash() {
    let cluster = Cluster::start();
    let output = Command::new(command::enrichment())
        .args(["--brokers", cluster.bootstrap()])
        .output()
        .expect("it was built a moment ago");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert!(said.contains("Broken off"), "{said}");
    assert!(said.contains("Read: 19800 orders"), "{said}");
}
