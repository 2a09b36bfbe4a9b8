//! The storm itself.

use std::env;
use std::fmt;
use std::ops::Range;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use keyway::{Report, StopReason};
use keyway_tests::checker::Rules;
use keyway_tests::event_log::Kind;
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

const DRAIN_WITHIN: Duration = Duration::from_secs(8);
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// For how long an end waits for the broker's answer to its last commit.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// What an end may take beyond its bound where the broker does not answer: that, and 6 s to leave. What is left is for
/// a machine that does much else.
const BEYOND: Duration = Duration::from_secs(5 + 6 + 3);

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
    /// Its end is waited for by a thread, which looks at the clock at once.
    Ending {
        how: End,
        name: String,
        end: JoinHandle<(Result<Report, StopReason>, Duration)>,
    },
}

/// What the storm saw.
#[derive(Default)]
struct Figures {
    toggles: usize,
    ends: [usize; 3],
    longest: [Duration; 3],
    /// Ends that could not commit all that was complete.
    uncommitted: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [drains, stops, crashes] = self.ends;
        let [drain, stop, _] = self.longest;
        write!(
            f,
            "{} toggles: {drains} drains (longest {drain:.1?}), {stops} stops (longest {stop:.1?}), {crashes} crashes; {} ended with something uncommitted",
            self.toggles, self.uncommitted
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
            .protocol(self.protocol)
            .with(|builder| {
                builder
                    .concurrency(CONCURRENCY)
                    .commit_timeout(COMMIT_TIMEOUT)
            });
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
        let name = member.name().to_owned();
        let end = thread::spawn(move || (member.wait(), since.elapsed()));
        seat.state = State::Ending { how, name, end };
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
        for seat in 0..self.seats.len() {
            match &self.seats[seat].state {
                State::Empty => {}
                State::Up(member) => {
                    let end = member.ended();
                    assert!(end.is_none(), "{} ended by itself: {end:?}", member.name());
                }
                State::Ending { end, .. } if !end.is_finished() => {}
                State::Ending { .. } => {
                    let state = std::mem::replace(&mut self.seats[seat].state, State::Empty);
                    if let State::Ending { how, name, end } = state {
                        let (end, took) = end.join().expect("it only waits");
                        self.note_end(how, &name, end, took);
                    }
                }
            }
        }
        let is_ending = |seat: &Seat| matches!(seat.state, State::Ending { .. });
        !self.seats.iter().any(is_ending)
    }

    fn note_end(&mut self, how: End, name: &str, end: Result<Report, StopReason>, took: Duration) {
        let report = end.unwrap_or_else(|reason| panic!("{name} ended: {reason}"));
        let within = match how {
            End::Drain => DRAIN_WITHIN,
            End::Stop | End::Crash => STOP_WITHIN,
        };
        assert!(
            took < within + BEYOND,
            "{how:?} of {name} took {took:?}, its bound was {within:?}: {report:?}"
        );
        assert_eq!(report.left_running, 0, "{how:?} of {name}: {report:?}");
        if !report.all_committed {
            // It had lost the partitions, or the broker did not answer until it could wait no longer; and it says so.
            let lost = self.world.seen(|seen| seen.count(Kind::Lost, name));
            assert!(
                lost > 0 || took >= COMMIT_TIMEOUT,
                "{how:?} of {name} after {took:?}: {report:?}"
            );
            self.figures.uncommitted += 1;
        }
        let longest = &mut self.figures.longest[how as usize];
        *longest = took.max(*longest);
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
    // Says why a member lost something, to whoever asks by RUST_LOG.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .try_init();
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
        only_crashes_repeat: storm.figures.uncommitted == 0,
        ..CLEAN
    });
    let silence = world.seen(|seen| longest(seen.events(), &feeds));
    let lost = world.seen(|seen| {
        let lost = seen.events().iter();
        lost.filter(|event| event.kind == Kind::Lost).count()
    });
    println!(
        "{what}: {}; {lost} partitions lost; {} records, {} repeated; longest silence {:.1?}",
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
