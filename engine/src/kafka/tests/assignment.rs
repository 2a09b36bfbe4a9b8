//! Rebalances are events that may be answered late.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn an_assignment_may_be_answered_late_while_polling_goes_on() {
    for strategy in ["range", "cooperative-sticky"] {
        let broker = broker(2);
        broker.produce_numbered(TOPIC, 0, 0, 10).expect("produced");
        let mut config = properties(&broker);
        config.set("partition.assignment.strategy", strategy);
        let mut member = Member::open(&config);
        assert_eq!(member.assignment(), [tp(0), tp(1)], "{strategy}");

        // As long as it is not answered, the client keeps its membership and delivers nothing.
        for _ in 0..20 {
            member.poll();
        }
        assert!(member.records.is_empty(), "{strategy}");
        assert!(
            member
                .group
                .member()
                .is_some_and(|member| member.generation >= 1),
            "{strategy}"
        );

        member.take_assignment(|_| 0);
        member.until_records(10);
        assert_eq!(member.offsets(0), (0..10).collect::<Vec<_>>(), "{strategy}");
    }
}

#[test]
fn partitions_start_at_the_offsets_that_are_given() {
    let broker = broker(3);
    for partition in 0..3 {
        broker
            .produce_numbered(TOPIC, partition, 0, 10)
            .expect("produced");
    }
    let mut member = Member::open(&properties(&broker));
    member.take_assignment(|partition| 3 * i64::from(partition));
    member.until_records(10 + 7 + 4);
    for partition in 0..3 {
        let expected: Vec<i64> = (3 * i64::from(partition)..10).collect();
        assert_eq!(member.offsets(partition), expected);
    }
}

#[test]
fn a_second_member_takes_over_what_the_first_one_gives_back() {
    for strategy in ["range", "cooperative-sticky"] {
        let broker = broker(2);
        let mut config = properties(&broker);
        config
            .set("partition.assignment.strategy", strategy)
            // So long does the mock wait for members in each rebalance.
            .set("session.timeout.ms", "2000");
        let mut first = Member::open(&config);
        first.take_assignment(|_| 0);

        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut second = Member::open(&config);
                second.until("its share", |second| {
                    answer_all(second);
                    second.assigned() == 1
                });
                stop.store(true, Ordering::SeqCst);
                // Drop it, which leaves; the first one gets everything again.
            });
            first.until("the second member's share", |first| {
                answer_all(first);
                stop.load(Ordering::SeqCst)
            });
        });
        first.until("everything again", |first| {
            answer_all(first);
            first.assigned() == 2
        });
    }
}

#[test]
fn a_rebalance_does_not_skip_the_record_behind_an_end() {
    let broker = broker(2);
    for partition in 0..2 {
        broker
            .produce_numbered(TOPIC, partition, 0, 3)
            .expect("produced");
    }
    let mut config = properties(&broker);
    config
        .set("partition.assignment.strategy", "cooperative-sticky")
        .set("session.timeout.ms", "2000");
    let mut first = Member::open(&config);
    first.take_assignment(|_| 0);
    let ends = |first: &Member| {
        let end =
            |event: &&SourceEvent| matches!(event, SourceEvent::EndOfPartition { offset: 3, .. });
        first.events.iter().filter(end).count()
    };
    first.until("both ends", |first| ends(first) == 2);

    let (done, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut second = Member::open(&config);
            second.until("its share", |second| {
                answer_all(second);
                done.store(second.assigned() == 1, Ordering::SeqCst);
                stop.load(Ordering::SeqCst)
            });
        });
        first.until("the second member's share", |first| {
            answer_all(first);
            done.load(Ordering::SeqCst)
        });
        let kept = first.held.first().expect("one of two").partition;
        broker
            .produce_numbered(TOPIC, kept, 3, 2)
            .expect("produced");
        first.until("what came behind the end", |first| {
            first.offsets(kept).contains(&4)
        });
        stop.store(true, Ordering::SeqCst);
        assert_eq!(first.offsets(kept), [0, 1, 2, 3, 4]);
    });
}

/// Answers each rebalance event once; the rest of the events stays.
fn answer_all(member: &mut Member) {
    for event in std::mem::take(&mut member.events) {
        match &event {
            SourceEvent::Assign(partitions) => {
                let starts: Vec<Start> = partitions
                    .iter()
                    .map(|tp| Start {
                        tp: tp.clone(),
                        offset: 0,
                        leader_epoch: None,
                    })
                    .collect();
                member.source.assign(&starts).expect("assign");
                member.held.extend(partitions.iter().cloned());
            }
            SourceEvent::Revoke(partitions) | SourceEvent::Lost(partitions) => {
                member.source.unassign(partitions).expect("unassign");
                member.held.retain(|tp| !partitions.contains(tp));
            }
            _ => {}
        }
    }
}
