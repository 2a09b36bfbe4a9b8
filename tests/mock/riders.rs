//! Riders through the engine's own commits: every rung of the budget, suppliers that fail, what a restart finds.

use std::sync::atomic::{AtomicUsize, Ordering as Atomic};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keyway::offsets::{DEFAULT_MAX_WINDOW, HoleMap, Offset, OffsetRange, encode, text};
use keyway::rider::read;
use keyway::{
    Assigned, BadMetadata, Builder, Outcome, Record, Rider, RiderReason, StopReason, metrics,
};
use keyway_tests::{telemetry, wait};

use crate::world::{Door, Event, LONG, OpenAtEnd, Run, World};

const AN_HOUR: Duration = Duration::from_secs(3_600);

fn at(offset: i64) -> Offset {
    Offset::new(offset).expect("not negative")
}

/// Map and rider of a text.
fn parts(offset: i64, text: &str) -> (HoleMap, Rider) {
    let metadata = read(at(offset), text.as_bytes(), DEFAULT_MAX_WINDOW);
    let map = metadata
        .map
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    (map.map, metadata.rider)
}

/// The texts that were committed for a partition.
fn commits(run: &Run, partition: i32) -> Vec<(i64, String)> {
    let events = run.seen.events();
    let of = |event| match event {
        Event::Committed(tp, offset, text) if tp.partition == partition => Some((offset, text)),
        _ => None,
    };
    events.into_iter().filter_map(of).collect()
}

#[track_caller]
fn until_commit(run: &Run, partition: i32, what: &str, is: impl Fn(i64, &str) -> bool) -> String {
    let found = wait::try_until(LONG, || {
        commits(run, partition)
            .into_iter()
            .find_map(|(offset, text)| is(offset, &text).then_some(text))
    });
    found.unwrap_or_else(|| panic!("{what}: {:?}", commits(run, partition)))
}

/// Offsets of the partition that the rungs are tried on.
const SPAN: i64 = 800;

/// Bytes of their map: bits without a pattern, a magic byte, a length of two bytes, and a byte of padding.
const INNER: usize = 4 + SPAN as usize / 8;

/// The hole that is filled, so that there is something to commit.
const FILLED: i64 = 400;

/// Whether an offset is open at the start: bits without a pattern, the first one open, the last one not.
fn is_open(offset: i64) -> bool {
    let mut mixed = (offset as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    offset == 0 || offset == FILLED || (offset != SPAN - 1 && (mixed ^ (mixed >> 31)) & 1 == 0)
}

fn map(is_hole: impl Fn(i64) -> bool) -> HoleMap {
    let holes = (0..SPAN)
        .filter(|offset| is_hole(*offset))
        .map(|offset| OffsetRange::single(at(offset)));
    HoleMap::new(at(0), SPAN - 1, holes).expect("a map")
}

#[test]
fn every_rung_is_reached_by_commits_of_the_engine() {
    let world = World::filled(SPAN as u64);
    let before = map(is_open);
    let after = map(|offset| is_open(offset) && offset != FILLED);
    // Three bytes are four characters; 140 of these hold the map, and one byte more.
    assert_eq!((INNER, encode(&after).text.len()), (104, 140));
    let cases = [
        // characters, bytes of the rider; what is in the string: rider, map; its characters
        (144, 1, Some(1), true, 144),
        (144, 2, Some(0), true, 144),
        (148, 4, Some(4), true, 148),
        (148, 5, Some(0), true, 144),
        (143, 1, None, true, 140),
        (140, 1, None, true, 140),
        (139, 99, Some(99), false, 136),
        (139, 100, Some(0), false, 4),
        (136, 99, Some(99), false, 136),
        (8, 3, Some(3), false, 8),
        (8, 4, Some(0), false, 4),
        (4, 1, Some(0), false, 4),
        (3, 1, None, false, 0),
    ];
    let start = |case: usize, builder: Builder, chars: usize| {
        let group = format!("case-{case}");
        world.commit_as_stranger(&group, 0, 0, &encode(&before).text);
        let builder = builder
            .group(&group)
            .metadata_limit(chars)
            .metadata_threshold(1.0);
        Run::of(builder.handler(|record: &Record| match record.offset() {
            FILLED => Outcome::Done,
            _ => Outcome::Retry {
                after: Some(AN_HOUR),
            },
        }))
    };
    let runs: Vec<(Run, usize)> = cases
        .iter()
        .enumerate()
        .map(|(case, &(chars, bytes, ..))| {
            let builder = world.builder().supplier_timeout(Duration::from_secs(5));
            let builder = builder.rider(move |_| Some(vec![7; bytes]));
            (start(case, builder, chars), case)
        })
        .collect();
    let bare = start(cases.len(), world.builder(), 4_096);
    for (run, case) in runs {
        let (chars, bytes, rider, has_map, length) = cases[case];
        let place = format!("a rider of {bytes} bytes in {chars} characters");
        run.until_done(1);
        let text = until_commit(&run, 0, &place, |_, text| match has_map {
            true => text.len() >= 140 && parts(0, text).0 == after,
            false => true,
        });
        let expected = match rider {
            None => Rider::None,
            Some(0) => Rider::Dropped,
            Some(bytes) => Rider::Present(vec![7; bytes]),
        };
        let (found, found_rider) = parts(0, &text);
        assert_eq!((text.len(), found_rider), (length, expected), "{place}");
        assert_eq!(found.is_caught_up(), !has_map, "{place}");
        assert!(text.len() <= chars, "{place}");
        run.stop();
    }
    bare.until_done(1);
    let own = encode(&after).text;
    until_commit(
        &bare,
        0,
        "without a rider the text is the map's own",
        |_, text| text == own,
    );
    bare.stop();
}

#[test]
fn a_supplier_that_hangs_costs_riders_and_holds_up_nothing() {
    telemetry::keep();
    let world = World::of(2);
    let door = Door::default();
    let _open = OpenAtEnd(door.clone());
    let (stands, calls) = (door.clone(), Arc::new(AtomicUsize::new(0)));
    let called = Arc::clone(&calls);
    let counted = || telemetry::counted(metrics::RIDER_SUPPLIER_FAILURES, "timed_out");
    let failed_before = counted();
    let run = world.start(|builder| {
        builder
            .supplier_timeout(Duration::from_millis(200))
            // Whoever is slow for once, on a busy machine, is asked again.
            .rider_refresh(Duration::from_millis(100))
            .rider(move |context| {
                called.fetch_add(1, Atomic::SeqCst);
                if context.partition.partition == 0 && context.offset > 0 {
                    stands.pass();
                }
                Some(b"well".to_vec())
            })
            .handler(|_: &Record| ())
    });
    run.until_assigned(2);
    // Both partitions go on, by as many commits as there are records to come.
    for round in 1..=5_u64 {
        world.produce(20, 2);
        run.until_done(20 * round as usize);
        for partition in 0..2 {
            let up_to = 10 * round as i64;
            let text = until_commit(&run, partition, "the commit", |offset, _| offset == up_to);
            let rider = parts(up_to, &text).1;
            assert_eq!(rider, Rider::Dropped, "of {partition} in round {round}");
        }
    }
    let stuck_at = calls.load(Atomic::SeqCst);
    assert!(counted() > failed_before);
    assert!(telemetry::counted(metrics::RIDER_SUPPLIER_FAILURES, "busy") > 0);
    // Of all tests of this process only this one has a second partition whose rider is missing.
    let told = telemetry::logged(&["goes without its rider", "t-1"]);
    assert!(told.len() <= 1, "within seconds: {told:?}");
    // Once it has returned it is asked again.
    door.open();
    world.produce(20, 2);
    for partition in 0..2 {
        until_commit(&run, partition, "a rider again", |offset, text| {
            offset == 60 && parts(offset, text).1 == Rider::Present(b"well".to_vec())
        });
    }
    assert!(calls.load(Atomic::SeqCst) > stuck_at);
    run.stop();
}

#[test]
fn an_engine_whose_supplier_never_returns_ends_in_time() {
    let world = World::filled(10);
    let door = Door::default();
    let _open = OpenAtEnd(door.clone());
    let run = world.start(|builder| {
        builder
            .supplier_timeout(Duration::from_millis(100))
            .rider(move |_| {
                door.pass();
                None
            })
            .handler(|_: &Record| ())
    });
    run.until_done(10);
    assert!(run.stop().all_committed);
    let (offset, text) = world.committed(0).expect("a commit");
    assert_eq!((offset, parts(offset, &text).1), (10, Rider::Dropped));
}

/// Riders that were handed over.
fn told(builder: Builder) -> (Builder, Arc<Mutex<Vec<Assigned>>>) {
    let told: Arc<Mutex<Vec<Assigned>>> = Arc::default();
    let sink = Arc::clone(&told);
    let builder =
        builder.on_assigned(move |assigned| sink.lock().expect("lock").push(assigned.clone()));
    (builder, told)
}

#[test]
fn the_close_time_commit_carries_the_rider_and_a_restart_reads_it() {
    telemetry::keep();
    let world = World::filled(10);
    let with_reason = |builder: Builder| {
        builder
            .rider(|context| Some(format!("{:?} {}", context.reason, context.offset).into_bytes()))
            .handler(|record: &Record| match record.offset() {
                3 => Outcome::Retry {
                    after: Some(AN_HOUR),
                },
                _ => Outcome::Done,
            })
    };
    let run = world.start(|builder| with_reason(builder.commit_interval(AN_HOUR)));
    run.until_done(9);
    run.stop();
    let (offset, text) = world.committed(0).expect("a commit");
    let rider = Rider::Present(format!("{:?} 3", RiderReason::Shutdown).into_bytes());
    assert_eq!((offset, parts(offset, &text).1), (3, rider.clone()));
    assert_eq!(parts(offset, &text).0.hole_count(), 1);
    let (builder, told) = told(world.builder());
    let run = Run::of(with_reason(builder));
    run.until_assigned(1);
    run.stop();
    let assigned = told.lock().expect("lock").clone();
    assert_eq!((assigned.len(), assigned[0].offset), (1, 3));
    assert_eq!(assigned[0].rider, rider);
    assert!(!telemetry::logged(&["carry riders", "0.5.3.3", "group scrub"]).is_empty());
    assert!(!telemetry::samples(metrics::RIDER_BYTES).is_empty());
    let headroom = telemetry::samples(metrics::METADATA_HEADROOM);
    assert!(
        headroom.iter().all(|share| (0.0..=1.0).contains(share)),
        "{headroom:?}"
    );
    assert!(!headroom.is_empty() && !telemetry::samples(metrics::METADATA_DENSITY).is_empty());
}

#[test]
fn a_member_without_a_supplier_writes_the_marker_where_it_read_a_rider() {
    let world = World::of(2);
    world.commit_as_stranger("g", 0, 0, "WAABBw==");
    world.produce(4, 4);
    let run = world.start(|builder| builder.handler(|_: &Record| ()));
    run.until_done(4);
    run.stop();
    let (offset, text) = world.committed(0).expect("a commit");
    assert_eq!((offset, text.as_str()), (2, "WAAA"));
    assert_eq!(
        world.committed(1),
        Some((2, String::new())),
        "there was none"
    );
    // And the next one, which finds the marker, hands it on.
    world.produce(4, 4);
    let (builder, told) = told(world.builder());
    let run = Run::of(builder.handler(|_: &Record| ()));
    run.until_done(4);
    run.stop();
    assert_eq!(world.committed(0), Some((4, "WAAA".to_owned())));
    let mut riders: Vec<_> = told
        .lock()
        .expect("lock")
        .iter()
        .map(|told| told.rider.clone())
        .collect();
    riders.sort_by_key(|rider| rider.name());
    assert_eq!(riders, [Rider::Dropped, Rider::None]);
}

#[test]
fn a_bad_envelope_is_a_counted_discard_or_a_typed_stop() {
    telemetry::keep();
    let world = World::filled(10);
    let text_of = |bytes: &[u8]| text::write(bytes);
    for (case, (bytes, reason, rider)) in [
        (
            &b"X\x00\x00X\x00\x00"[..],
            "nested_envelope",
            Rider::Unreadable,
        ),
        (b"X\x00\x09abc", "bad_envelope", Rider::Unreadable),
        (
            b"X\x00\x02hiQQQ",
            "unknown_magic",
            Rider::Present(b"hi".to_vec()),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let group = format!("bad-{case}");
        world.commit_as_stranger(&group, 0, 4, &text_of(bytes));
        let strict = world
            .builder()
            .group(&group)
            .bad_metadata(BadMetadata::Fail);
        let run = Run::of(strict.handler(|_: &Record| ()));
        match run.end() {
            Err(StopReason::BadMetadata {
                offset,
                reason: found,
                ..
            }) => {
                assert_eq!((offset, found), (4, reason));
            }
            other => panic!("{reason}: {other:?}"),
        }
        let before = telemetry::counted(metrics::METADATA_DISCARDED, reason);
        let (builder, told) = told(world.builder().group(&group));
        let run = Run::of(builder.handler(|_: &Record| ()));
        run.until_done(6);
        run.stop();
        assert_eq!(
            telemetry::counted(metrics::METADATA_DISCARDED, reason),
            before + 1
        );
        assert_eq!(told.lock().expect("lock")[0].rider, rider, "{reason}");
    }
}

#[test]
fn an_idle_partition_is_refreshed_when_its_rider_is_another() {
    let world = World::filled(5);
    let value = Arc::new(AtomicUsize::new(1));
    let source = Arc::clone(&value);
    let run = world.start(|builder| {
        builder
            .rider_refresh(Duration::from_millis(50))
            .rider(move |_| Some(source.load(Atomic::SeqCst).to_be_bytes().to_vec()))
            .handler(|_: &Record| ())
    });
    run.until_done(5);
    let of = |number: usize| Rider::Present(number.to_be_bytes().to_vec());
    let is = move |wanted: usize| {
        move |offset: i64, text: &str| offset == 5 && parts(offset, text).1 == of(wanted)
    };
    until_commit(&run, 0, "the first", is(1));
    let so_far = commits(&run, 0).len();
    value.store(2, Atomic::SeqCst);
    until_commit(&run, 0, "the second", is(2));
    let added = commits(&run, 0).len() - so_far;
    assert_eq!(added, 1, "one change, one commit");
    run.stop();
}
