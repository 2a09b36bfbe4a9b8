//! The storm itself.

use std::env;
use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use keyway_tests::checker::Rules;
use keyway_tests::random::{Random, seed};
use keyway_tests::wait;
use keyway_tests::world::{CLEAN, Member, PATIENCE, Protocol, World};

use crate::silence::{Feed, longest};

/// Whether members have names that outlive them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    Dynamic,
    Static,
}

struct Size {
    members: usize,
    partitions: i32,
    records: usize,
    keys: usize,
    toggles: usize,
    /// Milliseconds between two toggles.
    pauses: Range<u64>,
}

impl Size {
    const SMALL: Size = Size {
        members: 4,
        partitions: 12,
        records: 20_000,
        keys: 240,
        toggles: 10,
        pauses: 500..1_500,
    };

    const FULL: Size = Size {
        members: 12,
        partitions: 80,
        records: 500_000,
        keys: 4_000,
        toggles: 120,
        pauses: 500..3_000,
    };

    fn chosen() -> Size {
        match env::var("KEYWAY_STORM").as_deref() {
            Ok("full") => Size::FULL,
            Ok(other) => panic!("KEYWAY_STORM={other}: \"full\", or not set"),
            Err(_) => Size::SMALL,
        }
    }
}

/// How long a record takes, and how many a member has in hand: slow enough that the storm meets work all the time.
const WORK: Duration = Duration::from_millis(8);
const CONCURRENCY: u32 = 8;

/// Short, so that a crash is noticed within a few toggles.
const SESSION_MILLIS: &str = "3000";

const DRAIN_WITHIN: Duration = Duration::from_secs(8);
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// What an end may take beyond its bound on a machine that does much else.
const BEYOND: Duration = Duration::from_secs(3);

/// Nobody who has a partition and records of it stands still for longer: it may be behind a restore, a busy machine,
/// and a session that has to expire, and behind nothing else.
const SILENCE: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Drain,
    Stop,
    Crash,
}

/// A place in the group, for one member after another.
struct Seat {
    number: usize,
    lives: usize,
    state: State,
}

enum State {
    Empty,
    Up(Member),
    Ending {
        member: Member,
        how: End,
        since: Instant,
    },
}

/// What the storm saw.
#[derive(Default)]
struct Figures {
    toggles: usize,
    ends: [usize; 3],
    longest: [Duration; 3],
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [drains, stops, crashes] = self.ends;
        let [drain, stop, _] = self.longest;
        write!(
            f,
            "{} toggles: {drains} drains (longest {drain:.1?}), {stops} stops (longest {stop:.1?}), {crashes} crashes",
            self.toggles
        )
    }
}

struct Storm<'w> {
    world: &'w World<'static>,
    protocol: Protocol,
    identity: Identity,
    seats: Vec<Seat>,
    next_end: usize,
    figures: Figures,
}

impl Storm<'_> {
    fn begin(&mut self, seat: usize) {
        let seat = &mut self.seats[seat];
        seat.lives += 1;
        let name = format!("m{}.{}", seat.number, seat.lives);
        let mut member = self
            .world
            .member(&name)
            .property("session.timeout.ms", SESSION_MILLIS)
            .protocol(self.protocol)
            .with(|builder| builder.concurrency(CONCURRENCY));
        if self.identity == Identity::Static {
            member = member.property("group.instance.id", &format!("seat-{}", seat.number));
        }
        seat.state = State::Up(member.start());
    }

    fn end(&mut self, seat: usize) {
        let how = [End::Drain, End::Stop, End::Crash][self.next_end % 3];
        self.next_end += 1;
        self.end_by(seat, how);
    }

    fn end_by(&mut self, seat: usize, how: End) {
        let seat = &mut self.seats[seat];
        let State::Up(member) = std::mem::replace(&mut seat.state, State::Empty) else {
            panic!("seat {} is not taken", seat.number);
        };
        self.figures.ends[how as usize] += 1;
        match how {
            End::Drain => member.drain(DRAIN_WITHIN),
            End::Stop => member.stop(STOP_WITHIN),
            End::Crash => return member.kill(),
        }
        let since = Instant::now();
        seat.state = State::Ending { member, how, since };
    }

    /// A member comes, or goes; nothing happens to those that are about to end.
    fn toggle(&mut self, random: &mut Random) {
        let settled: Vec<usize> = (0..self.seats.len())
            .filter(|&seat| !matches!(self.seats[seat].state, State::Ending { .. }))
            .collect();
        if settled.is_empty() {
            return;
        }
        let seat = random.pick(&settled);
        self.figures.toggles += 1;
        match self.seats[seat].state {
            State::Empty => self.begin(seat),
            _ => self.end(seat),
        }
    }

    /// Takes note of the members that have ended; says whether none is about to.
    fn collect(&mut self) -> bool {
        let mut settled = true;
        for seat in &mut self.seats {
            match &seat.state {
                State::Empty => {}
                State::Up(member) => {
                    let end = member.ended();
                    assert!(end.is_none(), "{} ended by itself: {end:?}", member.name());
                }
                State::Ending { member, how, since } => {
                    let (took, bound) = match how {
                        End::Drain => (since.elapsed(), DRAIN_WITHIN),
                        _ => (since.elapsed(), STOP_WITHIN),
                    };
                    let Some(end) = member.ended() else {
                        settled = false;
                        assert!(
                            took < bound + BEYOND,
                            "{how:?} of {} takes {took:?}, its bound is {bound:?}: {:#?}",
                            member.name(),
                            member.status()
                        );
                        continue;
                    };
                    let report =
                        end.unwrap_or_else(|reason| panic!("{} ended: {reason}", member.name()));
                    assert_eq!(
                        (report.left_running, report.all_committed),
                        (0, true),
                        "{how:?} of {} after {took:?}: {report:?}",
                        member.name()
                    );
                    let longest = &mut self.figures.longest[*how as usize];
                    *longest = took.max(*longest);
                    seat.state = State::Empty;
                }
            }
        }
        settled
    }

    fn until_settled(&mut self) {
        wait::until("the end of those who end", PATIENCE, || {
            self.collect().then_some(())
        });
    }
}

fn now() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.unwrap_or_default().as_nanos() as u64
}

pub(crate) fn storm(protocol: Protocol, identity: Identity) {
    let size = Size::chosen();
    let seed = seed("KEYWAY_STORM_SEED");
    let what = format!("{protocol:?}, {identity:?} members, KEYWAY_STORM_SEED={seed}");
    println!("{what}");
    let mut random = Random::of(seed);

    let world = World::new(size.partitions);
    world.work(WORK);
    let mut feeds = Vec::new();
    let mut feed = |records| {
        let placed = world.fill(records, size.keys);
        feeds.push(Feed { ns: now(), placed });
    };
    // Half of it is there, some comes all the time, and some when the storm is over.
    let portion = size.records * 2 / 5 / size.toggles;
    let mut rest = size.records;
    let mut next = |records: usize| {
        let records = records.min(rest);
        rest -= records;
        records
    };
    feed(next(size.records / 2));

    let mut storm = Storm {
        world: &world,
        protocol,
        identity,
        seats: (0..size.members)
            .map(|number| Seat {
                number,
                lives: 0,
                state: State::Empty,
            })
            .collect(),
        next_end: 0,
        figures: Figures::default(),
    };
    (0..size.members).for_each(|seat| storm.begin(seat));
    for _ in 0..size.toggles {
        let at = Instant::now() + Duration::from_millis(random.below(size.pauses.clone()));
        wait::until("the next toggle", PATIENCE, || {
            storm.collect();
            (Instant::now() >= at).then_some(())
        });
        storm.toggle(&mut random);
        feed(next(portion));
    }

    // From here on no rebalance helps a partition that stands still.
    storm.until_settled();
    for seat in 0..size.members {
        if matches!(storm.seats[seat].state, State::Empty) {
            storm.begin(seat);
        }
    }
    feed(next(size.records));
    let mut finished = 0;
    while finished < size.records {
        let more = wait::try_until(PATIENCE, || {
            storm.collect();
            let now = world.seen(|seen| seen.finished());
            (now > finished).then_some(now)
        });
        finished = more.unwrap_or_else(|| {
            world.seen(|seen| panic!("{what}: silent after the storm at {finished}\n{seen}"))
        });
    }
    for seat in 0..size.members {
        storm.end_by(seat, End::Drain);
    }
    storm.until_settled();

    let tally = world.judge(&Rules {
        only_crashes_repeat: true,
        ..CLEAN
    });
    let silence = world.seen(|seen| longest(seen.events(), &feeds));
    println!(
        "{what}: {}; {} records, {} repeated; longest silence {:.1?}",
        storm.figures, tally.finished, tally.repeated, silence.length
    );
    assert!(silence.length < SILENCE, "{what}: {silence:?}");
    assert_eq!(tally.finished, size.records, "{tally:?}");
    assert!(
        storm.figures.ends.iter().all(|&ends| ends > 0) && tally.kills > 0 && tally.maps > 0,
        "each way to end occurred: {}; {tally:?}",
        storm.figures
    );
}
