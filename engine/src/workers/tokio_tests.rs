use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, Semaphore};

use super::super::WorkerPool;
use super::super::testing::{SLOT, World, in_words, long, soon, until};
use super::*;
use crate::handler::Handler;
use crate::outcome::Outcome;
use crate::record::Record;

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime starts")
}

fn pool_on(world: &World, runtime: &Runtime, handler: Handler) -> WorkerPool {
    WorkerPool::start(
        handler,
        1000,
        world.context(),
        Some(runtime.handle().clone()),
    )
    .expect("it starts")
}

#[test]
fn a_record_lives_across_awaits_and_even_longer() {
    let world = World::new();
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let mut pool = world.pool(Handler::asynchronous(move |record: Record| {
        let keep = Arc::clone(&keep);
        async move {
            tokio::task::yield_now().await;
            tokio::time::sleep(std::time::Duration::from_micros(10)).await;
            assert_eq!(record.topic(), "orders");
            keep.lock().expect("no panic").push(record);
        }
    }));
    pool.dispatch(None, world.records(&[(1, 0), (2, 0)]));
    assert_eq!(world.results(2), ["1 done", "2 done"]);
    let offsets: Vec<_> = kept
        .lock()
        .expect("no panic")
        .drain(..)
        .map(|record| record.offset())
        .collect();
    assert_eq!(offsets, [1, 2]);
    assert_eq!(world.live_messages(), 0);
    assert_eq!(
        world.journal.lines(),
        ["start 1", "done 1", "start 2", "done 2"]
    );
}

#[test]
fn a_run_stops_at_the_first_record_that_is_not_done() {
    let world = World::new();
    let mut pool = world.pool(Handler::asynchronous(|record: Record| async move {
        match record.offset() {
            2 => Outcome::Failed("two".into()),
            _ => Outcome::Done,
        }
    }));
    pool.dispatch(None, world.records(&[(1, 0), (2, 0), (3, 0)]));
    assert_eq!(world.results(3), ["1 done", "2 failed", "3 returned"]);
}

#[test]
fn a_panic_in_the_call_or_in_the_future_fails_the_attempt() {
    let world = World::new();
    let mut pool = world.pool(Handler::asynchronous(|record: Record| {
        assert!(record.offset() != 1, "in the call");
        async move {
            tokio::task::yield_now().await;
            assert!(record.offset() != 2, "in the future");
        }
    }));
    for offset in 1..=3 {
        pool.dispatch(None, world.records(&[(offset, 0)]));
        world.results(1);
    }
    let journal = world.journal.lines();
    assert_eq!(journal[1], "failed 1: panicked: in the call");
    assert_eq!(journal[3], "failed 2: panicked: in the future");
    assert_eq!(journal[5], "done 3");
}

#[test]
fn nothing_starts_once_its_assignment_has_ended() {
    let world = World::new();
    let gate = Arc::new(Notify::new());
    let at_gate = Arc::clone(&gate);
    let mut pool = world.pool(Handler::asynchronous(move |record: Record| {
        let gate = Arc::clone(&at_gate);
        async move {
            gate.notified().await;
            assert!(record.cancelled());
        }
    }));
    pool.dispatch(None, world.records(&[(1, 0), (2, 0)]));
    until("started", || world.journal.lines() == ["start 1"]);
    world.member.leases().end(SLOT);
    gate.notify_one();
    assert_eq!(world.results(2), ["1 done", "2 returned"]);
}

#[test]
fn what_is_finished_does_not_wait_for_a_future_that_waits() {
    let world = World::new();
    let gate = Arc::new(Notify::new());
    let at_gate = Arc::clone(&gate);
    let mut pool = world.pool(Handler::asynchronous(move |record: Record| {
        let gate = Arc::clone(&at_gate);
        async move {
            if record.offset() == 2 {
                gate.notified().await;
            }
        }
    }));
    pool.dispatch(None, world.records(&[(1, 0), (2, 0)]));
    assert_eq!(world.results(1), ["1 done"]);
    gate.notify_one();
    assert_eq!(world.results(1), ["2 done"]);
}

#[test]
fn tens_of_thousands_wait_at_once_on_one_thread() {
    const NUMBER: usize = 20_000;
    let world = World::new();
    let runtime = runtime();
    let (inside, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let (count, at_gate) = (Arc::clone(&inside), Arc::clone(&gate));
    let handler = Handler::asynchronous(move |record: Record| {
        let (count, gate) = (Arc::clone(&count), Arc::clone(&at_gate));
        async move {
            count.fetch_add(1, Ordering::Relaxed);
            let permit = gate.acquire().await;
            assert!(permit.is_ok() && !record.cancelled());
        }
    });
    let mut pool = pool_on(&world, &runtime, handler);
    for offset in 0..NUMBER {
        let lane = u32::try_from(offset).expect("small");
        pool.dispatch(None, world.records(&[(i64::from(lane), lane)]));
    }
    until("all inside", || inside.load(Ordering::Relaxed) == NUMBER);
    gate.add_permits(1);
    let results = world.results(NUMBER);
    assert!(results.iter().all(|result| result.ends_with("done")));
    assert_eq!(pool.join(long()), 0);
}

#[test]
fn batches_follow_the_same_rules() {
    let world = World::new();
    let mut pool = world.pool(Handler::asynchronous_batch(
        |records: Vec<Record>| async move {
            tokio::task::yield_now().await;
            match records.len() {
                1 => Ok(vec![Outcome::Done]),
                2 => Ok(vec![Outcome::Retry { after: None }, Outcome::Done]),
                _ => Err("too many"),
            }
        },
    ));
    pool.dispatch(None, world.batch(&[(1, 0), (2, 1), (3, 2)]));
    let report = world.report();
    assert!(report.batch_failed);
    let results: Vec<_> = report.finished.iter().map(in_words).collect();
    assert_eq!(results, ["1 failed", "2 failed", "3 failed"]);
    pool.dispatch(None, world.batch(&[(1, 0), (2, 1)]));
    assert_eq!(world.results(2), ["1 failed", "2 done"]);
}

#[test]
fn a_runtime_that_is_shut_down_gives_everything_back() {
    let world = World::new();
    let runtime = runtime();
    let handler = Handler::asynchronous(|record: Record| async move {
        std::future::pending::<()>().await;
        drop(record);
    });
    let mut pool = pool_on(&world, &runtime, handler);
    pool.dispatch(None, world.records(&[(1, 0), (2, 0)]));
    until("started", || world.journal.lines() == ["start 1"]);
    runtime.shutdown_background();
    assert_eq!(world.results(2), ["1 failed", "2 returned"]);
    let lost = "failed 1: the tokio runtime dropped the handler before it returned";
    assert_eq!(world.journal.lines()[1], lost);

    pool.dispatch(None, world.records(&[(3, 0), (4, 0)]));
    let again = world.results(2);
    assert_eq!(
        again,
        ["3 failed", "4 returned"],
        "a dead runtime is not tried again at once"
    );
    assert_eq!(pool.join(long()), 0);
}

#[test]
fn a_batch_gets_its_records_back_from_a_runtime_that_is_shut_down() {
    let world = World::new();
    let runtime = runtime();
    let handler = Handler::asynchronous_batch(|_: Vec<Record>| std::future::pending::<()>());
    let mut pool = pool_on(&world, &runtime, handler);
    pool.dispatch(None, world.batch(&[(1, 0), (2, 1)]));
    until("started", || world.journal.lines().len() == 2);
    runtime.shutdown_background();
    let report = world.report();
    assert!(!report.batch_failed, "no record of it is to blame");
    assert_eq!(
        report.finished.iter().map(in_words).collect::<Vec<_>>(),
        ["1 failed", "2 failed"]
    );
}

#[test]
fn waiting_is_bounded_and_an_own_runtime_is_dropped_inside_an_async_task() {
    let world = World::new();
    let mut pool = world.pool(Handler::asynchronous(|_: Record| {
        std::future::pending::<()>()
    }));
    pool.dispatch(None, world.records(&[(1, 0)]));
    until("started", || world.journal.lines() == ["start 1"]);
    assert_eq!(pool.join(soon()), 1);
    pool.dispatch(None, world.records(&[(2, 1)]));
    assert_eq!(world.results(1), ["2 returned"]);
    let user = Builder::new_current_thread()
        .build()
        .expect("a runtime starts");
    user.block_on(async move { drop(pool) });
    assert_eq!(world.results(1), ["1 failed"]);
}
