//! Commits: each partition has its own answer, and no answer is an answer too.

use super::*;
use crate::kafka::native::PartitionList;
use crate::kafka::{
    ClientError, CommitAnswer, CommitCode, CommitOffset, DeniedWhat, MockFault, MockRequest,
    NotSent,
};

/// A fault, and what it has to be told as.
type Case = (MockFault, fn(&CommitCode) -> bool);

fn offset(partition: i32, offset: i64, metadata: &str) -> CommitOffset<'_> {
    CommitOffset {
        tp: tp(partition),
        offset,
        leader_epoch: None,
        metadata,
    }
}

fn commit(member: &Member, offsets: &[CommitOffset<'_>]) -> CommitAnswer {
    member.group.commit(offsets, PATIENCE, || true)
}

fn codes(answer: CommitAnswer) -> Vec<CommitCode> {
    match answer {
        CommitAnswer::Answered(results) => results.into_iter().map(|result| result.code).collect(),
        other => panic!("not answered: {other:?}"),
    }
}

#[test]
fn what_was_committed_is_read_back_with_its_metadata() {
    let broker = broker(3);
    broker.produce_numbered(TOPIC, 1, 0, 1).expect("produced");
    let mut member = Member::reading(&broker);
    member.until_records(1);
    let epoch = member.records[0].leader_epoch();
    assert!(epoch.is_some());
    let offsets = [
        CommitOffset {
            leader_epoch: epoch,
            ..offset(1, 101, "bAAK5gMA")
        },
        offset(0, 7, ""),
    ];
    assert_eq!(
        codes(commit(&member, &offsets)),
        [CommitCode::Success, CommitCode::Success]
    );

    let partitions = [tp(0), tp(1), tp(2)];
    let committed = member
        .group
        .committed(&partitions, PATIENCE)
        .expect("an answer");
    assert_eq!(
        committed
            .iter()
            .map(|(tp, _)| tp.clone())
            .collect::<Vec<_>>(),
        partitions
    );
    assert_eq!(
        committed[1].1.as_ref().expect("no error").leader_epoch,
        epoch
    );
    let of = |partition: usize| {
        committed[partition]
            .1
            .as_ref()
            .expect("no error of the partition")
    };
    assert_eq!(
        (of(0).offset, of(0).metadata.as_slice()),
        (Some(7), &b""[..])
    );
    assert_eq!(
        (of(1).offset, of(1).metadata.as_slice()),
        (Some(101), &b"bAAK5gMA"[..])
    );
    assert_eq!(of(2).offset, None);
}

#[test]
fn metadata_that_is_not_utf8_is_read_as_the_bytes_it_is() {
    let broker = broker(1);
    let member = Member::reading(&broker);
    let foreign = b"\xff\x00\xfe\x80";
    let mut list = PartitionList::with_capacity(1);
    list.push(TOPIC, 0, 5, None, foreign).expect("pushed");
    let answer = member
        .group
        .commit_list(&list, [tp(0)].iter(), PATIENCE, || true);
    assert_eq!(codes(answer), [CommitCode::Success]);

    let committed = member
        .group
        .committed(&[tp(0)], PATIENCE)
        .expect("an answer");
    assert_eq!(committed[0].1.as_ref().expect("no error").metadata, foreign);
}

#[test]
fn one_partition_may_fail_while_another_succeeds() {
    let broker = broker(1);
    let member = Member::reading(&broker);
    // The mock gives an error to every partition behind the first that has one.
    let missing = TopicPartition::new("zzz", 4);
    let offsets = [
        CommitOffset {
            tp: missing,
            ..offset(0, 1, "")
        },
        offset(0, 9, "x"),
    ];
    let codes = codes(commit(&member, &offsets));
    assert!(
        matches!(&codes[0], CommitCode::Denied(DeniedWhat::MissingTopic(topic), _) if topic == "zzz"),
        "{codes:?}"
    );
    assert_eq!(codes[1], CommitCode::Success);
}

#[test]
fn each_answer_of_the_table_is_told_apart() {
    let broker = broker(1);
    let cases: [Case; 7] = [
        (MockFault::RebalanceInProgress, |code| {
            matches!(code, CommitCode::Retry(_))
        }),
        (MockFault::StaleMember, |code| {
            matches!(code, CommitCode::Retry(_))
        }),
        // The loss that librdkafka declares follows a heartbeat, not a commit.
        (MockFault::FencedMember, |code| {
            matches!(code, CommitCode::Lost(_))
        }),
        (MockFault::MetadataTooLarge, |code| {
            matches!(code, CommitCode::TooLarge(_))
        }),
        (MockFault::GroupDenied, |code| {
            matches!(code, CommitCode::Denied(..))
        }),
        (MockFault::TopicDenied, |code| {
            matches!(code, CommitCode::Denied(..))
        }),
        (MockFault::Unknown, |code| {
            matches!(code, CommitCode::Other(_))
        }),
    ];
    let member = Member::reading(&broker);
    for (fault, expected) in cases {
        broker.fail_requests(MockRequest::OffsetCommit, &[fault]);
        let codes = codes(commit(&member, &[offset(0, 1, "")]));
        assert!(expected(&codes[0]), "{fault:?}: {codes:?}");
    }
    assert_eq!(
        codes(commit(&member, &[offset(0, 2, "")])),
        [CommitCode::Success]
    );
}

#[test]
fn answers_that_end_the_membership_are_followed_by_a_loss() {
    let cases: [Case; 2] = [
        (MockFault::IllegalGeneration, |code| {
            matches!(code, CommitCode::Drop(_))
        }),
        (MockFault::UnknownMember, |code| {
            matches!(code, CommitCode::Lost(_))
        }),
    ];
    for (fault, expected) in cases {
        let broker = broker(1);
        let mut member = Member::reading(&broker);
        broker.fail_requests(MockRequest::OffsetCommit, &[fault]);
        let codes = codes(commit(&member, &[offset(0, 1, "")]));
        assert!(expected(&codes[0]), "{fault:?}: {codes:?}");

        member.until("the loss", |member| {
            member.events.contains(&SourceEvent::Lost(vec![tp(0)]))
        });
        // Until the loss is answered, no commit is possible.
        let answer = commit(&member, &[offset(0, 2, "")]);
        assert!(
            matches!(
                answer,
                CommitAnswer::NotSent(NotSent::AssignmentLost | NotSent::NotAMember)
            ),
            "{answer:?}"
        );
    }
}

#[test]
fn a_fenced_static_member_is_fatal() {
    let broker = broker(1);
    let mut config = properties(&broker);
    config.set("group.instance.id", "i");
    let mut member = Member::open(&config);
    member.take_assignment(|_| 0);
    broker.fail_requests(MockRequest::OffsetCommit, &[MockFault::FencedInstance]);
    let codes = codes(commit(&member, &[offset(0, 1, "")]));
    assert!(matches!(codes[0], CommitCode::Lost(_)), "{codes:?}");
    member.until("the fatal error", |member| {
        let fatal =
            |event: &SourceEvent| matches!(event, SourceEvent::Error(ClientError::Fatal { .. }));
        member.events.iter().any(fatal)
    });
}

#[test]
fn a_commit_is_open_to_an_older_one_that_had_no_answer_when_it_was_sent() {
    let broker = broker(1);
    let member = Member::reading(&broker);
    broker
        .set_round_trip(1, Duration::from_secs(1))
        .expect("a broker");
    let older = member
        .group
        .commit(&[offset(0, 1, "")], Duration::from_millis(50), || true);
    assert_eq!(older, CommitAnswer::NoAnswer(None));
    let later = commit(&member, &[offset(0, 2, "")]);
    assert_eq!(later, CommitAnswer::OlderOpen);
    broker.set_round_trip(1, Duration::ZERO).expect("a broker");
    // The older one was answered on the same connection before.
    assert_eq!(
        codes(commit(&member, &[offset(0, 3, "")])),
        [CommitCode::Success]
    );
}

#[test]
fn without_a_broker_there_is_no_answer_in_time() {
    let broker = broker(1);
    let mut config = properties(&broker);
    // A request that went down with the connection stays open, and later ones with it, until librdkafka gives it
    // up: well within this test's patience.
    config.set("socket.timeout.ms", "5000");
    let mut member = Member::open(&config);
    member.take_assignment(|_| 0);
    broker.broker_down(1).expect("down");
    let answer = member
        .group
        .commit(&[offset(0, 1, "")], Duration::from_millis(300), || true);
    assert!(matches!(answer, CommitAnswer::NoAnswer(_)), "{answer:?}");
    let asked = member.group.committed(&[tp(0)], Duration::from_millis(300));
    assert!(
        asked.as_ref().is_err_and(ClientError::is_transient),
        "{asked:?}"
    );

    broker.broker_up(1).expect("up");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = commit(&member, &[offset(0, 2, "")]);
        if codes_or_none(&answer) == Some(vec![CommitCode::Success]) {
            break;
        }
        assert!(Instant::now() < deadline, "never stored: {answer:?}");
    }
    // The first request may land late, so the offset is one of the two.
    let committed = member
        .group
        .committed(&[tp(0)], PATIENCE)
        .expect("an answer");
    assert!(matches!(
        committed[0].1.as_ref().expect("no error").offset,
        Some(1 | 2)
    ));
}

fn codes_or_none(answer: &CommitAnswer) -> Option<Vec<CommitCode>> {
    match answer {
        CommitAnswer::Answered(results) => Some(results.iter().map(|r| r.code.clone()).collect()),
        _ => None,
    }
}

/// Without the lock in [`Source::unassign`] the partition is given back between the guard and the hand-over, and the
/// commit of one who has no right to it any more is stored.
#[test]
fn an_assignment_does_not_change_between_the_guard_and_the_hand_over() {
    /// Long enough for a change that nothing holds up; librdkafka's main thread answers in microseconds.
    const CHANGE: Duration = Duration::from_millis(300);
    let broker = broker(1);
    let mut member = Member::reading(&broker);
    let group = member.group.clone();
    let (inside, is_inside) = crossbeam_channel::bounded(1);
    let (gave_back, given_back) = crossbeam_channel::bounded(1);
    let committer = std::thread::spawn(move || {
        let mut changed = false;
        let answer = group.commit(&[offset(0, 5, "")], PATIENCE, || {
            inside.send(()).expect("somebody waits");
            changed = given_back.recv_timeout(CHANGE).is_ok();
            true
        });
        (answer, changed)
    });
    is_inside.recv().expect("the guard is asked");
    member.source.unassign(&[tp(0)]).expect("given back");
    let _ = gave_back.send(());
    let (answer, changed) = committer.join().expect("no panic");
    assert!(!changed, "the assignment changed under the guard's eyes");
    assert_eq!(codes(answer), [CommitCode::Success]);
}

#[test]
fn nothing_is_sent_that_is_not_ours() {
    let broker = broker(1);
    let mut member = Member::open(&properties(&broker));
    // Not a member yet: a commit would be a stranger's, and the coordinator would take it.
    assert_eq!(
        commit(&member, &[offset(0, 1, "")]),
        CommitAnswer::NotSent(NotSent::NotAMember)
    );
    member.take_assignment(|_| 0);
    let refused = member.group.commit(&[offset(0, 1, "")], PATIENCE, || false);
    assert_eq!(refused, CommitAnswer::NotSent(NotSent::Guard));

    let group = member.group.clone();
    let committed = group.committed(&[tp(0)], PATIENCE).expect("an answer");
    assert_eq!(committed[0].1.as_ref().expect("no error").offset, None);
    drop(member);
    let closed = group.commit(&[offset(0, 1, "")], PATIENCE, || true);
    assert_eq!(closed, CommitAnswer::NotSent(NotSent::Closed));
}

#[test]
fn a_text_with_a_nul_byte_in_the_topic_is_refused() {
    let broker = broker(1);
    let member = Member::reading(&broker);
    let offsets = [CommitOffset {
        tp: TopicPartition::new("a\0b", 0),
        ..offset(0, 1, "")
    }];
    assert!(matches!(
        commit(&member, &offsets),
        CommitAnswer::NotSent(NotSent::Refused(_))
    ));
}

#[test]
fn an_error_of_a_partition_is_never_taken_for_no_metadata() {
    let broker = broker(1);
    let member = Member::reading(&broker);
    assert_eq!(
        codes(commit(&member, &[offset(0, 1, "text")])),
        [CommitCode::Success]
    );
    broker.fail_requests(MockRequest::OffsetFetch, &[MockFault::GroupDenied]);
    let asked = member.group.committed(&[tp(0)], PATIENCE);
    let denied = match asked {
        Ok(committed) => matches!(&committed[0].1, Err(ClientError::Denied { .. })),
        Err(error) => matches!(error, ClientError::Denied { .. }),
    };
    assert!(denied, "an error is an error");
}
