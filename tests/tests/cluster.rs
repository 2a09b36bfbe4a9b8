//! The harness itself: each way to a cluster that is possible here comes up and does what the tests rely on.
//!
//! The way that this machine can't go is named as missing instead; with neither the tests fail.

use std::iter;

use keyway_tests::cluster::{Cluster, Committed, Config, Produced, Record, Way};
use rdkafka::types::RDKafkaErrorCode;

#[test]
fn a_docker_engine_gives_a_cluster() {
    a_cluster_does_what_tests_rely_on(Way::Docker, Way::Process);
}

#[test]
fn a_jdk_and_maven_give_a_cluster() {
    a_cluster_does_what_tests_rely_on(Way::Process, Way::Docker);
}

/// `other` has to be possible where `way` is not: a machine with neither must not pass.
fn a_cluster_does_what_tests_rely_on(way: Way, other: Way) {
    if let Err(missing) = way.possible() {
        other
            .possible()
            .unwrap_or_else(|also| panic!("neither {way} ({missing}) nor {other} ({also})"));
        eprintln!("{way} is not possible here: {missing}");
        return;
    }
    let cluster = Cluster::by(
        way,
        Config {
            properties: &[("offsets.topic.num.partitions", "1")],
            ..Config::default()
        },
    );
    assert_eq!(cluster.way(), way);
    records_come_back_with_keys_headers_and_tombstones(&cluster);
    transactions_leave_markers_and_aborted_records_behind(&cluster);
    deleted_records_move_the_start_of_the_log(&cluster);
    metadata_of_4096_characters_is_stored_and_4097_refused(&cluster);
    metadata_is_text_to_the_broker(&cluster);
    a_killed_node_comes_back_at_the_same_address(&cluster);
}

fn records_come_back_with_keys_headers_and_tombstones(cluster: &Cluster) {
    let topic = cluster.unique("records");
    cluster.create_topic(&topic, 2, &[("cleanup.policy", "compact")]);
    let placed = cluster.produce(
        &topic,
        (0..10).map(|n: i32| (Some(n % 2), Some(format!("key-{n}")), format!("{n}"))),
    );
    assert_eq!(
        placed,
        (0..10)
            .map(|n| Produced {
                partition: n % 2,
                offset: i64::from(n / 2)
            })
            .collect::<Vec<_>>()
    );

    let tombstone = Record {
        partition: Some(1),
        key: Some(Vec::new()),
        ..Record::default()
    };
    cluster.produce(
        &topic,
        [tombstone.header("h", Some(b"\xff")).header("h", None)],
    );
    assert_eq!(cluster.end_offsets(&topic), [5, 6]);

    let read = cluster.read(&topic);
    assert_eq!(read.len(), 11);
    let last = read
        .iter()
        .find(|record| (record.partition, record.offset) == (1, 5))
        .expect("it was produced");
    assert_eq!(
        (last.key.as_deref(), last.value.as_deref()),
        (Some(&b""[..]), None)
    );
    assert_eq!(
        last.headers,
        [("h".to_owned(), Some(vec![0xff])), ("h".to_owned(), None)]
    );
}

fn transactions_leave_markers_and_aborted_records_behind(cluster: &Cluster) {
    let topic = cluster.unique("transactions");
    cluster.create_topic(&topic, 1, &[]);
    let one = |value: &'static str| [(Some(0), Some("key"), value)];
    cluster.produce_transaction(&topic, one("aborted"), false);
    let committed = cluster.produce_transaction(&topic, one("committed"), true);
    assert_eq!(
        committed,
        [Produced {
            partition: 0,
            offset: 2
        }],
        "an aborted record and its marker lie before it"
    );
    assert_eq!(
        cluster.end_offsets(&topic),
        [4],
        "the last offset is a marker"
    );
    let values: Vec<_> = cluster
        .read(&topic)
        .into_iter()
        .map(|record| record.value)
        .collect();
    assert_eq!(values, [Some(b"committed".to_vec())]);
}

fn deleted_records_move_the_start_of_the_log(cluster: &Cluster) {
    let topic = cluster.unique("deleted");
    cluster.create_topic(&topic, 1, &[]);
    cluster.produce(
        &topic,
        (0..10).map(|n: i32| (Some(0), Some("key"), n.to_string())),
    );
    cluster.delete_records(&topic, 0, 7);
    assert_eq!(
        (cluster.start_offsets(&topic), cluster.end_offsets(&topic)),
        (vec![7], vec![10])
    );
}

fn metadata_of_4096_characters_is_stored_and_4097_refused(cluster: &Cluster) {
    let (group, topic) = (cluster.unique("group"), cluster.unique("metadata"));
    cluster.create_topic(&topic, 2, &[]);
    assert_eq!(cluster.committed(&group, &topic), []);
    // The limit counts characters, not bytes: these take three bytes each.
    let text = |characters| {
        iter::repeat_n('\u{4e00}', characters)
            .collect::<String>()
            .into_bytes()
    };
    let commit = |metadata: &[u8]| cluster.commit_as_other_program(&group, &topic, 1, 42, metadata);
    assert_eq!(
        commit(&text(4097)),
        Err(RDKafkaErrorCode::OffsetMetadataTooLarge)
    );
    assert_eq!(cluster.committed(&group, &topic), []);
    assert_eq!(commit(&text(4096)), Ok(()));
    assert_eq!(
        cluster.committed(&group, &topic),
        [Committed {
            partition: 1,
            offset: 42,
            metadata: text(4096)
        }]
    );
}

/// So a reader of real commits sees U+FFFD where another program wrote bytes that are not UTF-8.
fn metadata_is_text_to_the_broker(cluster: &Cluster) {
    let (group, topic) = (cluster.unique("group"), cluster.unique("bytes"));
    cluster.create_topic(&topic, 1, &[]);
    cluster
        .commit_as_other_program(&group, &topic, 0, 1, b"\xff\xfe\0ok")
        .expect("the broker takes any bytes");
    let stored = cluster.committed(&group, &topic);
    assert_eq!(
        stored,
        [Committed {
            partition: 0,
            offset: 1,
            metadata: "\u{fffd}\u{fffd}\0ok".into()
        }]
    );
}

fn a_killed_node_comes_back_at_the_same_address(cluster: &Cluster) {
    let topic = cluster.unique("restart");
    cluster.create_topic(&topic, 1, &[]);
    cluster.produce(&topic, [(Some(0), Some("key"), "before")]);
    cluster.kill_node(1);
    cluster.start_node(1);
    cluster.produce(&topic, [(Some(0), Some("key"), "after")]);
    cluster.pause_node(1);
    cluster.resume_node(1);
    assert_eq!(cluster.end_offsets(&topic), [2]);
}
