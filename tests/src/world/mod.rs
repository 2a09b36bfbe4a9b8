//! Engines in this process as members of one group, everything they did in one log, and the judge over it.
//!
//! ```no_run
//! use keyway_tests::checker::Rules;
//! use keyway_tests::world::World;
//!
//! let world = World::new(2); // a topic of two partitions and a group of their own, in the shared cluster
//! world.fill(100, 10); // a hundred records of ten keys
//! world.hold(|_, offset| offset == 3); // their handlers wait
//! let first = world.member("first").start();
//! world.until_finished(98);
//! first.kill(); // no last commit, no goodbye
//!
//! world.release();
//! let second = world.member("second").start();
//! world.until_finished(100);
//! second.end();
//! let tally = world.judge(&Rules { committed: true, ..Rules::STRICT });
//! assert!(tally.kills == 1 && tally.maps > 0, "what the scenario is about occurred: {tally:?}");
//! ```
//!
//! A member's observer writes the log under one lock, so its order is the order of happening; after a kill nothing of
//! that member is written any more, as from a process that is gone.

mod gate;
mod log;
mod member;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use keyway::{ClientConfig, Outcome, Record as Received};
use keyway_offsets::{DEFAULT_MAX_WINDOW, Offset, OffsetRange};

use crate::checker::{self, Evidence, Rules, Tally, judge};
use crate::cluster::{self, Cluster, Committed, Produced};
use crate::wait;

pub use log::Seen;
pub use member::{Member, MemberBuilder, Protocol};

use gate::Gate;
use log::Log;

/// The bound for anything that takes seconds when all is well, on a machine with much else to do.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A group over a topic, its members and what they did.
pub struct World<'c> {
    /// Where all of it happens.
    pub cluster: &'c Cluster,
    /// The group's name.
    pub group: String,
    /// The topic's name.
    pub topic: String,
    log: Arc<Log>,
    handling: Arc<Handling>,
    produced: Mutex<Vec<Produced>>,
}

/// What the handlers of all members do.
#[derive(Default)]
struct Handling {
    /// Their handlers wait.
    held: Gate,
    /// Their attempts fail.
    failing: Gate,
    /// How long a record takes.
    work_micros: AtomicU64,
}

impl Handling {
    fn work(&self) -> Duration {
        Duration::from_micros(self.work_micros.load(Ordering::Relaxed))
    }

    fn outcome(&self, record: &Received) -> Outcome {
        match self.failing.stops(record.partition(), record.offset()) {
            true => Outcome::Failed("told to fail by the test".into()),
            false => Outcome::Done,
        }
    }

    /// A handler on a thread. Its sleep is the work that a test gives it.
    fn handle(&self, record: &Received) -> Outcome {
        self.held.pass(record.partition(), record.offset());
        let work = self.work();
        if !work.is_zero() {
            std::thread::sleep(work);
        }
        self.outcome(record)
    }

    async fn handle_async(self: Arc<Self>, record: Received) -> Outcome {
        self.held
            .pass_async(record.partition(), record.offset())
            .await;
        let work = self.work();
        if !work.is_zero() {
            tokio::time::sleep(work).await;
        }
        self.outcome(&record)
    }
}

impl World<'static> {
    /// A topic of so many partitions and a group, in the cluster that all tests of this process share.
    pub fn new(partitions: i32) -> World<'static> {
        World::on(Cluster::start(), partitions, &[])
    }

    /// As [`new`](Self::new), with properties of the topic.
    pub fn with_topic(partitions: i32, config: &[(&str, &str)]) -> World<'static> {
        World::on(Cluster::start(), partitions, config)
    }
}

impl<'c> World<'c> {
    /// A topic with these properties and a group, in this cluster.
    pub fn on(cluster: &'c Cluster, partitions: i32, config: &[(&str, &str)]) -> World<'c> {
        let topic = cluster.unique("topic");
        cluster.create_topic(&topic, partitions, config);
        World {
            cluster,
            group: cluster.unique("group"),
            topic,
            log: Arc::default(),
            handling: Arc::default(),
            produced: Mutex::default(),
        }
    }

    /// Another group over the same topic, with a log of its own.
    pub fn another_group(&self) -> World<'c> {
        World {
            cluster: self.cluster,
            group: self.cluster.unique("group"),
            topic: self.topic.clone(),
            log: Arc::default(),
            handling: Arc::default(),
            produced: Mutex::new(self.produced()),
        }
    }

    /// Produces records and remembers them for the judge.
    pub fn produce<R: Into<cluster::Record>>(
        &self,
        records: impl IntoIterator<Item = R>,
    ) -> Vec<Produced> {
        let placed = self.cluster.produce(&self.topic, records);
        self.remember(&placed);
        placed
    }

    /// Produces `records` records of `keys` keys, each key in one partition: record n has key n modulo `keys`.
    pub fn fill(&self, records: usize, keys: usize) -> Vec<Produced> {
        let partitions = self.cluster.partitions(&self.topic) as usize;
        let record = |n: usize| {
            let key = n % keys;
            let partition = (key % partitions) as i32;
            (Some(partition), Some(format!("key-{key}")), format!("{n}"))
        };
        self.produce((0..records).map(record))
    }

    /// The judge asks for these records, too.
    pub fn remember(&self, placed: &[Produced]) {
        self.lock_produced().extend_from_slice(placed);
    }

    /// The judge does not ask for these any more: they were deleted, compacted or aborted.
    pub fn forget(&self, gone: impl Fn(&Produced) -> bool) {
        self.lock_produced().retain(|record| !gone(record));
    }

    /// All records that the judge asks for.
    pub fn produced(&self) -> Vec<Produced> {
        self.lock_produced().clone()
    }

    fn lock_produced(&self) -> std::sync::MutexGuard<'_, Vec<Produced>> {
        self.produced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A member, before it starts.
    pub fn member(&self, name: &str) -> MemberBuilder {
        MemberBuilder::new(self, name)
    }

    /// librdkafka's properties for members of this group.
    pub fn client(&self) -> ClientConfig {
        self.cluster.client()
    }

    /// From now on handlers of the records for which `held(partition, offset)` holds wait. Each takes up one of its
    /// member's concurrency.
    pub fn hold(&self, held: impl Fn(i32, i64) -> bool + Send + Sync + 'static) {
        self.handling.held.set(held);
    }

    /// No handler waits any more.
    pub fn release(&self) {
        self.handling.held.open();
    }

    /// From now on attempts at the records for which `failing(partition, offset)` holds fail.
    pub fn fail(&self, failing: impl Fn(i32, i64) -> bool + Send + Sync + 'static) {
        self.handling.failing.set(failing);
    }

    /// No attempt fails any more.
    pub fn heal(&self) {
        self.handling.failing.open();
    }

    /// How long each record takes its handler.
    pub fn work(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).expect("a record's work is short");
        self.handling.work_micros.store(micros, Ordering::Relaxed);
    }

    /// Looks at what happened so far.
    pub fn seen<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.log.seen())
    }

    /// Waits until what happened so far is as `condition` says.
    #[track_caller]
    pub fn until(&self, what: &str, condition: impl Fn(&Seen) -> bool) {
        let met = wait::try_until(PATIENCE, || self.seen(&condition).then_some(()));
        if met.is_none() {
            self.seen(|seen| panic!("waited {PATIENCE:?} in vain for: {what}\n{seen}"));
        }
    }

    /// Waits until so many different records are finished.
    #[track_caller]
    pub fn until_finished(&self, records: usize) {
        self.until(&format!("{records} records finished"), |seen| {
            seen.finished() >= records
        });
    }

    /// What the broker holds for the group.
    pub fn committed(&self) -> Vec<Committed> {
        self.cluster.committed(&self.group, &self.topic)
    }

    /// The committed offset of each partition, and how many offsets its map calls open.
    pub fn committed_holes(&self) -> Vec<(i64, u64)> {
        let of = |committed: &Committed| {
            let open = holes(committed).iter().map(|range| range.len()).sum();
            (committed.offset, open)
        };
        self.committed().iter().map(of).collect()
    }

    /// Judges all that happened, with what the broker holds now as the end.
    ///
    /// # Panics
    /// With every broken promise.
    #[track_caller]
    pub fn judge(&self, rules: &Rules) -> Tally {
        self.judge_after(&[], rules)
    }

    /// As [`judge`](Self::judge), for a group that had committed `before` the first member.
    #[track_caller]
    pub fn judge_after(&self, before: &[Committed], rules: &Rules) -> Tally {
        let log = self.log.seen().as_log();
        let evidence = Evidence::of([log], &self.topic, &self.produced())
            .before(&self.topic, before)
            .after(&self.topic, &self.committed());
        judge(&evidence, rules).unwrap_or_else(|verdict| {
            let first = &verdict.violations[0];
            panic!("{verdict}{first}:\n{}", first.history(&evidence.log))
        })
    }
}

impl Drop for World<'_> {
    /// Handlers that a test left waiting end, and their threads with them.
    fn drop(&mut self) {
        self.release();
        self.heal();
    }
}

/// Everything was finished and committed, and nothing that a commit called complete ran again.
pub const CLEAN: Rules = Rules {
    committed: true,
    ..checker::Rules::STRICT
};

/// The open offsets of a commit's map.
///
/// # Panics
/// When its text is no map.
pub fn holes(committed: &Committed) -> Vec<OffsetRange> {
    let base = Offset::new(committed.offset).expect("committed offsets are not negative");
    let metadata = keyway_rider::read(base, &committed.metadata, DEFAULT_MAX_WINDOW);
    let decoded = metadata
        .map
        .unwrap_or_else(|error| panic!("{committed:?}: {error}"));
    decoded.map.holes().to_vec()
}
