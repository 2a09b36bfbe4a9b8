//! Records, the events between them, and the bytes they count for.

use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::kafka::{ClientError, Timestamp};

#[test]
fn a_record_is_two_words() {
    assert_eq!(size_of::<NativeRecord>(), 16);
    assert_eq!(size_of::<Option<NativeRecord>>(), 16);
}

#[test]
fn a_record_gives_what_was_produced() {
    let broker = broker(2);
    broker
        .produce(TOPIC, 1, b"key", b"value")
        .expect("produced");
    let mut member = Member::reading(&broker);
    member.until_records(1);

    let record = &member.records[0];
    assert_eq!(
        (record.topic_name(), record.partition(), record.offset()),
        (TOPIC, 1, 0)
    );
    assert_eq!(
        (record.key(), record.value()),
        (Some(&b"key"[..]), Some(&b"value"[..]))
    );
    assert_eq!(record.payload_bytes(), 8);
    assert!(
        matches!(record.timestamp(), Some(Timestamp::Created(millis)) if millis > 1_500_000_000_000)
    );
    assert_eq!(headers(record), []);
}

#[test]
fn headers_keep_their_order_and_duplicates_and_may_be_read_by_many_threads() {
    let broker = broker(1);
    let written: [(&str, Option<&[u8]>); 4] = [
        ("b", Some(b"1")),
        ("a", None),
        ("b", Some(b"")),
        ("a", Some(b"\xff")),
    ];
    for _ in 0..50 {
        broker
            .produce_with_headers(TOPIC, 0, b"v", &written)
            .expect("produced");
    }
    let mut member = Member::reading(&broker);
    member.until_records(50);

    let written = written.map(|(name, value)| (name.as_bytes(), value));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for record in &member.records {
                    assert_eq!(headers(record), written);
                }
            });
        }
    });
    assert_eq!(member.records[0].key(), None);
}

#[test]
fn tokens_tell_partitions_apart() {
    let broker = broker(2);
    for number in 0..4 {
        broker
            .produce(TOPIC, number % 2, b"k", b"v")
            .expect("produced");
    }
    let mut member = Member::reading(&broker);
    member.until_records(4);
    for (a, b) in member
        .records
        .iter()
        .flat_map(|a| member.records.iter().map(move |b| (a, b)))
    {
        assert_eq!(
            a.partition_token() == b.partition_token(),
            a.partition() == b.partition()
        );
    }
}

#[test]
fn the_end_of_a_partition_is_an_event_with_the_position() {
    let broker = broker(1);
    broker.produce_numbered(TOPIC, 0, 0, 7).expect("produced");
    let mut member = Member::reading(&broker);
    member.until("the end", |member| {
        member.events.contains(&SourceEvent::EndOfPartition {
            tp: tp(0),
            offset: 7,
        })
    });
    assert_eq!(member.offsets(0), (0..7).collect::<Vec<_>>());
}

#[test]
fn no_record_is_lost_when_callbacks_run_in_the_middle_of_batches() {
    let broker = broker(1);
    const COUNT: u64 = 30_000;
    broker
        .produce_numbered(TOPIC, 0, 0, COUNT)
        .expect("produced");
    // A statistics callback each millisecond, each of which asks the queue to yield.
    let mut config = properties(&broker);
    config.set("statistics.interval.ms", "1");
    let mut member = Member::open(&config);
    member.take_assignment(|_| 0);
    member.until_records(COUNT as usize);
    assert!(
        member.offsets(0).into_iter().eq(0..COUNT as i64),
        "a gap, or out of order"
    );
}

#[test]
fn fetched_bytes_are_the_bytes_of_keys_and_values() {
    let broker = broker(2);
    broker
        .produce_numbered(TOPIC, 0, 0, 1_000)
        .expect("produced");
    broker
        .produce_with_headers(TOPIC, 1, b"12345", &[("name", Some(b"value"))])
        .expect("produced");
    let mut config = properties(&broker);
    config.set("statistics.interval.ms", "20");
    let mut member = Member::open(&config);
    member.take_assignment(|_| 0);
    member.until_records(1_001);
    let read: usize = member.records.iter().map(NativeRecord::payload_bytes).sum();
    assert_eq!(read, 2 * (10 + 90 * 2 + 900 * 3) + 5);

    // Polls go on for some reports: headers never show up in the sum.
    let later = Instant::now() + Duration::from_millis(200);
    member.until("reports", |_| Instant::now() >= later);
    assert_eq!(member.source.fetched_bytes(), read as u64);

    // What is fetched a second time counts again, and then only statistics can tell.
    member
        .source
        .seek(&[Start {
            tp: tp(0),
            offset: 990,
            leader_epoch: None,
        }])
        .expect("seek");
    member.until("the statistics of the second fetch", |member| {
        member.source.fetched_bytes() > read as u64
    });
}

#[test]
fn a_waker_ends_a_poll_from_another_thread() {
    let broker = broker(1);
    let mut member = Member::reading(&broker);
    member.until("the end", |member| !member.events.is_empty());
    let waker = member.waker.clone();
    for before in [true, false] {
        let waking = thread::spawn({
            let waker = waker.clone();
            move || waker.wake()
        });
        if before {
            waking.join().expect("woken");
        }
        let began = Instant::now();
        member.source.poll(100, PATIENCE * 4, &mut member.records);
        assert!(began.elapsed() < PATIENCE, "slept through it");
    }
    drop(member);
    waker.wake();
}

#[test]
fn a_paused_partition_delivers_nothing_until_it_is_resumed() {
    let broker = broker(2);
    let mut member = Member::reading(&broker);
    member.until("both ends", |member| member.events.len() >= 2);
    member.source.pause(&[tp(0)]).expect("paused");
    broker.produce_numbered(TOPIC, 0, 0, 10).expect("produced");
    broker.produce_numbered(TOPIC, 1, 0, 10).expect("produced");
    member.until("the other partition", |member| {
        member.offsets(1).len() == 10
    });
    // Another round of fetches: what is produced now comes, and still nothing of the paused one.
    broker.produce_numbered(TOPIC, 1, 10, 10).expect("produced");
    member.until("the other partition again", |member| {
        member.offsets(1).len() == 20
    });
    assert!(member.offsets(0).is_empty());
    member.source.resume(&[tp(0)]).expect("resumed");
    member.until("the resumed one", |member| member.offsets(0).len() == 10);
    assert_eq!(member.offsets(0), (0..10).collect::<Vec<_>>());
}

// librdkafka keeps a pause over a rebalance. Without its end when the partition goes it fails with no record after the
// return.
#[test]
fn a_partition_that_was_paused_when_it_went_is_read_when_it_comes_back() {
    let broker = broker(1);
    broker.produce_numbered(TOPIC, 0, 0, 10).expect("produced");
    let mut member = Member::reading(&broker);
    member.until_records(10);
    member.source.pause(&[tp(0)]).expect("paused");
    member.source.unassign(&[tp(0)]).expect("given back");
    let start = Start {
        tp: tp(0),
        offset: 0,
        leader_epoch: None,
    };
    member.source.assign(&[start]).expect("assigned");
    member.until("the records once more", |member| {
        member.offsets(0).len() == 20
    });
}

#[test]
fn after_a_seek_nothing_from_before_it_is_delivered() {
    let broker = broker(1);
    broker
        .produce_numbered(TOPIC, 0, 0, 5_000)
        .expect("produced");
    let mut member = Member::reading(&broker);
    member.until("a first record", |member| {
        member
            .source
            .poll(1, Duration::from_millis(50), &mut member.records);
        !member.records.is_empty()
    });
    member.records.clear();
    member
        .source
        .seek(&[Start {
            tp: tp(0),
            offset: 4_000,
            leader_epoch: None,
        }])
        .expect("seek");
    member.until_records(1_000);
    assert_eq!(member.offsets(0), (4_000..5_000).collect::<Vec<_>>());
}

/// Polls from offset 0 until one poll has brought all ten records and the end behind them.
fn ten_and_their_end(member: &mut Member) {
    let start = Start {
        tp: tp(0),
        offset: 0,
        leader_epoch: None,
    };
    let mut wait = Duration::from_millis(10);
    member.until("ten records and their end in one poll", |member| {
        member
            .source
            .seek(std::slice::from_ref(&start))
            .expect("seek");
        while member.source.next_event().is_some() {}
        member.records.clear();
        // The longer it is not polled, the more is there.
        thread::sleep(wait);
        wait *= 2;
        member
            .source
            .poll(1_000, Duration::from_millis(50), &mut member.records);
        member.records.len() == 10 && member.source.has_events()
    });
}

/// With the end of the same poll left among the events it fails with an end before the records; without the move back
/// with the records from 4 on missing.
#[test]
fn what_is_given_back_is_delivered_again_before_the_end_behind_it_is_told() {
    let broker = broker(1);
    broker.produce_numbered(TOPIC, 0, 0, 10).expect("produced");
    for paused in [false, true] {
        let mut member = Member::reading(&broker);
        ten_and_their_end(&mut member);
        member.source.give_back(&tp(0), 4);
        member.records.clear();
        if paused {
            member.source.pause(&[tp(0)]).expect("paused");
            member.poll();
            member.poll();
            assert!(member.records.is_empty() && member.events.is_empty());
            member.source.resume(&[tp(0)]).expect("resumed");
        }
        assert_eq!(member.source.next_event(), None);
        member.until("the end once more", |member| {
            assert!(member.events.is_empty() || member.records.len() == 6);
            !member.events.is_empty()
        });
        assert_eq!(member.offsets(0), (4..10).collect::<Vec<_>>());
    }
}

/// librdkafka pauses for a rebalance, and goes back to where it has delivered to. Without the move of what is owed it fails
/// with the records from 4 on missing.
#[test]
fn what_is_given_back_in_a_rebalance_is_delivered_again_after_it() {
    let broker = broker(2);
    broker.produce_numbered(TOPIC, 0, 0, 10).expect("produced");
    let mut config = properties(&broker);
    config.set("partition.assignment.strategy", "cooperative-sticky");
    let mut member = Member::open(&config);
    member.take_assignment(|_| 0);
    ten_and_their_end(&mut member);
    member.source.give_back(&tp(0), 4);
    member.records.clear();
    member.source.unassign(&[tp(1)]).expect("one goes");
    let start = Start {
        tp: tp(1),
        offset: 0,
        leader_epoch: None,
    };
    member.source.assign(&[start]).expect("it comes back");
    member.until_records(6);
    assert_eq!(member.offsets(0), (4..10).collect::<Vec<_>>());
}

#[test]
fn an_offset_that_is_not_there_is_an_event_and_a_seek_goes_on() {
    let broker = broker(1);
    broker.produce_numbered(TOPIC, 0, 0, 5).expect("produced");
    let mut member = Member::open(&properties(&broker));
    member.take_assignment(|_| 500);
    let mut error = None;
    member.until("out of range", |member| {
        error = member.events.iter().find_map(|event| match event {
            SourceEvent::OffsetOutOfRange { tp, offset, error } if *tp == super::tp(0) => {
                Some((*offset, error.clone()))
            }
            _ => None,
        });
        error.is_some()
    });
    let (offset, error) = error.expect("until it was there");
    assert_eq!(offset, 500);
    assert_eq!(
        error.code().map(|code| code.name.as_str()),
        Some("_AUTO_OFFSET_RESET")
    );
    member
        .source
        .seek(&[Start {
            tp: tp(0),
            offset: 3,
            leader_epoch: None,
        }])
        .expect("seek");
    member.until_records(2);
    assert_eq!(member.offsets(0), [3, 4]);
}

/// librdkafka steps one past an end by itself when it pauses for a rebalance, and the fetch may be out before the source
/// has moved it back. Without `Positions::overshot` the event comes, for which the engine restores the partition anew and
/// repeats what it has not committed.
#[test]
fn a_fetch_past_an_end_that_nobody_asked_for_is_no_event() {
    let broker = broker(1);
    broker.produce_numbered(TOPIC, 0, 0, 5).expect("produced");
    let mut member = Member::reading(&broker);
    member.until("the end", |member| !member.events.is_empty());
    member.events.clear();
    member.source.step_past(&tp(0), 6).expect("a step too far");
    member.until("the end again", |member| !member.events.is_empty());
    broker.produce_numbered(TOPIC, 0, 5, 3).expect("produced");
    member.until_records(8);
    assert_eq!(member.offsets(0), (0..8).collect::<Vec<_>>());
    let is_end = |event: &SourceEvent| matches!(event, SourceEvent::EndOfPartition { .. });
    assert!(member.events.iter().all(is_end), "{:?}", member.events);
}

#[test]
fn a_broker_that_is_away_is_a_transient_error() {
    let broker = broker(1);
    let mut member = Member::reading(&broker);
    broker.broker_down(1).expect("down");
    member.until("an error", |member| {
        member
            .events
            .iter()
            .any(|event| matches!(event, SourceEvent::Error(ClientError::Transient { .. })))
    });
    broker.broker_up(1).expect("up");
    broker.produce_numbered(TOPIC, 0, 0, 1).expect("produced");
    member.until_records(1);
}
