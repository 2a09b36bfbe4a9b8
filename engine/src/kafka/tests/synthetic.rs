//! Records that no broker sent. Nothing here calls librdkafka, so that miri can run it.

use super::*;
use crate::kafka::{RecordParts, Timestamp};

fn parts() -> RecordParts {
    RecordParts {
        key: Some(b"k".to_vec()),
        value: Some(b"value".to_vec()),
        timestamp: Some(Timestamp::Appended(42)),
        headers: vec![
            (b"a".to_vec(), Some(b"1".to_vec())),
            (b"\xff".to_vec(), None),
            (b"a".to_vec(), None),
        ],
        leader_epoch: Some(3),
        ..RecordParts::new(TOPIC, 2, 99)
    }
}

#[test]
fn a_synthetic_record_reads_like_a_received_one() {
    let record = NativeRecord::made(parts());
    assert_eq!(
        (record.topic_name(), record.partition(), record.offset()),
        (TOPIC, 2, 99)
    );
    assert_eq!(
        (record.key(), record.value()),
        (Some(&b"k"[..]), Some(&b"value"[..]))
    );
    assert_eq!(record.timestamp(), Some(Timestamp::Appended(42)));
    assert_eq!(record.leader_epoch(), Some(3));
    assert_eq!(record.payload_bytes(), 6, "without headers");
}

#[test]
fn null_and_empty_are_different() {
    let record = NativeRecord::made(RecordParts {
        value: Some(Vec::new()),
        ..RecordParts::new(TOPIC, 0, 0)
    });
    assert_eq!((record.key(), record.value()), (None, Some(&b""[..])));
}

#[test]
fn headers_are_read_in_order_whatever_their_names() {
    let record = NativeRecord::made(parts());
    assert_eq!(
        headers(&record),
        [(&b"a"[..], Some(&b"1"[..])), (b"\xff", None), (b"a", None)]
    );
}

#[test]
fn synthetic_records_of_one_topic_share_a_token_and_move_between_threads() {
    let topic: std::sync::Arc<str> = TOPIC.into();
    let record = |partition| NativeRecord::made(RecordParts::new(topic.clone(), partition, 0));
    let (a, b, other) = (record(0), record(0), record(1));
    assert_eq!(a.partition_token(), b.partition_token());
    assert_ne!(a.partition_token(), other.partition_token());
    std::thread::spawn(move || drop((a, b)))
        .join()
        .expect("no panic");
}
