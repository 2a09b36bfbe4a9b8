//! Somebody beside a group: what the coordinator takes from a stranger, and what becomes of `keyway group` when
//! transactions are open, commits move, or nobody answers.

use std::time::{Duration, Instant};

use keyway::group::{Group, GroupError, OpenTransactions, Rewrite};
use keyway_tests::cluster::{Cluster, Config};
use keyway_tests::wait;
use keyway_tests::world::{Protocol, World};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, Producer as _};
use rdkafka::types::RDKafkaErrorCode;
use serde_json::json;

use crate::SOON;
use crate::group::{built_before_time_counts, group, group_of, live_with_a_hole, partitions};

/// A producer that has sent `offset` for partition 0 in a transaction, in the name of nobody; it is not ended.
fn open_transaction(world: &World<'_>, offset: i64) -> BaseProducer {
    let producer: BaseProducer = world
        .client()
        .set("transactional.id", world.cluster.unique("open"))
        .create()
        .expect("a producer");
    producer
        .init_transactions(SOON)
        .expect("a transactional id of our own");
    producer.begin_transaction().expect("it is initialised");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&world.topic, 0, rdkafka::Offset::Offset(offset))
        .expect("an offset");
    let outsider: BaseConsumer = world
        .client()
        .set("group.id", &world.group)
        .create()
        .expect("a consumer");
    let nobody = outsider.group_metadata().expect("it has a group");
    producer
        .send_offsets_to_transaction(&list, &nobody, SOON)
        .expect("the coordinator takes them");
    producer
}

/// A member that joins between the command's question and its commit is safe, too. (A commit inside a transaction
/// is another matter: `docs/decisions/0005-facts-about-librdkafka.md`.)
#[test]
fn the_coordinator_refuses_the_commit_of_a_stranger_while_there_are_members() {
    for protocol in Protocol::ALL {
        let (world, member) = live_with_a_hole(protocol);
        let stranger = world
            .cluster
            .commit_as_other_program(&world.group, &world.topic, 0, 1, b"");
        assert_eq!(
            stranger,
            Err(RDKafkaErrorCode::UnknownMemberId),
            "{protocol:?}"
        );
        assert_eq!(world.committed_holes(), [(3, 1)], "{protocol:?}");
        world.heal();
        world.until_finished(10);
        member.end();
    }
}

#[test]
fn the_coordinator_takes_the_transaction_of_a_stranger_all_the_same() {
    for protocol in Protocol::ALL {
        let (world, member) = live_with_a_hole(protocol);
        open_transaction(&world, 2)
            .commit_transaction(SOON)
            .expect("a healthy coordinator");
        assert_eq!(world.committed()[0].offset, 2, "{protocol:?}");
        world.heal();
        world.until_finished(10);
        member.end();
    }
}

#[test]
fn a_commit_that_has_moved_since_it_was_read_is_not_rewritten() {
    let world = World::new(2);
    let commit = |partition, offset, text: &[u8]| {
        world
            .cluster
            .commit_as_other_program(&world.group, &world.topic, partition, offset, text)
            .expect("the group has no members");
    };
    commit(0, 3, b"one");
    commit(1, 3, b"two");
    let mut client = world.client();
    client.set("group.id", &world.group);
    let group = Group::open(&client, SOON, OpenTransactions::WaitFor)
        .expect("these properties can be used");
    let changes: Vec<Rewrite> = group
        .commits()
        .expect("the broker answers")
        .into_iter()
        .map(|(partition, seen)| {
            Rewrite::text(partition, seen.expect("a commit"), "new".to_owned())
        })
        .collect();
    for (offset, text) in [(4, &b"two"[..]), (3, b"other")] {
        commit(1, offset, text);
        match group.rewrite(&changes) {
            Err(GroupError::Moved { partition }) => assert_eq!(partition.partition, 1),
            other => panic!("{other:?}"),
        }
        let texts: Vec<_> = world
            .committed()
            .into_iter()
            .map(|at| at.metadata)
            .collect();
        assert_eq!(texts, [b"one", text], "nothing was written");
    }
    commit(1, 3, b"two");
    assert_eq!(group.rewrite(&changes), Ok(vec![Ok(()), Ok(())]));
    assert!(world.committed().iter().all(|at| at.metadata == b"new"));
}

#[test]
fn under_an_open_transaction_what_was_committed_before_is_shown_and_not_rewritten() {
    let world = World::new(2);
    world.fill(20, 20);
    let commits = [(0, 1, &b"WAABYQ=="[..]), (1, 1, b"WAABYQ==")];
    world
        .cluster
        .commit_all_as_other_program(&world.group, &world.topic, &commits)
        .expect("the group has no members");
    let producer = open_transaction(&world, 2);

    let shown = group(&world, "inspect", &[]);
    let offsets: Vec<_> = partitions(&shown)
        .iter()
        .map(|partition| &partition["committed"])
        .collect();
    assert_eq!((shown.code, offsets), (0, vec![&json!(1); 2]), "{shown:?}");
    let refused = group(&world, "scrub", &["--yes", "--timeout", "2s"]);
    assert_eq!(
        (refused.code, &refused.json["error"]["name"]),
        (1, &json!("no_answer"))
    );
    assert!(refused.said.contains("transactions"), "{refused:?}");

    producer
        .abort_transaction(SOON)
        .expect("a healthy coordinator");
    let done = group(&world, "scrub", &["--yes"]);
    assert_eq!(
        (done.code, &done.json["changed"]),
        (0, &json!(2)),
        "{done:?}"
    );
}

#[test]
fn a_broker_that_does_not_answer_is_told_in_time() {
    built_before_time_counts();
    let cluster = Cluster::with(Config::default());
    let topic = cluster.unique("topic");
    cluster.create_topic(&topic, 1, &[]);
    cluster
        .commit_as_other_program("g", &topic, 0, 1, b"")
        .expect("the group has no members");
    cluster.pause_node(1);
    for verb in ["inspect", "scrub"] {
        let begin = Instant::now();
        let failed = group_of(&cluster, "g", verb, &["--timeout", "2s"]);
        assert_eq!(failed.code, 1, "{failed:?}");
        assert_eq!(failed.json["error"]["name"], "no_answer", "{failed:?}");
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "{:?}",
            begin.elapsed()
        );
    }
    cluster.resume_node(1);
}

/// The client is destroyed after each of its requests has timed out, which must not end the process
/// (`docs/decisions/0005-facts-about-librdkafka.md`).
#[test]
fn a_client_whose_requests_timed_out_ends_in_peace() {
    let cluster = Cluster::with(Config::default());
    let topic = cluster.unique("topic");
    cluster.create_topic(&topic, 1, &[]);
    cluster
        .commit_as_other_program("g", &topic, 0, 1, b"")
        .expect("the group has no members");
    let mut client = cluster.client();
    client.set("group.id", "g");
    let groups: Vec<Group> = (0..4)
        .map(|_| {
            Group::open(&client, Duration::from_secs(1), OpenTransactions::WaitFor)
                .expect("these properties can be used")
        })
        .collect();
    for group in &groups {
        group.state().expect("the broker answers");
    }
    let commits = groups[0].commits().expect("the broker answers");
    let partitions: Vec<_> = commits.into_iter().map(|(at, _)| at).collect();
    cluster.pause_node(1);
    let timed_out = |error: GroupError| assert_eq!(error.name(), "no_answer", "{error}");
    timed_out(groups[0].state().expect_err("the broker is paused"));
    timed_out(groups[1].commits().expect_err("the broker is paused"));
    timed_out(
        groups[2]
            .log_ends(&partitions)
            .expect_err("the broker is paused"),
    );
    timed_out(
        groups[3]
            .ensure_stopped()
            .expect_err("the broker is paused"),
    );
    drop(groups);
    cluster.resume_node(1);
    let group = Group::open(&client, SOON, OpenTransactions::WaitFor)
        .expect("these properties can be used");
    wait::until("the broker answers again", SOON, || group.state().ok());
}
