//! Topics: they grow, appear, have routes of their own; and keys that are none.

use std::sync::{Arc, Mutex};

use keyway::{Record, Route};
use keyway_tests::cluster;
use keyway_tests::event_log::Kind;
use keyway_tests::world::{CLEAN, Protocol, World};

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
    let topics: std::collections::BTreeSet<_> = world.seen(|seen| {
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
