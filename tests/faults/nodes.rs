//! Three nodes, of which one after the other dies or stands still, while two members work and records are fed.

use std::time::Duration;

use keyway_tests::checker::{Rules, Tally};
use keyway_tests::cluster::{Cluster, Config};
use keyway_tests::random::{Random, number, seed};
use keyway_tests::wait;
use keyway_tests::world::{CLEAN, Protocol};

use crate::crew::{Crew, PATIENCE, pass};

/// Faults of one round.
const FAULTS: usize = 2;

const NODES: u64 = 3;

/// Each time when records are fed.
const PORTION: usize = 160;

/// What happens to a node, and for how long: others are asked to take over after six seconds.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// It is gone, and comes back over the same storage.
    Killed { node: usize, millis: u64 },
    /// Its connections stay open, and nothing answers.
    CutOff { node: usize, millis: u64 },
}

impl Fault {
    fn drawn(random: &mut Random) -> Fault {
        let node = random.below(1..NODES + 1) as usize;
        let millis = random.below(0..10_000);
        match random.below(0..2) {
            0 => Fault::Killed { node, millis },
            _ => Fault::CutOff { node, millis },
        }
    }
}

#[test]
#[ignore = "long: three nodes, a minute a round; `cargo test -p keyway-tests --test faults -- --ignored long`"]
fn long_nodes_die_and_stand_still_under_load() {
    let rounds = number("KEYWAY_FAULT_ROUNDS").unwrap_or(3);
    let first = seed("KEYWAY_FAULT_SEED");
    let cluster = Cluster::with(Config {
        nodes: NODES as usize,
        ..Config::default()
    });
    let tallies: Vec<Tally> = (first..first + rounds)
        .map(|seed| round(&cluster, seed))
        .collect();
    let records: usize = tallies.iter().map(|tally| tally.finished).sum();
    let repeated: usize = tallies.iter().map(|tally| tally.repeated).sum();
    println!("{rounds} rounds on three nodes: {records} records, {repeated} repeated");
}

fn round(cluster: &Cluster, seed: u64) -> Tally {
    let mut random = Random::of(seed);
    let protocol = random.pick(&Protocol::ALL);
    let faults: Vec<Fault> = (0..FAULTS).map(|_| Fault::drawn(&mut random)).collect();
    println!("KEYWAY_FAULT_SEED={seed} KEYWAY_FAULT_ROUNDS=1: {protocol:?}, {faults:?}");

    let mut crew = Crew::new(cluster, protocol, Duration::from_millis(10));
    let seats = [crew.seat(), crew.seat()];
    crew.feed(PORTION);
    for seat in seats {
        crew.start(seat, None);
    }
    crew.until_held_by(&seats);
    crew.while_fed(PORTION, |crew| {
        for fault in faults {
            suffer(cluster, crew, fault);
        }
    });
    crew.feed(PORTION);
    crew.until_all_finished();
    for seat in seats {
        crew.ask_to_end(seat);
    }
    for seat in seats {
        crew.until_ended(seat);
    }
    // A coordinator that is gone takes sessions with it: whoever does not know yet that its partitions are with
    // others still runs what it holds, and what it could not commit runs again.
    let tally = crew.judge_by(&Rules {
        across_members: false,
        ..CLEAN
    });
    println!("  {} records, {} repeated", tally.finished, tally.repeated);
    tally
}

/// One fault, at the end of which all nodes are well and work goes on.
fn suffer(cluster: &Cluster, crew: &Crew<'_>, fault: Fault) {
    match fault {
        Fault::Killed { node, millis } => {
            cluster.kill_node(node);
            pass(millis);
            cluster.start_node(node);
        }
        Fault::CutOff { node, millis } => {
            cluster.pause_node(node);
            pass(millis);
            cluster.resume_node(node);
        }
    }
    // Two at once would be more than three nodes promise to survive.
    wait::until("all replicas of all nodes", PATIENCE, || {
        cluster.is_in_sync().then_some(())
    });
    let finished = crew.finished();
    wait::until("work after the fault", PATIENCE, || {
        (crew.finished() > finished).then_some(())
    });
}
