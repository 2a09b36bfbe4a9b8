//! `keyway group`: the command looks into a group and changes what a stopped one has committed.

use keyway_offsets::{DEFAULT_MAX_WINDOW, HoleMap, Offset, OffsetRange, encode, text};
use keyway_rider::Rider;
use keyway_tests::cluster::{Cluster, Committed};
use keyway_tests::command::{self, Answered, answer};
use keyway_tests::event_log::{EventLog, Kind};
use keyway_tests::member_process::MemberProcess;
use keyway_tests::wait;
use keyway_tests::world::{CLEAN, Member, PATIENCE, Protocol, World, holes};
use serde_json::{Value, json};

use crate::SOON;

const RIDER: &[u8] = b"the application's own";

/// In hexadecimal digits.
fn rider_hex() -> String {
    RIDER.iter().map(|byte| format!("{byte:02x}")).collect()
}

const RECORDS: usize = 200;

/// `keyway group <verb>` for this world's group.
pub(crate) fn group(world: &World<'_>, verb: &str, more: &[&str]) -> Answered {
    group_of(world.cluster, &world.group, verb, more)
}

pub(crate) fn group_of(cluster: &Cluster, group: &str, verb: &str, more: &[&str]) -> Answered {
    let mut arguments = vec!["group", verb, "--brokers", cluster.bootstrap()];
    arguments.extend(["--group", group]);
    arguments.extend(more);
    answer(&arguments)
}

/// The first use builds the command.
pub(crate) fn built_before_time_counts() {
    command::keyway();
}

pub(crate) fn partitions(answered: &Answered) -> &Vec<Value> {
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

/// A group of one partition, stopped, in which records 13 and 57 are incomplete; a rider is beside the map.
fn stopped_before_a_killer() -> World<'static> {
    let world = World::new(1);
    world.fill(100, 100);
    world.fail(|_, offset| is_stuck(offset));
    let first = world
        .member("first")
        .with(|builder| builder.rider(|_| Some(RIDER.to_vec())))
        .start();
    world.until_finished(98);
    first.end();
    assert_eq!(world.committed_holes(), [(13, 2)]);
    world
}

/// `keyway group complete` for this world's first partition.
fn complete(world: &World<'_>, offset: &str, more: &[&str]) -> Answered {
    let place = ["--topic", &world.topic, "--partition", "0"];
    let arguments = [&place[..], &["--offset", offset], more].concat();
    group(world, "complete", &arguments)
}

/// The records of which a log has this kind of line.
fn of_kind(log: &EventLog, kind: Kind) -> Vec<i64> {
    let events = log.events.iter().filter(|event| event.kind == kind);
    events
        .filter_map(|event| Some(event.offset?.get()))
        .collect()
}

/// Without the command (`--yes` left out) the third life dies as the ones before.
#[test]
fn a_record_that_kills_its_process_is_found_and_completed_and_nothing_else_runs_again() {
    built_before_time_counts();
    let world = stopped_before_a_killer();
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let life = |name: &str| {
        let events = folder.path().join(name);
        let member = MemberProcess::start(&[
            format!("brokers={}", world.cluster.bootstrap()),
            format!("group={}", world.group),
            format!("topic={}", world.topic),
            format!("events={}", events.display()),
            "concurrency=1".to_owned(),
            "abort=key-13".to_owned(),
        ]);
        (member, events)
    };
    for name in ["first", "second"] {
        let (member, events) = life(name);
        let status = member.died(PATIENCE);
        assert!(!status.success(), "{status}");
        let log = EventLog::read(&events);
        assert_eq!(
            (of_kind(&log, Kind::Start), of_kind(&log, Kind::Done)),
            (vec![13], vec![]),
            "the last start without a done is the record"
        );
    }
    let before = world.committed();
    assert_eq!(
        complete(&world, "13", &["--yes"]).json["error"]["name"],
        "group_live",
        "the dead member counts until its session is over"
    );
    wait::until("the end of its session", SOON, || {
        let shown = group(&world, "inspect", &[]);
        let lowest = &partitions(&shown)[0]["incomplete"][0];
        assert_eq!(lowest, &json!([13, 13]), "{shown:?}");
        (shown.json["live"] == json!(false)).then_some(())
    });

    let dry = complete(&world, "13", &[]);
    assert_eq!((dry.code, &dry.json["changed"]), (0, &json!(0)), "{dry:?}");
    assert_eq!(world.committed(), before, "a dry run changes nothing");
    let done = complete(&world, "13", &["--yes"]);
    assert_eq!(
        (done.code, &done.json),
        (
            0,
            &json!({
                "group": world.group, "dry_run": false, "topic": world.topic, "partition": 0, "offsets": [13, 13],
                "committed": 13, "committed_after": 57, "completed": 1, "chars_before": before[0].metadata.len(),
                "chars_after": world.committed()[0].metadata.len(),
                "rider": {"state": "present", "bytes": RIDER.len(), "hex": rider_hex()}, "changed": 1,
            })
        ),
        "{done:?}"
    );
    assert_eq!(world.committed_holes(), [(57, 1)]);
    assert_eq!(
        rider_of(&world.committed()[0]),
        Rider::Present(RIDER.to_vec())
    );

    let (mut member, events) = life("third");
    member.until("the other hole", PATIENCE, |status| {
        status["completed"] == 1 && status["uncommitted"] == 0
    });
    member.stop();
    let log = EventLog::read(&events);
    assert_eq!(
        (of_kind(&log, Kind::Start), of_kind(&log, Kind::Done)),
        (vec![57], vec![57]),
        "nothing else runs"
    );
    assert_eq!(world.committed_holes(), [(100, 0)]);
}

#[test]
fn what_lies_outside_the_commit_and_the_log_is_not_completed() {
    let world = stopped_before_a_killer();
    let before = world.committed();
    for offsets in ["12", "0-57", "100", "57-100"] {
        let refused = complete(&world, offsets, &["--yes"]);
        assert_eq!(
            (refused.code, &refused.json["error"]["name"]),
            (2, &json!("offset_outside")),
            "{offsets}: {refused:?}"
        );
    }
    let again = complete(&world, "14-56", &["--yes"]);
    assert_eq!(
        (again.code, &again.json["completed"], &again.json["changed"]),
        (0, &json!(0), &json!(0)),
        "all of it is complete already: {again:?}"
    );
    assert_eq!(world.committed(), before, "nothing was written");
    let elsewhere = ["--topic", &world.topic, "--partition", "7", "--offset", "0"];
    let refused = group(&world, "complete", &elsewhere);
    assert_eq!(
        (refused.code, &refused.json["error"]["name"]),
        (1, &json!("nothing_committed")),
        "{refused:?}"
    );

    let upper = complete(&world, "57-99", &["--yes"]);
    assert_eq!((upper.code, &upper.json["completed"]), (0, &json!(1)));
    assert_eq!(world.committed_holes(), [(13, 1)], "the offset stays");
    let all = complete(&world, "13", &["--yes"]);
    assert_eq!((all.code, &all.json["committed_after"]), (0, &json!(100)));
    assert_eq!(world.committed_holes(), [(100, 0)]);
    assert_eq!(
        rider_of(&world.committed()[0]),
        Rider::Present(RIDER.to_vec())
    );
}

/// A member works on a group of this protocol; a record is stuck, and the commit has a hole there.
pub(crate) fn live_with_a_hole(protocol: Protocol) -> (World<'static>, Member) {
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
        let scrubs =
            [&["--yes"][..], &["--all", "--yes"], &[]].map(|more| group(&world, "scrub", more));
        let completed = complete(&world, "3", &["--yes"]);
        for refused in scrubs.into_iter().chain([completed]) {
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
