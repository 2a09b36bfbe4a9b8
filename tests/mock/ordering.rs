//! Which records run one after another.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering as Atomic};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use keyway::{Ordering, Record};

use crate::world::{LONG, World};

/// Counts how many are inside at once.
#[derive(Clone, Default)]
struct Crowd(Arc<(AtomicUsize, AtomicUsize)>);

impl Crowd {
    fn inside(&self) {
        let now = self.0.0.fetch_add(1, Atomic::SeqCst) + 1;
        self.0.1.fetch_max(now, Atomic::SeqCst);
        std::thread::sleep(Duration::from_millis(2));
        self.0.0.fetch_sub(1, Atomic::SeqCst);
    }

    fn most(&self) -> usize {
        self.0.1.load(Atomic::SeqCst)
    }
}

/// Lets nobody through before so many are there; `false` when that took too long.
#[derive(Clone)]
struct Meeting(Arc<(Mutex<HashSet<i64>>, Condvar)>, usize);

impl Meeting {
    fn of(number: usize) -> Self {
        Self(Arc::default(), number)
    }

    fn join(&self, offset: i64) -> bool {
        let mut there = self.0.0.lock().expect("no panic");
        there.insert(offset);
        self.0.1.notify_all();
        let (there, _) = self
            .0
            .1
            .wait_timeout_while(there, LONG, |there| there.len() < self.1)
            .expect("no panic");
        there.len() >= self.1
    }
}

/// With a lane for each record it fails: 10 began while 11 ran.
#[test]
fn partition_order_runs_each_partition_as_a_plain_loop_would() {
    let world = World::of(3);
    world.produce(300, 30);
    let crowd = Crowd::default();
    let guests = crowd.clone();
    let run = world.start(|builder| {
        builder
            .ordering(Ordering::Partition)
            .handler(move |_: &Record| guests.inside())
    });
    run.until_done(300);
    let seen = run.seen.clone();
    run.stop();
    seen.assert_lanes(|id, _| id.partition.to_be_bytes().to_vec());
    assert!(
        (2..=3).contains(&crowd.most()),
        "one of each partition: {}",
        crowd.most()
    );
}

#[test]
fn unordered_records_of_one_key_run_together() {
    let world = World::of(1);
    world.produce(8, 1);
    let meeting = Meeting::of(8);
    let run = world.start(|builder| {
        builder
            .ordering(Ordering::Unordered)
            .handler(move |record: &Record| {
                meeting.join(record.offset()).then_some(()).ok_or("alone")
            })
    });
    run.until_done(8);
    assert_eq!(run.stop().failed, 0);
}

/// Taken for an empty key it fails with 0 of 8: each waits for the others.
#[test]
fn records_without_a_key_have_no_order_among_themselves() {
    let world = World::of(1);
    world.produce_to("t", (0..8).map(|n| (0, None, n.to_string())));
    let meeting = Meeting::of(8);
    let run = world.start(|builder| {
        builder.handler(move |record: &Record| {
            assert_eq!(record.key(), None);
            meeting.join(record.offset()).then_some(()).ok_or("alone")
        })
    });
    run.until_done(8);
    assert_eq!(run.stop().failed, 0);
}

/// Taken for none it fails with 12 after 31.
#[test]
fn an_empty_key_is_a_key() {
    let world = World::of(1);
    world.produce_to(
        "t",
        (0..50).map(|n| (0, Some(String::new()), n.to_string())),
    );
    let run = world.start(|builder| builder.handler(|_: &Record| ()));
    run.until_done(50);
    let seen = run.seen.clone();
    run.stop();
    seen.assert_key_order();
    assert_eq!(seen.done_offsets(), (0..50).collect::<Vec<_>>());
}

#[test]
fn lanes_may_be_chosen_by_a_function_of_the_record() {
    let world = World::of(2);
    world.produce(400, 40);
    let crowd = Crowd::default();
    let guests = crowd.clone();
    // Two lanes in each partition, across keys.
    let run = world.start(|builder| {
        builder
            .handler(move |_: &Record| guests.inside())
            .lane_by(|record: &Record| record.offset() % 2)
    });
    run.until_done(400);
    let seen = run.seen.clone();
    run.stop();
    seen.assert_lanes(|id, _| vec![id.partition as u8, (id.offset % 2) as u8]);
    assert!((2..=4).contains(&crowd.most()), "{}", crowd.most());
}

/// With a result that the core hears of before what was taken back with it (`PollLoop::take_back`) it fails with 1,660
/// after 1,705; with keys that are compared by where they lie, with one key on two threads.
#[test]
fn a_slow_attempt_now_and_then_costs_no_order() {
    const RECORDS: usize = 40_000;
    let world = World::of(1);
    world.produce(RECORDS as u64, 5);
    // What is queued on a worker behind a slow attempt is taken back while fast ones of the same lanes end.
    let run = world.start(|builder| {
        builder.concurrency(3).handler(|record: &Record| {
            if record.offset() % 331 == 0 {
                std::thread::sleep(Duration::from_millis(4));
            } else {
                let until = Instant::now() + Duration::from_micros(60);
                while Instant::now() < until {}
            }
        })
    });
    run.until_done(RECORDS);
    let seen = run.seen.clone();
    run.stop();
    seen.assert_each_done_once(RECORDS);
    seen.assert_key_order();
}
