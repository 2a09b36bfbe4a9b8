//! Members of one group as processes that a test kills, stops and starts again, each with an event log of its own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use keyway_tests::checker::{Evidence, Rules, Tally, held, judge, set_apart};
use keyway_tests::cluster::{Cluster, Produced};
use keyway_tests::command::Running;
use keyway_tests::doom::Doom;
use keyway_tests::event_log::{EventLog, Kind, note_killed};
use keyway_tests::wait;
use keyway_tests::world::{CLEAN, Protocol};

/// What anything may take on a machine that does much else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

const PARTITIONS: i32 = 8;
const KEYS: usize = 160;

/// Between two portions of records.
const PAUSE: Duration = Duration::from_millis(300);

/// A group, its topic, and its members.
pub(crate) struct Crew<'c> {
    cluster: &'c Cluster,
    group: String,
    topic: String,
    protocol: Protocol,
    work: Duration,
    directory: tempfile::TempDir,
    produced: Arc<Mutex<Vec<Produced>>>,
    seats: Vec<Seat>,
}

#[derive(Default)]
struct Seat {
    lives: Vec<Life>,
    running: Option<Running>,
}

/// One process.
struct Life {
    events: PathBuf,
    /// Since when it stood still for longer than its session, wall clock, nanoseconds since 1970.
    absent_from: Option<u64>,
}

impl Seat {
    fn life(&self) -> &Life {
        self.lives.last().expect("it was started")
    }
}

impl<'c> Crew<'c> {
    pub(crate) fn new(cluster: &'c Cluster, protocol: Protocol, work: Duration) -> Crew<'c> {
        let topic = cluster.unique("topic");
        cluster.create_topic(&topic, PARTITIONS, &[]);
        Crew {
            cluster,
            group: cluster.unique("group"),
            topic,
            protocol,
            work,
            directory: tempfile::tempdir().expect("a place for temporary files"),
            produced: Arc::default(),
            seats: Vec::new(),
        }
    }

    fn produced(&self) -> MutexGuard<'_, Vec<Produced>> {
        self.produced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Produces records, each key to one partition.
    pub(crate) fn feed(&self, records: usize) {
        let placed = feed(self.cluster, &self.topic, records);
        self.produced().extend(placed);
    }

    /// Goes on feeding, a portion after the other, for as long as `act` takes.
    pub(crate) fn while_fed<T>(&mut self, portion: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        let (cluster, topic) = (self.cluster, self.topic.clone());
        let produced = Arc::clone(&self.produced);
        let (enough, fed) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                // Ends when the sender is dropped, also by a panic of `act`.
                while fed.recv_timeout(PAUSE) == Err(mpsc::RecvTimeoutError::Timeout) {
                    let placed = feed(cluster, &topic, portion);
                    let mut produced = produced.lock().unwrap_or_else(PoisonError::into_inner);
                    produced.extend(placed);
                }
            });
            let _enough = enough;
            act(self)
        })
    }

    /// A place for one process after another.
    pub(crate) fn seat(&mut self) -> usize {
        self.seats.push(Seat::default());
        self.seats.len() - 1
    }

    pub(crate) fn start(&mut self, seat: usize, doom: Option<Doom>) {
        let lives = self.seats[seat].lives.len();
        let name = format!("events-{seat}-{lives}");
        self.seats[seat].lives.push(Life {
            events: self.directory.path().join(name),
            absent_from: None,
        });
        let mut words = vec![
            format!("brokers={}", self.cluster.bootstrap()),
            format!("group={}", self.group),
            format!("topic={}", self.topic),
            format!("events={}", self.seats[seat].life().events.display()),
            format!("protocol={}", self.protocol),
            format!("work={}", self.work.as_millis()),
        ];
        words.extend(doom.map(|doom| format!("doom={doom}")));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let program = Path::new(env!("CARGO_BIN_EXE_fault-member"));
        self.seats[seat].running = Some(Running::program(program, &words));
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self, seat: usize) {
        let seat = &mut self.seats[seat];
        let mut running = seat.running.take().expect("a running member");
        assert_eq!(running.ended(), None, "it ended by itself");
        running.kill();
        note_killed(&seat.life().events);
    }

    /// Kills it unless it has ended in good order; whether it was killed.
    pub(crate) fn kill_if_there(&mut self, seat: usize) -> bool {
        let Some(end) = self.seats[seat].running.as_mut().and_then(Running::ended) else {
            self.kill(seat);
            return true;
        };
        assert!(end.success(), "not an orderly end: {end}");
        self.seats[seat].running = None;
        false
    }

    /// Whether its process has ended.
    pub(crate) fn is_dead(&mut self, seat: usize) -> bool {
        let running = self.seats[seat].running.as_mut();
        running.is_none_or(|running| running.ended().is_some())
    }

    /// Waits until it has killed itself.
    pub(crate) fn until_dead(&mut self, seat: usize) {
        let seat = &mut self.seats[seat];
        let end = seat
            .running
            .take()
            .expect("a running member")
            .join(PATIENCE);
        assert_eq!(end.code(), None, "it was to be killed and ended: {end}");
        note_killed(&seat.life().events);
    }

    /// Sends SIGTERM and returns at once.
    pub(crate) fn ask_to_end(&self, seat: usize) {
        self.running(seat).signal("TERM");
    }

    /// Waits for an orderly end, in which nothing finished stays uncommitted, unless its partitions were lost.
    pub(crate) fn until_ended(&mut self, seat: usize) {
        let running = self.seats[seat].running.take().expect("a running member");
        let end = running.join(PATIENCE);
        let lost = EventLog::read(&self.seats[seat].life().events).count(Kind::Lost);
        assert!(
            end.success() || lost > 0,
            "not an orderly end, and it had lost nothing: {end}"
        );
    }

    /// An orderly end of a member that may not have come far yet.
    pub(crate) fn end(&mut self, seat: usize) {
        wait::until("a member that listens", PATIENCE, || {
            self.seats[seat].life().events.exists().then_some(())
        });
        self.ask_to_end(seat);
        self.until_ended(seat);
    }

    /// Members that were killed so far.
    pub(crate) fn kills(&self) -> usize {
        let kills = (0..self.seats.len()).map(|seat| self.log(seat).count(Kind::Killed));
        kills.sum()
    }

    fn running(&self, seat: usize) -> &Running {
        self.seats[seat].running.as_ref().expect("a running member")
    }

    /// Makes it stand still, until the test says otherwise: for longer than its session.
    pub(crate) fn pause(&mut self, seat: usize) {
        self.running(seat).pause();
        let life = self.seats[seat].lives.last_mut().expect("it was started");
        life.absent_from = Some(now());
    }

    pub(crate) fn resume(&mut self, seat: usize) {
        self.running(seat).resume();
    }

    /// What the processes of the seat wrote so far.
    pub(crate) fn log(&self, seat: usize) -> EventLog {
        let lives = self.seats[seat].lives.iter();
        EventLog {
            events: lives
                .flat_map(|life| EventLog::read(&life.events).events)
                .collect(),
        }
    }

    /// Partitions that the member has by its own log.
    pub(crate) fn held(&self, seat: usize) -> usize {
        let log = EventLog::read(&self.seats[seat].life().events);
        log.events
            .last()
            .map_or(0, |last| held(&log.events, &last.member).len())
    }

    /// How many different records are finished.
    pub(crate) fn finished(&self) -> usize {
        let mut finished = BTreeSet::new();
        for seat in 0..self.seats.len() {
            let done = self.log(seat).events.into_iter();
            finished.extend(
                done.filter(|event| event.kind == Kind::Done)
                    .filter_map(|event| Some((event.partition, event.offset?))),
            );
        }
        finished.len()
    }

    /// Waits until all that was fed is finished.
    pub(crate) fn until_all_finished(&self) {
        let fed = self.produced().len();
        let all = wait::try_until(PATIENCE, || (self.finished() >= fed).then_some(()));
        assert!(all.is_some(), "{} of {fed} finished", self.finished());
    }

    /// Waits until every partition is with one of these members.
    pub(crate) fn until_held_by(&self, seats: &[usize]) {
        let all = wait::try_until(PATIENCE, || self.is_held_by(seats).then_some(()));
        let held = || {
            seats
                .iter()
                .map(|&seat| self.held(seat))
                .collect::<Vec<_>>()
        };
        assert!(all.is_some(), "{seats:?} hold {:?}", held());
    }

    pub(crate) fn is_held_by(&self, seats: &[usize]) -> bool {
        let held = || seats.iter().map(|&seat| self.held(seat));
        held().all(|held| held > 0) && held().sum::<usize>() == PARTITIONS as usize
    }

    /// What the broker has for the group, as offsets.
    pub(crate) fn committed(&self) -> Vec<i64> {
        let committed = self.cluster.committed(&self.group, &self.topic);
        committed.iter().map(|committed| committed.offset).collect()
    }

    pub(crate) fn ends(&self) -> Vec<i64> {
        self.cluster.end_offsets(&self.topic)
    }

    /// Judges all that happened, with what the broker holds now as the end.
    pub(crate) fn judge(&self) -> Tally {
        self.judge_by(&Rules {
            only_crashes_repeat: true,
            ..CLEAN
        })
    }

    pub(crate) fn judge_by(&self, rules: &Rules) -> Tally {
        let lives = || self.seats.iter().flat_map(|seat| &seat.lives);
        let logs = lives().map(|life| {
            let log = EventLog::read(&life.events);
            match life.absent_from {
                None => log,
                Some(from) => set_apart(log, from).unwrap_or_else(|fault| panic!("{fault}")),
            }
        });
        let evidence = Evidence::of(logs, &self.topic, &self.produced()).after(
            &self.topic,
            &self.cluster.committed(&self.group, &self.topic),
        );
        judge(&evidence, rules).unwrap_or_else(|verdict| {
            let first = &verdict.violations[0];
            let kept = std::env::temp_dir().join(self.cluster.unique("keyway-fault"));
            fs::create_dir_all(&kept).expect("a place for temporary files");
            for Life { events, .. } in lives().filter(|life| life.events.exists()) {
                let name = events.file_name().expect("a file");
                fs::copy(events, kept.join(name)).expect("a log that was just read");
            }
            panic!(
                "{verdict}{first}:\n{}\nthe logs are in {}",
                first.history(&evidence.log),
                kept.display()
            )
        })
    }
}

fn feed(cluster: &Cluster, topic: &str, records: usize) -> Vec<Produced> {
    let record = |n: usize| {
        let key = n % KEYS;
        let partition = key as i32 % PARTITIONS;
        (Some(partition), Some(format!("key-{key}")), n.to_string())
    };
    cluster.produce(topic, (0..records).map(record))
}

/// Wall clock, nanoseconds since 1970, as in the event logs.
fn now() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.unwrap_or_default().as_nanos() as u64
}

/// The fault's own time: it is drawn, so there is nothing to wait for.
pub(crate) fn pass(millis: u64) {
    let at = Instant::now() + Duration::from_millis(millis);
    wait::until("the time of a fault", PATIENCE, || {
        (Instant::now() >= at).then_some(())
    });
}
