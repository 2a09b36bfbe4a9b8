//! The pace: what it holds up waits without a worker, for its time and no longer, and nothing else waits with it.

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keyway_core::{
    BatchConfig, CommitAnswer, CoreConfig, Pace, PartitionSlot, Shape, TaskRef, Timestamp, Turn,
    Whose,
};
use support::{World, batches, pinned, pool};

const SECOND: Duration = Duration::from_secs(1);

/// One start of each `key` in a second, then one of each partition in `partition`, then one of the member in
/// `member`; notes whom it has let through.
#[derive(Debug, Default)]
struct Steady {
    /// The keys of the records, a letter each.
    keys: &'static str,
    key: Option<Duration>,
    partition: Option<Duration>,
    member: Option<Duration>,
    free: BTreeMap<(u8, u64), Timestamp>,
    let_through: Arc<Mutex<Vec<(u32, i64, u32)>>>,
}

impl Steady {
    fn key_of(&self, offset: u64) -> u64 {
        let key = self.keys.as_bytes().get(offset as usize);
        key.copied().map_or(0, u64::from)
    }

    fn passes(
        &mut self,
        limit: u8,
        of: u64,
        each: Option<Duration>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let each = each?;
        let free = self.free.entry((limit, of)).or_insert(Timestamp::ZERO);
        if *free > now {
            return Some(*free);
        }
        *free = now.after(each);
        None
    }
}

impl Pace<u64> for Steady {
    fn turn(&mut self, at: &TaskRef, offset: &u64, passed: u8, now: Timestamp) -> Turn {
        let limits = [
            (self.key, self.key_of(*offset), Whose::Lane),
            (self.partition, u64::from(at.slot.0), Whose::Partition),
            (self.member, 0, Whose::Member),
        ];
        for (number, (each, of, whose)) in (0..).zip(limits) {
            if number < passed {
                continue;
            }
            if let Some(until) = self.passes(number, of, each, now) {
                return Turn::Wait {
                    until,
                    whose,
                    passed: number,
                };
            }
        }
        let who = (at.slot.0, at.offset.get(), at.attempt);
        self.let_through.lock().expect("no panic").push(who);
        Turn::Start
    }
}

fn shapes() -> [CoreConfig; 3] {
    let batch = BatchConfig {
        max_records: 1,
        ..BatchConfig::default()
    };
    let batch = batches(Shape::Pool { concurrency: 4 }, batch);
    [pool(4), pinned(4), batch]
}

fn paced(config: CoreConfig, partitions: u32, pace: Steady) -> World {
    let mut world = World::with_partitions(config, partitions);
    world.core.set_pace(Some(Box::new(pace)));
    world
}

fn each_key(keys: &'static str) -> Steady {
    Steady {
        keys,
        key: Some(SECOND),
        ..Steady::default()
    }
}

/// What the first second lets start, then the second, and so on, each done at once.
fn seconds(world: &mut World, partitions: u32, seconds: usize) -> Vec<Vec<(u32, i64)>> {
    let mut all = Vec::new();
    for _ in 0..seconds {
        let mut started = Vec::new();
        loop {
            let before = started.len();
            for slot in 0..partitions {
                for offset in world.running_of(slot) {
                    started.push((slot, offset));
                    world.done_at(slot, &[offset]);
                }
            }
            if started.len() == before {
                break;
            }
        }
        all.push(started);
        world.wait(SECOND);
    }
    all
}

#[test]
fn a_key_that_waits_holds_up_no_other_and_no_worker() {
    for config in shapes() {
        let mut world = paced(config, 1, each_key("aabcdae"));
        world.arrive(&[(0, "a"), (1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "a")]);
        assert_eq!(world.running(), [0, 2, 3, 4]);
        world.done(&[0]);
        assert_eq!(world.running(), [2, 3, 4], "record 1 has to wait");
        assert_eq!(world.core.status().partitions[0].lanes_paced, 1);
        world.arrive(&[(6, "e")]);
        assert_eq!(
            world.running(),
            [2, 3, 4, 6],
            "the worker it would have had is free"
        );
        world.done(&[2]);
        world.wait(SECOND / 2);
        assert_eq!(world.running(), [3, 4, 6]);
        world.wait(SECOND / 2);
        assert_eq!(world.running(), [1, 3, 4, 6], "at its time, and in order");
        assert_eq!(world.core.status().partitions[0].lanes_paced, 0);
    }
}

// Without the pace among the deadlines of the core it fails: nobody comes at the time.
#[test]
fn the_core_says_when_the_next_one_may_start() {
    for (pace, config) in [
        (each_key("aa"), pool(4)),
        (
            Steady {
                partition: Some(SECOND),
                ..Steady::default()
            },
            pool(4),
        ),
        (
            Steady {
                member: Some(SECOND),
                ..Steady::default()
            },
            pinned(4),
        ),
    ] {
        let mut world = paced(config, 1, pace);
        let begun = world.now;
        world.arrive(&[(0, "a"), (1, "a")]);
        world.done(&[0]);
        world.answer(CommitAnswer::Stored);
        assert_eq!(world.core.next_deadline(), begun.after(SECOND));
        assert!(!world.core.is_idle(), "a record will run by itself");
        world.wait(SECOND);
        assert_eq!(world.running(), [1]);
    }
}

#[test]
fn a_partition_that_waits_holds_up_no_other_and_its_partitions_take_turns() {
    let pace = Steady {
        partition: Some(SECOND),
        ..Steady::default()
    };
    let mut world = paced(pool(4), 2, pace);
    world.arrive_at(0, &[(0, "a"), (1, "b"), (2, "c")]);
    assert!(world.core.status().partitions[0].paced);
    world.arrive_at(1, &[(0, "a"), (1, "b")]);
    assert_eq!(
        (world.running_of(0), world.running_of(1)),
        (vec![0], vec![0])
    );
    let seconds = seconds(&mut world, 2, 3);
    assert_eq!(seconds[0], [(0, 0), (1, 0)]);
    assert_eq!(seconds[1], [(0, 1), (1, 1)]);
    assert_eq!(seconds[2], [(0, 2)]);
}

#[test]
fn under_one_limit_of_the_member_partitions_and_routes_take_turns() {
    let mut config = pool(4);
    config.routes.push(config.routes[0].clone());
    let pace = Steady {
        member: Some(SECOND),
        ..Steady::default()
    };
    let mut world = paced(config, 2, pace);
    let other = world
        .core
        .add_partition(keyway_core::RouteId(1))
        .expect("a slot");
    world.epochs.push(keyway_core::Epoch::NONE);
    world.assign(other.0, Some(0), None);
    for slot in 0..3 {
        world.arrive_at(slot, &[(0, "a"), (1, "b"), (2, "c")]);
    }
    assert!(world.core.status().paced);
    // Without the turn of the routes (the first is always the first) it fails: the other has had none of six.
    let order = world.core.next_deadline();
    assert!(order > world.now);
    let mut of_slot = [0; 3];
    for _ in 0..9 {
        for slot in 0..3 {
            for offset in world.running_of(slot) {
                of_slot[slot as usize] += 1;
                let route = u16::from(slot == other.0);
                world.end_of_route(route, slot, offset);
            }
        }
        if of_slot.iter().sum::<usize>() == 6 {
            assert!(of_slot.iter().all(|starts| *starts >= 1), "{of_slot:?}");
        }
        world.wait(SECOND);
    }
    assert_eq!(of_slot, [3, 3, 3]);
}

// Without the count of what has let it through, the key pays again each time that the member's limit holds it up.
#[test]
fn a_limit_that_has_let_a_record_through_does_not_count_it_twice() {
    let pace = Steady {
        keys: "abc",
        key: Some(10 * SECOND),
        member: Some(SECOND),
        ..Steady::default()
    };
    let let_through = Arc::clone(&pace.let_through);
    let mut world = paced(pool(4), 1, pace);
    world.arrive(&[(0, "a"), (1, "b"), (2, "c")]);
    seconds(&mut world, 1, 4);
    let order: Vec<_> = let_through.lock().expect("no panic").clone();
    assert_eq!(order, [(0, 0, 1), (0, 1, 1), (0, 2, 1)]);
    assert!(world.core.is_empty(), "three seconds for three records");
}

#[test]
fn a_further_attempt_counts_and_what_comes_back_unstarted_does_not() {
    let pace = each_key("a");
    let let_through = Arc::clone(&pace.let_through);
    let mut world = paced(pinned(1), 1, pace);
    world.arrive(&[(0, "a")]);
    world.give_back(&[0]);
    assert_eq!(world.running(), [0], "it has its turn already");
    world.fail(&[0]);
    world.wait(SECOND / 2);
    assert_eq!(
        world.running(),
        [0_i64; 0],
        "its retry is due, and the key has to wait"
    );
    world.wait(SECOND / 2);
    assert_eq!((world.running(), world.attempt(0)), (vec![0], 2));
    let order: Vec<_> = let_through.lock().expect("no panic").clone();
    assert_eq!(order, [(0, 0, 1), (0, 0, 2)]);
}

#[test]
fn nobody_is_asked_for_a_record_that_has_no_worker() {
    for config in [pool(1), pinned(1)] {
        let pace = each_key("abcd");
        let let_through = Arc::clone(&pace.let_through);
        let mut world = paced(config, 1, pace);
        world.took = 2 * keyway_core::SLOW_ATTEMPT;
        world.arrive(&[(0, "a")]);
        world.done(&[0]);
        world.arrive(&[(1, "b"), (2, "c"), (3, "d")]);
        assert_eq!(world.running(), [1]);
        assert_eq!(let_through.lock().expect("no panic").len(), 2);
    }
}

#[test]
fn a_drain_waits_for_turns_that_come_in_time_and_for_no_later_ones() {
    for pace in [
        each_key("aa"),
        Steady {
            partition: Some(SECOND),
            ..Steady::default()
        },
        Steady {
            member: Some(SECOND),
            ..Steady::default()
        },
    ] {
        let mut world = paced(pool(4), 1, pace);
        world.arrive(&[(0, "a"), (1, "a")]);
        world.done(&[0]);
        world.with(|core, now| core.begin_drain(now));
        assert!(!world.core.is_drained(world.now.after(SECOND)));
        assert!(world.core.is_drained(world.now.after(SECOND / 2)));
        world.wait(SECOND);
        world.done(&[1]);
        assert!(world.core.is_drained(world.now));
    }
}

#[test]
fn a_pause_a_revoke_and_a_return_leave_nothing_behind() {
    for pace in [
        each_key("aaa"),
        Steady {
            partition: Some(SECOND),
            ..Steady::default()
        },
    ] {
        let mut world = paced(pool(4), 1, pace);
        world.arrive(&[(0, "a"), (1, "a")]);
        world.done(&[0]);
        let slot = PartitionSlot(0);
        world.with(|core, _| core.pause_by_user(slot));
        world.wait(SECOND);
        assert_eq!(
            world.running(),
            [0_i64; 0],
            "its time has come, and it is paused"
        );
        world.with(|core, now| core.resume_by_user(slot, now));
        assert_eq!(world.running(), [1]);
        world.arrive(&[(2, "a")]);
        world.done(&[1]);
        world.core.revoked(slot);
        world.assign(0, Some(2), None);
        world.arrive(&[(2, "a")]);
        world.wait(SECOND);
        assert_eq!(world.running(), [2]);
        world.done(&[2]);
        assert!(world.core.is_empty() && world.core.is_idle());
    }
}

#[test]
fn without_a_pace_everything_goes_on_when_its_wait_is_over() {
    let mut world = paced(pinned(4), 1, each_key("aaabb"));
    world.arrive(&[(0, "a"), (1, "a"), (2, "a")]);
    world.done(&[0]);
    world.core.set_pace(None);
    world.arrive(&[(3, "b"), (4, "b")]);
    assert_eq!(world.running(), [3, 4]);
    world.wait(SECOND);
    assert_eq!(world.running(), [1, 2, 3, 4]);
}

#[test]
fn a_batch_takes_what_may_start_and_goes_without_the_rest() {
    let config = batches(Shape::Pool { concurrency: 4 }, BatchConfig::default());
    let mut world = paced(config, 1, each_key("abacd"));
    world.arrive(&[(0, "a"), (1, "b")]);
    world.done(&[0, 1]);
    world.arrive(&[(2, "a"), (3, "c"), (4, "d")]);
    let last = world.handed_over.last().expect("a batch");
    assert_eq!((last.batch, last.offsets.as_slice()), (true, &[3, 4][..]));
    world.wait(SECOND);
    assert_eq!(world.running(), [2, 3, 4]);
}
