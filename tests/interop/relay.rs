//! The group moves from one implementation to the other and back: each runs exactly the holes that it finds.

use std::collections::BTreeSet;
use std::time::Duration;

use keyway_offsets::{DEFAULT_MAX_WINDOW, Encoding, Offset};
use keyway_tests::cluster::Committed;
use keyway_tests::peer::{Peer, Processed, Until};
use keyway_tests::world::{CLEAN, World};

type Place = (i32, i64);

/// Records of each partition.
const RECORDS: usize = 3_000;

/// The group is Java's as soon as it is idle for so long.
const IDLE: Until = Until::Idle(Duration::from_secs(2));

/// Holes whose maps take each form: a few close together, two far apart, many in no pattern, and none.
fn holes_of_every_form() -> BTreeSet<Place> {
    let close = [2_960, 2_963, 2_964, 2_970, 2_977, 2_981].map(|offset| (0, offset));
    let apart = [5, 2_900].map(|offset| (1, offset));
    let many = (0..150).map(|n: i64| (2, n * 19 + n * n % 17));
    close.into_iter().chain(apart).chain(many).collect()
}

const PARTITIONS: i32 = 4;

/// A topic full of records, each with a key of its own.
fn full_world(partitions: i32, records: usize) -> World<'static> {
    let world = World::new(partitions);
    let keys = records * partitions as usize;
    world.fill(keys, keys);
    world
}

fn java(world: &World<'_>, held: &BTreeSet<Place>) -> Peer {
    let peer = Peer::new(world.cluster, &world.group, &world.topic).concurrency(256);
    held.iter().fold(peer, |peer, &(partition, offset)| {
        peer.hold(partition, offset)
    })
}

fn places(processed: &[Processed]) -> Vec<Place> {
    let mut places: Vec<_> = processed
        .iter()
        .map(|at| (at.partition, at.offset))
        .collect();
    places.sort_unstable();
    places
}

fn sorted(places: &BTreeSet<Place>) -> Vec<Place> {
    places.iter().copied().collect()
}

fn started_by(world: &World<'_>, member: &str) -> Vec<Place> {
    let mut started = world.seen(|seen| seen.started_by(member));
    started.sort_unstable();
    started
}

fn encoding(committed: &Committed) -> Encoding {
    let base = Offset::new(committed.offset).expect("committed offsets are not negative");
    let decoded = keyway_offsets::decode(base, &committed.metadata, DEFAULT_MAX_WINDOW);
    decoded
        .unwrap_or_else(|error| panic!("{committed:?}: {error}"))
        .encoding
}

fn encodings(world: &World<'_>) -> Vec<Encoding> {
    world.committed().iter().map(encoding).collect()
}

fn is_compressed(encoding: Encoding) -> bool {
    use Encoding::{
        BitSetCompressed, BitSetV2Compressed, RunLengthCompressed, RunLengthV2Compressed,
    };
    matches!(
        encoding,
        BitSetCompressed | BitSetV2Compressed | RunLengthCompressed | RunLengthV2Compressed
    )
}

#[test]
fn keyway_runs_exactly_the_holes_that_java_left() {
    let world = full_world(PARTITIONS, RECORDS);
    let held = holes_of_every_form();
    let all = RECORDS * PARTITIONS as usize;
    let report = java(&world, &held).run(Until::Processed(all - held.len()));
    assert_eq!(
        report.processed.len(),
        all - held.len(),
        "{}",
        report.output
    );
    let left = world.committed();
    let forms = encodings(&world);
    assert!(
        is_compressed(forms[2]) && forms[3] == Encoding::None,
        "{forms:?}"
    );
    assert_eq!(forms[0], Encoding::BitSet);
    assert_eq!(forms[1], Encoding::RunLength);

    let keyway = world.member("keyway").start();
    world.until_finished(held.len());
    keyway.end();
    assert_eq!(started_by(&world, "keyway"), sorted(&held));
    world.judge_after(&left, &CLEAN);
    assert_eq!(
        world.committed_holes(),
        vec![(RECORDS as i64, 0); PARTITIONS as usize]
    );
}

#[test]
fn java_runs_exactly_the_holes_that_keyway_left() {
    let world = full_world(PARTITIONS, RECORDS);
    let failing = holes_of_every_form();
    let fails = failing.clone();
    world.fail(move |partition, offset| fails.contains(&(partition, offset)));
    let keyway = world.member("keyway").start();
    world.until_finished(RECORDS * PARTITIONS as usize - failing.len());
    keyway.end();
    let forms = encodings(&world);
    assert!(
        is_compressed(forms[2]) && forms[3] == Encoding::None,
        "{forms:?}"
    );
    assert!(
        forms[0] == Encoding::BitSet && forms[1] == Encoding::RunLength,
        "{forms:?}"
    );

    let report = java(&world, &BTreeSet::new()).run(IDLE);
    assert_eq!(
        places(&report.processed),
        sorted(&failing),
        "{}",
        report.output
    );
    assert_eq!(
        world.committed_holes(),
        vec![(RECORDS as i64, 0); PARTITIONS as usize]
    );
}

#[test]
fn over_many_partitions_a_group_moves_from_java_to_keyway_and_back() {
    const MANY: i32 = 24;
    let world = full_world(MANY, 50);
    let all = 50 * MANY as usize;
    // Java leaves four of each partition, of which Keyway leaves two.
    let left = |by: i64| -> BTreeSet<Place> {
        let of = |partition| (0..50).map(move |offset| (partition, offset));
        let places = (0..MANY).flat_map(of);
        places
            .filter(|(partition, offset)| (i64::from(*partition) + offset) % by == 3)
            .collect()
    };
    let (by_java, by_keyway) = (left(13), left(26));
    assert!(by_keyway.is_subset(&by_java) && by_keyway.len() < by_java.len());

    let report = java(&world, &by_java).run(Until::Processed(all - by_java.len()));
    assert_eq!(
        report.processed.len(),
        all - by_java.len(),
        "{}",
        report.output
    );

    let before = world.committed();
    let fails = by_keyway.clone();
    world.fail(move |partition, offset| fails.contains(&(partition, offset)));
    let keyway = world.member("keyway").start();
    world.until_finished(by_java.len() - by_keyway.len());
    keyway.end();
    let mut ran = started_by(&world, "keyway");
    ran.dedup();
    assert_eq!(
        ran,
        sorted(&by_java),
        "what failed ran, too, and was not finished"
    );
    world.judge_after(
        &before,
        &keyway_tests::checker::Rules {
            finished: false,
            ..CLEAN
        },
    );

    let report = java(&world, &BTreeSet::new()).run(IDLE);
    assert_eq!(
        places(&report.processed),
        sorted(&by_keyway),
        "{}",
        report.output
    );
    assert_eq!(world.committed_holes(), vec![(50, 0); MANY as usize]);
}
