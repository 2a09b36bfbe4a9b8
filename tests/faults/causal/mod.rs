//! Causal delivery under kills and moves: no effect before its cause, nowhere a wedge, and no stamp that forgets.
//!
//! Three members of a group consume three topics, into which two producers write chains of records: questions, answers to
//! them, answers to those, and to what the members themselves have sent. Members are killed, leave and join meanwhile.

mod chains;
mod members;
mod oracle;
mod pen;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keyway_tests::cluster::Cluster;
use keyway_tests::event_log::EventLog;
use keyway_tests::random::{Random, number, seed};
use keyway_tests::world::Protocol;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{Offset, TopicPartitionList};

use self::chains::{Forum, PARTITIONS, Topics};
use self::members::Members;
use self::oracle::{Case, Held, Tally, judge};
use crate::crew::pass;

const MEMBERS: usize = 3;

/// Faults of a round.
const FAULTS: usize = 3;

/// Records of each producer, at least.
const WRITTEN: usize = 150;

/// Between two looks at what the broker holds.
const LOOK: u64 = 20;

/// What happens, the time in milliseconds.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// SIGKILL so long into the fault; another one takes its seat later.
    Kill { seat: usize, at: u64, away: u64 },
    /// As before, and it is back before the group has missed it.
    KillAndBack { seat: usize, at: u64 },
    /// SIGTERM, and another one takes its seat.
    Leave { seat: usize, at: u64, away: u64 },
    /// One more joins and leaves.
    Guest { stay: u64 },
}

impl Fault {
    fn drawn(random: &mut Random) -> Fault {
        let seat = random.below(0..MEMBERS as u64) as usize;
        let (at, away) = (random.below(0..1_500), random.below(0..3_000));
        match random.below(0..6) {
            0 | 1 => Fault::Kill { seat, at, away },
            2 => Fault::KillAndBack { seat, at },
            3 | 4 => Fault::Leave { seat, at, away },
            _ => Fault::Guest { stay: away },
        }
    }

    fn is_a_kill(self) -> bool {
        matches!(self, Fault::Kill { .. } | Fault::KillAndBack { .. })
    }
}

/// What all rounds saw.
#[derive(Debug, Default)]
struct Figures {
    kills: usize,
    leaves: usize,
    longest_chain: usize,
    tally: Tally,
}

impl Figures {
    fn add(&mut self, tally: &Tally) {
        let all = &mut self.tally;
        for (sum, value) in [
            (&mut all.records, tally.records),
            (&mut all.repeated, tally.repeated),
            (&mut all.held, tally.held),
            (&mut all.foreign, tally.foreign),
            (&mut all.moves, tally.moves),
            (&mut all.commits, tally.commits),
            (&mut all.snapshots, tally.snapshots),
            (&mut all.outputs, tally.outputs),
            (&mut all.carried, tally.carried),
        ] {
            *sum += value;
        }
    }
}

#[test]
fn no_effect_before_its_cause_over_kills_and_moves() {
    let rounds = number("KEYWAY_FAULT_ROUNDS").unwrap_or(1);
    let first = seed("KEYWAY_FAULT_SEED");
    let mut figures = Figures::default();
    for seed in first..first + rounds {
        round(seed, &mut figures);
    }
    println!("{rounds} rounds: {figures:?}");
    let tally = &figures.tally;
    assert!(
        tally.held > 0 && tally.foreign > 0 && tally.carried > 0,
        "what it is about occurred: {figures:?}"
    );
}

fn round(seed: u64, figures: &mut Figures) {
    let mut random = Random::of(seed);
    let protocol = random.pick(&Protocol::ALL);
    let faults: Vec<Fault> = (0..FAULTS).map(|_| Fault::drawn(&mut random)).collect();
    println!("KEYWAY_FAULT_SEED={seed} KEYWAY_FAULT_ROUNDS=1: {protocol:?}, {faults:?}");
    let began = Instant::now();
    let forum = Forum::new(Cluster::start());
    let mut members = Members::new(&forum, protocol, &mut random);
    for _ in 0..MEMBERS {
        let seat = members.seat();
        members.start(seat);
    }
    members.until_shared_out();
    let group = members.group.clone();
    let (enough, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let snapshots = thread::scope(|scope| {
        // Also by a panic here.
        let (_enough, _over) = (Raised(&enough), Raised(&over));
        let watch = scope.spawn(|| look(&forum, &group, &over));
        scope.spawn(|| forum.read_outputs(&over));
        let writers = [(); 2].map(|()| {
            let random = Random::of(random.below(0..u64::MAX));
            let (forum, enough) = (&forum, &enough);
            scope.spawn(move || forum.write(random, WRITTEN, enough))
        });
        for &fault in &faults {
            suffer(&mut members, fault);
            members.until_shared_out();
        }
        enough.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().expect("a producer that writes to the end");
        }
        let written = began.elapsed();
        let records = forum.truth().consumed.len();
        members.until_all_done(records);
        println!("  {written:.1?}: written; {:.1?}: done", began.elapsed());
        members.end();
        over.store(true, Ordering::Relaxed);
        watch.join().expect("a broker that answers")
    });
    let outputs = forum.cluster.read(forum.topics.out());
    let lives: Vec<_> = members
        .lives()
        .map(|life| (life.since, EventLog::read(&life.events)))
        .collect();
    let tally = judge(&Case {
        topics: &forum.topics,
        truth: &forum.truth(),
        lives: &lives,
        snapshots: &snapshots,
        outputs: &outputs,
    });
    let tally = tally.unwrap_or_else(|faults| panic!("seed {seed}:\n{faults}"));
    let longest = forum.truth().longest_chain();
    println!(
        "  {:.1?}: {tally:?}, the longest chain {longest}",
        began.elapsed()
    );
    figures.add(&tally);
    figures.longest_chain = figures.longest_chain.max(longest);
    let kills = faults.iter().filter(|fault| fault.is_a_kill()).count();
    figures.kills += kills;
    figures.leaves += faults.len() - kills;
}

/// Raises a flag when it is dropped.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One fault, at the end of which all members are there again, or on their way.
fn suffer(members: &mut Members<'_>, fault: Fault) {
    match fault {
        Fault::Kill { seat, at, away } => {
            pass(at);
            members.kill(seat);
            pass(away);
            members.start(seat);
        }
        Fault::KillAndBack { seat, at } => {
            pass(at);
            members.kill(seat);
            members.start(seat);
        }
        Fault::Leave { seat, at, away } => {
            pass(at);
            members.leave(seat);
            pass(away);
            members.start(seat);
        }
        Fault::Guest { stay } => {
            let guest = members.seat();
            members.start(guest);
            members.until_shared_out();
            pass(stay);
            members.leave(guest);
        }
    }
}

/// What the broker holds for the group, all partitions in one answer, again and again until it is over; the last is what it
/// holds after that.
fn look(forum: &Forum<'_>, group: &str, over: &AtomicBool) -> Vec<Vec<Held>> {
    let consumer: BaseConsumer = forum
        .cluster
        .client()
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_uncommitted")
        .create()
        .expect("a consumer needs no network to be created");
    let mut list = TopicPartitionList::new();
    for name in forum.topics.consumed() {
        list.add_partition_range(name, 0, PARTITIONS - 1);
    }
    let mut moments: Vec<Vec<Held>> = Vec::new();
    loop {
        let is_last = over.load(Ordering::Relaxed);
        if let Ok(found) = consumer.committed_offsets(list.clone(), Duration::from_secs(10)) {
            let moment = held(&forum.topics, &found);
            if moments.last() != Some(&moment) {
                moments.push(moment);
            }
            if is_last {
                return moments;
            }
        }
        pass(LOOK);
    }
}

fn held(topics: &Topics, found: &TopicPartitionList) -> Vec<Held> {
    let elements = found.elements();
    let found = elements.iter().filter_map(|element| {
        let Offset::Offset(offset) = element.offset() else {
            return None;
        };
        Some(Held {
            topic: topics.find(element.topic())?,
            partition: element.partition(),
            offset,
            metadata: element.metadata().to_owned(),
        })
    });
    found.collect()
}
