//! Who a member is: static members, and the fence of an assignment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keyway::{ClientError, NotReady, Record, Report, StopReason};
use keyway_tests::event_log::Kind;
use keyway_tests::wait;
use keyway_tests::world::{CLEAN, Member, PATIENCE, Protocol, World};

/// With an end that leaves the group (`StaticMember::Leaves`) it fails: the other is revoked twice.
#[test]
fn a_static_member_that_restarts_takes_its_partitions_back_and_nobody_else_notices() {
    for protocol in [Protocol::Range, Protocol::Consumer] {
        let world = World::new(4);
        world.fill(200, 40);
        let start = |name: &str, instance: &str| -> Member {
            let member = world.member(name).protocol(protocol);
            member.property("group.instance.id", instance).start()
        };
        let (one, two) = (start("one", "i-1"), start("two", "i-2"));
        one.until_assigned(2);
        two.until_assigned(2);
        world.until_finished(200);
        let before = world.seen(|seen| (seen.held_by("one"), seen.count(Kind::Revoked, "two")));
        one.end();

        world.fill(200, 40);
        let back = start("one again", "i-1");
        back.until_assigned(2);
        world.until_finished(400);
        let after =
            world.seen(|seen| (seen.held_by("one again"), seen.count(Kind::Revoked, "two")));
        assert_eq!(after, before, "{protocol:?}");
        back.end();
        two.end();
        world.judge(&CLEAN);
    }
}

/// Of each partition, who ran its records under which fence, in the order of the records.
type Fences = BTreeMap<i32, Vec<(String, u64)>>;

/// With the same fence for every generation it fails.
#[test]
fn the_fence_of_a_partition_grows_when_it_moves() {
    for protocol in Protocol::ALL {
        let world = World::new(4);
        world.work(Duration::from_millis(5));
        let fences: Arc<Mutex<Fences>> = Arc::default();
        let start = |name: &'static str| {
            let fences = Arc::clone(&fences);
            let handler = move |record: &Record| {
                let fence = record.fence().expect("this protocol gives fences").get();
                let mut fences = fences.lock().expect("lock");
                fences
                    .entry(record.partition())
                    .or_default()
                    .push((name.to_owned(), fence));
            };
            world
                .member(name)
                .protocol(protocol)
                .with(move |builder| builder.handler(handler))
                .start()
        };
        world.fill(400, 40);
        let a = start("a");
        world.until_finished(400);
        let b = start("b");
        a.until_assigned(2);
        b.until_assigned(2);
        world.fill(400, 40);
        world.until_finished(800);
        b.end();
        a.until_assigned(4);
        world.fill(400, 40);
        world.until_finished(1_200);
        a.end();
        world.judge(&CLEAN);

        let mut moves = 0;
        for (partition, seen) in &*fences.lock().expect("lock") {
            for pair in seen.windows(2) {
                let [(from, before), (to, after)] = pair else {
                    continue;
                };
                assert!(
                    after >= before,
                    "{protocol:?}, partition {partition}: {pair:?}"
                );
                if from != to {
                    moves += 1;
                    assert!(
                        after > before,
                        "{protocol:?}, partition {partition}: {pair:?}"
                    );
                }
            }
        }
        assert_eq!(moves, 4, "two partitions went to `b` and came back");
    }
}

/// With the fence of a generation that a restart leaves behind it fails with five.
#[test]
fn a_static_member_has_no_fence() {
    let world = World::new(1);
    world.fill(5, 5);
    let fences: Arc<Mutex<Vec<bool>>> = Arc::default();
    let seen = Arc::clone(&fences);
    let handler = move |record: &Record| seen.lock().expect("lock").push(record.fence().is_some());
    let member = world
        .member("m")
        .property("group.instance.id", "i")
        .with(move |builder| builder.handler(handler))
        .start();
    world.until_finished(5);
    member.end();
    assert_eq!(*fences.lock().expect("lock"), [false; 5]);
}

fn start_static(world: &World<'_>, protocol: Protocol, name: &str) -> Member {
    let member = world.member(name).protocol(protocol);
    member.property("group.instance.id", "i").start()
}

/// Waits until the member is ready, or has ended because somebody else has its identity.
#[track_caller]
fn ready_or_refused(member: &Member) -> Result<(), StopReason> {
    wait::until("readiness, or an end", PATIENCE, || match member.ended() {
        Some(end) => Some(Err(refusal(end))),
        None => member.health().is_ready().then_some(Ok(())),
    })
}

/// The reason of an end, which has to be that the client can't go on.
#[track_caller]
fn refusal(end: Result<Report, StopReason>) -> StopReason {
    match end {
        Err(reason @ StopReason::Client(ClientError::Fatal { .. })) => reason,
        end => panic!("{end:?}"),
    }
}

/// Under the consumer protocol the coordinator keeps the identity of one that has not left until its session is over, and
/// librdkafka calls that fatal: a supervisor starts it again until it is taken. With such an error only noted it waits
/// in vain for readiness or an end.
#[test]
fn a_static_identity_that_was_killed_comes_back_or_stops_with_its_reason_and_is_not_ready_meanwhile()
 {
    for protocol in [Protocol::Range, Protocol::Consumer] {
        let world = World::new(2);
        world.fill(20, 4);
        let first = start_static(&world, protocol, "first");
        world.until_finished(20);
        ready_or_refused(&first).expect("the first has the identity");
        first.kill();
        world.fill(20, 4);
        let mut refused = 0;
        let back = loop {
            let member = start_static(&world, protocol, &format!("after {refused}"));
            assert!(!member.health().is_ready(), "before the group has taken it");
            match ready_or_refused(&member) {
                Ok(()) => break member,
                Err(reason) => {
                    let health = member.health();
                    assert_eq!(
                        (health.alive, health.not_ready),
                        (false, vec![NotReady::Ended]),
                        "{reason}"
                    );
                    refused += 1;
                }
            }
        };
        assert_eq!(refused > 0, protocol == Protocol::Consumer, "{protocol:?}");
        back.until_assigned(2);
        world.until_finished(40);
        back.end();
        world.judge(&CLEAN);
    }
}

/// With an error that is fatal only noted it waits in vain for the end of one of them.
#[test]
fn of_two_with_one_static_identity_one_stops_with_the_reason_and_the_other_goes_on() {
    for protocol in [Protocol::Range, Protocol::Consumer] {
        let world = World::new(2);
        world.fill(20, 4);
        let first = start_static(&world, protocol, "first");
        world.until_finished(20);
        let second = start_static(&world, protocol, "second");
        let end = wait::until("the end of one of them", PATIENCE, || {
            first.ended().or_else(|| second.ended())
        });
        refusal(end);
        let goes_on = match first.ended() {
            Some(_) => second,
            None => first,
        };
        world.fill(20, 4);
        world.until_finished(40);
        ready_or_refused(&goes_on).expect("the other has the identity");
        goes_on.end();
        assert_eq!(
            world
                .committed_holes()
                .iter()
                .map(|part| part.0)
                .sum::<i64>(),
            40
        );
    }
}
