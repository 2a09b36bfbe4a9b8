//! `keyway group`: the command looks into a group and changes what a stopped one has committed.

use std::time::{Duration, Instant};

use keyway::group::{Group, GroupError, OpenTransactions, Rewrite};
use keyway_offsets::{DEFAULT_MAX_WINDOW, HoleMap, Offset, OffsetRange, encode, text};
use keyway_rider::Rider;
use keyway_tests::cluster::{Cluster, Committed, Config};
use keyway_tests::command::{self, Answered, answer};
use keyway_tests::wait;
use keyway_tests::world::{CLEAN, Member, Protocol, World, holes};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseProducer, Producer as _};
use rdkafka::types::RDKafkaErrorCode;
use serde_json::{Value, json};

use crate::SOON;

const RIDER: &[u8] = b"the application's own";

/// In hexadecimal digits.
fn rider_hex() -> String {
    RIDER.iter().map(|byte| format!("{byte:02x}")).collect()
}

const RECORDS: usize = 200;

/// `keyway group <verb>` for this world's group.
fn group(world: &World<'_>, verb: &str, more: &[&str]) -> Answered {
    group_of(world.cluster, &world.group, verb, more)
}

fn group_of(cluster: &Cluster, group: &str, verb: &str, more: &[&str]) -> Answered {
    let mut arguments = vec!["group", verb, "--brokers", cluster.bootstrap()];
    arguments.extend(["--group", group]);
    arguments.extend(more);
    answer(&arguments)
}

/// The first use builds the command.
fn built_before_time_counts() {
    command::keyway();
}

fn partitions(answered: &Answered) -> &Vec<Value> {
    answered.json["partitions"]
        .as_array()
        .unwrap_or_else(|| panic!("{answered:?}"))
}

fn rider_of(committed: &Committed) -> Rider {
    let base = Offset::new(committed.offset).expect("committed offsets are not negative");
    keyway_rider::read(base, &committed.metadata, DEFAULT_MAX_WINDOW).rider
}

/// An engine that gives riders has run and stopped; two records of each of two partitions were stuck.
fn stopped_with_holes_and_riders() -> World<'static> {
    stopped_by(Protocol::Range)
}

fn stopped_by(protocol: Protocol) -> World<'static> {
    let world = World::new(2);
    world.fill(RECORDS, RECORDS);
    world.fail(|_, offset| is_stuck(offset));
    let first = world
        .member("first")
        .protocol(protocol)
        .with(|builder| builder.rider(|_| Some(RIDER.to_vec())))
        .start();
    world.until_finished(RECORDS - 4);
    first.end();
    world.heal();
    for committed in world.committed() {
        assert_eq!(rider_of(&committed), Rider::Present(RIDER.to_vec()));
    }
    assert_eq!(world.committed_holes(), [(13, 2), (13, 2)]);
    world
}

fn is_stuck(offset: i64) -> bool {
    matches!(offset, 13 | 57)
}

/// The next engine, which knows no riders, runs these records and nothing else.
fn goes_on_with_exactly_the_holes(world: &World<'_>) {
    let second = world.member("second").start();
    world.until_finished(RECORDS);
    second.end();
    let mut ran = world.seen(|seen| seen.started_by("second"));
    ran.sort_unstable();
    assert_eq!(ran, [(0, 13), (0, 57), (1, 13), (1, 57)]);
    world.judge(&CLEAN);
}

#[test]
fn inspect_shows_the_holes_and_the_rider_of_a_group_that_an_engine_left() {
    let world = stopped_with_holes_and_riders();
    let committed = world.committed();
    let shown = group(&world, "inspect", &[]);
    assert_eq!(shown.code, 0, "{shown:?}");
    let head = &shown.json;
    assert_eq!(
        (
            &head["group"],
            &head["state"],
            &head["members"],
            &head["live"]
        ),
        (
            &json!(world.group),
            &json!("empty"),
            &json!(0),
            &json!(false)
        )
    );
    assert_eq!(partitions(&shown).len(), 2, "{shown:?}");
    for (partition, committed) in partitions(&shown).iter().zip(&committed) {
        assert_eq!(
            partition,
            &json!({
                "topic": world.topic, "partition": committed.partition, "committed": 13, "leader_epoch": 0,
                "log_end": 100, "lag": 87, "holes": 2, "incomplete": [[13, 13], [57, 57]], "highest_seen": 99,
                "encoding": partition["encoding"], "text_format": "base64",
                "chars": committed.metadata.len(), "limit": 4096,
                "rider": {"state": "present", "bytes": RIDER.len(), "hex": rider_hex()},
            })
        );
    }
}

#[test]
fn scrub_takes_the_rider_and_the_next_engine_runs_exactly_the_holes() {
    for protocol in [Protocol::Range, Protocol::Consumer] {
        let world = stopped_by(protocol);
        let before = world.committed();

        let dry = group(&world, "scrub", &[]);
        assert_eq!(dry.code, 0, "{dry:?}");
        assert_eq!(
            (&dry.json["dry_run"], &dry.json["changed"]),
            (&json!(true), &json!(0))
        );
        assert_eq!(world.committed(), before, "a dry run changes nothing");

        let done = group(&world, "scrub", &["--yes"]);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(
            (&done.json["dry_run"], &done.json["changed"]),
            (&json!(false), &json!(2))
        );
        assert_eq!(
            partitions(&done),
            partitions(&dry),
            "what was announced was done"
        );
        let after = world.committed();
        for ((partition, before), after) in partitions(&done).iter().zip(&before).zip(&after) {
            assert_eq!(
                partition,
                &json!({
                    "topic": world.topic, "partition": before.partition, "committed": 13, "action": "drop_rider",
                    "chars_before": before.metadata.len(), "chars_after": after.metadata.len(),
                    "rider": {"state": "present", "bytes": RIDER.len(), "hex": rider_hex()}, "repeated": 0,
                })
            );
            assert_eq!(rider_of(after), Rider::None);
            assert_eq!(holes(after), holes(before));
            assert_eq!(
                (after.offset, after.leader_epoch),
                (before.offset, before.leader_epoch)
            );
        }
        let again = group(&world, "scrub", &["--yes"]);
        assert_eq!(
            (again.code, &again.json["changed"]),
            (0, &json!(0)),
            "{again:?}"
        );

        goes_on_with_exactly_the_holes(&world);
    }
}

#[test]
fn scrub_all_empties_every_text_and_says_what_runs_again() {
    let world = stopped_with_holes_and_riders();
    let before = world.committed();
    let dry = group(&world, "scrub", &["--all"]);
    assert_eq!((dry.code, world.committed()), (0, before));
    for partition in partitions(&dry) {
        assert_eq!(
            (
                &partition["action"],
                &partition["repeated"],
                &partition["chars_after"]
            ),
            (&json!("clear"), &json!(85), &json!(0))
        );
    }
    let done = group(&world, "scrub", &["--all", "--yes"]);
    assert_eq!(
        (done.code, &done.json["changed"]),
        (0, &json!(2)),
        "{done:?}"
    );
    for committed in world.committed() {
        assert_eq!((committed.offset, committed.leader_epoch), (13, Some(0)));
        assert_eq!(committed.metadata, b"");
    }
}

/// A member works on a group of this protocol; a record is stuck, and the commit has a hole there.
fn live_with_a_hole(protocol: Protocol) -> (World<'static>, Member) {
    let world = World::new(1);
    world.fill(10, 10);
    world.fail(|_, offset| offset == 3);
    let member = world
        .member("m")
        .protocol(protocol)
        .with(|builder| builder.rider(|_| Some(RIDER.to_vec())))
        .start();
    world.until_finished(9);
    wait::until("a commit with a hole", SOON, || {
        (world.committed_holes() == [(3, 1)]).then_some(())
    });
    (world, member)
}

/// A producer that has sent `offset` for partition 0 in a transaction, in the name of nobody; it is not ended.
fn open_transaction(world: &World<'_>, offset: i64) -> BaseProducer {
    let producer: BaseProducer = world
        .client()
        .set("transactional.id", world.cluster.unique("open"))
        .create()
        .expect("a producer");
    producer
        .init_transactions(SOON)
        .expect("a transactional id of our own");
    producer.begin_transaction().expect("it is initialised");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&world.topic, 0, rdkafka::Offset::Offset(offset))
        .expect("an offset");
    let outsider: BaseConsumer = world
        .client()
        .set("group.id", &world.group)
        .create()
        .expect("a consumer");
    let nobody = outsider.group_metadata().expect("it has a group");
    producer
        .send_offsets_to_transaction(&list, &nobody, SOON)
        .expect("the coordinator takes them");
    producer
}

#[test]
fn a_live_group_is_shown_live_and_not_rewritten() {
    for protocol in Protocol::ALL {
        let (world, member) = live_with_a_hole(protocol);
        let before = world.committed();

        let shown = group(&world, "inspect", &[]);
        assert_eq!(
            (shown.code, &shown.json["live"], &shown.json["members"]),
            (0, &json!(true), &json!(1)),
            "{protocol:?}: {shown:?}"
        );
        assert_eq!(partitions(&shown)[0]["holes"], 1);
        for more in [&["--yes"][..], &["--all", "--yes"], &[]] {
            let refused = group(&world, "scrub", more);
            assert_eq!(refused.code, 1, "{protocol:?}: {refused:?}");
            assert_eq!(refused.json["error"]["name"], "group_live");
            assert!(
                refused.said.contains("stop all of them first"),
                "{refused:?}"
            );
        }
        assert_eq!(world.committed(), before, "{protocol:?}");
        world.heal();
        world.until_finished(10);
        member.end();
        let stopped = group(&world, "inspect", &[]);
        assert_eq!(
            stopped.json["live"],
            json!(false),
            "{protocol:?}: {stopped:?}"
        );
    }
}

/// So a member that joins between the command's question and its commit is safe as well. (A commit inside a transaction
/// is another matter: `docs/decisions/0005-facts-about-librdkafka.md`.)
#[test]
fn the_coordinator_refuses_the_commit_of_a_stranger_while_there_are_members() {
    for protocol in Protocol::ALL {
        let (world, member) = live_with_a_hole(protocol);
        let stranger = world
            .cluster
            .commit_as_other_program(&world.group, &world.topic, 0, 1, b"");
        assert_eq!(
            stranger,
            Err(RDKafkaErrorCode::UnknownMemberId),
            "{protocol:?}"
        );
        assert_eq!(world.committed_holes(), [(3, 1)], "{protocol:?}");
        world.heal();
        world.until_finished(10);
        member.end();
    }
}

#[test]
fn the_coordinator_takes_the_transaction_of_a_stranger_all_the_same() {
    for protocol in Protocol::ALL {
        let (world, member) = live_with_a_hole(protocol);
        open_transaction(&world, 2)
            .commit_transaction(SOON)
            .expect("a healthy coordinator");
        assert_eq!(world.committed()[0].offset, 2, "{protocol:?}");
        world.heal();
        world.until_finished(10);
        member.end();
    }
}

#[test]
fn a_crashed_member_counts_until_its_session_is_over() {
    built_before_time_counts();
    let world = World::new(1);
    world.fill(10, 10);
    let member = world
        .member("m")
        .with(|builder| builder.rider(|_| Some(RIDER.to_vec())))
        .start();
    world.until_finished(10);
    wait::until("a commit with a rider", SOON, || {
        let committed = world.committed();
        let rider = committed.first().map(rider_of)?;
        (committed[0].offset == 10 && rider != Rider::None).then_some(())
    });
    member.kill();
    let refused = group(&world, "scrub", &["--yes"]);
    assert_eq!(refused.json["error"]["name"], "group_live", "{refused:?}");
    wait::until("the end of its session", SOON, || {
        let shown = group(&world, "inspect", &[]);
        (shown.json["live"] == json!(false)).then_some(())
    });
    let done = group(&world, "scrub", &["--yes"]);
    assert_eq!(
        (done.code, &done.json["changed"]),
        (0, &json!(1)),
        "{done:?}"
    );
}

#[test]
fn a_commit_that_has_moved_since_it_was_read_is_not_rewritten() {
    let world = World::new(2);
    let commit = |partition, offset, text: &[u8]| {
        world
            .cluster
            .commit_as_other_program(&world.group, &world.topic, partition, offset, text)
            .expect("the group has no members");
    };
    commit(0, 3, b"one");
    commit(1, 3, b"two");
    let mut client = world.client();
    client.set("group.id", &world.group);
    let group = Group::open(&client, SOON, OpenTransactions::WaitFor)
        .expect("these properties can be used");
    let changes: Vec<Rewrite> = group
        .commits()
        .expect("the broker answers")
        .into_iter()
        .map(|(partition, seen)| Rewrite {
            partition,
            seen: seen.expect("a commit"),
            metadata: "new".to_owned(),
        })
        .collect();
    for (offset, text) in [(4, &b"two"[..]), (3, b"other")] {
        commit(1, offset, text);
        match group.rewrite(&changes) {
            Err(GroupError::Moved { partition }) => assert_eq!(partition.partition, 1),
            other => panic!("{other:?}"),
        }
        let texts: Vec<_> = world
            .committed()
            .into_iter()
            .map(|at| at.metadata)
            .collect();
        assert_eq!(texts, [b"one", text], "nothing was written");
    }
    commit(1, 3, b"two");
    assert_eq!(group.rewrite(&changes), Ok(vec![Ok(()), Ok(())]));
    assert!(world.committed().iter().all(|at| at.metadata == b"new"));
}

#[test]
fn what_is_no_map_is_shown_with_its_error_and_left_alone() {
    let world = World::new(5);
    world.fill(50, 50);
    let base = Offset::new(3).expect("an offset");
    let map = HoleMap::new(base, 8, [OffsetRange::single(base)]).expect("a map");
    let texts = [
        text::write(b"X\x00\x05abc"),
        text::write(b"X\x00\x01an\xff\xff"),
        "not base64!".to_owned(),
        encode(&map).text,
        String::new(),
    ];
    let commits: Vec<_> = (0..)
        .zip(&texts)
        .map(|(partition, text)| (partition, 3, text.as_bytes()))
        .collect();
    world
        .cluster
        .commit_all_as_other_program(&world.group, &world.topic, &commits)
        .expect("the group has no members");

    let shown = group(&world, "inspect", &[]);
    let errors: Vec<_> = partitions(&shown)
        .iter()
        .map(|partition| partition["error"]["name"].as_str().unwrap_or("none"))
        .collect();
    assert_eq!(shown.code, 1, "{shown:?}");
    assert_eq!(
        errors,
        ["bad_envelope", "bad_run", "bad_text", "none", "none"]
    );

    let done = group(&world, "scrub", &["--yes"]);
    let actions: Vec<_> = partitions(&done)
        .iter()
        .map(|partition| &partition["action"])
        .collect();
    assert_eq!(
        actions,
        ["unreadable", "drop_rider", "none", "none", "none"]
    );
    assert_eq!(
        (done.code, &done.json["changed"]),
        (1, &json!(1)),
        "{done:?}"
    );
    let now = |world: &World<'_>| -> Vec<_> {
        let texts = world.committed().into_iter();
        texts
            .map(|committed| String::from_utf8(committed.metadata).expect("these are text"))
            .collect()
    };
    let mut expected = texts.clone();
    expected[1] = text::write(b"n\xff\xff");
    assert_eq!(now(&world), expected);

    let cleared = group(
        &world,
        "scrub",
        &["--all", "--yes", "--topic", &world.topic],
    );
    assert_eq!(
        (cleared.code, &cleared.json["changed"]),
        (0, &json!(4)),
        "{cleared:?}"
    );
    assert_eq!(now(&world), ["", "", "", "", ""]);
}

#[test]
fn under_an_open_transaction_what_was_committed_before_is_shown_and_not_rewritten() {
    let world = World::new(2);
    world.fill(20, 20);
    let commits = [(0, 1, &b"WAABYQ=="[..]), (1, 1, b"WAABYQ==")];
    world
        .cluster
        .commit_all_as_other_program(&world.group, &world.topic, &commits)
        .expect("the group has no members");
    let producer = open_transaction(&world, 2);

    let shown = group(&world, "inspect", &[]);
    let offsets: Vec<_> = partitions(&shown)
        .iter()
        .map(|partition| &partition["committed"])
        .collect();
    assert_eq!((shown.code, offsets), (0, vec![&json!(1); 2]), "{shown:?}");
    let refused = group(&world, "scrub", &["--yes", "--timeout", "2s"]);
    assert_eq!(
        (refused.code, &refused.json["error"]["name"]),
        (1, &json!("no_answer"))
    );
    assert!(refused.said.contains("transactions"), "{refused:?}");

    producer
        .abort_transaction(SOON)
        .expect("a healthy coordinator");
    let done = group(&world, "scrub", &["--yes"]);
    assert_eq!(
        (done.code, &done.json["changed"]),
        (0, &json!(2)),
        "{done:?}"
    );
}

#[test]
fn a_group_that_is_not_there_is_a_finding() {
    let cluster = Cluster::start();
    let nobody = cluster.unique("nobody");
    let shown = group_of(cluster, &nobody, "inspect", &[]);
    assert_eq!(shown.code, 1, "{shown:?}");
    assert_eq!(
        (
            &shown.json["state"],
            &shown.json["live"],
            &shown.json["partitions"]
        ),
        (&json!("dead"), &json!(false), &json!([]))
    );
    let refused = group_of(cluster, &nobody, "scrub", &["--yes"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(refused.json["error"]["name"], "nothing_committed");
}

#[test]
fn texts_of_many_partitions_are_rewritten_in_several_requests() {
    const PARTITIONS: i32 = 600;
    let world = World::new(PARTITIONS);
    let texts: Vec<_> = (0..PARTITIONS)
        .map(|partition| {
            let mut bytes = b"X\x00\x02ab".to_vec();
            // A map of bytes, one for each offset, that fills most of what the broker takes.
            bytes.push(b'L');
            bytes.extend((0..2_900).map(|at| u8::from(at % 7 == partition % 7)));
            text::write(&bytes)
        })
        .collect();
    for some in (0..PARTITIONS).collect::<Vec<_>>().chunks(50) {
        let commits: Vec<_> = some
            .iter()
            .map(|&partition| (partition, 3, texts[partition as usize].as_bytes()))
            .collect();
        world
            .cluster
            .commit_all_as_other_program(&world.group, &world.topic, &commits)
            .expect("the group has no members");
    }
    let done = group(&world, "scrub", &["--yes"]);
    assert_eq!((done.code, &done.json["changed"]), (0, &json!(PARTITIONS)));
    assert!(
        world
            .committed()
            .iter()
            .all(|at| rider_of(at) == Rider::None)
    );
}

#[test]
fn a_broker_that_does_not_answer_is_told_in_time() {
    built_before_time_counts();
    let cluster = Cluster::with(Config::default());
    let topic = cluster.unique("topic");
    cluster.create_topic(&topic, 1, &[]);
    cluster
        .commit_as_other_program("g", &topic, 0, 1, b"")
        .expect("the group has no members");
    cluster.pause_node(1);
    for verb in ["inspect", "scrub"] {
        let begin = Instant::now();
        let failed = group_of(&cluster, "g", verb, &["--timeout", "2s"]);
        assert_eq!(failed.code, 1, "{failed:?}");
        assert_eq!(failed.json["error"]["name"], "no_answer", "{failed:?}");
        assert!(
            begin.elapsed() < Duration::from_secs(10),
            "{:?}",
            begin.elapsed()
        );
    }
    cluster.resume_node(1);
}

/// The client is destroyed after each of its requests has timed out, which must not end the process
/// (`docs/decisions/0005-facts-about-librdkafka.md`).
#[test]
fn a_client_whose_requests_timed_out_ends_in_peace() {
    let cluster = Cluster::with(Config::default());
    let topic = cluster.unique("topic");
    cluster.create_topic(&topic, 1, &[]);
    cluster
        .commit_as_other_program("g", &topic, 0, 1, b"")
        .expect("the group has no members");
    let mut client = cluster.client();
    client.set("group.id", "g");
    let groups: Vec<Group> = (0..4)
        .map(|_| {
            Group::open(&client, Duration::from_secs(1), OpenTransactions::WaitFor)
                .expect("these properties can be used")
        })
        .collect();
    for group in &groups {
        group.state().expect("the broker answers");
    }
    let commits = groups[0].commits().expect("the broker answers");
    let partitions: Vec<_> = commits.into_iter().map(|(at, _)| at).collect();
    cluster.pause_node(1);
    let timed_out = |error: GroupError| assert_eq!(error.name(), "no_answer", "{error}");
    timed_out(groups[0].state().expect_err("the broker is paused"));
    timed_out(groups[1].commits().expect_err("the broker is paused"));
    timed_out(
        groups[2]
            .log_ends(&partitions)
            .expect_err("the broker is paused"),
    );
    timed_out(
        groups[3]
            .ensure_stopped()
            .expect_err("the broker is paused"),
    );
    drop(groups);
    cluster.resume_node(1);
    let group = Group::open(&client, SOON, OpenTransactions::WaitFor)
        .expect("these properties can be used");
    wait::until("the broker answers again", SOON, || group.state().ok());
}
