//! What the cluster is asked.

use super::*;
use crate::kafka::close::CloseState;
use crate::kafka::{ClientError, DeniedWhat, LogRange};

#[test]
fn the_range_of_each_log_is_told() {
    let broker = broker(3);
    broker.produce_numbered(TOPIC, 1, 0, 12).expect("produced");
    let member = Member::reading(&broker);
    let ranges = member
        .group
        .log_range(&[tp(1), tp(0)], PATIENCE)
        .expect("an answer");
    assert_eq!(
        ranges,
        [
            (tp(1), Ok(LogRange { start: 0, end: 12 })),
            (tp(0), Ok(LogRange { start: 0, end: 0 }))
        ]
    );
}

#[test]
fn a_thousand_partitions_are_asked_at_once() {
    let broker = broker(1_000);
    let member = Member::open(&properties(&broker));
    let partitions: Vec<_> = (0..1_000).map(tp).collect();
    let ranges = member
        .group
        .log_range(&partitions, PATIENCE)
        .expect("an answer");
    assert_eq!(ranges.len(), 1_000);
    assert!(
        ranges
            .iter()
            .all(|(_, range)| *range == Ok(LogRange { start: 0, end: 0 }))
    );
    let committed = member
        .group
        .committed(&partitions, PATIENCE)
        .expect("an answer");
    assert!(
        committed
            .iter()
            .all(|(_, c)| c.as_ref().is_ok_and(|c| c.offset.is_none()))
    );
}

#[test]
fn a_topic_that_is_not_there_is_an_error_of_its_own() {
    let broker = broker(1);
    let mut config = properties(&broker);
    config.set("allow.auto.create.topics", "false");
    let member = Member::open(&config);
    let missing = TopicPartition::new(TOPIC, 77);
    let ranges = member.group.log_range(&[missing, tp(0)], PATIENCE);
    let told = match &ranges {
        Ok(ranges) => matches!(
            &ranges[0].1,
            Err(ClientError::Denied {
                what: DeniedWhat::MissingTopic(_),
                ..
            })
        ),
        Err(error) => matches!(error, ClientError::Denied { .. }),
    };
    assert!(told, "{ranges:?}");
}

#[test]
fn questions_after_the_end_are_refused() {
    let broker = broker(1);
    let member = Member::reading(&broker);
    let (group, watch) = (member.group.clone(), member.source.close_watch());
    drop(member);
    watch.wait(PATIENCE);
    assert_eq!(
        group.committed(&[tp(0)], PATIENCE),
        Err(ClientError::Closed)
    );
    assert_eq!(
        group.log_range(&[tp(0)], PATIENCE),
        Err(ClientError::Closed)
    );
    assert_eq!(group.member(), None);
}

#[test]
fn questions_that_run_out_of_time_leave_nothing_behind() {
    let broker = broker(3);
    let member = Member::reading(&broker);
    let watch = member.source.close_watch();
    broker.broker_down(1).expect("down");
    let partitions = [tp(0), tp(1), tp(2)];
    let soon = Duration::from_millis(50);
    for _ in 0..3 {
        let ranges = member.group.log_range(&partitions, soon);
        assert!(failed(&ranges), "{ranges:?}");
        assert!(failed(&member.group.offsets_for_time(&partitions, 1, soon)));
        assert!(member.group.committed(&partitions, soon).is_err());
    }
    // Also when the broker is back, and the answers come too late.
    broker
        .set_round_trip(1, Duration::from_millis(300))
        .expect("slow");
    broker.broker_up(1).expect("up");
    for _ in 0..3 {
        drop(member.group.log_range(&partitions, soon));
        drop(member.group.committed(&partitions, soon));
    }
    drop(member);
    assert_eq!(watch.wait(PATIENCE), CloseState::Closed);
}

#[test]
fn the_first_record_after_a_time_is_found_or_not_there() {
    let broker = broker(1);
    broker.produce_numbered(TOPIC, 0, 0, 3).expect("produced");
    let member = Member::reading(&broker);
    let never = member
        .group
        .offsets_for_time(&[tp(0)], i64::MAX, PATIENCE)
        .expect("an answer");
    let always = member
        .group
        .offsets_for_time(&[tp(0)], 1, PATIENCE)
        .expect("an answer");
    // The mock does not know times; it has to be an answer, not an error.
    assert!(
        never[0].1.is_ok() && always[0].1.is_ok(),
        "{never:?} {always:?}"
    );
}

/// As a whole, or in every partition.
fn failed<T>(answer: &Result<crate::kafka::group::PerPartition<T>, ClientError>) -> bool {
    answer
        .as_ref()
        .map_or(true, |all| all.iter().all(|(_, one)| one.is_err()))
}
