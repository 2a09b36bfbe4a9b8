//! What the commits of each program carry beside offset and text. The facts stand in
//! `docs/decisions/0002-what-commits-carry.md`; these tests say when they change.

use std::time::Duration;

use keyway_tests::cluster::set_leader_epoch;
use keyway_tests::peer::{Peer, Until};
use keyway_tests::wait;
use keyway_tests::world::World;
use rdkafka::Message as _;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, Producer as _};
use rdkafka::{Offset, TopicPartitionList};

const SOON: Duration = Duration::from_secs(30);

#[test]
fn javas_commits_carry_no_leader_epoch() {
    for mode in ["PERIODIC_CONSUMER_SYNC", "PERIODIC_CONSUMER_ASYNCHRONOUS"] {
        let world = World::new(1);
        world.fill(10, 10);
        let peer = Peer::new(world.cluster, &world.group, &world.topic).commit_mode(mode);
        peer.hold(0, 3).run(Until::Processed(9));
        let committed = world.committed();
        assert_eq!(
            (committed[0].offset, committed[0].leader_epoch),
            (3, None),
            "{mode}"
        );
    }
}

#[test]
fn keyways_commits_carry_it() {
    let world = World::new(1);
    world.fill(10, 10);
    world.fail(|_, offset| offset == 3);
    let member = world.member("m").start();
    world.until_finished(9);
    member.end();
    let committed = world.committed();
    assert_eq!(
        (committed[0].offset, committed[0].leader_epoch),
        (3, Some(0))
    );
}

#[test]
fn a_transactional_commit_carries_the_text_and_the_leader_epoch_that_its_list_has() {
    for epoch in [None, Some(0)] {
        let world = World::new(1);
        world.fill(10, 10);
        commit_in_transaction(&world, epoch);
        let committed = world.committed();
        assert_eq!(
            (committed[0].offset, &committed[0].metadata[..]),
            (1, &b"text"[..])
        );
        assert_eq!(committed[0].leader_epoch, epoch);
    }
}

/// A member of the group commits offset 1 with a text through a transactional producer.
fn commit_in_transaction(world: &World<'_>, epoch: Option<i32>) {
    let consumer: BaseConsumer = world
        .client()
        .set("group.id", &world.group)
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "earliest")
        .create()
        .expect("a consumer");
    consumer.subscribe(&[&world.topic]).expect("a topic's name");
    let first = wait::until("the first record", SOON, || {
        consumer
            .poll(Duration::from_millis(100))
            .and_then(Result::ok)
    });
    assert_eq!(first.offset(), 0);
    let producer: BaseProducer = world
        .client()
        .set("transactional.id", world.cluster.unique("carried"))
        .create()
        .expect("a producer");
    producer
        .init_transactions(SOON)
        .expect("a transactional id of our own");
    producer.begin_transaction().expect("it is initialised");
    let mut list = TopicPartitionList::new();
    let mut entry = list.add_partition(&world.topic, 0);
    entry.set_offset(Offset::Offset(1)).expect("an offset");
    entry.set_metadata("text");
    if let Some(epoch) = epoch {
        set_leader_epoch(&mut list, epoch);
    }
    let group = consumer.group_metadata().expect("it is a member");
    producer
        .send_offsets_to_transaction(&list, &group, SOON)
        .expect("a member's offsets");
    producer
        .commit_transaction(SOON)
        .expect("a healthy coordinator");
}
