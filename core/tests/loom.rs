//! The hand-over queue under every interleaving that loom finds: no wake-up is lost, and each task comes out
//! exactly once, at the worker or taken back.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p keyway-core --release --test loom`, with a target directory of its own.

#![cfg(loom)]

use keyway_core::{Epoch, Item, LaneIndex, Leases, PartitionSlot, Task, TaskRef, Work, WorkQueue};
use keyway_offsets::Offset;
use loom::sync::Arc;
use loom::thread;

fn task(offset: i64) -> Task<i64> {
    Task {
        at: TaskRef {
            offset: Offset::new(offset).expect("not negative"),
            epoch: Epoch(1),
            slot: PartitionSlot(0),
            lane: LaneIndex(0),
            bytes: 1,
            attempt: 1,
        },
        payload: offset,
    }
}

fn tasks(offsets: &[i64]) -> Vec<Task<i64>> {
    offsets.iter().map(|offset| task(*offset)).collect()
}

/// A worker that takes until the queue is closed.
fn worker(queue: &Arc<WorkQueue<i64>>) -> thread::JoinHandle<Vec<i64>> {
    let queue = Arc::clone(queue);
    thread::spawn(move || {
        let mut seen = Vec::new();
        while let Some(item) = queue.next() {
            match item {
                Item::Task(task) => seen.push(task.payload),
                Item::Batch(tasks) => seen.extend(tasks.iter().map(|task| task.payload)),
                Item::Reopen(lane) => seen.push(-i64::from(lane.0) - 1),
            }
        }
        seen
    })
}

#[test]
fn a_waiting_worker_is_woken_by_each_push_and_by_the_close() {
    loom::model(|| {
        let queue = Arc::new(WorkQueue::default());
        let worker = worker(&queue);
        queue.push(Work::Records(tasks(&[0])));
        queue.push(Work::Batch(tasks(&[1, 2])));
        queue.close();
        assert_eq!(worker.join().expect("no panic"), [0, 1, 2]);
    });
}

#[test]
fn a_close_alone_ends_the_worker() {
    loom::model(|| {
        let queue: Arc<WorkQueue<i64>> = Arc::new(WorkQueue::default());
        let worker = worker(&queue);
        queue.close();
        assert!(worker.join().expect("no panic").is_empty());
    });
}

#[test]
fn each_task_is_run_or_taken_back_exactly_once_and_in_order() {
    loom::model(|| {
        let queue = Arc::new(WorkQueue::default());
        let worker = worker(&queue);
        queue.push(Work::Records(tasks(&[0, 1, 2])));
        let mut back = Vec::new();
        queue.take_back(&mut back);
        queue.close();
        let mut all = worker.join().expect("no panic");
        all.extend(back.iter().map(|task| task.payload));
        assert_eq!(
            all,
            [0, 1, 2],
            "what was taken back is the end of what was pushed"
        );
    });
}

#[test]
fn a_reopened_lane_stays_queued_when_tasks_are_taken_back() {
    loom::model(|| {
        let queue = Arc::new(WorkQueue::default());
        let worker = worker(&queue);
        queue.push(Work::Records(tasks(&[0])));
        queue.reopen(LaneIndex(4));
        let mut back = Vec::new();
        queue.take_back(&mut back);
        queue.push(Work::Records(tasks(&[1])));
        queue.close();
        let seen = worker.join().expect("no panic");
        assert_eq!(seen.iter().filter(|payload| **payload == -5).count(), 1);
        let ran: Vec<i64> = seen
            .iter()
            .copied()
            .filter(|payload| *payload >= 0)
            .collect();
        assert_eq!(ran.len() + back.len(), 2);
        let reopened = seen.iter().position(|payload| *payload == -5);
        let last = seen.iter().position(|payload| *payload == 1);
        assert!(
            reopened < last,
            "it takes effect before what was pushed after it"
        );
    });
}

#[test]
fn a_worker_that_polls_loses_no_wake_up_when_it_goes_to_sleep() {
    loom::model(|| {
        let queue = Arc::new(WorkQueue::default());
        let taker = Arc::clone(&queue);
        let worker = thread::spawn(move || {
            // As the engine's worker does: it looks first, reports, and only then waits.
            let first = taker.try_next().or_else(|| taker.next());
            let second = taker.try_next().or_else(|| taker.next());
            (first, second)
        });
        queue.push(Work::Records(tasks(&[0])));
        queue.push(Work::Records(tasks(&[1])));
        let (first, second) = worker.join().expect("no panic");
        assert_eq!(first, Some(Item::Task(task(0))));
        assert_eq!(second, Some(Item::Task(task(1))));
    });
}

#[test]
fn a_lease_that_was_ended_is_not_held_again_by_its_epoch() {
    loom::model(|| {
        let leases = Arc::new(Leases::default());
        let slot = PartitionSlot(0);
        leases.grant(slot, Epoch(1));
        let reader = {
            let leases = Arc::clone(&leases);
            thread::spawn(move || {
                let first = leases.holds(slot, Epoch(1));
                let second = leases.holds(slot, Epoch(1));
                assert!(first || !second, "an ended lease came back");
            })
        };
        leases.end(slot);
        leases.grant(slot, Epoch(2));
        reader.join().expect("no panic");
        assert!(leases.holds(slot, Epoch(2)));
    });
}
