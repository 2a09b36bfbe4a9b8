//! Rights that are taken away and given back, in a cluster that asks who its clients are.

use std::sync::OnceLock;
use std::time::Duration;

use keyway::{ClientError, DeniedWhat, Health, NotReady, StopReason};
use keyway_tests::cluster::{Cluster, PROTECTED, READER, Resource};
use keyway_tests::wait;
use keyway_tests::world::{CLEAN, Member, PATIENCE, Protocol, World};

/// One for all tests of this file; it ends with the process.
fn cluster() -> &'static Cluster {
    static PROTECTED_ONE: OnceLock<Cluster> = OnceLock::new();
    PROTECTED_ONE.get_or_init(|| Cluster::with(PROTECTED))
}

fn world() -> World<'static> {
    let world = World::on(cluster(), 1, &[]);
    world.cluster.grant(Resource::Topic(&world.topic));
    world.cluster.grant(Resource::Group(&world.group));
    world
}

fn reader(world: &World<'_>, protocol: Protocol) -> Member {
    let member = world.member("m").protocol(protocol);
    let member = READER
        .iter()
        .fold(member, |member, (name, value)| member.property(name, value));
    // A right that was taken away is noticed with the metadata, at the latest.
    member
        .property("topic.metadata.refresh.interval.ms", "500")
        .start()
}

#[track_caller]
fn until_health(member: &Member, what: &str, says: impl Fn(&Health) -> bool) {
    let met = wait::try_until(PATIENCE, || says(&member.health()).then_some(()));
    assert!(
        met.is_some(),
        "waited for {what}: {:#?} {:?}",
        member.health(),
        member.ended()
    );
}

fn is_denied(health: &Health, is: impl Fn(&DeniedWhat) -> bool) -> bool {
    let denied = |why: &NotReady| matches!(why, NotReady::Denied { error: ClientError::Denied { what, .. }, .. } if is(what));
    health.not_ready.iter().any(denied)
}

/// Without `Denials::note` it does not show.
#[test]
fn the_right_to_a_topic_is_taken_away_and_given_back_and_nothing_is_lost() {
    for protocol in [Protocol::Range, Protocol::Consumer] {
        let world = world();
        world.fill(20, 5);
        let member = reader(&world, protocol);
        world.until_finished(20);
        until_health(&member, "readiness", Health::is_ready);

        world.cluster.revoke(Resource::Topic(&world.topic));
        world.fill(20, 5);
        until_health(&member, "the denial", |health| {
            is_denied(health, |what| {
                *what == DeniedWhat::Topic(world.topic.clone())
            })
        });
        // It stays for as long as it holds.
        std::thread::sleep(Duration::from_secs(3));
        assert!(!member.health().is_ready() && member.health().alive);

        world.cluster.grant(Resource::Topic(&world.topic));
        world.until_finished(40);
        until_health(&member, "readiness", Health::is_ready);
        member.end();
        world.judge(&CLEAN);
    }
}

/// With a refused commit taken for stored (`RefusalForgotten`) it waits in vain for readiness: none is made again.
#[test]
fn the_right_to_a_group_is_taken_away_and_given_back_and_nothing_is_lost() {
    let world = world();
    world.fill(20, 5);
    let member = reader(&world, Protocol::Range);
    world.until_finished(20);
    until_health(&member, "readiness", Health::is_ready);

    world.cluster.revoke(Resource::Group(&world.group));
    world.fill(20, 5);
    until_health(&member, "the denial", |health| {
        is_denied(health, |what| *what == DeniedWhat::Group)
            || health
                .not_ready
                .iter()
                .any(|why| why.name() == "commit_denied")
    });
    world.cluster.grant(Resource::Group(&world.group));
    world.until_finished(40);
    until_health(&member, "readiness", Health::is_ready);
    world.fill(20, 5);
    world.until_finished(60);
    member.end();
    assert_eq!(world.committed_holes(), [(60, 0)]);
}

/// librdkafka calls it fatal there, and the client does not recover. With that only noted it waits in vain for the end.
#[test]
fn under_the_consumer_protocol_a_member_without_the_right_to_its_group_stops_with_the_reason() {
    let world = world();
    world.fill(20, 5);
    let member = reader(&world, Protocol::Consumer);
    world.until_finished(20);
    world.cluster.revoke(Resource::Group(&world.group));
    match member.join_failed() {
        StopReason::Client(ClientError::Fatal { text, .. }) => {
            assert!(text.contains("authorization failed"), "{text}");
        }
        reason => panic!("{reason}"),
    }
}
