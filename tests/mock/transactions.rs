//! Transactions whose steps are refused, not answered, or taken over by another producer.
//!
//! The mock answers what belongs to a transaction and keeps none of it: neither does it store the offsets, nor are messages
//! of one that is aborted hidden. So what is shown here is what the engine makes of the answers; what readers find is shown
//! in `broker/transactions.rs` and `faults/exactly_once.rs`, and all orders of events in the simulator.

use std::cell::Cell;
use std::time::Duration;

use keyway::testing::{MockFault, MockRequest};
use keyway::{Builder, CommitMode, NotReady, Outcome, Output, Record, Retry, Status};

use crate::world::{Door, Run, World};

const OUT: &str = "out";

/// Ten records at a door behind which each has an output.
struct Pipeline {
    world: World,
    door: Door,
    run: Run,
}

impl Pipeline {
    /// Its first transaction, of the first position, is committed.
    fn new(wish: impl FnOnce(Builder) -> Builder) -> Self {
        let world = World::filled(10);
        world.broker.create_topic(OUT, 1).expect("a topic");
        let door = Door::default();
        let passed = door.clone();
        let run = world.start(|builder| {
            let builder = builder
                .commit_mode(CommitMode::Transactional(Duration::from_millis(100)))
                .commit_timeout(Duration::from_secs(2))
                .retry(Retry::every(Duration::from_millis(20)))
                .handler(move |record: &Record| {
                    passed.pass();
                    Output::copy_of(record, OUT).expect("readable headers")
                });
            wish(builder)
        });
        run.until_status("the first position", |status| {
            status.commits > 0 && status.partitions.iter().all(|part| !part.uncommitted)
        });
        Self { world, door, run }
    }

    /// The transaction of the ten records meets these.
    fn fails(&self, request: MockRequest, faults: &[MockFault]) -> &Self {
        self.world.broker.fail_requests(request, faults);
        self.door.open();
        self
    }

    fn until(&self, what: &str, is_it: impl Fn(&Status) -> bool) -> &Self {
        self.run.until_status(what, is_it);
        self
    }

    /// All ten are complete in the end, no attempt has failed, and nothing waits.
    #[track_caller]
    fn ends_clean(self) {
        self.run.until_done(10);
        self.run.until_status("everything committed", |status| {
            (status.completed, status.sent, status.staged) == (10, 10, 0)
        });
        let status = self.run.status();
        assert_eq!((status.failed, status.output_bytes), (0, 0));
        self.run.seen.assert_each_done_once(10);
        let report = self.run.stop();
        assert_eq!((report.left_open, report.all_committed), (0, true));
    }
}

/// With an aborted transaction taken for a committed one (`AbortIsStored`) it fails: its outputs are not there, and the
/// buffers of the simulator do not add up.
#[test]
fn a_transaction_that_is_refused_is_made_again() {
    for (request, fault) in [
        (MockRequest::TxnOffsetCommit, MockFault::RebalanceInProgress),
        (MockRequest::TxnOffsetCommit, MockFault::IllegalGeneration),
        (MockRequest::TxnOffsetCommit, MockFault::StaleMember),
        (MockRequest::TxnOffsetCommit, MockFault::Unknown),
        (
            MockRequest::AddOffsetsToTxn,
            MockFault::ConcurrentTransactions,
        ),
        (MockRequest::AddOffsetsToTxn, MockFault::Unknown),
        (MockRequest::AddPartitionsToTxn, MockFault::Unknown),
        (MockRequest::EndTxn, MockFault::CoordinatorLoading),
    ] {
        let pipeline = Pipeline::new(|builder| builder);
        pipeline.fails(request, &[fault]);
        pipeline.ends_clean();
    }
}

/// Known pain 30. Without another producer in its place every later transaction fails as well, for ever.
#[test]
fn a_producer_that_was_fenced_is_replaced_and_nothing_counts_as_done_before() {
    for (request, fault) in [
        (MockRequest::AddPartitionsToTxn, MockFault::FencedProducer),
        (MockRequest::AddOffsetsToTxn, MockFault::FencedProducer),
        (MockRequest::TxnOffsetCommit, MockFault::FencedProducer),
        (
            MockRequest::TxnOffsetCommit,
            MockFault::InvalidTransactionState,
        ),
    ] {
        let pipeline = Pipeline::new(|builder| builder);
        pipeline.fails(request, &[fault]);
        pipeline.ends_clean();
    }
}

/// Whether it was committed is looked up with the group. Without the question, and taken for committed, it fails: the mock
/// has no offset of it.
#[test]
fn the_outcome_of_a_transaction_without_a_definite_answer_is_looked_up() {
    for fault in [
        MockFault::FencedProducer,
        MockFault::InvalidTransactionState,
    ] {
        let pipeline = Pipeline::new(|builder| builder);
        pipeline.fails(MockRequest::EndTxn, &[fault]);
        pipeline.ends_clean();
    }
}

/// Known pain 34, in a transaction: the first text that is refused teaches the cap, and the next one keeps to it.
#[test]
fn a_smaller_limit_of_the_broker_is_learned_once() {
    let pipeline = Pipeline::new(|builder| {
        builder
            .metadata_limit(4096)
            .rider(|_: &keyway::RiderContext| Some(vec![7; 2_000]))
    });
    let before = pipeline.run.status().metadata_limit;
    pipeline.fails(MockRequest::TxnOffsetCommit, &[MockFault::MetadataTooLarge]);
    pipeline.until("a smaller cap", |status| status.metadata_limit < before);
    let learned = pipeline.run.status().metadata_limit;
    pipeline.until("all complete", |status| status.completed == 10);
    assert_eq!(pipeline.run.status().metadata_limit, learned);
    pipeline.ends_clean();
}

#[test]
fn a_refused_id_shows_and_heals() {
    let world = World::filled(10);
    world.broker.create_topic(OUT, 1).expect("a topic");
    world.broker.fail_requests(
        MockRequest::InitProducerId,
        &[MockFault::TransactionalIdDenied; 3],
    );
    let run = world.start(|builder| {
        builder
            .commit_mode(CommitMode::Transactional(Duration::from_millis(100)))
            .handler(|record: &Record| Output::copy_of(record, OUT).expect("readable headers"))
    });
    run.until_status("that commits are denied", |status| {
        let mut why = status.health.not_ready.iter();
        why.any(|why| matches!(why, NotReady::CommitDenied { .. }))
    });
    run.until_status("all complete, and readiness", |status| {
        status.completed == 10 && status.health.is_ready()
    });
    run.stop();
}

/// Below a fourth of the room for outputs one record waits for the interval; the whole hour would be over otherwise.
#[test]
fn what_is_staged_is_bounded_and_committed_sooner_where_the_bound_comes_near() {
    let world = World::of(1);
    world.broker.create_topic(OUT, 1).expect("a topic");
    world.produce(3_000, 50);
    let run = world.start(|builder| {
        builder
            .memory_budget(16 << 20)
            .commit_mode(CommitMode::Transactional(Duration::from_secs(3_600)))
            .handler(|record: &Record| {
                Outcome::Send(vec![
                    Output::copy_of(record, OUT)
                        .expect("readable headers")
                        .value(vec![b'v'; 4_000]),
                ])
            })
    });
    // 3,000 times 4 KB are twelve times what is held at once: a sixteenth of the budget.
    let most = Cell::new(0);
    run.until_status("most of them complete", |status| {
        most.set(most.get().max(status.output_bytes));
        status.completed >= 2_500
    });
    assert!(most.get() < 2 << 20, "{most:?} bytes");
    let report = run.stop();
    assert_eq!((report.records, report.all_committed), (3_000, true));
}
