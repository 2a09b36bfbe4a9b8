//! More than fits: bounds are kept, nobody starves, and all of it goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::time::Duration;

use keyway::rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use keyway::{Outcome, Record};

use crate::world::{Door, LONG, OpenAtEnd, World};

/// Without the pause it waits for it in vain; without its end (`NeverResumed`) it fails with 6,000 of 151,000 done.
/// That the other has its turn among what is buffered is shown in `core/tests/order.rs`.
#[test]
fn a_hot_partition_is_paused_and_resumed_and_starves_nobody() {
    const HOT: u64 = 150_000;
    let world = World::of(2);
    world.produce_to(
        "t",
        (0..HOT).map(|n| (0, Some((n % 500).to_string()), String::new())),
    );
    let door = Door::default();
    let _open = OpenAtEnd(door.clone());
    let passed = door.clone();
    let run = world.start(|builder| {
        builder
            .partition_buffer(5_000)
            .concurrency(8)
            .handler(move |record: &Record| {
                if record.partition() == 0 && !passed.is_open() {
                    std::thread::sleep(Duration::from_millis(2));
                }
            })
    });
    run.until_status("the pause", |status| {
        status.partitions.iter().any(|part| part.paused)
    });
    world.produce_to(
        "t",
        (0..1_000).map(|n| (1, Some(n.to_string()), String::new())),
    );
    let cold = |run: &crate::world::Run| {
        run.seen
            .done()
            .iter()
            .filter(|id| id.partition == 1)
            .count()
    };
    let mut most = 0;
    keyway_tests::wait::until("the other partition", LONG, || {
        let status = run.status();
        let hot = status
            .partitions
            .iter()
            .find(|part| part.partition.partition == 0);
        most = most.max(hot.map_or(0, |part| part.buffered));
        (cold(&run) == 1_000).then_some(())
    });
    assert!(
        (1_000..=7_000).contains(&most),
        "{most}: one poll beyond the bound, no more"
    );
    let hot = run.seen.done().len() - 1_000;
    assert!(
        hot < HOT as usize / 2,
        "the hot one is far from done: {hot}"
    );
    door.open();
    run.until_done(HOT as usize + 1_000);
    let seen = run.seen.clone();
    assert!(run.stop().all_committed);
    seen.assert_each_done_once(HOT as usize + 1_000);
    assert_eq!(world.committed(0), Some((HOT as i64, String::new())));
}

/// With a poll as ever while it is full it fails with its bytes far above.
#[test]
fn an_engine_that_is_full_takes_no_more_and_goes_on_when_it_is_not() {
    let world = World::of(8);
    world.produce(60_000, 2_000);
    let door = Door::default();
    let _open = OpenAtEnd(door.clone());
    let passed = door.clone();
    let run = world.start(|builder| {
        builder
            .memory_budget(16 << 20)
            .handler(move |_: &Record| passed.pass())
    });
    // For so long that nothing is left of them.
    run.until_status("full buffers, and then what is left of them", |status| {
        status.reserve_open && status.partitions.iter().all(|part| part.paused)
    });
    let status = run.status();
    let bytes = status.buffered_bytes;
    assert!(
        bytes <= (3 << 20) + (1 << 20),
        "three sixteenths of the budget, and a poll: {bytes}"
    );
    door.open();
    run.until_done(60_000);
    let seen = run.seen.clone();
    assert!(run.stop().all_committed);
    seen.assert_each_done_once(60_000);
}

/// Two of four partitions are stuck, and each has more than all of them may hold; the member starts again over what it has
/// left, and is paused by its user meanwhile. With all taken in that a poll brings it fails with 13 MB buffered; with the
/// reserve kept shut it waits for the good ones in vain.
#[test]
fn others_go_on_beside_stuck_partitions_with_a_long_backlog_of_large_records() {
    const LARGE: u64 = 200;
    const BYTES: usize = 64 << 10;
    const GOOD: u64 = 4_000;
    let world = World::of(4);
    let value = "p".repeat(BYTES);
    // Packed they are next to nothing, so that one fetch brings more than there is room for.
    let producer: BaseProducer = world
        .client()
        .set("compression.type", "lz4")
        .set("linger.ms", "50")
        // The mock answers a fetch with one batch of each partition.
        .set("batch.size", "33554432")
        .set("message.max.bytes", "33554432")
        .create()
        .expect("a producer");
    for n in 0..2 * LARGE {
        let record = BaseRecord::to("t").partition(1 + (n % 2) as i32);
        let sent = producer.send(record.key("stuck").payload(&value));
        sent.expect("room in the queue");
    }
    producer.flush(LONG).expect("delivered");
    world.produce_to(
        "t",
        (0..2 * GOOD).map(|n| {
            (
                3 * (n % 2) as i32,
                Some((n % 50).to_string()),
                n.to_string(),
            )
        }),
    );
    let healed = Arc::new(AtomicBool::new(false));
    let start = || {
        let heals = Arc::clone(&healed);
        world.start(|builder| {
            builder
                .memory_budget(16 << 20)
                .retry_delay(Duration::from_millis(50))
                .handler(move |record: &Record| {
                    match record.key() == Some(b"stuck") && !heals.load(Atomic::Relaxed) {
                        true => Outcome::Retry { after: None },
                        false => Outcome::Done,
                    }
                })
        })
    };
    let first = start();
    first.until_done(GOOD as usize / 2);
    let before = first.seen.clone();
    assert!(first.stop().all_committed);

    let run = start();
    let rest = 2 * GOOD as usize - before.done().len();
    let mut most = 0;
    keyway_tests::wait::until("the rest of the good ones", LONG, || {
        most = most.max(run.status().buffered_bytes);
        (run.seen.done().len() >= rest).then_some(())
    });
    let stuck = |status: &keyway::Status| {
        let parts = status.partitions.iter();
        parts
            .filter(|part| part.paused && part.buffered > 1)
            .count()
            == 2
    };
    run.until_status("two stuck ones that are held back", stuck);
    assert!(
        most <= (3 << 20) + 4 * (BYTES + 1_024),
        "three sixteenths of the budget, and a record of each: {most}"
    );
    run.engine.pause_all();
    run.until_status("the pause", |status| {
        status.partitions.iter().all(|part| part.paused_by_user)
    });
    healed.store(true, Atomic::Relaxed);
    run.engine.resume_all();
    run.until_done(rest + 2 * LARGE as usize);
    let seen = run.seen.clone();
    assert!(run.stop().all_committed);
    seen.assert_each_done_once(rest + 2 * LARGE as usize);
    seen.assert_key_order();
    for (partition, end) in [(0, GOOD), (1, LARGE), (2, LARGE), (3, GOOD)] {
        assert_eq!(
            world.committed(partition),
            Some((end as i64, String::new()))
        );
    }
}

/// A number without a pattern: the last steps of SplitMix64.
fn scattered(number: u64) -> u64 {
    let mut mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Without the threshold of the map it waits for the block in vain.
#[test]
fn one_stuck_key_holds_the_others_back_only_as_far_as_its_map_asks() {
    const RECORDS: u64 = 20_000;
    const LIMIT: usize = 2_000;
    let world = World::of(1);
    // The stuck key's records follow no pattern, so that their map is long.
    world.produce_to(
        "t",
        (0..RECORDS).map(|n| {
            let key = match scattered(n) % 8 < 3 {
                true => "stuck".to_owned(),
                false => (n % 100).to_string(),
            };
            (0, Some(key), n.to_string())
        }),
    );
    let healed = Arc::new(AtomicBool::new(false));
    let heals = Arc::clone(&healed);
    let run = world.start(|builder| {
        builder
            .metadata_limit(LIMIT)
            .retry_delay(Duration::from_millis(50))
            // As fast as can be: workers are given thousands of records at once.
            .handler(move |record: &Record| {
                match record.key() == Some(b"stuck") && !heals.load(Atomic::Relaxed) {
                    true => Outcome::Retry { after: None },
                    false => Outcome::Done,
                }
            })
    });
    run.until_status("the block", |status| {
        status.partitions.iter().any(|part| part.blocked_by_map)
    });
    let mut last = None;
    let stored = keyway_tests::wait::try_until(LONG / 4, || {
        last = world.committed(0);
        last.clone()
            .filter(|(_, metadata)| metadata.len() > LIMIT / 2)
    });
    let Some((_, metadata)) = stored else {
        panic!(
            "no map of this size was stored, but {last:?}: {:?}",
            run.status()
        );
    };
    assert!(metadata.len() <= LIMIT, "{metadata}");
    let before = run.seen.done().len();
    assert!(
        before > 10 && before < RECORDS as usize / 2,
        "some went on, not all: {before}"
    );
    healed.store(true, Atomic::Relaxed);
    run.until_done(RECORDS as usize);
    let seen = run.seen.clone();
    assert!(run.stop().all_committed);
    seen.assert_each_done_once(RECORDS as usize);
    seen.assert_key_order();
    world.until_committed(RECORDS as i64);
}
