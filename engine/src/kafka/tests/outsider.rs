//! A client beside a group.

use super::*;
use crate::kafka::{CommitOffset, Committed, Outsider};

fn outsider(config: &ClientConfig) -> Outsider {
    Outsider::open(config, true)
        .expect("these properties can be used")
        .expect("librdkafka takes them")
}

#[test]
fn it_sees_every_partition_and_commits_without_joining() {
    let broker = broker(3);
    broker.create_topic("another", 1).expect("created");
    broker.produce_numbered(TOPIC, 1, 0, 12).expect("produced");
    let outsider = outsider(&properties(&broker));
    let partitions = outsider.partitions(PATIENCE).expect("an answer");
    assert_eq!(
        partitions,
        [TopicPartition::new("another", 0), tp(0), tp(1), tp(2)]
    );
    let offsets = [CommitOffset {
        tp: tp(1),
        offset: 5,
        leader_epoch: None,
        metadata: "text",
    }];
    assert_eq!(outsider.commit(&offsets, PATIENCE), Ok(Some(Ok(()))));
    let committed = outsider
        .committed(&[tp(0), tp(1)], PATIENCE)
        .expect("an answer");
    let of = |offset, metadata: &[u8]| {
        Ok(Committed {
            offset,
            // The mock broker answers one whatever was committed.
            leader_epoch: Some(0),
            metadata: metadata.to_vec(),
        })
    };
    assert_eq!(
        committed,
        [(tp(0), of(None, b"")), (tp(1), of(Some(5), b"text"))]
    );
    let ends = outsider.log_ends(&[tp(1)], PATIENCE).expect("an answer");
    let offsets: Vec<_> = ends
        .into_iter()
        .map(|(tp, end)| (tp, end.map(|(offset, _)| offset)))
        .collect();
    assert_eq!(offsets, [(tp(1), Ok(12))]);
}

/// With the ends taken first it fails: what came in one go with the end of its partition is missing.
#[test]
fn records_that_come_together_with_the_end_of_their_partition_are_read() {
    const ROUNDS: usize = 20;
    const PARTITIONS: i32 = 4;
    const COUNT: u64 = 10;
    let broker = broker(PARTITIONS);
    for number in 0..COUNT {
        // One by one, so that they are fetched one by one, and ends come while others are still under way.
        for partition in 0..PARTITIONS {
            broker
                .produce_numbered(TOPIC, partition, number, 1)
                .expect("produced");
        }
    }
    let partitions: Vec<_> = (0..PARTITIONS).map(tp).collect();
    for round in 0..ROUNDS {
        let outsider = outsider(&properties(&broker));
        let ranges = outsider
            .log_ranges(&partitions, PATIENCE)
            .expect("an answer");
        let ranges: Vec<_> = ranges
            .into_iter()
            .map(|(tp, range)| (tp, range.expect("a range")))
            .collect();
        let mut reading = outsider.read(&ranges).expect("it can be read");
        let mut read = 0;
        loop {
            let records = reading.next(PATIENCE).expect("records");
            if records.is_empty() {
                break;
            }
            read += records.len() as u64;
        }
        assert_eq!(read, COUNT * PARTITIONS as u64, "round {round}");
    }
}

#[test]
fn what_a_broker_does_not_know_is_an_error_and_not_an_empty_group() {
    let broker = broker(1);
    let described = outsider(&properties(&broker)).describe(PATIENCE);
    assert!(described.is_err(), "{described:?}");
}

#[test]
fn nobody_waits_for_its_end() {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", "127.0.0.1:1")
        .set("group.id", "g");
    let outsider = outsider(&config);
    let asked = Instant::now();
    assert!(outsider.partitions(Duration::from_millis(200)).is_err());
    let trouble = outsider.last_trouble().expect("it was refused");
    assert!(trouble.contains("Connection refused"), "{trouble}");
    drop(outsider);
    assert!(asked.elapsed() < PATIENCE, "{:?}", asked.elapsed());
}
