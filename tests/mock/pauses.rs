//! Partitions that are paused and resumed by hand.

use keyway::{Record, TopicPartition};

use crate::world::{Door, OpenAtEnd, World};

#[test]
fn a_paused_partition_stands_still_and_the_others_go_on() {
    let world = World::of(2);
    let door = Door::default();
    let _open = OpenAtEnd(door.clone());
    let passed = door.clone();
    let run = world.start(|builder| {
        builder.concurrency(64).handler(move |record: &Record| {
            if record.partition() == 0 {
                passed.pass();
            }
        })
    });
    run.until_assigned(2);
    // Records run and wait in the engine when the pause comes.
    world.produce(400, 40);
    run.until_status("records of both", |status| {
        status
            .partitions
            .iter()
            .all(|part| part.base == 0 || part.partition.partition == 1)
            && status.running > 0
    });
    let paused = TopicPartition::new("t", 0);
    run.engine.pause(std::slice::from_ref(&paused));
    run.until_status("the pause", |status| {
        status.partitions.iter().any(|part| part.paused_by_user)
    });
    let of = |partition: i32| {
        let done = run.seen.done();
        done.iter().filter(|id| id.partition == partition).count()
    };
    let running = |run: &crate::world::Run| {
        let status = run.status();
        let part = status
            .partitions
            .iter()
            .find(|part| part.partition == paused);
        part.map_or(0, |part| part.running)
    };
    keyway_tests::wait::until("the other one", crate::world::LONG, || {
        (of(1) == 200).then_some(())
    });
    door.open();
    // What ran is finished and committed, and nothing more starts.
    run.until_status("what ran", |status| {
        let part = status
            .partitions
            .iter()
            .find(|part| part.partition == paused);
        part.is_some_and(|part| part.running == 0 && !part.uncommitted)
    });
    let (stopped_at, started) = (of(0), run.seen.started().len());
    assert!(stopped_at < 200, "the pause came in between");
    world.produce(400, 40);
    keyway_tests::wait::until("the other one", crate::world::LONG, || {
        (of(1) == 400).then_some(())
    });
    assert_eq!((of(0), running(&run)), (stopped_at, 0));
    assert_eq!(run.seen.started().len(), started + 200);
    run.engine.resume(&[paused]);
    run.until_done(800);
    run.seen.assert_key_order();
    run.stop();
}

#[test]
fn what_is_paused_before_it_comes_is_paused_when_it_comes() {
    let world = World::filled(10);
    let run = world.start(|builder| builder.handler(|_: &Record| ()));
    run.engine.pause_all();
    run.until_assigned(1);
    // Whether or not some ran before the pause was heard, the rest waits.
    run.until_status("the pause", |status| {
        status.partitions.iter().all(|part| part.paused_by_user)
    });
    world.produce(10, 10);
    run.engine.resume_all();
    run.until_done(20);
    run.stop();
}
