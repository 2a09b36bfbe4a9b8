use std::time::Instant;

use keyway_core::{Report, Verdict};

use super::super::testing::{Barrier, EPOCH, FIRST, SLOT, World, in_words, long, soon, until};
use super::super::{RouteContext, WorkerPool};
use super::*;
use crate::context::Fence;
use crate::handler::Handler;
use crate::kafka::TopicPartition;
use crate::observer::Observer;
use crate::outcome::Outcome;
use crate::record::Record;

/// Fails the records whose offsets are in the tens.
fn tens_fail(record: &Record) -> Result<(), String> {
    if record.offset() % 10 == 0 {
        Err(format!("no {}", record.offset()))
    } else {
        Ok(())
    }
}

#[test]
fn records_of_a_worker_run_in_order_and_are_destroyed_before_the_report() {
    let world = World::new();
    let mut pool = world.pool(Handler::threads(|_: &Record| ()));
    let spent = pool.dispatch(Some(FIRST), world.records(&[(1, 0), (2, 1), (3, 0)]));
    assert!(spent.expect("given back").is_empty());
    assert_eq!(world.results(3), ["1 done", "2 done", "3 done"]);
    assert_eq!(world.live_messages(), 0);
    assert_eq!(
        world.journal.lines(),
        [
            "start 1", "done 1", "start 2", "done 2", "start 3", "done 3"
        ]
    );
}

#[test]
fn a_failed_record_closes_its_lane_until_it_is_reopened() {
    let world = World::new();
    let mut pool = world.pool(Handler::threads(tens_fail));
    pool.dispatch(
        Some(FIRST),
        world.records(&[(10, 0), (11, 0), (12, 1), (13, 0)]),
    );
    assert_eq!(
        world.results(4),
        ["10 failed", "11 returned", "12 done", "13 returned"]
    );
    assert_eq!(
        world.journal.lines(),
        ["start 10", "failed 10: no 10", "start 12", "done 12"]
    );

    pool.dispatch(Some(FIRST), world.records(&[(14, 0)]));
    assert_eq!(
        world.results(1),
        ["14 returned"],
        "appended later, and still closed"
    );

    pool.reopen(FIRST, LaneIndex(0));
    pool.dispatch(Some(FIRST), world.records(&[(11, 0)]));
    assert_eq!(world.results(1), ["11 done"]);
}

#[test]
fn a_lane_that_failed_is_open_to_a_later_assignment() {
    let world = World::new();
    let mut pool = world.pool(Handler::threads(tens_fail));
    pool.dispatch(Some(FIRST), world.records(&[(10, 0)]));
    assert_eq!(world.results(1), ["10 failed"]);
    let later = Epoch(EPOCH.0 + 1);
    world.member.leases().grant(SLOT, later);
    let mut task = world.task(11, 0);
    task.at.epoch = later;
    pool.dispatch(Some(FIRST), Work::Records(vec![task]));
    assert_eq!(world.results(1), ["11 done"]);
}

#[test]
fn nothing_starts_once_its_assignment_has_ended() {
    let world = World::new();
    let barrier = Barrier::new();
    let at_barrier = barrier.clone();
    let mut pool = world.pool(Handler::threads(move |record: &Record| {
        at_barrier.pass(record);
        assert!(record.cancelled());
    }));
    pool.dispatch(Some(FIRST), world.records(&[(1, 0), (2, 1)]));
    assert_eq!(barrier.arrival(), 1);
    world.member.leases().end(SLOT);
    barrier.open();
    assert_eq!(world.results(2), ["1 done", "2 returned"]);
}

#[test]
fn a_stopping_member_finishes_what_runs_and_starts_nothing() {
    let world = World::new();
    let barrier = Barrier::new();
    let at_barrier = barrier.clone();
    let mut pool = world.pool(Handler::threads(move |record: &Record| {
        at_barrier.pass(record);
    }));
    pool.dispatch(Some(FIRST), world.records(&[(1, 0), (2, 1)]));
    assert_eq!(barrier.arrival(), 1);
    world.member.leases().set_stopping();
    pool.close();
    barrier.open();
    assert_eq!(world.results(2), ["1 done", "2 returned"]);
    assert_eq!(pool.join(long()), 0);
}

#[test]
fn a_panic_is_a_failed_attempt_with_its_text() {
    let world = World::new();
    let mut pool = world.pool(Handler::threads(|record: &Record| {
        assert!(record.offset() != 1, "one is too few");
    }));
    pool.dispatch(Some(FIRST), world.records(&[(1, 0), (2, 1)]));
    assert_eq!(world.results(2), ["1 failed", "2 done"]);
    assert_eq!(
        world.journal.lines()[1],
        "failed 1: panicked: one is too few"
    );
}

#[test]
fn every_outcome_has_its_verdict() {
    let world = World::new();
    let mut pool = world.pool(Handler::threads(|record: &Record| match record.offset() {
        1 => Outcome::Skip,
        2 => Outcome::Retry {
            after: Some(Duration::from_secs(5)),
        },
        3 => Outcome::Retry { after: None },
        4 => Outcome::Stop("enough".into()),
        _ => Outcome::Done,
    }));
    pool.dispatch(
        Some(FIRST),
        world.records(&[(1, 0), (2, 1), (3, 2), (4, 3), (5, 0), (6, 3)]),
    );
    let expected = [
        "1 skipped",
        "2 failed, after 5s",
        "3 failed",
        "4 stop: enough",
        "5 done",
        "6 returned",
    ];
    assert_eq!(world.results(6), expected);
}

#[test]
fn a_failed_attempt_gives_its_message_back() {
    let world = World::new();
    let mut pool = world.pool(Handler::threads(tens_fail));
    let mut work = world.tasks(&[(10, 0)]);
    work[0].at.attempt = 4;
    pool.dispatch(Some(FIRST), Work::Records(work));
    let report = world.report();
    assert_eq!(world.live_messages(), 1);
    let [finished] = &report.finished[..] else {
        panic!("one result")
    };
    assert_eq!(finished.at.attempt, 4);
    let Verdict::Failed {
        payload: Message::Owned(native),
        ..
    } = &finished.verdict
    else {
        panic!("failed, and never shared: {}", in_words(finished))
    };
    assert_eq!(native.offset(), 10);
}

#[test]
fn a_record_carries_the_fence_of_its_assignment() {
    let world = World::new();
    world.member.set_fence(SLOT, Fence::new(41));
    let mut pool = world.pool(Handler::threads(|record: &Record| {
        assert_eq!(record.fence().map(Fence::get), Some(41));
    }));
    pool.dispatch(Some(FIRST), world.records(&[(1, 0)]));
    assert_eq!(world.results(1), ["1 done"]);
}

#[test]
fn work_is_taken_back_from_a_worker_that_is_inside_a_slow_handler() {
    let world = World::new();
    let barrier = Barrier::new();
    let at_barrier = barrier.clone();
    let mut pool = world.pool(Handler::threads(move |record: &Record| {
        if record.offset() == 2 {
            at_barrier.pass(record);
        }
    }));
    assert_eq!(pool.running_since(FIRST), None);
    pool.dispatch(
        Some(FIRST),
        world.records(&[(1, 0), (2, 1), (3, 2), (4, 0)]),
    );
    assert_eq!(barrier.arrival(), 2);
    assert!(pool.running_since(FIRST).is_some());
    let mut back = Vec::new();
    pool.take_back(FIRST, &mut back);
    assert_eq!(
        back.iter()
            .map(|task| task.at.offset.get())
            .collect::<Vec<_>>(),
        [3, 4]
    );
    assert_eq!(
        world.results(1),
        ["1 done"],
        "what was finished does not wait for the slow one"
    );
    barrier.open();
    assert_eq!(world.results(1), ["2 done"]);
    until("idle", || pool.running_since(FIRST).is_none());
}

#[test]
fn the_call_that_a_worker_is_in_is_there_to_see() {
    let world = World::new();
    let barrier = Barrier::new();
    let at_barrier = barrier.clone();
    let mut pool = world.pool(Handler::threads(move |record: &Record| {
        at_barrier.pass(record);
    }));
    pool.dispatch(Some(FIRST), world.records(&[(1, 0), (2, 1)]));
    assert_eq!(barrier.arrival(), 1);
    let calls = |pool: &WorkerPool| {
        let mut calls = Vec::new();
        pool.calls(|worker, call| calls.push((worker, call.slot, call.offset.get())));
        calls
    };
    assert_eq!(calls(&pool), [(Some(FIRST), SLOT, 1)]);
    barrier.open();
    assert_eq!(barrier.arrival(), 2);
    until("the next one", || calls(&pool) == [(Some(FIRST), SLOT, 2)]);
    barrier.open();
    until("none", || calls(&pool).is_empty());
}

#[test]
fn a_worker_that_is_one_too_many_ends_with_its_call_and_its_place_can_be_taken_again() {
    let world = World::new();
    let barrier = Barrier::new();
    let at_barrier = barrier.clone();
    let mut pool = world.pool(Handler::threads(move |record: &Record| {
        at_barrier.pass(record);
    }));
    let idle = Arc::strong_count(&world.member);
    pool.dispatch(Some(FIRST), world.records(&[(1, 0)]));
    assert_eq!(barrier.arrival(), 1);
    pool.retire(FIRST);
    assert!(
        Arc::strong_count(&world.member) > idle,
        "it is inside its call"
    );
    barrier.open();
    assert_eq!(world.results(1), ["1 done"]);
    until("its thread's end", || {
        Arc::strong_count(&world.member) == idle
    });
    pool.dispatch(Some(FIRST), world.records(&[(2, 0)]));
    assert_eq!(barrier.arrival(), 2);
    barrier.open();
    assert_eq!(world.results(1), ["2 done"]);
    assert_eq!(pool.join(long()), 0);
}

#[test]
fn a_slow_attempt_is_reported_at_once() {
    let world = World::new();
    let barrier = Barrier::new();
    let at_barrier = barrier.clone();
    let mut pool = world.pool(Handler::threads(move |record: &Record| {
        at_barrier.pass(record);
    }));
    pool.dispatch(Some(FIRST), world.records(&[(1, 0), (2, 1)]));
    assert_eq!(barrier.arrival(), 1);
    let begun = Instant::now();
    until("slow", || begun.elapsed() > keyway_core::SLOW_ATTEMPT * 2);
    barrier.open();
    assert_eq!(barrier.arrival(), 2);
    let report = world.report();
    assert_eq!(
        report.finished.iter().map(in_words).collect::<Vec<_>>(),
        ["1 done"]
    );
    assert_eq!(report.slow, 1);
    assert!(report.busy > keyway_core::SLOW_ATTEMPT);
    barrier.open();
}

fn batch_report(handler: Handler, lanes: &[(i64, u32)]) -> (World, Report<Message>) {
    let world = World::new();
    let mut pool = world.pool(handler);
    pool.dispatch(Some(FIRST), world.batch(lanes));
    let report = world.report();
    (world, report)
}

#[test]
fn a_batch_is_one_call() {
    let handler = Handler::threads_batch(|records: Vec<Record>| {
        assert_eq!(
            records.iter().map(Record::offset).collect::<Vec<_>>(),
            [1, 2, 3]
        );
    });
    let (world, report) = batch_report(handler, &[(1, 0), (2, 1), (3, 0)]);
    let results: Vec<_> = report.finished.iter().map(in_words).collect();
    assert_eq!(results, ["1 done", "2 done", "3 done"]);
    assert!(!report.batch_failed);
    assert_eq!(world.live_messages(), 0);
    let journal = [
        "start 1", "start 2", "start 3", "done 1", "done 2", "done 3",
    ];
    assert_eq!(world.journal.lines(), journal);
}

#[test]
fn a_batch_that_panics_failed_as_a_whole_and_closes_its_lanes() {
    let world = World::new();
    let mut pool = world.pool(Handler::threads_batch(|records: Vec<Record>| {
        assert!(records.len() < 2, "too many");
    }));
    pool.dispatch(Some(FIRST), world.batch(&[(1, 0), (2, 1)]));
    pool.dispatch(Some(FIRST), world.batch(&[(3, 0), (4, 2)]));
    let report = world.report();
    assert!(report.batch_failed);
    assert_eq!(
        report.finished.iter().map(in_words).collect::<Vec<_>>(),
        ["1 failed", "2 failed"]
    );
    assert_eq!(world.results(2), ["3 returned", "4 done"]);
}

#[test]
fn threads_come_with_the_first_work_of_their_worker() {
    let world = World::new();
    let names = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&names);
    let handler = Handler::threads(move |_: &Record| {
        let name = std::thread::current().name().map(str::to_owned);
        seen.lock().expect("no panic").push(name);
    });
    let Handler::Threads(handler) = handler else {
        panic!("it is for threads")
    };
    let mut pool = ThreadPool::new(handler, 256, world.context());
    assert_eq!(pool.spawned(), 0);
    for (offset, worker) in [(1, 0), (2, 5), (3, 0)] {
        pool.dispatch(WorkerIndex(worker), world.records(&[(offset, 0)]));
        world.results(1);
    }
    assert_eq!(pool.spawned(), 2);
    let names: Vec<_> = names
        .lock()
        .expect("no panic")
        .iter()
        .flatten()
        .cloned()
        .collect();
    assert_eq!(
        names,
        ["keyway-worker-0", "keyway-worker-5", "keyway-worker-0"]
    );
}

#[test]
fn waiting_for_a_stuck_handler_is_bounded_and_loses_nothing_else() {
    let world = World::new();
    let barrier = Barrier::new();
    let at_barrier = barrier.clone();
    let mut pool = world.pool(Handler::threads(move |record: &Record| {
        if record.offset() == 2 {
            at_barrier.pass(record);
        }
    }));
    pool.dispatch(Some(FIRST), world.records(&[(1, 0), (2, 1)]));
    pool.dispatch(Some(WorkerIndex(1)), world.records(&[(3, 2)]));
    assert_eq!(barrier.arrival(), 2);
    assert_eq!(pool.join(soon()), 1);
    assert_eq!(world.sorted_results(2), ["1 done", "3 done"]);
    drop(pool);
    barrier.open();
    assert_eq!(world.results(1), ["2 done"], "it ends by itself");
}

#[test]
fn a_closed_pool_gives_work_back() {
    let world = World::new();
    let mut pool = world.pool(Handler::threads(|_: &Record| ()));
    pool.close();
    pool.dispatch(Some(FIRST), world.records(&[(1, 0)]));
    assert_eq!(world.results(1), ["1 returned"]);
    assert_eq!(pool.join(long()), 0);
}

struct Clumsy;

impl Observer for Clumsy {
    fn started(&self, record: &Record) {
        assert!(record.offset() != 1, "at the start");
    }

    fn done(&self, _: &Record) {
        panic!("at the end");
    }

    fn assigned(&self, _: &TopicPartition) {}
}

#[test]
fn an_observer_that_panics_fails_a_start_and_nothing_else() {
    let world = World::new();
    let context = RouteContext {
        observer: Some(Arc::new(Clumsy)),
        timeout: None,
        ..world.context()
    };
    let mut pool =
        WorkerPool::start(Handler::threads(|_: &Record| ()), 1, context, None).expect("starts");
    pool.dispatch(Some(FIRST), world.records(&[(1, 0), (2, 1)]));
    assert_eq!(world.results(2), ["1 failed", "2 done"]);
}

#[test]
fn a_thread_that_can_not_be_had_delays_each_lane_once() {
    let world = World::new();
    let work = world.records(&[(1, 0), (2, 0), (3, 1)]);
    world.context().return_after(Some(FIRST), work, SPAWN_RETRY);
    let expected = ["1 failed, after 1s", "2 returned", "3 failed, after 1s"];
    assert_eq!(world.results(3), expected);
}
