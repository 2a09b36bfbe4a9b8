//! Exactly once from end to end: a read_committed reader finds the output of each input once, in the order of its key,
//! whatever happens to members and nodes; and what it finds is covered by the group's commits.

use std::time::{Duration, Instant};

use keyway_tests::checker::outputs::Tally;
use keyway_tests::cluster::{Cluster, Config};
use keyway_tests::random::{Random, number, seed};
use keyway_tests::wait;
use keyway_tests::world::Protocol;

use crate::crew::{PATIENCE, pass};
use crate::pipeline::{Pipeline, Shape};

const MEMBERS: usize = 3;
const NODES: usize = 3;

/// A kill waits so long for a transaction to be open.
const OPEN_WITHIN: Duration = Duration::from_secs(2);

/// What happens, the time in milliseconds.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// SIGKILL so long into the fault; a member takes its seat later.
    Kill { seat: usize, at: u64, away: u64 },
    /// SIGKILL at the next moment when a transaction is open.
    KillAmid { seat: usize, away: u64 },
    /// SIGSTOP until its session is over and its partitions are with others, and longer; then SIGCONT.
    Pause { seat: usize, longer: u64 },
    /// It ends in good order, and another one takes its seat.
    Leave { seat: usize, away: u64 },
    /// One more joins and leaves.
    Guest { stay: u64 },
    /// A node is killed and comes back over the same storage.
    Node { node: usize, away: u64 },
}

/// How much of everything.
struct Size {
    records: usize,
    keys: u64,
    /// The kinds of its faults, whose order is drawn.
    faults: Vec<fn(&mut Random) -> Fault>,
    /// For how long one key is stuck, at least.
    stuck: Duration,
}

fn seat(random: &mut Random) -> usize {
    random.below(0..MEMBERS as u64) as usize
}

fn kill(random: &mut Random) -> Fault {
    Fault::Kill {
        seat: seat(random),
        at: random.below(0..1_500),
        away: random.below(0..3_000),
    }
}

fn kill_amid(random: &mut Random) -> Fault {
    Fault::KillAmid {
        seat: seat(random),
        away: random.below(0..3_000),
    }
}

fn pause(random: &mut Random) -> Fault {
    Fault::Pause {
        seat: seat(random),
        // With the session's six seconds some outlive their transaction's ten.
        longer: random.below(0..8_000),
    }
}

fn leave(random: &mut Random) -> Fault {
    Fault::Leave {
        seat: seat(random),
        away: random.below(0..3_000),
    }
}

fn guest(random: &mut Random) -> Fault {
    Fault::Guest {
        stay: random.below(0..3_000),
    }
}

fn node(random: &mut Random) -> Fault {
    Fault::Node {
        node: random.below(1..NODES as u64 + 1) as usize,
        away: random.below(0..10_000),
    }
}

/// One kill and one pause, which is enough to see a broken promise: without transactions it fails with outputs that are
/// there twice.
#[test]
fn each_output_once_over_a_kill_and_a_pause() {
    let size = Size {
        records: number("KEYWAY_FAULT_RECORDS").unwrap_or(2_000) as usize,
        keys: 50,
        faults: vec![kill_amid, pause],
        stuck: Duration::ZERO,
    };
    rounds(
        Cluster::start(),
        number("KEYWAY_FAULT_ROUNDS").unwrap_or(1),
        &size,
    );
}

#[test]
#[ignore = "long: three nodes, five minutes a round; `cargo test -p keyway-tests --test faults -- --ignored long_each_output`"]
fn long_each_output_once_over_everything() {
    let size = Size {
        records: number("KEYWAY_FAULT_RECORDS").unwrap_or(200_000) as usize,
        keys: 1_000,
        faults: vec![
            kill, kill, kill_amid, kill_amid, pause, pause, leave, leave, guest, node, node,
        ],
        stuck: Duration::from_secs(60),
    };
    let cluster = Cluster::with(Config {
        nodes: NODES,
        ..Config::default()
    });
    rounds(&cluster, number("KEYWAY_FAULT_ROUNDS").unwrap_or(3), &size);
}

fn rounds(cluster: &Cluster, rounds: u64, size: &Size) {
    let first = seed("KEYWAY_FAULT_SEED");
    let aborted: usize = (first..first + rounds)
        .map(|seed| round(cluster, seed, size))
        .sum();
    println!("{rounds} rounds, {aborted} outputs of transactions that were broken off");
}

/// How many outputs were in transactions that were broken off.
fn round(cluster: &Cluster, seed: u64, size: &Size) -> usize {
    let mut random = Random::of(seed);
    let protocol = random.pick(&Protocol::ALL);
    let shape = Shape {
        protocol,
        // The consumer protocol turns a static identity away, for good, while the process before it counts.
        static_members: random.below(0..2) == 0 && protocol != Protocol::Consumer,
        keys: size.keys,
    };
    let faults = drawn(&mut random, size);
    let began = Instant::now();
    println!("KEYWAY_FAULT_SEED={seed} KEYWAY_FAULT_ROUNDS=1: {shape:?}, {faults:?}");

    let mut pipeline = Pipeline::new(cluster, shape, random);
    for _ in 0..MEMBERS {
        let seat = pipeline.seat();
        pipeline.start(seat);
    }
    pipeline.until_shared_out();
    let (stuck_since, mut stuck) = (Instant::now(), true);
    let share = size.records / faults.len();
    let mut left = size.records;
    for (n, &fault) in (1..).zip(&faults) {
        let records = if n == faults.len() { left } else { share };
        left -= records;
        // A fifth for the time after it.
        pipeline.while_fed(records - records / 5, |pipeline| {
            suffer(cluster, pipeline, fault);
        });
        pipeline.until_work_goes_on(records / 5);
        let tally = pipeline.judge_so_far();
        println!(
            "  {:.0?}: {fault:?}, {} outputs so far",
            began.elapsed(),
            tally.outputs
        );
        if stuck && n < faults.len() && stuck_since.elapsed() >= size.stuck {
            pipeline.heal();
            stuck = false;
        }
    }
    wait::until("the stuck key's time", size.stuck + PATIENCE, || {
        (stuck_since.elapsed() >= size.stuck).then_some(())
    });
    pipeline.heal();
    let Tally { outputs, members } = pipeline.finish();
    let aborted = pipeline.aborted();
    println!(
        "  {:.0?}: {outputs} outputs of {members} members, each once and in order, {aborted} broken off",
        began.elapsed()
    );
    assert_eq!(outputs, size.records);
    assert!(members >= MEMBERS, "all of them had a share");
    aborted
}

/// The faults in a drawn order.
fn drawn(random: &mut Random, size: &Size) -> Vec<Fault> {
    let mut left = size.faults.clone();
    let mut faults = Vec::new();
    while !left.is_empty() {
        let next = random.below(0..left.len() as u64) as usize;
        faults.push(left.remove(next)(random));
    }
    faults
}

/// One fault, at the end of which all members and nodes are well.
fn suffer(cluster: &Cluster, pipeline: &mut Pipeline<'_>, fault: Fault) {
    match fault {
        Fault::Kill { seat, at, away } => {
            pass(at);
            pipeline.kill(seat);
            pass(away);
            pipeline.start(seat);
        }
        Fault::KillAmid { seat, away } => {
            wait::try_until(OPEN_WITHIN, || {
                pipeline.is_amid_a_transaction().then_some(())
            });
            pipeline.kill(seat);
            pass(away);
            pipeline.start(seat);
        }
        Fault::Pause { seat, longer } => {
            pipeline.pause(seat);
            pipeline.until_shared_out();
            pass(longer);
            pipeline.resume(seat);
        }
        Fault::Leave { seat, away } => {
            pipeline.leave(seat);
            pass(away);
            pipeline.start(seat);
        }
        Fault::Guest { stay } => {
            let guest = pipeline.seat();
            pipeline.start(guest);
            pipeline.until_shared_out();
            pass(stay);
            pipeline.leave(guest);
        }
        Fault::Node { node, away } => {
            cluster.kill_node(node);
            pass(away);
            cluster.start_node(node);
            // Two at once would be more than three nodes promise to survive.
            wait::until("all replicas of all nodes", PATIENCE, || {
                cluster.is_in_sync().then_some(())
            });
        }
    }
    pipeline.until_shared_out();
}
