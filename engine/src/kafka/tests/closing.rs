//! The end: records outlive the source, and nobody waits.

use std::sync::mpsc;
use std::thread;

use super::*;
use crate::kafka::close::CloseState;
use crate::kafka::{LeaveOutcome, StaticMember};

/// Much less than any timeout of librdkafka, much more than a busy machine needs.
const AT_ONCE: Duration = Duration::from_secs(2);

#[test]
fn records_outlive_the_source_and_are_counted() {
    let broker = broker(1);
    broker.produce_numbered(TOPIC, 0, 0, 100).expect("produced");
    let mut member = Member::reading(&broker);
    member.until_records(100);
    assert_eq!(member.source.live_records(), 100);
    member.records.truncate(60);
    assert_eq!(member.source.live_records(), 60);

    let Member {
        source,
        group,
        records,
        ..
    } = member;
    let watch = source.close_watch();
    drop(source);
    assert_eq!(watch.wait(Duration::from_millis(300)), CloseState::Closing);
    for (number, record) in records.iter().enumerate() {
        assert_eq!(record.value(), Some(number.to_string().as_bytes()));
    }
    assert_eq!(group.live_records(), 60);
    drop(records);
    assert_eq!(watch.wait(PATIENCE), CloseState::Closed);
}

#[test]
fn the_last_record_may_be_dropped_on_another_thread() {
    let broker = broker(1);
    broker
        .produce_numbered(TOPIC, 0, 0, 1_000)
        .expect("produced");
    let mut member = Member::reading(&broker);
    member.until_records(1_000);
    let Member {
        source, records, ..
    } = member;
    let watch = source.close_watch();
    let (go, wait) = mpsc::channel::<()>();
    let holder = thread::spawn(move || {
        wait.recv().expect("told to go on");
        let bytes: usize = records
            .iter()
            .filter_map(NativeRecord::value)
            .map(<[u8]>::len)
            .sum();
        drop(records);
        bytes
    });
    let began = Instant::now();
    drop(source);
    assert!(began.elapsed() < AT_ONCE);
    assert_eq!(watch.state(), CloseState::Closing);
    go.send(()).expect("the holder lives");
    assert_eq!(holder.join().expect("no panic"), 10 + 180 + 2_700);
    assert_eq!(watch.wait(PATIENCE), CloseState::Closed);
}

#[test]
fn records_that_outlive_the_bound_stay_readable() {
    let broker = broker(1);
    broker.produce_numbered(TOPIC, 0, 0, 1).expect("produced");
    let mut member = Member::open_with(&properties(&broker), |config| {
        config.close_bound = Duration::from_millis(50);
    });
    member.take_assignment(|_| 0);
    member.until_records(1);
    let Member {
        source, records, ..
    } = member;
    let watch = source.close_watch();
    drop(source);
    assert_eq!(watch.wait(PATIENCE), CloseState::Leaked);
    assert_eq!(records[0].value(), Some(&b"0"[..]));
    drop(records);
    assert_eq!(watch.state(), CloseState::Leaked);
}

#[test]
fn dropping_never_waits_for_a_broker_that_is_dead() {
    let broker = broker(1);
    let member = Member::reading(&broker);
    let watch = member.source.close_watch();
    broker.broker_down(1).expect("down");
    let began = Instant::now();
    drop(member);
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert_eq!(watch.wait(PATIENCE), CloseState::Closed);
}

#[test]
fn dropping_in_the_middle_of_a_rebalance_does_not_hang() {
    let broker = broker(1);
    for strategy in ["range", "cooperative-sticky"] {
        let mut config = properties(&broker);
        config
            .set("partition.assignment.strategy", strategy)
            .set("group.id", strategy);
        let mut member = Member::open(&config);
        member.assignment();
        let watch = member.source.close_watch();
        let began = Instant::now();
        drop(member);
        assert!(began.elapsed() < AT_ONCE);
        assert_eq!(watch.wait(PATIENCE), CloseState::Closed, "{strategy}");
    }
}

#[test]
fn dropping_before_any_broker_was_reached_does_not_hang() {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", "127.0.0.1:1")
        .set("group.id", "g");
    let mut member = Member::open(&config);
    member.poll();
    let watch = member.source.close_watch();
    let began = Instant::now();
    drop(member);
    assert!(began.elapsed() < AT_ONCE);
    assert_eq!(watch.wait(PATIENCE), CloseState::Closed);
}

#[test]
fn leaving_in_order_gives_everything_back() {
    for (strategy, instance, statics) in [
        ("range", None, StaticMember::Stays),
        ("cooperative-sticky", None, StaticMember::Leaves),
        ("range", Some("i"), StaticMember::Leaves),
        ("cooperative-sticky", Some("i"), StaticMember::Stays),
    ] {
        let broker = broker(2);
        broker.produce_numbered(TOPIC, 0, 0, 100).expect("produced");
        let mut config = properties(&broker);
        config.set("partition.assignment.strategy", strategy);
        if let Some(instance) = instance {
            config.set("group.instance.id", instance);
        }
        let mut member = Member::open(&config);
        member.take_assignment(|_| 0);
        member.until_records(1);
        let Member {
            source,
            group,
            records,
            ..
        } = member;
        let watch = source.close_watch();
        let outcome = source.leave(Instant::now() + PATIENCE, statics);
        assert_eq!(outcome, LeaveOutcome::Left, "{strategy} {instance:?}");
        assert_eq!(group.member(), None);
        drop(records);
        assert_eq!(watch.wait(PATIENCE), CloseState::Closed);
    }
}

#[test]
fn leaving_ends_at_its_deadline_when_the_broker_is_dead() {
    let broker = broker(1);
    let member = Member::reading(&broker);
    broker.broker_down(1).expect("down");
    let Member { source, .. } = member;
    let watch = source.close_watch();
    let began = Instant::now();
    source.leave(began + Duration::from_millis(200), StaticMember::Stays);
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert_eq!(watch.wait(PATIENCE), CloseState::Closed);
}

#[test]
fn a_source_that_can_not_be_opened_frees_its_client() {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", "127.0.0.1:1")
        .set("group.id", "g")
        .set("no.such.property", "1");
    let prepared = prepare(&config, Prefetch::default()).expect("the checks don't know it");
    let opened = Source::open(&SourceConfig::new(prepared.client, vec![TOPIC.to_owned()]));
    let error = opened
        .map(drop)
        .expect_err("librdkafka knows its properties");
    assert!(error.to_string().contains("no.such.property"), "{error}");
}
