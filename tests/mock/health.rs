//! What probes are told: alive, ready and why not, stuck; and what becomes of the capacity that hangs.

use std::time::{Duration, Instant};

use keyway::testing::{MockFault, MockRequest};
use keyway::{DeniedWhat, Health, NotReady, Record, Route, TopicPartition};
use keyway_tests::{telemetry, wait};

use crate::world::{Door, Event, LONG, OpenAtEnd, Run, World};

/// A handler that takes as long as this hangs, for these tests.
const STUCK_AFTER: Duration = Duration::from_millis(300);

#[track_caller]
fn until_health(run: &Run, what: &str, says: impl Fn(&Health) -> bool) {
    let there = wait::try_until(LONG, || says(&run.engine.health()).then_some(()));
    assert!(
        there.is_some(),
        "waited for {what}: {:?}",
        run.engine.health()
    );
}

fn names(health: &Health) -> Vec<&'static str> {
    health.not_ready.iter().map(NotReady::name).collect()
}

#[test]
fn a_member_is_ready_from_its_restore_to_its_stop() {
    let (world, door) = (World::filled(3), Door::default());
    let _open = OpenAtEnd(door.clone());
    let passed = door.clone();
    world
        .broker
        .fail_requests(MockRequest::ListOffsets, &[MockFault::Unknown; 8]);
    let run = world.start(|builder| builder.handler(move |_: &Record| passed.pass()));
    let before = run.engine.health();
    assert!(before.alive && !before.is_ready(), "{before:?}");
    until_health(&run, "the restore", |health| {
        names(health).contains(&"restoring") && !health.is_ready()
    });
    until_health(&run, "readiness", Health::is_ready);
    run.engine.stop(LONG);
    until_health(&run, "the stop", |health| {
        health.not_ready == [NotReady::Stopping]
    });
    door.open();
    run.end().expect("an orderly end");
    let after = run.engine.health();
    assert_eq!((after.alive, names(&after)), (false, vec!["ended"]));
}

#[test]
fn a_member_for_which_the_group_has_no_partition_is_ready() {
    let world = World::filled(3);
    let runs = [(); 2].map(|()| world.start(|builder| builder.handler(|_: &Record| ())));
    wait::until("one of them with nothing", LONG, || {
        let status = runs.each_ref().map(|run| run.status());
        let partitions = status.each_ref().map(|status| status.partitions.len());
        let ready = runs.iter().all(|run| run.engine.health().is_ready());
        (partitions.iter().sum::<usize>() == 1 && ready).then_some(())
    });
    for run in runs {
        run.stop();
    }
}

/// Health as of the status alone, which a thread that stands still no longer writes, says that it lives.
#[test]
fn a_poll_thread_that_stands_still_is_not_alive_and_health_does_not_wait_for_it() {
    let (world, door) = (World::filled(3), Door::default());
    let _open = OpenAtEnd(door.clone());
    let passed = door.clone();
    let run = world.start(|builder| {
        builder.handler(|_: &Record| ()).lane_by(move |record| {
            passed.pass();
            record.offset()
        })
    });
    until_health(&run, "the standstill", |health| !health.alive);
    let began = Instant::now();
    let health = run.engine.health();
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    assert!(
        !health.is_ready() && health.last_turn >= Duration::from_secs(10),
        "{health:?}"
    );
    door.open();
    until_health(&run, "life", Health::is_ready);
    run.until_done(3);
    run.stop();
}

/// Without the look how long a call lasts, or without a further call in its place, it fails with 3 of 19 done.
#[test]
fn a_handler_that_does_not_return_is_shown_and_replaced_until_it_does() {
    let (world, door) = (World::filled(20), Door::default());
    let _open = OpenAtEnd(door.clone());
    let passed = door.clone();
    let run = world.start(|builder| {
        builder
            .concurrency(1)
            .stuck_after(STUCK_AFTER)
            .handler(move |record: &Record| {
                if record.offset() == 3 {
                    passed.pass();
                }
            })
    });
    run.until_done(19);
    let health = run.engine.health();
    let [stuck] = &health.stuck[..] else {
        panic!("{health:?}");
    };
    assert_eq!(
        (&stuck.partition, stuck.offset),
        (&TopicPartition::new("t", 0), 3)
    );
    assert!(
        stuck.lasting >= STUCK_AFTER && stuck.worker == Some(0),
        "{stuck}"
    );
    assert!(health.is_ready() && health.unreplaced == 0, "{health:?}");
    assert_eq!((run.status().stuck, run.status().replaced), (1, 1));
    assert!(run.status().oldest_running >= Some(STUCK_AFTER));
    door.open();
    run.until_done(20);
    run.until_status("its place back", |status| {
        (status.stuck, status.replaced) == (0, 0)
    });
    world.produce(20, 20);
    run.until_done(40);
    run.seen.assert_each_done_once(40);
    // One call at once again: those of the second half do not overlap.
    run.stop();
}

/// Without the bound (`Watch::replace`) all three are replaced; without the look how long a call lasts none shows.
#[test]
fn replacements_are_bounded_and_what_is_not_replaced_is_counted() {
    let (world, door) = (World::filled(20), Door::default());
    let _open = OpenAtEnd(door.clone());
    let passed = door.clone();
    let run = world.start(|builder| {
        builder
            .concurrency(2)
            .stuck_after(STUCK_AFTER)
            .replace_stuck(1)
            .handler(move |record: &Record| {
                if (20..23).contains(&record.offset()) {
                    passed.pass();
                }
            })
    });
    run.until_done(20);
    world.produce(3, 3);
    until_health(&run, "three that hang", |health| health.stuck.len() == 3);
    until_health(&run, "the bound", |health| health.unreplaced == 2);
    world.produce(5, 5);
    // Two calls and one in place of one: with a further one these would run.
    run.until_status("what waits", |status| status.buffered == 8);
    run.until_status("none of them", |status| {
        status.oldest_running > Some(4 * STUCK_AFTER)
    });
    assert_eq!((run.status().running, run.seen.done().len()), (3, 20));
    door.open();
    run.until_done(28);
    run.until_status("no more than before", |status| status.replaced == 0);
    run.seen.assert_each_done_once(28);
    run.stop();
}

/// Without a further call in its place it fails with 2 of 9 done.
#[test]
fn a_future_that_hangs_costs_its_place_only_until_it_is_replaced() {
    let world = World::filled(10);
    let run = world.start(|builder| {
        builder
            .concurrency(1)
            .stuck_after(STUCK_AFTER)
            .async_handler(|record: Record| async move {
                if record.offset() == 2 {
                    std::future::pending::<()>().await;
                }
            })
    });
    run.until_done(9);
    let health = run.engine.health();
    assert!(
        matches!(&health.stuck[..], [stuck] if stuck.offset == 2),
        "{health:?}"
    );
    run.engine.stop(Duration::from_millis(300));
    assert_eq!(run.end().expect("an end").left_running, 1);
}

/// Without the look how long a call lasts it does not show.
#[test]
fn what_computes_for_ever_is_shown_and_not_replaced() {
    let (world, door) = (World::filled(10), Door::default());
    let _open = OpenAtEnd(door.clone());
    let passed = door.clone();
    let computes = Route::cpu_handler(move |record: &Record| {
        if record.offset() == 2 {
            passed.pass();
        }
    });
    let run =
        world.start(|builder| builder.route(computes.concurrency(1).stuck_after(STUCK_AFTER)));
    until_health(&run, "a call that hangs", |health| {
        matches!(&health.stuck[..], [stuck] if stuck.offset == 2) && health.unreplaced == 1
    });
    assert_eq!(run.seen.started().len(), 3);
    door.open();
    run.until_done(10);
    run.stop();
}

/// Its partition goes and comes back meanwhile, its capacity is replaced, and its late result counts for nothing. With
/// the mutant `StaleLaneIgnored` it runs beside itself.
#[test]
fn a_record_that_hangs_never_runs_twice_at_once() {
    let (world, door) = (World::filled(10), Door::default());
    let _open = OpenAtEnd(door.clone());
    let passed = door.clone();
    let run = world.start(|builder| {
        builder
            .concurrency(1)
            .stuck_after(STUCK_AFTER)
            .handler(move |record: &Record| {
                if record.offset() == 4 {
                    passed.pass();
                }
            })
    });
    run.until_done(9);
    world
        .broker
        .fail_requests(MockRequest::Heartbeat, &[MockFault::UnknownMember]);
    wait::until("the return", LONG, || {
        (run.seen.assigned() == 2).then_some(())
    });
    run.until_status("a lane that waits for it", |status| {
        status.partitions.iter().any(|part| part.stale_lanes == 1) && status.replaced == 1
    });
    world.produce(5, 5);
    run.until_done(9 + 4);
    // Whether each of its attempts had begun or ended.
    let attempts = || {
        let events = run.seen.events().into_iter();
        let of_it = events.filter_map(|event| match event {
            Event::Started(id, ..) => Some((id.offset, true)),
            Event::Done(id) => Some((id.offset, false)),
            _ => None,
        });
        let begun: Vec<bool> = of_it
            .filter_map(|(offset, begins)| (offset == 4).then_some(begins))
            .collect();
        begun
    };
    assert_eq!(attempts(), [true]);
    door.open();
    world.until_committed(15);
    assert_eq!(
        attempts(),
        [true, false, true, false],
        "one after the other"
    );
    run.stop();
}

/// Without the new fetch from where it stands nothing comes of an idle partition, and the denial stays for ever.
#[test]
fn a_partition_that_may_not_be_read_shows_until_it_is_read_and_heals_without_a_record() {
    let world = World::filled(5);
    let run = world.start(|builder| builder.handler(|_: &Record| ()));
    run.until_done(5);
    until_health(&run, "readiness", Health::is_ready);
    world
        .broker
        .fail_requests(MockRequest::Fetch, &[MockFault::TopicDenied; 1_000]);
    until_health(&run, "the denial", |health| {
        matches!(&health.not_ready[..], [NotReady::Denied { error, .. }]
            if error.to_string().contains("TOPIC_AUTHORIZATION_FAILED"))
    });
    assert!(run.engine.health().alive && run.engine.ended().is_none());
    world.broker.clear_faults(MockRequest::Fetch);
    until_health(&run, "readiness", Health::is_ready);
    world.produce(5, 5);
    run.until_done(10);
    run.seen.assert_each_done_once(10);
    run.stop();
}

/// Without `Denials::note` it does not show.
#[test]
fn a_group_that_may_not_be_used_shows_until_it_may() {
    let world = World::filled(5);
    world
        .broker
        .fail_requests(MockRequest::JoinGroup, &[MockFault::GroupDenied; 1_000]);
    let run = world.start(|builder| builder.handler(|_: &Record| ()));
    until_health(&run, "the denial", |health| {
        let denied = |why: &NotReady| {
            matches!(why, NotReady::Denied { error, .. }
            if matches!(error, keyway::ClientError::Denied { what: DeniedWhat::Group, .. }))
        };
        health.not_ready.iter().any(denied)
    });
    world.broker.clear_faults(MockRequest::JoinGroup);
    run.until_done(5);
    until_health(&run, "readiness", Health::is_ready);
    run.stop();
}

/// Without `Denials::note` it does not show; without the question whether a broker is up it shows for ever.
#[test]
fn brokers_that_are_all_away_show_until_one_is_back() {
    let world = World::filled(5);
    let run = world.start(|builder| builder.handler(|_: &Record| ()));
    run.until_done(5);
    world.until_committed(5);
    world.broker.broker_down(1).expect("a broker");
    until_health(&run, "the outage", |health| {
        names(health).contains(&"brokers_down")
    });
    world.broker.broker_up(1).expect("a broker");
    // Nothing is to be fetched or committed.
    until_health(&run, "readiness", Health::is_ready);
    run.stop();
}

/// With a wait for the last commit to be stored the stop takes 55 s. A revoke here ends with the session at the latest:
/// that one is seen in `broker/topics.rs`, with a topic that comes and goes.
#[test]
fn commits_that_are_denied_make_a_member_not_ready_and_hold_up_neither_stop_nor_revoke() {
    for revoke in [false, true] {
        let (world, door) = (World::filled(10), Door::default());
        let passed = door.clone();
        let run = world.start(|builder| {
            builder
                .commit_timeout(Duration::from_secs(30))
                .revoke_wait(Duration::from_secs(30))
                .handler(move |_: &Record| passed.pass())
        });
        wait::until("the first commit", LONG, || world.committed(0));
        world
            .broker
            .fail_requests(MockRequest::OffsetCommit, &[MockFault::TopicDenied; 1_000]);
        door.open();
        until_health(&run, "the denial", |health| {
            health.not_ready
                == [NotReady::CommitDenied {
                    partitions: vec![TopicPartition::new("t", 0)],
                }]
        });
        let began = Instant::now();
        if revoke {
            let other = world.start(|builder| builder.handler(|_: &Record| ()));
            wait::until("the revoke", LONG, || {
                (run.seen.revoked() == 1).then_some(())
            });
            wait::until("what follows it", LONG, || {
                (run.seen.assigned() + other.seen.assigned() == 2).then_some(())
            });
            drop(other);
        } else {
            run.engine.stop(LONG);
            let report = run.end().expect("an orderly end");
            assert!(!report.all_committed, "{report:?}");
        }
        assert!(
            began.elapsed() < Duration::from_secs(25),
            "{:?}",
            began.elapsed()
        );
    }
}

#[test]
fn the_lag_is_what_is_not_complete() {
    telemetry::keep();
    let (world, door) = (World::of(1), Door::default());
    world.broker.create_topic("lagging", 1).expect("a topic");
    let records = (0..100).map(|n| (0, Some(n.to_string()), n.to_string()));
    world.produce_to("lagging", records);
    let _open = OpenAtEnd(door.clone());
    let passed = door.clone();
    let run = world.start(|builder| {
        builder
            .topics(["lagging"])
            .commit_interval(Duration::from_secs(3600))
            .handler(move |record: &Record| {
                if matches!(record.offset(), 10 | 50 | 99) {
                    passed.pass();
                }
            })
    });
    run.until_done(97);
    run.until_status("three to go", |status| {
        let lag = |part: &keyway::PartitionStatus| part.lag();
        status.lag() == 3 && status.partitions.iter().filter_map(lag).max() == Some(3)
    });
    run.until_status("what is not committed", |status| {
        status.commit_age() > Some(Duration::from_millis(300))
    });
    wait::until("the gauge", LONG, || {
        (telemetry::gauge(keyway::metrics::LAG, "lagging,0") == Some(3.0)).then_some(())
    });
    door.open();
    run.until_status("none to go", |status| {
        status.lag() == 0 && status.completed == 100
    });
    run.engine.commit(LONG).expect("stored");
    run.until_status("all committed", |status| status.commit_age().is_none());
    run.stop();
}
