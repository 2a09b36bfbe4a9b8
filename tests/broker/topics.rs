//! Topics: they grow, appear, have routes of their own; and keys that are none.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use keyway::{NotReady, Record, Route, Status};
use keyway_tests::cluster;
use keyway_tests::event_log::Kind;
use keyway_tests::wait;
use keyway_tests::world::{CLEAN, PATIENCE, Protocol, World};

#[test]
fn partitions_added_while_it_runs_are_picked_up() {
    for protocol in [Protocol::Cooperative, Protocol::Consumer] {
        let world = World::new(1);
        world.fill(100, 10);
        let member = world.member("m").protocol(protocol).start();
        world.until_finished(100);
        world.cluster.add_partitions(&world.topic, 3);
        // Before the member knows of them: from the earliest record on means from the earliest.
        world.fill(300, 30);
        world.until_finished(400);
        member.end();
        world.judge(&CLEAN);
        assert_eq!(
            world.seen(|seen| seen.count(Kind::Revoked, "m")),
            3,
            "at the end, not before"
        );
    }
}

#[test]
fn a_topic_that_a_pattern_matches_is_picked_up_when_it_appears() {
    let world = World::new(1);
    world.fill(10, 10);
    let pattern = format!("{}(-more)?", world.topic);
    let member = world
        .member("m")
        .topics(&[])
        .with(move |builder| builder.topic_pattern(&pattern))
        .start();
    world.until_finished(10);
    let (more, other) = (
        format!("{}-more", world.topic),
        format!("{}-more-of-it", world.topic),
    );
    for topic in [&other, &more] {
        world.cluster.create_topic(topic, 1, &[]);
        world.cluster.produce(
            topic,
            (0..10).map(|n| (Some(0), Some(format!("key-{n}")), "value")),
        );
    }
    world.until_finished(20);
    member.end();
    let topics: BTreeSet<_> = world.seen(|seen| {
        seen.events()
            .iter()
            .map(|event| event.topic.clone())
            .collect()
    });
    assert!(
        topics.contains(&more) && !topics.contains(&other),
        "{topics:?}"
    );
    assert_eq!(world.cluster.committed(&world.group, &more)[0].offset, 10);
}

#[test]
fn a_topic_has_its_own_handler_and_concurrency() {
    let world = World::new(1);
    world.fill(20, 20);
    let special = world.cluster.unique("special");
    world.cluster.create_topic(&special, 1, &[]);
    world.cluster.produce(
        &special,
        (0..20).map(|n| (Some(0), Some(format!("key-{n}")), "value")),
    );
    let by_own: Arc<Mutex<Vec<String>>> = Arc::default();
    let (own, seen) = (special.clone(), Arc::clone(&by_own));
    let for_own = move |record: &Record| seen.lock().expect("lock").push(record.topic().to_owned());
    // The default route's only call never returns: the other topic has workers of its own.
    world.hold(|_, _| true);
    let member = world
        .member("m")
        .with(move |builder| {
            builder
                .topic(&own, Route::handler(for_own).concurrency(1))
                .concurrency(1)
        })
        .start();
    world.until_finished(20);
    assert_eq!(*by_own.lock().expect("lock"), vec![special.clone(); 20]);
    world.release();
    world.until_finished(40);
    member.end();
    assert_eq!(by_own.lock().expect("lock").len(), 20);
    assert_eq!(world.committed_holes(), [(20, 0)]);
    assert_eq!(
        world.cluster.committed(&world.group, &special)[0].offset,
        20
    );
}

#[test]
fn records_without_a_key_have_no_order_and_the_empty_key_is_one() {
    let world = World::new(2);
    let record = |partition, key: Option<&[u8]>| cluster::Record {
        partition: Some(partition),
        key: key.map(<[u8]>::to_vec),
        ..cluster::Record::default()
    };
    let (keyless, empty) = (record(0, None), record(1, Some(b"")));
    world.produce((0..50).map(|_| keyless.clone()));
    world.produce((0..50).map(|_| empty.clone()));
    world.hold(|_, offset| offset == 0);
    let member = world.member("m").start();
    world.until("all of the records without a key but the first", |seen| {
        seen.finished() == 49
    });
    assert_eq!(
        world.seen(|seen| seen.highest_started(1)),
        Some(0),
        "the empty key waits"
    );
    world.release();
    world.until_finished(100);
    member.end();
    world.judge(&CLEAN);
    let keys = world.seen(|seen| {
        let starts = seen
            .events()
            .iter()
            .filter(|event| event.kind == Kind::Start);
        starts
            .filter(|event| event.key.as_deref() == Some(&b""[..]))
            .count()
    });
    assert_eq!(keys, 50);
}

#[test]
fn a_null_value_is_not_the_empty_value() {
    let world = World::new(1);
    let value = |value: Option<&[u8]>| cluster::Record {
        partition: Some(0),
        key: Some(b"key".to_vec()),
        value: value.map(<[u8]>::to_vec),
        ..cluster::Record::default()
    };
    world.produce([value(None), value(Some(b"")), value(Some(b"v"))]);
    let seen: Arc<Mutex<Vec<Option<Vec<u8>>>>> = Arc::default();
    let values = Arc::clone(&seen);
    let member = world
        .member("m")
        .with(move |builder| {
            builder.handler(move |record: &Record| {
                values
                    .lock()
                    .expect("lock")
                    .push(record.value().map(<[u8]>::to_vec));
            })
        })
        .start();
    world.until_finished(3);
    member.end();
    assert_eq!(
        *seen.lock().expect("lock"),
        [None, Some(Vec::new()), Some(b"v".to_vec())]
    );
}

/// How long a topic is there, and gone, in turn: once for longer than anything may wait for it.
const LIVES: [Duration; 4] = [
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(2),
    Duration::from_secs(2),
];

/// The longest time in which neither of the topics that stay has a commit: a rebalance for the topic that comes or goes,
/// on a machine with much else to do.
const WITHOUT_A_COMMIT: Duration = Duration::from_secs(8);

/// With a revoke that waits until also what is denied is committed it fails with 10 s without one.
#[test]
fn a_topic_that_comes_and_goes_holds_up_no_other() {
    for protocol in [Protocol::Range, Protocol::Consumer] {
        let world = World::new(2);
        let [other, fickle] = ["other", "fickle"].map(|name| world.cluster.unique(name));
        for topic in [&other, &fickle] {
            world.cluster.create_topic(topic, 2, &[]);
        }
        // Something of it is under way when it goes, whose commit nobody takes.
        world.work(Duration::from_millis(100));
        let member = world
            .member("m")
            .protocol(protocol)
            .topics(&[&world.topic, &other, &fickle])
            .property("topic.metadata.refresh.interval.ms", "500")
            .start();
        member.until_assigned(6);
        let began = Instant::now();
        let (mut last, mut longest) = ([(0, began); 2], Duration::ZERO);
        let mut exists = true;
        let (mut changes, mut changed) = (0, began);
        while changes < LIVES.len() {
            for topic in [&world.topic, &other] {
                let record = |n: i32| (Some(n % 2), Some(format!("key-{n}")), "value");
                world.cluster.produce(topic, (0..4).map(record));
            }
            for (last, topic) in last.iter_mut().zip([&world.topic, &other]) {
                let committed = world.cluster.committed(&world.group, topic);
                let sum = committed.iter().map(|part| part.offset).sum::<i64>();
                if sum > last.0 {
                    longest = longest.max(last.1.elapsed());
                    *last = (sum, Instant::now());
                } else {
                    longest = longest.max(last.1.elapsed());
                }
            }
            if changed.elapsed() >= LIVES[changes] {
                if exists {
                    let record = |_| (Some(0), Some("key"), "value");
                    world.cluster.produce(&fickle, (0..20).map(record));
                    world.cluster.delete_topic(&fickle);
                } else {
                    world.cluster.create_topic(&fickle, 2, &[]);
                }
                exists = !exists;
                changes += 1;
                changed = Instant::now();
            }
        }
        assert!(
            longest < WITHOUT_A_COMMIT,
            "{protocol:?}: {longest:?} without a commit; {:#?}",
            member.status()
        );
        drop(member);
    }
}

/// A topic with 20 records, read and committed, is made anew with `records` others; `noticed` waits until the member knows
/// that the old one is gone.
fn made_anew(protocol: Protocol, records: usize, noticed: bool) {
    let world = World::new(1);
    let values: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&values);
    let member = world
        .member("m")
        .protocol(protocol)
        .property("topic.metadata.refresh.interval.ms", "500")
        .with(move |builder| {
            builder.handler(move |record: &Record| {
                let value = String::from_utf8_lossy(record.value().unwrap_or_default());
                seen.lock().expect("lock").push(value.into_owned());
            })
        })
        .start();
    let fill = |life: &str, records: usize| {
        let record = |n: usize| (Some(0), Some("key"), format!("{life}-{n}"));
        world
            .cluster
            .produce(&world.topic, (0..records).map(record));
    };
    fill("old", 20);
    member.until_completed(20);
    member.until("all committed, and the topic's id", |status| {
        let settled = |part: &keyway::PartitionStatus| !part.uncommitted && part.identified;
        status.partitions.iter().all(settled)
    });
    world.cluster.delete_topic(&world.topic);
    if noticed {
        member.until("the loss of the topic", |status| !status.health.is_ready());
    }
    world.cluster.create_topic(&world.topic, 1, &[]);
    fill("new", records);
    let of_new = || {
        let values = values.lock().expect("lock");
        let new = values.iter().filter(|value| value.starts_with("new"));
        new.cloned().collect::<Vec<_>>()
    };
    let made: BTreeSet<_> = (0..records).map(|n| format!("new-{n}")).collect();
    let is_all = || of_new().into_iter().collect::<BTreeSet<_>>() == made;
    let all = wait::try_until(PATIENCE, || is_all().then_some(()));
    assert!(
        all.is_some(),
        "{protocol:?}: {:?} {:?}\n{}",
        of_new(),
        member.status(),
        world.seen(|seen| seen.to_string())
    );
    if noticed {
        assert_eq!(of_new().len(), records, "{protocol:?}: once");
    }
    member.until("readiness", |status| status.health.is_ready());
    member.end();
    assert_eq!(world.committed_holes(), [(records as i64, 0)]);
}

#[test]
fn a_topic_that_is_made_anew_is_read_from_its_beginning() {
    for protocol in [Protocol::Range, Protocol::Cooperative, Protocol::Consumer] {
        made_anew(protocol, 10, true);
    }
}

/// The member reads on where it stood: of a shorter log that is not there, of a longer one it is. Without the look at the
/// topic's id the first 20 records of the longer one are never read.
#[test]
fn a_topic_that_is_made_anew_unnoticed_is_read_from_its_beginning() {
    for protocol in [Protocol::Range, Protocol::Consumer] {
        for records in [10, 40] {
            made_anew(protocol, records, false);
        }
    }
}

/// Without `Denials::note` it does not show.
#[test]
fn a_topic_that_does_not_exist_shows_until_it_is_made() {
    for protocol in [Protocol::Range, Protocol::Consumer] {
        let world = World::new(1);
        let later = world.cluster.unique("later");
        world.fill(10, 5);
        let member = world
            .member("m")
            .protocol(protocol)
            .topics(&[&world.topic, &later])
            .start();
        world.until_finished(10);
        let shows = |status: &Status| {
            let names_it = |why: &NotReady| {
                matches!(why, NotReady::Denied { error, .. }
                if error.to_string().contains(&later))
            };
            status.health.not_ready.iter().any(names_it)
        };
        member.until("the missing topic", shows);
        world.cluster.create_topic(&later, 1, &[]);
        world
            .cluster
            .produce(&later, [(Some(0), Some("key"), "value")]);
        world.until_finished(11);
        member.until("readiness", |status| status.health.is_ready());
        member.end();
    }
}
