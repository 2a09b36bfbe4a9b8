//! What riders promise, at the pace of a test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::TestEngine;
use crate::{
    Assigned, BuildError, Builder, ClientConfig, CommitMode, Keyway, Outcome, Record, Rider,
    RiderContext, RiderReason, RiderState,
};

const SECOND: Duration = Duration::from_secs(1);

fn wish() -> Builder {
    Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["t"])
        .handler(|_: &Record| ())
}

fn engine(builder: Builder) -> TestEngine {
    TestEngine::new(builder).expect("a configuration that is right")
}

fn rider(engine: &TestEngine, partition: i32) -> Rider {
    engine.committed("t", partition).expect("a commit").rider
}

fn present(bytes: &[u8]) -> Rider {
    Rider::Present(bytes.to_vec())
}

/// Kept by what is called and looked at by the test.
type Seen<T> = Arc<Mutex<Vec<T>>>;

fn seen<T: Clone>(seen: &Seen<T>) -> Vec<T> {
    seen.lock().expect("lock").clone()
}

/// A supplier that keeps what it is asked and says what it is told.
fn supplier(
    answer: impl Fn(&RiderContext) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> (Builder, Seen<RiderContext>) {
    let asked: Seen<RiderContext> = Arc::default();
    let sink = Arc::clone(&asked);
    let builder = wish().rider(move |context| {
        sink.lock().expect("lock").push(context.clone());
        answer(context)
    });
    (builder, asked)
}

// ---- a supplier ----

#[test]
fn a_supplier_is_asked_once_for_each_partition_of_a_commit_with_its_offset() {
    let (builder, asked) = supplier(|context| Some(context.offset.to_be_bytes().to_vec()));
    let mut engine = engine(builder);
    engine
        .feed("t", 0, "k", "v")
        .feed("t", 0, "k", "v")
        .feed("t", 1, "k", "v");
    engine.run().advance(SECOND);
    assert_eq!(rider(&engine, 0), present(&2_i64.to_be_bytes()));
    assert_eq!(rider(&engine, 1), present(&1_i64.to_be_bytes()));
    let of_last: Vec<RiderContext> = seen(&asked)
        .into_iter()
        .filter(|context| context.offset > 0)
        .collect();
    assert_eq!(of_last.len(), 2, "{of_last:?}");
    let first = &of_last[0];
    assert_eq!(
        (&*first.partition.topic, first.partition.partition),
        ("t", 0)
    );
    assert_eq!((first.max_bytes, first.guaranteed_bytes), (3_069, 765));
    assert_eq!(first.reason, RiderReason::Periodic);
}

#[test]
fn the_reason_says_why_and_every_kind_of_commit_carries_the_rider() {
    let (builder, asked) = supplier(|context| Some(format!("{:?}", context.reason).into_bytes()));
    let builder = builder
        .commit_interval(60 * SECOND)
        .rider_refresh(100 * SECOND);
    let mut engine = engine(builder);
    for partition in 0..2 {
        engine.feed("t", partition, "k", "v");
    }
    engine.run().advance(61 * SECOND);
    assert_eq!(rider(&engine, 0), present(b"Periodic"));
    engine.advance(40 * SECOND);
    assert_eq!(rider(&engine, 0), present(b"Refresh"));
    // The first of these is due at once, the others within the minute.
    engine.feed("t", 0, "k", "v").feed("t", 1, "k", "v").run();
    engine.feed("t", 0, "k", "v").feed("t", 1, "k", "v").run();
    engine.revoke("t", 0);
    assert_eq!(rider(&engine, 0), present(b"Revoke"));
    engine.stop(SECOND).expect("an orderly end");
    assert_eq!(rider(&engine, 1), present(b"Shutdown"));
    assert!(
        seen(&asked)
            .iter()
            .all(|context| context.guaranteed_bytes == 765)
    );
}

#[test]
fn a_synchronous_commit_carries_the_rider() {
    let (builder, _) = supplier(|context| Some(context.offset.to_be_bytes().to_vec()));
    let mut engine = engine(builder.commit_mode(CommitMode::Synchronous));
    engine.feed("t", 0, "k", "v").run();
    assert_eq!(rider(&engine, 0), present(&1_i64.to_be_bytes()));
}

#[test]
fn what_a_supplier_can_not_give_costs_the_rider_and_nothing_else() {
    type Answer = fn(&RiderContext) -> Option<Vec<u8>>;
    let answers: [(&str, Answer, Rider); 6] = [
        ("panics", |_| panic!("no rider today"), Rider::Dropped),
        ("is empty", |_| Some(vec![]), Rider::Dropped),
        (
            "is too long",
            |context| Some(vec![1; context.max_bytes + 1]),
            Rider::Dropped,
        ),
        (
            "is far too long",
            |_| Some(vec![1; 1 << 20]),
            Rider::Dropped,
        ),
        ("says none", |_| None, Rider::None),
        (
            "just fits",
            |context| Some(vec![1; context.max_bytes]),
            Rider::Present(vec![1; 3_069]),
        ),
    ];
    for (what, answer, expected) in answers {
        // Partition 1's supplier is well.
        let (builder, _) = supplier(move |context| match context.partition.partition {
            0 => answer(context),
            _ => Some(b"well".to_vec()),
        });
        let mut engine = engine(builder);
        engine.feed("t", 0, "k", "v").feed("t", 1, "k", "v");
        engine.run().advance(SECOND);
        assert_eq!(rider(&engine, 0), expected, "{what}");
        assert_eq!(rider(&engine, 1), present(b"well"), "{what}");
        let commit = engine.committed("t", 0).expect("a commit");
        assert_eq!(commit.offset, 1, "{what}");
    }
}

#[test]
fn an_idle_partition_is_committed_anew_only_when_its_rider_is_another() {
    let value = Arc::new(Mutex::new(b"one".to_vec()));
    let source = Arc::clone(&value);
    let (builder, asked) = supplier(move |_| match source.lock().expect("lock").as_slice() {
        b"panic" => panic!("no rider today"),
        bytes => Some(bytes.to_vec()),
    });
    let commits: Seen<(i64, String)> = Arc::default();
    struct Commits(Seen<(i64, String)>);
    impl crate::Observer for Commits {
        fn committed(&self, _: &crate::TopicPartition, offset: i64, metadata: &str) {
            self.0
                .lock()
                .expect("lock")
                .push((offset, metadata.to_owned()));
        }
    }
    let mut engine = engine(
        builder
            .rider_refresh(10 * SECOND)
            .observer(Commits(Arc::clone(&commits))),
    );
    engine.feed("t", 0, "k", "v").run().advance(SECOND);
    let before = seen(&commits).len();
    let calls = seen(&asked).len();
    engine.advance(30 * SECOND);
    assert_eq!(
        seen(&commits).len(),
        before,
        "the same bytes are not written again"
    );
    assert_eq!(seen(&asked).len(), calls + 3);
    *value.lock().expect("lock") = b"two".to_vec();
    engine.advance(10 * SECOND);
    assert_eq!(seen(&commits).len(), before + 1);
    assert_eq!(
        (seen(&commits)[before].0, rider(&engine, 0)),
        (1, present(b"two"))
    );
    // What is there is worth more than a marker at the same offset.
    *value.lock().expect("lock") = b"panic".to_vec();
    engine.advance(10 * SECOND);
    assert_eq!(
        (seen(&commits).len(), rider(&engine, 0)),
        (before + 1, present(b"two"))
    );
}

#[test]
fn a_restart_finds_the_rider_before_any_record_and_writes_it_again_only_if_it_changed() {
    let told: Seen<String> = Arc::default();
    let (first, second) = (Arc::clone(&told), Arc::clone(&told));
    let (builder, _) = supplier(|_| Some(b"kept".to_vec()));
    let builder = builder
        .rider_refresh(10 * SECOND)
        .on_assigned(move |assigned: &Assigned| {
            let line = format!(
                "{} {} {:?}",
                assigned.partition, assigned.offset, assigned.rider
            );
            first.lock().expect("lock").push(line);
        })
        .handler(move |record: &Record| {
            second
                .lock()
                .expect("lock")
                .push(format!("record {}", record.offset()));
        });
    let mut engine = engine(builder);
    engine.feed("t", 0, "k", "v").run().advance(SECOND);
    engine.crash();
    engine.feed("t", 0, "k", "v").run();
    let kept = format!("t-0 1 {:?}", present(b"kept"));
    assert_eq!(seen(&told), ["t-0 0 None", "record 0", &kept, "record 1"]);
}

#[test]
fn a_state_that_can_not_be_made_is_marked_and_the_records_go_on() {
    let lives = Arc::new(Mutex::new(0));
    let life = Arc::clone(&lives);
    let builder = wish()
        .rider_state(move |assigned: &Assigned| {
            *life.lock().expect("lock") += 1;
            match assigned.rider {
                Rider::None => Total(7),
                _ => panic!("no state from {:?}", assigned.rider),
            }
        })
        .handler(|_: &Record| Outcome::done_with(1_u64));
    let mut engine = engine(builder);
    engine.feed("t", 0, "k", "v").run().advance(SECOND);
    assert_eq!(rider(&engine, 0), present(&8_u64.to_be_bytes()));
    engine.crash();
    engine.feed("t", 0, "k", "v").run().advance(SECOND);
    assert_eq!(*lives.lock().expect("lock"), 2);
    assert_eq!(rider(&engine, 0), Rider::Dropped);
    assert_eq!(
        engine.committed("t", 0).expect("a commit").offset,
        2,
        "records go on"
    );
}

// ---- a state ----

/// The sum of what records bring.
#[derive(Clone)]
struct Total(u64);

impl RiderState for Total {
    type Update = u64;

    fn apply(&mut self, update: &u64) {
        self.0 += update;
    }

    fn encode(&self, max_bytes: usize) -> Option<Vec<u8>> {
        assert!(max_bytes > 8, "there is room");
        Some(self.0.to_be_bytes().to_vec())
    }
}

fn restored(assigned: &Assigned) -> Total {
    let bytes = assigned
        .rider
        .bytes()
        .and_then(|bytes| bytes.try_into().ok());
    Total(bytes.map_or(0, u64::from_be_bytes))
}

fn total(engine: &TestEngine) -> u64 {
    match rider(engine, 0) {
        Rider::Present(bytes) => u64::from_be_bytes(bytes.try_into().expect("8 bytes")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_state_counts_each_record_once_over_holes_and_crashes() {
    // Record 0 does not get done in its first life; each record brings a bit of its own.
    let heals = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let healed = Arc::clone(&heals);
    let builder = wish()
        .rider_state(restored)
        .handler(move |record: &Record| {
            match record.offset() == 0 && !healed.load(std::sync::atomic::Ordering::Relaxed) {
                true => Outcome::Retry {
                    after: Some(3_600 * SECOND),
                },
                false => Outcome::done_with(1_u64 << record.offset()),
            }
        });
    let mut engine = engine(builder);
    for key in 0..10 {
        engine.feed("t", 0, key.to_string(), "v");
    }
    engine.run().advance(SECOND);
    assert_eq!(
        total(&engine),
        0b11_1111_1110,
        "all but the first, as the map says"
    );
    assert_eq!(engine.committed("t", 0).expect("a commit").offset, 0);
    // Done, and not committed: it runs again, and counts once.
    engine.feed("t", 0, "10", "v").run();
    engine.crash();
    heals.store(true, std::sync::atomic::Ordering::Relaxed);
    engine.run().advance(SECOND);
    assert_eq!(total(&engine), 0b111_1111_1111);
    assert_eq!(engine.committed("t", 0).expect("a commit").offset, 11);
}

#[test]
fn batches_bring_updates_too() {
    let builder = Keyway::builder(ClientConfig::new())
        .group("g")
        .topics(["t"])
        .batch_handler(|records: Vec<Record>| {
            records
                .iter()
                .map(|record| Outcome::done_with(record.offset() as u64 + 1))
                .collect::<Vec<_>>()
        })
        .rider_state(restored);
    let mut engine = engine(builder);
    for key in 0..4 {
        engine.feed("t", 0, key.to_string(), "v");
    }
    engine.run().advance(SECOND);
    assert_eq!(total(&engine), 1 + 2 + 3 + 4);
}

#[test]
fn a_state_that_gets_an_update_of_another_type_is_lost_and_the_records_are_not() {
    let builder = wish()
        .rider_state(restored)
        .handler(|_: &Record| Outcome::done_with("one"));
    let mut engine = engine(builder);
    engine.feed("t", 0, "k", "v").run().advance(SECOND);
    assert_eq!(rider(&engine, 0), Rider::Dropped);
    assert_eq!(engine.committed("t", 0).expect("a commit").offset, 1);
}

#[test]
fn a_state_never_rides_without_its_map() {
    // The map of what the handler lets through takes more than twelve characters.
    let builder = wish()
        .metadata_limit(12)
        .metadata_threshold(1.0)
        .rider_state(restored)
        .handler(|record: &Record| match record.offset() {
            0 => Outcome::Retry {
                after: Some(3_600 * SECOND),
            },
            _ => Outcome::done_with(1_u64),
        });
    let mut engine = engine(builder);
    for key in 0..100 {
        engine.feed("t", 0, key.to_string(), "v");
    }
    engine.run().advance(SECOND);
    let commit = engine.committed("t", 0).expect("a commit");
    assert_eq!(
        (commit.offset, &commit.rider),
        (0, &Rider::Dropped),
        "{commit:?}"
    );
}

#[test]
fn the_last_commit_asks_for_a_rider_that_changed_while_nothing_else_did() {
    let value = Arc::new(Mutex::new(1_u8));
    let source = Arc::clone(&value);
    let (builder, _) = supplier(move |_| Some(vec![*source.lock().expect("lock")]));
    let mut engine = engine(builder);
    engine
        .feed("t", 0, "k", "v")
        .feed("t", 1, "k", "v")
        .run()
        .advance(SECOND);
    *value.lock().expect("lock") = 2;
    engine.advance(SECOND);
    assert_eq!(rider(&engine, 0), present(&[1]), "nothing to commit");
    engine.revoke("t", 0);
    assert_eq!(rider(&engine, 0), present(&[2]));
    engine.stop(SECOND).expect("an orderly end");
    assert_eq!(rider(&engine, 1), present(&[2]));
}

// ---- configuration ----

#[test]
fn wishes_that_contradict_each_other_are_refused() {
    let refused = |builder: Builder| builder.build().expect_err("refused");
    let both = wish().rider(|_| None).rider_state(restored);
    assert_eq!(refused(both), BuildError::TwoRiders);
    for builder in [wish(), wish().rider_state(restored)] {
        assert_eq!(
            refused(builder.rider_refresh(SECOND)),
            BuildError::RefreshWithoutSupplier
        );
    }
    for builder in [
        wish().rider(|_| None).supplier_timeout(Duration::ZERO),
        wish().rider(|_| None).rider_refresh(Duration::ZERO),
    ] {
        assert!(matches!(refused(builder), BuildError::OutOfRange { .. }));
    }
    assert!(
        wish().rider_refresh(SECOND).rider(|_| None).build().is_ok(),
        "in any order"
    );
}

#[test]
fn without_a_rider_the_text_is_what_it_was() {
    let mut engine = engine(wish().handler(|record: &Record| match record.offset() {
        0 | 3 | 4 => Outcome::Retry {
            after: Some(3_600 * SECOND),
        },
        _ => Outcome::Done,
    }));
    for key in 0..10 {
        engine.feed("t", 0, key.to_string(), "v");
    }
    engine.run().advance(SECOND);
    let commit = engine.committed("t", 0).expect("a commit");
    assert_eq!(
        (commit.metadata.as_str(), commit.rider),
        ("bAAK5gMA", Rider::None)
    );
}
