//! The harness itself: each way to a cluster that is possible here comes up and does what the tests rely on.
//!
//! The way that this machine can't go is named as missing instead; with neither the tests fail. What takes long is
//! ignored, and run by `cargo test -p keyway-tests -- --ignored long`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, iter};

use keyway_tests::cluster::{Cluster, Committed, Config, Produced, Record, Way};
use keyway_tests::wait;
use rdkafka::types::RDKafkaErrorCode;

/// The bound for what takes seconds when all is well.
const PATIENCE: Duration = Duration::from_secs(90);

#[test]
fn the_shared_cluster_does_what_tests_rely_on() {
    let cluster = Cluster::start();
    let named = ["KEYWAY_BROKERS", "KEYWAY_CLUSTER"]
        .iter()
        .any(|name| env::var_os(name).is_some());
    if !named && Way::Docker.possible().is_ok() {
        assert_eq!(
            cluster.way(),
            Way::Docker,
            "a Docker engine comes before plain processes"
        );
    }
    records_come_back_with_keys_headers_and_tombstones(cluster);
    transactions_leave_markers_and_aborted_records_behind(cluster);
    deleted_records_move_the_start_of_the_log(cluster);
    metadata_of_4096_characters_is_stored_and_4097_refused(cluster);
    metadata_is_text_to_the_broker(cluster);
}

#[test]
fn a_jdk_and_maven_give_a_cluster() {
    a_way_gives_a_cluster(
        Way::Process,
        Way::Docker,
        a_killed_node_comes_back_at_the_same_address,
    );
}

#[test]
#[ignore = "long: all of it by either way; `cargo test -p keyway-tests -- --ignored long`"]
fn long_each_way_gives_a_cluster_that_does_what_tests_rely_on() {
    let all = |cluster: &Cluster| {
        records_come_back_with_keys_headers_and_tombstones(cluster);
        transactions_leave_markers_and_aborted_records_behind(cluster);
        deleted_records_move_the_start_of_the_log(cluster);
        metadata_of_4096_characters_is_stored_and_4097_refused(cluster);
        metadata_is_text_to_the_broker(cluster);
        a_killed_node_comes_back_at_the_same_address(cluster);
    };
    a_way_gives_a_cluster(Way::Docker, Way::Process, all);
    a_way_gives_a_cluster(Way::Process, Way::Docker, all);
}

#[test]
#[ignore = "long: three nodes, half a minute; `cargo test -p keyway-tests -- --ignored long`"]
fn long_three_nodes_survive_the_death_and_the_sleep_of_one() {
    let cluster = Cluster::with(Config {
        nodes: 3,
        ..Config::default()
    });
    let topic = cluster.unique("replicated");
    cluster.create_topic(&topic, 1, &[("min.insync.replicas", "2")]);
    let one = |value: &'static str| [(Some(0), Some("key"), value)];
    cluster.produce(&topic, one("with three"));

    let dead = cluster.leader(&topic, 0).expect("a new topic has leaders");
    cluster.kill_node(dead);
    cluster.produce(&topic, one("with two"));
    let heir = cluster.leader(&topic, 0).expect("it took the record");
    assert_ne!(heir, dead);
    cluster.start_node(dead);

    wait::until("the node that was away is in sync", PATIENCE, || {
        cluster.is_in_sync().then_some(())
    });
    cluster.pause_node(heir);
    cluster.produce(&topic, one("while one sleeps"));
    assert_ne!(cluster.leader(&topic, 0), Some(heir));
    cluster.resume_node(heir);

    let values: Vec<_> = cluster
        .read(&topic)
        .into_iter()
        .map(|record| record.value.unwrap_or_default())
        .collect();
    assert_eq!(
        values,
        [&b"with three"[..], b"with two", b"while one sleeps"]
    );
}

#[test]
fn a_cluster_ends_with_the_process_that_started_it_even_when_that_is_killed() {
    let possible = |way: &Way| way.possible().is_ok();
    ends_with_its_process([Way::Docker, Way::Process].into_iter().find(possible));
}

#[test]
#[ignore = "long: the other way, too; `cargo test -p keyway-tests -- --ignored long`"]
fn long_a_cluster_of_either_way_ends_with_its_process() {
    let possible = |way: &Way| way.possible().is_ok();
    ends_with_its_process([Way::Docker, Way::Process].into_iter().filter(possible));
}

fn ends_with_its_process(ways: impl IntoIterator<Item = Way>) {
    for way in ways {
        let mut other = another_process()
            .env("KEYWAY_CLUSTER", way.to_string())
            .spawn()
            .expect("a test program runs");
        let bootstrap = bootstrap_of(&mut other);
        TcpStream::connect(&bootstrap).expect("its cluster listens");
        other.kill().expect("it is our child");
        other.wait().expect("it is our child");
        wait::until("the cluster is gone with its process", PATIENCE, || {
            TcpStream::connect(&bootstrap).err()
        });
    }
}

#[test]
fn the_cluster_that_the_environment_names_comes_first() {
    let ours = Cluster::start();
    let mut other = another_process()
        .env("KEYWAY_BROKERS", ours.bootstrap())
        .spawn()
        .expect("a test program runs");
    assert_eq!(bootstrap_of(&mut other), ours.bootstrap());
    drop(other.stdin.take());
    assert!(other.wait().expect("it is our child").success());
}

#[test]
fn where_no_way_is_open_the_failure_names_what_is_missing() {
    let elsewhere = another_process()
        .env("PATH", "")
        .stdin(Stdio::null())
        .output()
        .expect("a test program runs");
    assert!(!elsewhere.status.success());
    let said = [elsewhere.stdout, elsewhere.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    for missing in [
        "KEYWAY_BROKERS",
        "`docker` does not run",
        "`java` does not run",
    ] {
        assert!(said.contains(missing), "{missing} is not in: {said}");
    }
}

/// This program again, as [`somebody_else`], with nothing said about clusters.
fn another_process() -> Command {
    let mut command = Command::new(env::current_exe().expect("the system knows what runs"));
    command
        .args([
            "--exact",
            "harness::somebody_else",
            "--ignored",
            "--nocapture",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    for name in ["KEYWAY_BROKERS", "KEYWAY_CLUSTER", "JAVA_HOME"] {
        command.env_remove(name);
    }
    command
}

/// Where the shared cluster of another process is.
fn bootstrap_of(other: &mut Child) -> String {
    let lines = BufReader::new(other.stdout.take().expect("stdout is piped")).lines();
    let mut said = lines.map_while(Result::ok);
    let at = said.find_map(|line| line.split_once("bootstrap ").map(|(_, at)| at.to_owned()));
    // What it says later must have somewhere to go.
    std::thread::spawn(move || said.for_each(drop));
    at.expect("the other process says where its cluster is")
}

/// What [`another_process`] does: it starts the shared cluster, says where, and waits for the end of its input.
#[test]
#[ignore = "run by other tests, in a process of its own"]
fn somebody_else() {
    println!("bootstrap {}", Cluster::start().bootstrap());
    std::io::stdin()
        .read_to_end(&mut Vec::new())
        .expect("it ends when the other test does");
}

/// `other` has to be possible where `way` is not: a machine with neither must not pass.
fn a_way_gives_a_cluster(way: Way, other: Way, does: impl Fn(&Cluster)) {
    if let Err(missing) = way.possible() {
        other
            .possible()
            .unwrap_or_else(|also| panic!("neither {way} ({missing}) nor {other} ({also})"));
        eprintln!("{way} is not possible here: {missing}");
        return;
    }
    let cluster = Cluster::by(
        way,
        Config {
            properties: &[("offsets.topic.num.partitions", "1")],
            ..Config::default()
        },
    );
    assert_eq!(cluster.way(), way);
    does(&cluster);
}

fn records_come_back_with_keys_headers_and_tombstones(cluster: &Cluster) {
    let topic = cluster.unique("records");
    cluster.create_topic(&topic, 2, &[("cleanup.policy", "compact")]);
    let placed = cluster.produce(
        &topic,
        (0..10).map(|n: i32| (Some(n % 2), Some(format!("key-{n}")), format!("{n}"))),
    );
    assert_eq!(
        placed,
        (0..10)
            .map(|n| Produced {
                partition: n % 2,
                offset: i64::from(n / 2)
            })
            .collect::<Vec<_>>()
    );

    let tombstone = Record {
        partition: Some(1),
        key: Some(Vec::new()),
        ..Record::default()
    };
    cluster.produce(
        &topic,
        [tombstone.header("h", Some(b"\xff")).header("h", None)],
    );
    assert_eq!(cluster.end_offsets(&topic), [5, 6]);

    let read = cluster.read(&topic);
    assert_eq!(read.len(), 11);
    let last = read
        .iter()
        .find(|record| (record.partition, record.offset) == (1, 5))
        .expect("it was produced");
    assert_eq!(
        (last.key.as_deref(), last.value.as_deref()),
        (Some(&b""[..]), None)
    );
    assert_eq!(
        last.headers,
        [("h".to_owned(), Some(vec![0xff])), ("h".to_owned(), None)]
    );
}

fn transactions_leave_markers_and_aborted_records_behind(cluster: &Cluster) {
    let topic = cluster.unique("transactions");
    cluster.create_topic(&topic, 1, &[]);
    let one = |value: &'static str| [(Some(0), Some("key"), value)];
    cluster.produce_transaction(&topic, one("aborted"), false);
    let committed = cluster.produce_transaction(&topic, one("committed"), true);
    assert_eq!(
        committed,
        [Produced {
            partition: 0,
            offset: 2
        }],
        "an aborted record and its marker lie before it"
    );
    assert_eq!(
        cluster.end_offsets(&topic),
        [4],
        "the last offset is a marker"
    );
    let values: Vec<_> = cluster
        .read(&topic)
        .into_iter()
        .map(|record| record.value)
        .collect();
    assert_eq!(values, [Some(b"committed".to_vec())]);
}

fn deleted_records_move_the_start_of_the_log(cluster: &Cluster) {
    let topic = cluster.unique("deleted");
    cluster.create_topic(&topic, 1, &[]);
    cluster.produce(
        &topic,
        (0..10).map(|n: i32| (Some(0), Some("key"), n.to_string())),
    );
    cluster.delete_records(&topic, 0, 7);
    assert_eq!(
        (cluster.start_offsets(&topic), cluster.end_offsets(&topic)),
        (vec![7], vec![10])
    );
}

fn metadata_of_4096_characters_is_stored_and_4097_refused(cluster: &Cluster) {
    let (group, topic) = (cluster.unique("group"), cluster.unique("metadata"));
    cluster.create_topic(&topic, 2, &[]);
    assert_eq!(cluster.committed(&group, &topic), []);
    // The limit counts characters, not bytes: these take three bytes each.
    let text = |characters| {
        iter::repeat_n('\u{4e00}', characters)
            .collect::<String>()
            .into_bytes()
    };
    let commit = |metadata: &[u8]| cluster.commit_as_other_program(&group, &topic, 1, 42, metadata);
    assert_eq!(
        commit(&text(4097)),
        Err(RDKafkaErrorCode::OffsetMetadataTooLarge)
    );
    assert_eq!(cluster.committed(&group, &topic), []);
    assert_eq!(commit(&text(4096)), Ok(()));
    assert_eq!(
        cluster.committed(&group, &topic),
        [Committed {
            partition: 1,
            offset: 42,
            metadata: text(4096),
            leader_epoch: None,
        }]
    );
}

/// So a reader of real commits sees U+FFFD where another program wrote bytes that are not UTF-8.
fn metadata_is_text_to_the_broker(cluster: &Cluster) {
    let (group, topic) = (cluster.unique("group"), cluster.unique("bytes"));
    cluster.create_topic(&topic, 1, &[]);
    cluster
        .commit_as_other_program(&group, &topic, 0, 1, b"\xff\xfe\0ok")
        .expect("the broker takes any bytes");
    let stored = cluster.committed(&group, &topic);
    assert_eq!(
        stored,
        [Committed {
            partition: 0,
            offset: 1,
            metadata: "\u{fffd}\u{fffd}\0ok".into(),
            leader_epoch: None,
        }]
    );
}

fn a_killed_node_comes_back_at_the_same_address(cluster: &Cluster) {
    let topic = cluster.unique("restart");
    cluster.create_topic(&topic, 1, &[]);
    cluster.produce(&topic, [(Some(0), Some("key"), "before")]);
    cluster.kill_node(1);
    cluster.start_node(1);
    cluster.produce(&topic, [(Some(0), Some("key"), "after")]);
    cluster.pause_node(1);
    cluster.resume_node(1);
    assert_eq!(cluster.end_offsets(&topic), [2]);
}
