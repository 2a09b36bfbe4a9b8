//! What the engine itself writes: bytes as they were given, and a report for each message.

use super::*;
use crate::kafka::mock::{MockFault, MockRequest};
use crate::kafka::{ClientError, Outgoing, Producer, ProducerEvent};

fn producer(broker: &MockBroker) -> Producer {
    Producer::open(&properties(broker), false).expect("a producer")
}

/// Waits for the report of each of so many messages.
fn reports(producer: &Producer, count: usize) -> Vec<(u64, Result<(), ClientError>)> {
    let deadline = Instant::now() + PATIENCE;
    let mut reports = Vec::new();
    while reports.len() < count {
        assert!(Instant::now() < deadline, "there are {reports:?}");
        let events = producer.poll(Duration::from_millis(50));
        reports.extend(events.into_iter().filter_map(|event| match event {
            ProducerEvent::Delivered { number, result } => {
                Some((number, result.map_err(|failure| failure.error)))
            }
            ProducerEvent::TokenRefresh => None,
        }));
    }
    reports
}

fn message<'m>(value: Option<&'m [u8]>, headers: &'m [NamedValue<'m>]) -> Outgoing<'m> {
    Outgoing {
        topic: TOPIC,
        partition: None,
        key: None,
        value,
        headers,
        timestamp: None,
    }
}

#[test]
fn what_is_written_is_read_as_it_was_names_that_are_no_text_included() {
    let broker = broker(1);
    let producer = producer(&broker);
    let headers: [NamedValue<'_>; 5] = [
        (b"b", Some(b"1")),
        (b"\xff", Some(b"no text")),
        (b"b", None),
        (b"", Some(b"")),
        (b"b", Some(b"\x00")),
    ];
    let written = Outgoing {
        key: Some(b""),
        ..message(None, &headers)
    };
    producer.produce(&written, 7).expect("taken");
    producer
        .produce(&message(Some(b""), &[]), u64::MAX)
        .expect("taken");
    let mut reported: Vec<_> = reports(&producer, 2)
        .into_iter()
        .map(|(number, result)| (number, result.is_ok()))
        .collect();
    reported.sort_unstable();
    assert_eq!(reported, [(7, true), (u64::MAX, true)]);
    let mut member = Member::reading(&broker);
    member.until_records(2);
    let of = |record: &NativeRecord| {
        (
            record.key().map(<[u8]>::to_vec),
            record.value().map(<[u8]>::to_vec),
        )
    };
    let read: Vec<_> = member.records.iter().map(of).collect();
    assert!(read.contains(&(Some(Vec::new()), None)), "{read:?}");
    assert!(read.contains(&(None, Some(Vec::new()))), "{read:?}");
    let with_headers = member
        .records
        .iter()
        .find(|record| record.key().is_some())
        .expect("it was read");
    assert_eq!(self::headers(with_headers), headers);
}

/// A fact about librdkafka, which gives a name without its length: what is behind a NUL is there, and can't be had.
#[test]
fn a_headers_name_is_read_up_to_its_first_nul() {
    let broker = broker(1);
    let producer = producer(&broker);
    let headers: [NamedValue<'_>; 2] = [(b"a\0b", Some(b"1")), (b"\0", None)];
    producer
        .produce(&message(Some(b""), &headers), 7)
        .expect("taken");
    assert!(reports(&producer, 1)[0].1.is_ok());
    let mut member = Member::reading(&broker);
    member.until_records(1);
    let read = self::headers(&member.records[0]);
    assert_eq!(read, [(&b"a"[..], Some(&b"1"[..])), (b"", None)]);
}

#[test]
fn each_message_is_judged_by_itself() {
    let broker = broker(1);
    let producer = producer(&broker);
    broker.fail_requests(MockRequest::Produce, &[MockFault::MessageTooLarge]);
    producer
        .produce(&message(Some(b"1"), &[]), 1)
        .expect("taken");
    let refused = reports(&producer, 1);
    let (1, Err(error)) = &refused[0] else {
        panic!("{refused:?}");
    };
    assert_eq!(
        error.code().map(|code| code.name.as_str()),
        Some("MSG_SIZE_TOO_LARGE")
    );
    producer
        .produce(&message(Some(b"2"), &[]), 2)
        .expect("taken");
    assert!(matches!(reports(&producer, 1)[..], [(2, Ok(()))]));
    assert!(producer.fatal().is_none());
}

#[test]
fn with_messages_on_their_way_and_no_broker_it_ends_within_moments() {
    let broker = broker(1);
    let producer = producer(&broker);
    producer
        .produce(&message(Some(b"1"), &[]), 1)
        .expect("taken");
    reports(&producer, 1);
    broker.broker_down(1).expect("a broker");
    producer
        .produce(&message(Some(b"2"), &[]), 2)
        .expect("taken");
    let begun = Instant::now();
    producer.close();
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_producer_takes_over_the_brokers_and_rights_of_its_member_and_what_is_a_producers() {
    let mut member = ClientConfig::new();
    for (property, value) in [
        ("bootstrap.servers", "b:9092"),
        ("security.protocol", "ssl"),
        ("ssl.ca.location", "/ca"),
        ("client.id", "billing"),
        ("compression.codec", "zstd"),
        ("partitioner", "consistent"),
        ("group.id", "g"),
        ("session.timeout.ms", "6000"),
        ("fetch.queue.backoff.ms", "0"),
        ("enable.partition.eof", "true"),
        ("acks", "0"),
        ("transactional.id", "x"),
    ] {
        member.set(property, value);
    }
    let config = crate::kafka::config::producer_config(&member);
    for (property, value) in [
        ("bootstrap.servers", Some("b:9092")),
        ("security.protocol", Some("ssl")),
        ("ssl.ca.location", Some("/ca")),
        ("client.id", Some("billing")),
        ("compression.codec", Some("zstd")),
        ("partitioner", Some("consistent")),
        ("enable.idempotence", Some("true")),
        ("message.timeout.ms", Some("30000")),
        ("group.id", None),
        ("session.timeout.ms", None),
        ("fetch.queue.backoff.ms", None),
        ("enable.partition.eof", None),
        ("acks", None),
        ("transactional.id", None),
    ] {
        assert_eq!(config.get(property), value, "{property}");
    }
}
