//! The engine over a log in memory, in the hands of a test.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use keyway_core::{CommitReason, Timestamp};
use tokio::runtime::Runtime;

use super::journal::{Attempt, AttemptOutcome};
use super::letters::TestLetter;
use super::life::{Ending, Life, ORIGIN, Surroundings};
use super::log::{Commit, Log, TestRecord};
use super::outputs::TestOutput;
use crate::builder::{BuildError, Builder};
use crate::context::RecordId;
use crate::kafka::TopicPartition;
use crate::limits::Limits;
use crate::poll::starts_within;
use crate::settings::Settings;
use crate::stop::{Report, StopReason};

/// So many steps without a record completed or time passing are taken for an endless loop, such as a retry
/// without a delay.
const ENDLESS: u64 = 100_000;

/// Turns given to the runtime, for tasks that handlers spawned, before it counts as idle.
const IDLE_TURNS: usize = 16;

/// The engine over a log in memory and a clock that stands still until the test moves it.
///
/// Made from the same [`Builder`] as production's; what concerns the broker is checked and then not used. A
/// partition is assigned when the first record is fed to it. Nothing happens by itself: [`run`](Self::run)
/// lets handlers run for as long as there is something to run *at this moment*, and
/// [`advance`](Self::advance) moves the clock, through every retry, commit and timer on the way.
///
/// Handlers of every kind run on the test's thread, one step at a time and in the same order in every run. An
/// async handler runs up to where it waits. Its `tokio` timers follow the test's clock, in milliseconds; what it
/// waits for outside (sockets, `spawn_blocking`) is not waited for, so give it a double there.
///
/// It has a runtime of its own: use it in a plain `#[test]`, not inside an async one.
pub struct TestEngine {
    // Dropped first: handlers' futures end inside their runtime.
    life: Life,
    settings: Settings,
    log: Log,
    around: Surroundings,
    runtime: Runtime,
    began: tokio::time::Instant,
    end: Option<Result<Report, StopReason>>,
    /// Until when a stop of the engine's own waits for what runs.
    stop_by: Option<Timestamp>,
}

impl std::fmt::Debug for TestEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestEngine")
            .field("now", &self.now())
            .field("assigned", &self.life.partitions())
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl Drop for TestEngine {
    fn drop(&mut self) {
        // Handlers that still wait are dropped; that is no failure that anybody should hear of.
        self.life.die();
    }
}

impl TestEngine {
    /// Checks the configuration and starts, with nothing assigned.
    ///
    /// # Errors
    /// As [`Builder::build`].
    ///
    /// # Panics
    /// When the operating system refuses what a runtime needs.
    pub fn new(builder: Builder) -> Result<Self, BuildError> {
        let settings = builder.build()?.settings;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime for one thread");
        let began = runtime.block_on(async { tokio::time::Instant::now() });
        let around = Surroundings {
            time: Arc::new(AtomicU64::new(ORIGIN.as_nanos() as u64)),
            bell: Arc::default(),
            journal: Arc::default(),
        };
        Ok(Self {
            life: Life::new(&settings, &around),
            settings,
            log: Log::default(),
            around,
            runtime,
            began,
            end: None,
            stop_by: None,
        })
    }

    // ---- the world ----

    /// Appends a record to a partition. Offsets count from 0. Nothing runs before [`run`](Self::run).
    ///
    /// # Panics
    /// When the engine does not subscribe to the topic.
    #[track_caller]
    pub fn feed(
        &mut self,
        topic: &str,
        partition: i32,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.feed_record(TestRecord::new(topic, partition).key(key).value(value))
    }

    /// Appends records, each a key and a value, to a partition.
    ///
    /// # Panics
    /// As [`feed`](Self::feed).
    #[track_caller]
    pub fn feed_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        topic: &str,
        partition: i32,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> &mut Self {
        for (key, value) in records {
            self.feed(topic, partition, key, value);
        }
        self
    }

    /// Appends a record that has more than a key and a value, or less.
    ///
    /// # Panics
    /// As [`feed`](Self::feed).
    #[track_caller]
    pub fn feed_record(&mut self, record: TestRecord) -> &mut Self {
        let partition = record.partition();
        if !self.log.knows(&partition) {
            self.assign_partition(&partition);
        }
        self.log.append(record);
        self
    }

    /// Assigns a partition, from where its last commit says. Does nothing when it is assigned.
    ///
    /// # Panics
    /// When the engine does not subscribe to the topic.
    #[track_caller]
    pub fn assign(&mut self, topic: &str, partition: i32) -> &mut Self {
        self.assign_partition(&TopicPartition::new(topic, partition));
        self
    }

    #[track_caller]
    fn assign_partition(&mut self, partition: &TopicPartition) {
        assert!(
            self.settings.subscribes(&partition.topic),
            "the engine does not subscribe to `{}`",
            partition.topic
        );
        self.log.create(partition);
        self.life.assign(&self.settings, &self.log, partition);
    }

    /// Revokes a partition as a rebalance does: nothing of it starts any more, what runs has until the
    /// engine's `revoke_wait` (on the test's clock, which moves as far as needed), then a last commit. What
    /// still runs then ends without effect.
    pub fn revoke(&mut self, topic: &str, partition: i32) -> &mut Self {
        let partition = TopicPartition::new(topic, partition);
        if self.life.revoking(&partition) {
            let deadline = self.timestamp().after(self.settings.revoke_wait);
            self.run();
            while !self.life.is_quiet(&partition) && self.timestamp() < deadline {
                self.sleep_towards(deadline);
                self.run();
            }
            self.life
                .commit(&mut self.log, CommitReason::Revoke, Some(&partition));
            self.life.let_go(&partition);
        }
        self
    }

    /// Takes a partition away as when the member was thrown out of its group: without a wait, without a
    /// commit. What runs ends without effect.
    pub fn lose(&mut self, topic: &str, partition: i32) -> &mut Self {
        self.life.lose(&TopicPartition::new(topic, partition));
        self
    }

    /// Crashes and starts again: what was not committed is forgotten, running handlers are cut off where they
    /// wait, and the same partitions are assigned from what was committed. Run it to see what is repeated.
    pub fn crash(&mut self) -> &mut Self {
        self.life.die();
        self.begin_anew();
        self
    }

    /// Starts again with the same partitions; stops in an orderly way before if it has not yet ended, within
    /// 10 s.
    pub fn restart(&mut self) -> &mut Self {
        if self.end.is_none() {
            // How it ended is not the question here.
            let _ = self.stop(Duration::from_secs(10));
        }
        self.begin_anew();
        self
    }

    /// The same with another configuration, as a redeploy does it.
    ///
    /// # Errors
    /// As [`Builder::build`]; nothing has changed then.
    pub fn restart_as(&mut self, builder: Builder) -> Result<&mut Self, BuildError> {
        let settings = builder.build()?.settings;
        if self.end.is_none() {
            // How it ended is not the question here.
            let _ = self.stop(Duration::from_secs(10));
        }
        self.settings = settings;
        self.begin_anew();
        Ok(self)
    }

    fn begin_anew(&mut self) {
        let partitions: BTreeSet<_> = self.life.partitions().into_iter().collect();
        let guard = self.runtime.enter();
        self.life.die();
        self.life = Life::new(&self.settings, &self.around);
        drop(guard);
        self.end = None;
        self.stop_by = None;
        for partition in &partitions {
            self.life.assign(&self.settings, &self.log, partition);
        }
    }

    /// Changes rates and concurrency while the engine runs; effective from the next [`run`](Self::run) on. After a
    /// crash or a restart the engine has those of its configuration, and the changes of an earlier one go nowhere.
    pub fn limits(&self) -> Limits {
        self.life.limits(&self.settings)
    }

    // ---- time ----

    /// How far the clock has moved since the start.
    pub fn now(&self) -> Duration {
        self.around.since_start()
    }

    fn timestamp(&self) -> Timestamp {
        self.around.now()
    }

    /// Lets handlers run until nothing more can run at this moment: what is left waits for time, for records,
    /// or for something that the test does.
    ///
    /// # Panics
    /// When that has no end, as for a handler that asks for another attempt after no time at all.
    #[track_caller]
    pub fn run(&mut self) -> &mut Self {
        let (mut steps, mut completed) = (0, self.life.completed());
        while steps < ENDLESS {
            if self.end.is_some() {
                return self;
            }
            steps += 1;
            if completed != self.life.completed() {
                (steps, completed) = (0, self.life.completed());
            }
            let moved = {
                let _inside = self.runtime.enter();
                self.life.turn(&mut self.log)
            };
            self.stop_at_limit();
            if !moved && !self.turn_runtime() {
                self.finish_if_stopped();
                return self;
            }
        }
        panic!(
            "{ENDLESS} steps, and there is always more to run without a record done or time passing"
        );
    }

    /// Moves the clock, and lets everything happen that is due on the way, each thing at its time: retries,
    /// commits, waits for batches, timers of async handlers.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    #[track_caller]
    pub fn advance(&mut self, time: Duration) -> &mut Self {
        let until = self.timestamp().after(time);
        self.run();
        while self.timestamp() < until {
            self.sleep_towards(until);
            self.run();
        }
        self
    }

    /// Lets the runtime run what handlers have spawned; says whether a handler can go on because of it.
    fn turn_runtime(&mut self) -> bool {
        let bell = Arc::clone(&self.around.bell);
        self.runtime.block_on(async move {
            let mut rung = pin!(bell.notified());
            for _ in 0..IDLE_TURNS {
                let poll = poll_fn(|context| Poll::Ready(rung.as_mut().poll(context).is_ready()));
                if poll.await {
                    return true;
                }
                tokio::task::yield_now().await;
            }
            false
        })
    }

    /// Moves the clock to the next moment at which something is due, at most to `until`.
    fn sleep_towards(&mut self, until: Timestamp) {
        let next = match self.end {
            None => self.life.next_deadline().min(until),
            Some(_) => until,
        };
        // A deadline that has passed and was not worked off waits for something else.
        let step = Duration::from_millis(1);
        let next = if next <= self.timestamp() {
            until.min(self.timestamp().after(step))
        } else {
            next
        };
        let bell = Arc::clone(&self.around.bell);
        let target = self.began + Duration::from_nanos(next.as_nanos()) - ORIGIN;
        // With its clock standing still the runtime jumps to the next timer, a handler's or this one.
        let now = self.runtime.block_on(async move {
            let mut rung = pin!(bell.notified());
            let mut over = pin!(tokio::time::sleep_until(target));
            poll_fn(|context| {
                let rung = rung.as_mut().poll(context).is_ready();
                if rung || over.as_mut().poll(context).is_ready() {
                    // For the one who looks next.
                    if rung {
                        bell.notify_one();
                    }
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            tokio::time::Instant::now()
        });
        let nanos = u64::try_from((now - self.began + ORIGIN).as_nanos()).unwrap_or(u64::MAX);
        self.around.time.store(nanos, Ordering::Relaxed);
    }

    // ---- the end ----

    /// Asks the engine to finish what is buffered, commit and end, within `within` on the test's clock, which
    /// moves as far as needed. A retry that is due later is not waited for.
    ///
    /// # Errors
    /// The reason, when it ended before without being asked to.
    pub fn drain(&mut self, within: Duration) -> Result<Report, StopReason> {
        self.finish(Ending::Drain, within)
    }

    /// Asks the engine to finish what runs, commit and end, within `within` on the test's clock, which moves as
    /// far as needed.
    ///
    /// # Errors
    /// The reason, when it ended before without being asked to.
    pub fn stop(&mut self, within: Duration) -> Result<Report, StopReason> {
        self.finish(Ending::Stop, within)
    }

    /// How the engine ended, if it has: because it was asked to, or for a reason of its own such as
    /// [`Outcome::Stop`](crate::Outcome::Stop).
    pub fn ended(&self) -> Option<Result<Report, StopReason>> {
        self.end.clone()
    }

    fn finish(&mut self, ending: Ending, within: Duration) -> Result<Report, StopReason> {
        if self.end.is_none() {
            let begun = self.timestamp();
            self.life.end(ending);
            self.life
                .commit(&mut self.log, CommitReason::Shutdown, None);
            self.run();
            let starts_until = begun.after(starts_within(within));
            if ending == Ending::Stop || !self.finish_by(starts_until) {
                self.life.end(Ending::Stop);
                self.finish_by(begun.after(within));
            }
            self.finish_now();
        }
        match &self.end {
            Some(end) => end.clone(),
            None => unreachable!("it was just ended"),
        }
    }

    /// Lets time pass until the end may come; whether it may.
    fn finish_by(&mut self, deadline: Timestamp) -> bool {
        while self.end.is_none() && !self.is_finished(deadline) && self.timestamp() < deadline {
            self.sleep_towards(deadline);
            self.run();
        }
        self.end.is_some() || self.is_finished(deadline)
    }

    fn is_finished(&self, deadline: Timestamp) -> bool {
        match self.life.ending {
            Some(Ending::Drain) => self.life.is_drained(deadline),
            Some(Ending::Stop) | None => self.life.is_all_quiet(),
        }
    }

    fn finish_now(&mut self) {
        self.life.begin_last_commit();
        self.life
            .commit(&mut self.log, CommitReason::Shutdown, None);
        let report = self.life.report();
        let reason = self.life.stop_reason.take();
        self.end = Some(reason.map_or(Ok(report), Err));
    }

    /// A stop that the engine itself asked for waits for what runs, as long as a commit may take.
    fn finish_if_stopped(&mut self) {
        if self.life.stop_reason.is_none() && !self.has_reached_limit() {
            return;
        }
        let now = self.timestamp();
        let timeout = self.settings.commit_timeout;
        let deadline = *self.stop_by.get_or_insert_with(|| now.after(timeout));
        if self.life.is_all_quiet() || now >= deadline {
            self.finish_now();
        }
    }

    fn has_reached_limit(&self) -> bool {
        let limit = self.settings.record_limit;
        limit.is_some_and(|limit| self.life.completed() >= limit)
    }

    fn stop_at_limit(&mut self) {
        if self.has_reached_limit() {
            self.life.end(Ending::Stop);
        }
    }

    // ---- what happened ----

    /// Every attempt since the start, crashes and restarts included, in the order in which they began.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.around.journal.attempts()
    }

    /// How attempts ended, in the order in which they ended.
    pub fn outcomes(&self) -> Vec<(RecordId, AttemptOutcome)> {
        self.around.journal.ended()
    }

    /// The offsets of the attempts at records with this key, in the order in which they began.
    pub fn order_of(&self, key: impl AsRef<[u8]>) -> Vec<i64> {
        self.around.journal.order_of(key.as_ref())
    }

    /// What the group has committed for a partition; `None` before the first commit.
    pub fn committed(&self, topic: &str, partition: i32) -> Option<Commit> {
        let window = self.settings.limits.max_window;
        self.log
            .committed(&TopicPartition::new(topic, partition), window)
    }

    /// The outputs that were sent, in their order, crashes and restarts included.
    pub fn outputs(&self) -> &[TestOutput] {
        &self.log.outputs
    }

    /// From now on no outputs can be sent, as when their topic is missing; with `false` they can again. What its
    /// handler wanted to be sent meanwhile is a failed attempt.
    pub fn refuse_outputs(&mut self, refuse: bool) -> &mut Self {
        self.log.refuses_outputs = refuse;
        self
    }

    /// The dead letters that were written, in their order, crashes and restarts included.
    pub fn dead_letters(&self) -> &[TestLetter] {
        &self.log.letters
    }

    /// From now on no dead letter can be written, as when its topic is missing; with `false` they can again. A letter
    /// that could not is tried again when its delay on the test's clock is over.
    pub fn refuse_dead_letters(&mut self, refuse: bool) -> &mut Self {
        self.log.refuses_letters = refuse;
        self
    }

    /// Whether a partition is assigned.
    pub fn is_assigned(&self, topic: &str, partition: i32) -> bool {
        self.life
            .is_assigned(&TopicPartition::new(topic, partition))
    }

    /// Calls of async handlers that have begun and not returned.
    pub fn running(&self) -> usize {
        self.life.running()
    }

    /// Records received and not complete.
    pub fn buffered(&self) -> usize {
        self.life.buffered()
    }
}
