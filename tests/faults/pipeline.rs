//! A topic that members of a group turn into another one, an output for each record, while faults come over them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use keyway_tests::checker::outputs::{Input, Moment, Tally, judge};
use keyway_tests::cluster::Cluster;
use keyway_tests::member_process::MemberProcess;
use keyway_tests::random::Random;
use keyway_tests::wait;
use keyway_tests::world::Protocol;

use crate::crew::PATIENCE;

const PARTITIONS: i32 = 6;
const OUTPUT_PARTITIONS: i32 = 4;

/// A key of this number fails until it is healed.
const STUCK: u64 = 0;

/// What its members are told beside who they are: outputs and commits in transactions.
const MODE: [&str; 2] = ["transactional=true", "interval=100"];

/// Portions while a fault lasts, and the time between two of them.
const PORTIONS: usize = 20;
const PAUSE: Duration = Duration::from_millis(300);

/// Who the members are to the group, and what is fed to them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) protocol: Protocol,
    /// Each seat has an identity of its own, which its processes share one after the other.
    pub(crate) static_members: bool,
    pub(crate) keys: u64,
}

/// Its topics, its group and its members.
pub(crate) struct Pipeline<'c> {
    cluster: &'c Cluster,
    shape: Shape,
    group: String,
    input: String,
    output: String,
    feed: Feed<'c>,
    seats: Vec<Seat>,
    healed: bool,
    /// Their logs, which outlive a test that fails.
    directory: Option<tempfile::TempDir>,
}

#[derive(Default)]
struct Seat {
    lives: usize,
    member: Option<MemberProcess>,
    stands_still: bool,
}

/// What is produced into the input.
#[derive(Clone)]
struct Feed<'c> {
    cluster: &'c Cluster,
    topic: String,
    keys: u64,
    drawn: Arc<Mutex<Drawn>>,
}

struct Drawn {
    random: Random,
    /// The inputs so far, with their keys.
    inputs: BTreeMap<Input, Vec<u8>>,
}

impl Feed<'_> {
    fn drawn(&self) -> MutexGuard<'_, Drawn> {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Produces records of drawn keys, each key's into one partition.
    fn records(&self, count: usize) {
        let mut drawn = self.drawn();
        let Drawn { random, inputs } = &mut *drawn;
        let keys: Vec<u64> = (0..count).map(|_| random.below(0..self.keys)).collect();
        let record = |&key: &u64| {
            let partition = (key % PARTITIONS as u64) as i32;
            (Some(partition), Some(name(key)), "input")
        };
        let placed = self.cluster.produce(&self.topic, keys.iter().map(record));
        let placed = placed.iter().map(|at| (at.partition, at.offset));
        inputs.extend(placed.zip(keys.iter().map(|&key| name(key).into_bytes())));
    }

    /// Produces as many in portions, the rest when `ended` says so.
    fn portions(&self, count: usize, ended: &mpsc::Receiver<()>) {
        let mut left = count;
        let portion = count.div_ceil(PORTIONS);
        // A disconnect is the end, also by a panic of whoever suffers.
        while left > 0 && ended.recv_timeout(PAUSE) == Err(mpsc::RecvTimeoutError::Timeout) {
            self.records(portion.min(left));
            left -= portion.min(left);
        }
        self.records(left);
    }
}

fn name(key: u64) -> String {
    format!("key-{key}")
}

impl<'c> Pipeline<'c> {
    pub(crate) fn new(cluster: &'c Cluster, shape: Shape, random: Random) -> Pipeline<'c> {
        let (input, output) = (cluster.unique("input"), cluster.unique("output"));
        cluster.create_topic(&input, PARTITIONS, &[]);
        cluster.create_topic(&output, OUTPUT_PARTITIONS, &[]);
        let feed = Feed {
            cluster,
            topic: input.clone(),
            keys: shape.keys,
            drawn: Arc::new(Mutex::new(Drawn {
                random,
                inputs: BTreeMap::new(),
            })),
        };
        Pipeline {
            cluster,
            shape,
            group: cluster.unique("group"),
            input,
            output,
            feed,
            seats: Vec::new(),
            healed: false,
            directory: Some(tempfile::tempdir().expect("a place for temporary files")),
        }
    }

    /// Feeds so many records while `act` lasts, the first half at once: there is a backlog.
    pub(crate) fn while_fed<T>(&mut self, records: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        let feed = self.feed.clone();
        feed.records(records / 2);
        let (act_lasts, ended) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || feed.portions(records - records / 2, &ended));
            let _act_lasts: mpsc::Sender<()> = act_lasts;
            act(self)
        })
    }

    /// A place for one process after another.
    pub(crate) fn seat(&mut self) -> usize {
        self.seats.push(Seat::default());
        self.seats.len() - 1
    }

    pub(crate) fn start(&mut self, seat: usize) {
        let life = format!("{seat}-{}", self.seats[seat].lives);
        let directory = self.directory.as_ref().expect("it is kept to the end");
        let file = |kind: &str| directory.path().join(format!("{kind}-{life}"));
        let mut words = vec![
            format!("brokers={}", self.cluster.bootstrap()),
            format!("group={}", self.group),
            format!("topic={}", self.input),
            format!("output={}", self.output),
            format!("protocol={}", self.shape.protocol),
            format!("events={}", file("events").display()),
            format!("log={}", file("log").display()),
            "work=1000".to_owned(),
            "property.reconnect.backoff.max.ms=1000".to_owned(),
        ];
        words.extend(MODE.map(str::to_owned));
        if self.shape.static_members {
            words.push(format!("property.group.instance.id=seat-{seat}"));
        }
        if !self.healed {
            words.push(format!("poison={}", name(STUCK)));
        }
        let seat = &mut self.seats[seat];
        seat.member = Some(MemberProcess::start(&words));
        seat.lives += 1;
    }

    fn member(&mut self, seat: usize) -> &mut MemberProcess {
        let member = self.seats[seat].member.as_mut();
        member.expect("a member that runs")
    }

    pub(crate) fn kill(&mut self, seat: usize) {
        let member = self.seats[seat].member.take();
        member.expect("a member that runs").kill();
    }

    pub(crate) fn pause(&mut self, seat: usize) {
        self.member(seat).pause();
        self.seats[seat].stands_still = true;
    }

    pub(crate) fn resume(&mut self, seat: usize) {
        self.member(seat).resume();
        self.seats[seat].stands_still = false;
    }

    /// It ends in good order, and leaves nothing uncommitted that it has finished.
    pub(crate) fn leave(&mut self, seat: usize) {
        let member = self.seats[seat].member.take();
        let report = member.expect("a member that runs").stop();
        assert_eq!(report["all_committed"], true, "{report}");
    }

    /// The stuck key goes on.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        let members = self
            .seats
            .iter_mut()
            .filter_map(|seat| seat.member.as_mut());
        members.for_each(|member| member.tell("heal"));
    }

    /// Waits until the members that run have all partitions, each some.
    pub(crate) fn until_shared_out(&mut self) {
        let mut held = Vec::new();
        let all = wait::try_until(PATIENCE, || {
            held = self.statuses("partitions");
            let every_one = held.iter().all(|&held| held > 0);
            (every_one && held.iter().sum::<u64>() == PARTITIONS as u64).then_some(())
        });
        assert!(all.is_some(), "they hold {held:?}");
    }

    /// Starts those anew that the group has turned away under their static identity, as whoever runs them would: a
    /// coordinator that takes over for a dead one may know only the process that had the identity before.
    fn start_fenced_anew(&mut self) {
        for seat in 0..self.seats.len() {
            let Seat {
                member: Some(member),
                stands_still: false,
                ..
            } = &mut self.seats[seat]
            else {
                continue;
            };
            let ended = member.status()["ended"].to_string();
            if ended.contains("fenced by other consumer") {
                println!("  seat {seat} was fenced, and starts anew");
                self.kill(seat);
                self.start(seat);
            }
        }
    }

    /// A figure of each member that runs.
    fn statuses(&mut self, name: &str) -> Vec<u64> {
        if self.shape.static_members {
            self.start_fenced_anew();
        }
        let running = self.seats.iter_mut().filter(|seat| !seat.stands_still);
        let members = running.filter_map(|seat| seat.member.as_mut());
        let figure = |member: &mut MemberProcess| {
            let status = member.status();
            assert!(status["ended"].is_null(), "it ended by itself: {status}");
            status[name].as_u64().expect("a figure")
        };
        members.map(figure).collect()
    }

    /// Feeds records and waits until there are more outputs.
    pub(crate) fn until_work_goes_on(&mut self, records: usize) {
        let before = self.output_ends();
        self.feed.records(records);
        wait::until("outputs", PATIENCE, || {
            // Who asks notices a member that has ended.
            self.statuses("partitions");
            (self.output_ends() > before).then_some(())
        });
    }

    fn output_ends(&self) -> i64 {
        self.cluster.end_offsets(&self.output).iter().sum()
    }

    /// Whether a transaction that has outputs is open.
    pub(crate) fn is_amid_a_transaction(&self) -> bool {
        self.cluster.is_in_a_transaction(&self.output)
    }

    /// Judges what is there while members are at work.
    pub(crate) fn judge_so_far(&self) -> Tally {
        self.judge(Moment::Between)
    }

    /// Waits for the last record, ends all members in good order, and judges everything.
    pub(crate) fn finish(&mut self) -> Tally {
        let ends = self.cluster.end_offsets(&self.input);
        let mut committed = Vec::new();
        let all = wait::try_until(PATIENCE, || {
            self.statuses("partitions");
            let found = self.cluster.committed(&self.group, &self.input);
            committed = found.iter().map(|committed| committed.offset).collect();
            (committed == ends).then_some(())
        });
        let mut statuses = || -> Vec<_> {
            let members = self
                .seats
                .iter_mut()
                .filter_map(|seat| seat.member.as_mut());
            members.map(|member| member.status().to_string()).collect()
        };
        assert!(
            all.is_some(),
            "committed {committed:?} of {ends:?}: {:#?}",
            statuses()
        );
        for seat in 0..self.seats.len() {
            if self.seats[seat].member.is_some() {
                self.leave(seat);
            }
        }
        // What a killed member left open ends when its time is over.
        wait::until("the end of every transaction", PATIENCE, || {
            (!self.is_amid_a_transaction()).then_some(())
        });
        self.judge(Moment::End)
    }

    fn judge(&self, moment: Moment) -> Tally {
        let outputs = self.cluster.read(&self.output);
        let committed = self.cluster.committed(&self.group, &self.input);
        let drawn = self.feed.drawn();
        let judged = judge(&drawn.inputs, &outputs, &committed, moment);
        judged.unwrap_or_else(|verdict| panic!("{moment:?}, {} outputs:\n{verdict}", outputs.len()))
    }

    /// Outputs of transactions that were broken off.
    pub(crate) fn aborted(&self) -> usize {
        let all = self.cluster.read_uncommitted(&self.output).len();
        all - self.cluster.read(&self.output).len()
    }
}

impl Drop for Pipeline<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let kept = self.directory.take().map(tempfile::TempDir::keep);
            eprintln!("the members' logs are in {kept:?}");
        }
    }
}
