//! The poll thread's end: records, and events that are handled after the records before them.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka_sys::rd_kafka_resp_err_t as Rd;

use super::close::{self, Farewell, LeaveOutcome, StaticMember};
use super::errors::ClientError;
use super::group::{Shared, list_of};
use super::native::{Batch, Client, Failure, MessageFailure, NativeRecord, Protocol, Stashed};
use super::positions::Positions;
use super::rebalance::{Rebalance, starts_list};
use super::statistics::FetchedBytes;
use super::{GroupClient, TopicPartition};

/// What a source is opened with.
#[derive(Clone, Debug)]
pub(crate) struct SourceConfig {
    /// librdkafka's properties, as `config::prepare` answers them.
    pub(crate) client: ClientConfig,
    /// Names of topics, or patterns that start with `^`.
    pub(crate) subscription: Vec<String>,
    /// Whether tokens for OAUTHBEARER come from the application. Then
    /// [`SourceEvent::TokenRefresh`] asks for them; otherwise librdkafka's own ways apply.
    pub(crate) token_refresh: bool,
    /// How long records may outlive the source before the native client is given up, not freed.
    pub(crate) close_bound: Duration,
}

impl SourceConfig {
    /// 60 s.
    pub(crate) const CLOSE_BOUND: Duration = Duration::from_secs(60);

    pub(crate) fn new(client: ClientConfig, subscription: Vec<String>) -> Self {
        Self {
            client,
            subscription,
            token_refresh: false,
            close_bound: Self::CLOSE_BOUND,
        }
    }
}

/// Where a partition is read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    pub(crate) tp: TopicPartition,
    /// The next offset to read.
    pub(crate) offset: i64,
    /// The leader epoch that goes with it; with one, librdkafka checks that the log was not cut off.
    pub(crate) leader_epoch: Option<i32>,
}

/// What happens beside records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SourceEvent {
    /// Answer with [`Source::assign`], with the whole list, also when it is empty.
    Assign(Vec<TopicPartition>),
    /// Answer with [`Source::unassign`], with the whole list, also when it is empty. Commits are
    /// still possible until then.
    Revoke(Vec<TopicPartition>),
    /// As `Revoke`, but the partitions belong to others already: nothing can be committed.
    Lost(Vec<TopicPartition>),
    /// Everything before `offset` was delivered; there is nothing at `offset` yet.
    EndOfPartition { tp: TopicPartition, offset: i64 },
    /// There is no such offset in the log (any more), or the log was cut off. The partition stands
    /// still until [`Source::seek`] or a new assignment.
    OffsetOutOfRange {
        tp: TopicPartition,
        offset: i64,
        error: ClientError,
    },
    /// Something is wrong with one partition; as [`SourceEvent::Error`].
    PartitionError {
        tp: TopicPartition,
        error: ClientError,
    },
    /// Give a token to [`GroupClient::set_token`].
    TokenRefresh,
    /// Something else; what it means is in its type. Fatal ones end the source's use.
    Error(ClientError),
}

/// Wakes a poll from any thread.
#[derive(Clone)]
pub(crate) struct Waker {
    shared: Arc<Shared>,
}

impl Waker {
    /// Ends the poll that waits, or makes the next one that finds nothing return at once. Cheap, and
    /// harmless after the source is gone.
    pub(crate) fn wake(&self) {
        self.shared.client.wake();
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}

/// A member of a consumer group. It lives on the poll thread.
///
/// Dropping it leaves the group on a thread of its own and never blocks; [`Source::leave`] does so in
/// order and says how it went.
pub(crate) struct Source {
    shared: Arc<Shared>,
    batch: Batch,
    failures: Vec<MessageFailure>,
    events: VecDeque<SourceEvent>,
    rebalance: Rebalance,
    positions: Positions,
    topics: HashSet<Arc<str>>,
    fetched: FetchedBytes,
    farewell: Farewell,
    close_bound: Duration,
    /// By the last rebalance.
    eager: bool,
}

impl Source {
    /// Makes the client and subscribes. Whether brokers can be reached shows later, as events.
    ///
    /// # Errors
    /// `Fatal` when librdkafka refuses the configuration or the subscription.
    pub(crate) fn open(config: &SourceConfig) -> Result<(Self, GroupClient, Waker), ClientError> {
        let client = Client::open(&config.client, config.token_refresh).map_err(ClientError::of)?;
        let property = |name| config.client.get(name).unwrap_or_default();
        let consumer_protocol = property("group.protocol").eq_ignore_ascii_case("consumer");
        let group_id = property("group.id").to_owned();
        let source = Self {
            shared: Shared::new(client, group_id, consumer_protocol),
            batch: Batch::default(),
            failures: Vec::new(),
            events: VecDeque::new(),
            rebalance: Rebalance::default(),
            positions: Positions::default(),
            topics: HashSet::new(),
            fetched: FetchedBytes::default(),
            farewell: Farewell::Leave,
            close_bound: config.close_bound,
            eager: true,
        };
        // From here on a failure drops the source, which frees the client.
        source
            .shared
            .client
            .subscribe(&config.subscription)
            .map_err(ClientError::of)?;
        let group = GroupClient::new(Arc::clone(&source.shared));
        let waker = Waker {
            shared: Arc::clone(&source.shared),
        };
        Ok((source, group, waker))
    }

    /// Appends up to `max` records to `into`; waits at most `timeout` for the first. Serves
    /// librdkafka's callbacks, so it has to be called even when no record is wanted: with `max` 1,
    /// since 0 would serve nothing.
    ///
    /// Handle the records, then take [`Source::next_event`] until there is none.
    pub(crate) fn poll(&mut self, max: usize, timeout: Duration, into: &mut Vec<NativeRecord>) {
        let timeout = if self.events.is_empty() {
            timeout
        } else {
            Duration::ZERO
        };
        self.move_owed();
        let before = into.len();
        let bytes =
            self.shared
                .client
                .receive(&mut self.batch, max, timeout, into, &mut self.failures);
        self.fetched.received(bytes);
        self.positions.admit(into, before);
        if !self.failures.is_empty() {
            for failure in std::mem::take(&mut self.failures) {
                let event = self.message_event(failure);
                if !self.mends(&event) {
                    self.events.push_back(event);
                }
            }
        }
        for stashed in self.shared.client.stashed() {
            if let Some(event) = self.stashed_event(stashed) {
                self.events.push_back(event);
            }
        }
    }

    /// Keeps the positions, and says whether that was all that there is to the event.
    fn mends(&mut self, event: &SourceEvent) -> bool {
        match event {
            SourceEvent::EndOfPartition { tp, .. } | SourceEvent::OffsetOutOfRange { tp, .. }
                if self.positions.is_owed(tp) =>
            {
                true
            }
            SourceEvent::EndOfPartition { tp, offset } => {
                self.positions.end(tp, *offset);
                false
            }
            SourceEvent::OffsetOutOfRange { tp, offset, .. } => {
                let Some(start) = self.positions.overshot(tp, *offset) else {
                    return false;
                };
                let moved = self.move_to(std::slice::from_ref(&start));
                tracing::debug!(partition = %tp, asked = offset, back_to = start.offset, ?moved, "past the end by a fault of the client");
                moved.is_ok()
            }
            _ => false,
        }
    }

    /// The next thing that happened, in order; take it after the records of the poll were handled.
    pub(crate) fn next_event(&mut self) -> Option<SourceEvent> {
        self.events.pop_front()
    }

    /// Answers [`SourceEvent::Assign`]: all its partitions at once, each with its first offset.
    ///
    /// With a cooperative protocol it can also be called again for partitions that were left out;
    /// with an eager one a second call replaces the first.
    ///
    /// # Errors
    /// When librdkafka refuses, as after a fatal error.
    pub(crate) fn assign(&mut self, starts: &[Start]) -> Result<(), ClientError> {
        let protocol = self.rebalance.assign(&self.shared, starts)?;
        self.eager = protocol != Protocol::Cooperative;
        if self.eager {
            self.positions.clear();
        }
        // Partitions that stay were paused for the rebalance; those that are new have no end yet.
        let skipped = self.positions.skipped(self.positions.partitions());
        self.positions.set(starts);
        self.mend(&skipped)
    }

    /// Answers [`SourceEvent::Revoke`] and [`SourceEvent::Lost`]. After it nothing of these
    /// partitions is delivered.
    ///
    /// # Errors
    /// As [`Source::assign`].
    pub(crate) fn unassign(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        // librdkafka keeps a pause over a rebalance: the partition would stand still when it comes back, and nobody would
        // know. While the rebalance lasts librdkafka holds it by itself.
        if let Err(error) = self.resume(partitions) {
            tracing::warn!(%error, "a pause could not be ended: what was paused may stand still when it comes back");
        }
        let protocol = self.rebalance.unassign(&self.shared, partitions)?;
        self.eager = protocol != Protocol::Cooperative;
        if self.eager {
            self.positions.clear();
        } else {
            self.positions.remove(partitions);
        }
        let skipped = self.positions.skipped(self.positions.partitions());
        self.mend(&skipped)
    }

    /// Stops the delivery of partitions. What was fetched for them is thrown away and fetched again
    /// later.
    ///
    /// # Errors
    /// As [`Source::assign`].
    pub(crate) fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        let list = list_of(partitions)?;
        self.shared.client.pause(&list).map_err(ClientError::of)?;
        let skipped = self.positions.skipped(partitions.iter());
        self.mend(&skipped)
    }

    /// The record at `offset`, and all that was delivered of the partition behind it, were not taken: they are delivered
    /// again. Until then nothing else of it is, and no event that tells a position.
    ///
    /// Never refused: what librdkafka does not do at once it is asked again with the next poll.
    pub(crate) fn give_back(&mut self, tp: &TopicPartition, offset: i64) {
        self.positions.step_back(tp, offset);
        // These came with the records and are behind them.
        self.events.retain(|event| match event {
            SourceEvent::EndOfPartition { tp: of, .. }
            | SourceEvent::OffsetOutOfRange { tp: of, .. } => of != tp,
            _ => true,
        });
    }

    /// Moves librdkafka to where it has to deliver again. While a rebalance waits for its answer it delivers nothing, and
    /// the answer moves what stays.
    fn move_owed(&mut self) {
        let owed = self.positions.owed();
        if owed.is_empty() || self.rebalance.is_outstanding() {
            return;
        }
        if let Err(error) = self.mend(&owed) {
            tracing::warn!(%error, partitions = owed.len(), "moving back is tried again");
        }
    }

    /// Moves librdkafka to the positions that are kept here.
    fn mend(&mut self, starts: &[Start]) -> Result<(), ClientError> {
        self.move_to(starts)?;
        self.positions.moved(starts);
        Ok(())
    }

    /// Takes the delivery up again, where it was stopped.
    ///
    /// # Errors
    /// As [`Source::assign`].
    pub(crate) fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        self.shared
            .client
            .resume(&list_of(partitions)?)
            .map_err(ClientError::of)
    }

    /// Moves the positions of assigned partitions, also of those that stand still because an offset
    /// was not there. No record from before is delivered afterwards.
    ///
    /// # Errors
    /// The first partition's that can't be moved, as when it is not assigned. It is tried again with each poll, and nothing
    /// of these partitions is delivered before.
    pub(crate) fn seek(&mut self, starts: &[Start]) -> Result<(), ClientError> {
        let outcome = self.move_to(starts);
        self.positions.set(starts);
        if outcome.is_err() {
            for start in starts {
                self.positions.step_back(&start.tp, start.offset);
            }
        }
        outcome
    }

    /// Fetches assigned partitions anew from where they stand, so that one that can be read tells something: a record,
    /// or once more its end.
    ///
    /// # Errors
    /// As [`Source::seek`].
    pub(crate) fn refetch(&mut self, partitions: &[TopicPartition]) -> Result<(), ClientError> {
        self.move_to(&self.positions.of(partitions))
    }

    /// Whether a revocation takes everything, so that an assignment follows it.
    pub(crate) fn is_eager(&self) -> bool {
        self.eager
    }

    fn move_to(&self, starts: &[Start]) -> Result<(), ClientError> {
        /// librdkafka's main thread answers; it waits for no broker.
        const ANSWER: Duration = Duration::from_secs(1);
        if starts.is_empty() {
            return Ok(());
        }
        let list = starts_list(starts)?;
        self.shared
            .client
            .seek(&list, ANSWER)
            .map_err(ClientError::of)?;
        let mut stopped = Vec::new();
        for (element, start) in list.iter().zip(starts) {
            // librdkafka does not seek in a partition that it has stopped.
            if element.code == Rd::RD_KAFKA_RESP_ERR__STATE as i32 {
                stopped.push(start.clone());
            } else if element.code != 0 {
                let failure = Failure::of_code(element.code);
                return Err(ClientError::about(failure, Some(&element.topic)));
            }
        }
        self.rebalance
            .restart(&self.shared, &stopped, &self.positions)
    }

    /// One past the last offset of a partition's log, as its last fetch said: one that is paused stands still. `None`
    /// before the first fetch.
    pub(crate) fn log_end(&self, tp: &TopicPartition) -> Option<i64> {
        self.shared.client.fetched_log_end(&tp.topic, tp.partition)
    }

    /// Bytes that librdkafka has fetched, partitions that left included: `rxbytes` of its statistics
    /// (`statistics.interval.ms` must be set), and at least what polls have returned.
    pub(crate) fn fetched_bytes(&self) -> u64 {
        self.fetched.total()
    }

    /// Records that were received and not yet dropped.
    #[cfg(test)]
    pub(crate) fn live_records(&self) -> usize {
        self.shared.client.live()
    }

    /// Whether something happened that nobody has taken.
    #[cfg(test)]
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Makes librdkafka fetch from `offset`, as it does of its own accord.
    #[cfg(test)]
    pub(crate) fn step_past(&self, tp: &TopicPartition, offset: i64) -> Result<(), ClientError> {
        self.move_to(&[Start {
            tp: tp.clone(),
            offset,
            leader_epoch: None,
        }])
    }

    /// What becomes of the native client after this source is gone.
    #[cfg(test)]
    pub(crate) fn close_watch(&self) -> close::CloseWatch {
        close::CloseWatch::new(Arc::clone(&self.shared.closing))
    }

    /// Leaves the group in order, for at most until `deadline`: gives everything back, says goodbye
    /// to the coordinator, and drops what arrives meanwhile. Commit before it; afterwards commits are
    /// refused. What is not done by then goes on behind the scenes.
    pub(crate) fn leave(mut self, deadline: Instant, statics: StaticMember) -> LeaveOutcome {
        close::leave(&self.shared, &mut self.rebalance, deadline, statics)
    }

    /// Ends as a crash would: nothing is given back and nobody is told.
    pub(crate) fn abandon(mut self) {
        self.farewell = Farewell::None;
    }

    fn message_event(&mut self, failure: MessageFailure) -> SourceEvent {
        let MessageFailure {
            failure,
            topic,
            partition,
            offset,
        } = failure;
        let is = |code: Rd| failure.code == code as i32;
        if let Some(topic) = topic.as_deref().filter(|_| partition >= 0) {
            let tp = TopicPartition {
                topic: self.topic(topic),
                partition,
            };
            if is(Rd::RD_KAFKA_RESP_ERR__PARTITION_EOF) {
                return SourceEvent::EndOfPartition { tp, offset };
            }
            if is(Rd::RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET)
                || is(Rd::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE)
                || is(Rd::RD_KAFKA_RESP_ERR__LOG_TRUNCATION)
            {
                let error = ClientError::about(failure, Some(topic));
                return SourceEvent::OffsetOutOfRange { tp, offset, error };
            }
            let error = ClientError::about(failure, Some(topic));
            return SourceEvent::PartitionError { tp, error };
        }
        SourceEvent::Error(ClientError::about(failure, topic.as_deref()))
    }

    fn stashed_event(&mut self, stashed: Stashed) -> Option<SourceEvent> {
        Some(match stashed {
            Stashed::Assign {
                partitions,
                protocol,
            } => {
                self.rebalance.assign_announced(protocol);
                SourceEvent::Assign(self.partitions(partitions))
            }
            Stashed::Revoke {
                partitions,
                protocol,
                lost,
            } => {
                let partitions = self.partitions(partitions);
                self.rebalance
                    .revoke_announced(protocol, partitions.clone());
                if lost {
                    SourceEvent::Lost(partitions)
                } else {
                    SourceEvent::Revoke(partitions)
                }
            }
            Stashed::Error { code, text } => {
                let named = named_in(&text).map(|(topic, partition)| (topic.to_owned(), partition));
                let failure = Failure { code, text };
                match named {
                    Some((topic, partition)) => SourceEvent::PartitionError {
                        error: ClientError::about(failure, Some(&topic)),
                        tp: TopicPartition {
                            topic: self.topic(&topic),
                            partition,
                        },
                    },
                    None => SourceEvent::Error(ClientError::of(failure)),
                }
            }
            Stashed::TokenRefresh => SourceEvent::TokenRefresh,
            Stashed::Statistics(json) => {
                self.fetched.report(&json);
                return None;
            }
        })
    }

    fn partitions(&mut self, partitions: Vec<(String, i32)>) -> Vec<TopicPartition> {
        partitions
            .into_iter()
            .map(|(topic, partition)| TopicPartition {
                topic: self.topic(&topic),
                partition,
            })
            .collect()
    }

    /// One `Arc` for each name.
    fn topic(&mut self, name: &str) -> Arc<str> {
        if let Some(topic) = self.topics.get(name) {
            return Arc::clone(topic);
        }
        let topic: Arc<str> = name.into();
        self.topics.insert(Arc::clone(&topic));
        topic
    }
}

/// The partition that an error is about, where librdkafka (2.12.1) says that in its text only, as of one that is gone
/// or may not be seen: `orders [3]: desired partition is no longer available (..)`.
fn named_in(text: &str) -> Option<(&str, i32)> {
    let (topic, rest) = text.split_once(" [")?;
    let (partition, _) = rest.split_once("]: ")?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let partition = partition.parse().ok()?;
    (topic.bytes().all(is_name) && !topic.is_empty()).then_some((topic, partition))
}

impl Drop for Source {
    fn drop(&mut self) {
        close::start(
            Arc::clone(&self.shared),
            std::mem::take(&mut self.rebalance),
            self.close_bound,
            self.farewell,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::named_in;

    #[test]
    fn a_partition_is_found_in_the_text_of_an_error_and_nothing_else_is_taken_for_one() {
        let gone =
            "my.topic_1-x [12]: desired partition is no longer available (Broker: Unknown topic)";
        assert_eq!(named_in(gone), Some(("my.topic_1-x", 12)));
        for text in [
            "",
            "127.0.0.1:9092/1: Connect to ipv4#127.0.0.1:9092 failed",
            "1/1 brokers are down",
            "a topic [x]: gone",
            "two words [1]: gone",
            " [1]: gone",
        ] {
            assert_eq!(named_in(text), None, "{text}");
        }
    }
}
