//! Riders on a real broker: what a restart reads, and suppliers that fail while everything else goes on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keyway::{Assigned, Builder, Rider, RiderReason, metrics};
use keyway_offsets::{DEFAULT_MAX_WINDOW, Offset};
use keyway_rider::read;
use keyway_tests::cluster::Committed;
use keyway_tests::telemetry;
use keyway_tests::world::{CLEAN, World};

use crate::SOON;

fn rider(committed: &Committed) -> Rider {
    let base = Offset::new(committed.offset).expect("an offset");
    read(base, &committed.metadata, DEFAULT_MAX_WINDOW).rider
}

/// Riders that were handed over at assignment.
fn telling(told: &Arc<Mutex<Vec<Assigned>>>) -> impl FnOnce(Builder) -> Builder + 'static {
    let sink = Arc::clone(told);
    move |builder| {
        builder.on_assigned(move |assigned| sink.lock().expect("lock").push(assigned.clone()))
    }
}

#[test]
fn the_commit_of_the_close_carries_the_rider_and_a_restart_reads_it_with_the_holes() {
    const RECORDS: usize = 400;
    let world = World::new(2);
    world.fill(RECORDS, RECORDS);
    world.hold(|_, offset| offset % 50 == 7);
    let first = world.member("first").with(|builder| {
        builder
            .concurrency(64)
            .commit_interval(Duration::from_secs(3_600))
            .rider(|context| Some(format!("{:?} {}", context.reason, context.offset).into_bytes()))
    });
    let first = first.start();
    first.until_completed(RECORDS - 8);
    // What waits at the door goes on waiting: the stop has to do without it.
    world.fail(|_, offset| offset % 50 == 7);
    world.release();
    first.end();
    let committed = world.committed();
    let at_close = Rider::Present(format!("{:?} 7", RiderReason::Shutdown).into_bytes());
    for partition in &committed {
        assert_eq!(rider(partition), at_close, "{partition:?}");
    }
    assert_eq!(world.committed_holes(), [(7, 4), (7, 4)]);

    world.heal();
    let told = Arc::default();
    let second = world.member("second").with(telling(&told)).start();
    world.until_finished(RECORDS);
    second.end();
    let told = told.lock().expect("lock").clone();
    assert_eq!(told.len(), 2);
    for assigned in told {
        assert_eq!((assigned.offset, assigned.rider), (7, at_close.clone()));
    }
    world.judge(&CLEAN);
    // The second member had no supplier: it says that it lost what it found.
    for partition in world.committed() {
        assert_eq!(rider(&partition), Rider::Dropped);
    }
}

#[test]
fn suppliers_that_panic_sleep_or_say_too_much_hold_up_nothing() {
    telemetry::keep();
    for (reason, round) in [("panicked", 0), ("timed_out", 1), ("oversized", 2)] {
        const RECORDS: usize = 600;
        let world = World::new(3);
        world.fill(RECORDS, RECORDS);
        let before = telemetry::counted(metrics::RIDER_SUPPLIER_FAILURES, reason);
        let calls = Arc::new(AtomicUsize::new(0));
        let called = Arc::clone(&calls);
        let member = world.member("member").with(move |builder| {
            builder
                .commit_interval(Duration::from_millis(50))
                // A panic is slow where its backtrace is printed; only the one that sleeps is to run out of time.
                .supplier_timeout(match round {
                    1 => Duration::from_millis(150),
                    _ => SOON,
                })
                .rider(move |context| {
                    let first = called.fetch_add(1, Ordering::SeqCst) == 0;
                    match round {
                        0 => panic!("no rider today"),
                        // Longer than this test: nobody waits for it.
                        1 if first => std::thread::sleep(Duration::from_secs(60)),
                        _ => {}
                    }
                    Some(vec![1; context.max_bytes + 1])
                })
        });
        let member = member.start();
        world.until_finished(RECORDS);
        member.until("commits of every partition", |status| {
            status.partitions.len() == 3 && status.partitions.iter().all(|part| !part.uncommitted)
        });
        member.end();
        world.judge(&CLEAN);
        for partition in world.committed() {
            assert_eq!(
                (partition.offset, rider(&partition)),
                (200, Rider::Dropped),
                "{reason}"
            );
        }
        assert!(
            telemetry::counted(metrics::RIDER_SUPPLIER_FAILURES, reason) > before,
            "{reason}"
        );
        assert!(
            telemetry::counted(metrics::RIDER_DROPPED, reason) > 0,
            "{reason}"
        );
    }
}
