//! The other implementation by itself: what it leaves in a group is what Keyway's codecs read.

use std::time::Duration;

use keyway_offsets::{DEFAULT_MAX_WINDOW, Offset, OffsetRange};
use keyway_tests::cluster::{Cluster, Committed};
use keyway_tests::peer::{Peer, Until};

#[test]
fn java_leaves_holes_that_keyway_reads_and_finishes_them_when_it_runs_again() {
    let cluster = Cluster::start();
    let (group, topic) = (cluster.unique("group"), cluster.unique("topic"));
    cluster.create_topic(&topic, 2, &[]);
    cluster.produce(
        &topic,
        (0..20).map(|n: i32| (Some(n % 2), Some(format!("key-{n}")), "value")),
    );

    let holding = Peer::new(cluster, &group, &topic)
        .hold(0, 3)
        .hold(0, 7)
        .hold(1, 0);
    let report = holding.run(Until::Processed(17));
    assert_eq!(report.processed.len(), 17, "{}", report.output);

    let committed = cluster.committed(&group, &topic);
    assert_eq!(
        committed
            .iter()
            .map(|at| (at.partition, at.offset))
            .collect::<Vec<_>>(),
        [(0, 3), (1, 0)]
    );
    assert_eq!(holes(&committed[0]), [single(3), single(7)]);
    assert_eq!(holes(&committed[1]), [single(0)]);

    let rest = Peer::new(cluster, &group, &topic).run(Until::Idle(Duration::from_secs(2)));
    let mut finished: Vec<_> = rest
        .processed
        .iter()
        .map(|record| (record.partition, record.offset))
        .collect();
    finished.sort_unstable();
    assert_eq!(finished, [(0, 3), (0, 7), (1, 0)], "{}", rest.output);
    assert_eq!(
        cluster.committed(&group, &topic),
        [caught_up(0), caught_up(1)]
    );
}

#[test]
fn java_stops_when_asked_and_its_keys_come_back() {
    let cluster = Cluster::start();
    let (group, topic) = (cluster.unique("group"), cluster.unique("topic"));
    cluster.create_topic(&topic, 1, &[]);
    cluster.produce(
        &topic,
        [(Some(0), Some("k"), "value"), (Some(0), None, "value")],
    );

    let mut peer = Peer::new(cluster, &group, &topic).start(Until::Asked);
    peer.wait_for(2);
    let mut keys: Vec<_> = peer
        .stop()
        .processed
        .into_iter()
        .map(|record| record.key)
        .collect();
    keys.sort();
    assert_eq!(keys, [None, Some(b"k".to_vec())]);
    assert_eq!(
        cluster.end_offsets(&topic),
        [cluster.committed(&group, &topic)[0].offset]
    );
}

fn holes(committed: &Committed) -> Vec<OffsetRange> {
    let base = offset(committed.offset);
    let decoded = keyway_offsets::decode(base, &committed.metadata, DEFAULT_MAX_WINDOW);
    decoded
        .unwrap_or_else(|error| panic!("{committed:?}: {error}"))
        .map
        .holes()
        .to_vec()
}

fn single(at: i64) -> OffsetRange {
    OffsetRange::single(offset(at))
}

fn offset(at: i64) -> Offset {
    Offset::new(at).expect("offsets are not negative")
}

fn caught_up(partition: i32) -> Committed {
    Committed {
        partition,
        offset: 10,
        metadata: Vec::new(),
        leader_epoch: None,
    }
}
