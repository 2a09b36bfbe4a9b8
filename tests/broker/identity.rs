//! Who a member is: static members, and the fence of an assignment.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keyway::Record;
use keyway_tests::event_log::Kind;
use keyway_tests::world::{CLEAN, Member, Protocol, World};

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
