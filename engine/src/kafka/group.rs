//! What threads other than the poll thread may do: commit, and ask.
//!
//! The coordinator does not check who owns a partition, so whether a commit is still ours to make
//! has to be judged here, at the moment when librdkafka takes it over. Hence one lock, which a change
//! of the assignment takes as well:
//!
//! ```text
//!   commit:    [ guard (epochs) - member and generation - not lost - hand over ]   wait for answer
//!   assign:    [ assignment changes ]                                  (lock)      (no lock)
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::close::Closing;
use super::errors::{ClientError, CommitCode, ErrorCode};
use super::native::{Call, Client, Element, Failure, HandOver, OffsetSpec, PartitionList};
use super::{OauthToken, TopicId, TopicIdentity, TopicPartition};

/// What the source, its group clients and its closer share.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) group_id: String,
    /// `group.protocol=consumer`, where librdkafka has no goodbye for static members.
    pub(super) consumer_protocol: bool,
    pub(super) closing: Arc<Closing>,
    lock: Mutex<Assignment>,
    /// Commits whose answer was not waited for to the end. librdkafka repeats a commit by itself for as long as
    /// it finds no coordinator, so such a one may still be stored, after any number of later ones.
    unanswered: Mutex<Vec<HandOver>>,
}

/// What the group lock protects, beside librdkafka's own assignment.
#[derive(Debug, Default)]
pub(super) struct Assignment {
    /// Leaving began: no commit any more.
    pub(super) leaving: bool,
    /// librdkafka was told to close.
    pub(super) closing: bool,
}

impl Shared {
    pub(super) fn new(client: Client, group_id: String, consumer_protocol: bool) -> Arc<Self> {
        Arc::new(Self {
            client,
            group_id,
            consumer_protocol,
            closing: Arc::default(),
            lock: Mutex::default(),
            unanswered: Mutex::default(),
        })
    }

    /// Whether an older commit has no answer yet. Called while a call of the client is under way.
    fn is_older_open(&self) -> bool {
        let mut unanswered = self.unanswered();
        unanswered.retain(|older| older.wait(Duration::ZERO).is_none());
        !unanswered.is_empty()
    }

    /// Drops the answers that nobody will ask for: their queues must not outlive the client.
    pub(super) fn forget_unanswered(&self) {
        self.unanswered().clear();
    }

    fn unanswered(&self) -> MutexGuard<'_, Vec<HandOver>> {
        self.unanswered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The group lock.
    pub(super) fn lock(&self) -> MutexGuard<'_, Assignment> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The group side of a source, for any thread. Cheap to clone. It does not keep the native client
/// alive: once the source is gone, calls answer that the client is closed.
#[derive(Clone)]
pub(crate) struct GroupClient {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for GroupClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupClient")
            .field("group", &self.shared.group_id)
            .finish_non_exhaustive()
    }
}

/// One partition's part of a commit.
#[derive(Clone, Debug)]
pub(crate) struct CommitOffset<'a> {
    pub(crate) tp: TopicPartition,
    /// The next offset to read.
    pub(crate) offset: i64,
    /// The leader epoch of the record before `offset`, where known.
    pub(crate) leader_epoch: Option<i32>,
    /// The text beside the offset.
    pub(crate) metadata: &'a str,
}

/// One partition's part of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartitionResult {
    pub(crate) tp: TopicPartition,
    pub(crate) code: CommitCode,
}

/// How a commit ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CommitAnswer {
    /// Each partition's result, in the order of the request.
    Answered(Vec<PartitionResult>),
    /// Nothing is known. The request may still reach a broker, even after later ones. The code is
    /// there when librdkafka gave up, and missing when the caller's time was over.
    NoAnswer(Option<ErrorCode>),
    /// This one was stored, but an older one still has no answer and may be stored over it.
    OlderOpen,
    /// The request was not handed over, and will have no effect.
    NotSent(NotSent),
}

/// Why a commit was not handed over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NotSent {
    /// The guard said no: the plan is older than the assignment.
    Guard,
    /// The member is not in the group at this moment.
    NotAMember,
    /// The assignment is lost; `Lost` comes or has come.
    AssignmentLost,
    /// The client is leaving or closed.
    Closed,
    /// librdkafka does not take it.
    Refused(ClientError),
}

/// What a group has committed for a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Committed {
    /// `None`: nothing.
    pub(crate) offset: Option<i64>,
    /// The leader epoch that was committed with it.
    pub(crate) leader_epoch: Option<i32>,
    /// The text beside it: any bytes, since any program may have written it.
    pub(crate) metadata: Vec<u8>,
}

/// The offsets that a log has: from `start`, up to but not including `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogRange {
    pub(crate) start: i64,
    /// One past the last, records of open transactions included.
    pub(crate) end: i64,
}

/// This member, as the group's protocol names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    pub(crate) id: String,
    /// The generation, or with the consumer protocol the member's epoch.
    pub(crate) generation: i32,
}

/// One partition's answer to a question.
pub(crate) type PerPartition<T> = Vec<(TopicPartition, Result<T, ClientError>)>;

impl GroupClient {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    fn enter(&self) -> Result<(&Client, Call<'_>), ClientError> {
        let client = &self.shared.client;
        Ok((client, client.enter().ok_or(ClientError::Closed)?))
    }

    /// Commits. `guard` runs under the group lock, as the last thing before the checks of the member
    /// and the hand-over; when it answers false, nothing is sent. It must not block.
    ///
    /// At most one commit at a time: an answer that takes longer than `timeout` leaves a request
    /// behind that may still take effect.
    pub(crate) fn commit(
        &self,
        offsets: &[CommitOffset<'_>],
        timeout: Duration,
        guard: impl FnOnce() -> bool,
    ) -> CommitAnswer {
        let list = match list_with(offsets) {
            Ok(list) => list,
            Err(failure) => {
                return CommitAnswer::NotSent(NotSent::Refused(ClientError::of(failure)));
            }
        };
        let partitions = offsets.iter().map(|offset| &offset.tp);
        self.commit_list(&list, partitions, timeout, guard)
    }

    /// As [`GroupClient::commit`], for a list that is made already.
    pub(super) fn commit_list<'a>(
        &self,
        list: &PartitionList,
        partitions: impl Iterator<Item = &'a TopicPartition>,
        timeout: Duration,
        guard: impl FnOnce() -> bool,
    ) -> CommitAnswer {
        // Looked at before this one is on its way: the answer to an older one that comes later does not tell
        // which of the two was stored last.
        let older_open = self.enter().is_ok_and(|_call| self.shared.is_older_open());
        let handed_over = self.under_lock(guard, |client| match joined(client) {
            None => Err(NotSent::NotAMember),
            Some(_) => client
                .hand_over(list)
                .map_err(|failure| NotSent::Refused(ClientError::of(failure))),
        });
        let handed_over = match handed_over {
            Ok(handed_over) => handed_over,
            Err(why) => return CommitAnswer::NotSent(why),
        };
        let Some(reply) = handed_over.wait(timeout) else {
            self.shared.unanswered().push(handed_over);
            return CommitAnswer::NoAnswer(None);
        };
        if CommitCode::leaves_open(reply.code) {
            return CommitAnswer::NoAnswer(Some(ErrorCode::of(reply.code)));
        }
        let deadline = Instant::now() + timeout;
        let codes: HashMap<(&str, i32), i32> = reply
            .partitions
            .iter()
            .map(|(topic, partition, code)| ((topic.as_str(), *partition), *code))
            .collect();
        let unanswered = if reply.code == 0 { MISSING } else { reply.code };
        let mut results: Vec<PartitionResult> = partitions
            .map(|tp| {
                let code = codes
                    .get(&(&*tp.topic, tp.partition))
                    .copied()
                    .unwrap_or(unanswered);
                PartitionResult {
                    tp: tp.clone(),
                    code: CommitCode::of(code, &tp.topic),
                }
            })
            .collect();
        if results.len() > 1 && CommitCode::may_be_of_one_partition(reply.code) {
            self.tell_apart(list, reply.code, &mut results, deadline);
        }
        let stored = |result: &PartitionResult| result.code == CommitCode::Success;
        if older_open && results.iter().any(stored) {
            return CommitAnswer::OlderOpen;
        }
        CommitAnswer::Answered(results)
    }

    /// Does what only a member may do whose assignment is the one that `guard` says: all of it under the group lock.
    pub(super) fn under_lock<T>(
        &self,
        guard: impl FnOnce() -> bool,
        act: impl FnOnce(&Client) -> Result<T, NotSent>,
    ) -> Result<T, NotSent> {
        let (client, _call) = self.enter().map_err(|_| NotSent::Closed)?;
        let assignment = self.shared.lock();
        if assignment.leaving {
            return Err(NotSent::Closed);
        }
        if !guard() {
            return Err(NotSent::Guard);
        }
        if client.assignment_lost() {
            return Err(NotSent::AssignmentLost);
        }
        act(client)
    }

    /// librdkafka (2.12.1) gives the error of one partition to those that succeeded as well. So when
    /// it may be such an error, what the coordinator has now says which were stored.
    fn tell_apart(
        &self,
        list: &PartitionList,
        code: i32,
        results: &mut [PartitionResult],
        deadline: Instant,
    ) {
        /// The coordinator has just answered.
        const AT_LEAST: Duration = Duration::from_secs(5);
        let suspect =
            |result: &PartitionResult| result.code == CommitCode::of(code, &result.tp.topic);
        let suspects: Vec<TopicPartition> = results
            .iter()
            .filter(|result| suspect(result))
            .map(|result| result.tp.clone())
            .collect();
        let timeout = deadline
            .saturating_duration_since(Instant::now())
            .max(AT_LEAST);
        let committed = self.committed(&suspects, timeout);
        let stored: HashMap<&TopicPartition, Option<&Committed>> = committed
            .iter()
            .flatten()
            .map(|(tp, committed)| (tp, committed.as_ref().ok()))
            .collect();
        let elements: Vec<Element<'_>> = list.iter().collect();
        let sent: HashMap<(&str, i32), &Element<'_>> = elements
            .iter()
            .map(|element| ((&*element.topic, element.partition), element))
            .collect();
        for result in results.iter_mut().filter(|result| suspect(result)) {
            let sent = sent.get(&(&*result.tp.topic, result.tp.partition));
            match (stored.get(&result.tp), sent) {
                (Some(Some(stored)), Some(sent)) => {
                    if stored.offset == Some(sent.offset) && stored.metadata == sent.metadata {
                        result.code = CommitCode::Success;
                    }
                }
                // What can't be read was not stored either.
                (Some(None), _) => {}
                // Not to be told: neither stored nor refused.
                _ => result.code = CommitCode::Retry(ErrorCode::of(code)),
            }
        }
    }

    /// What the group has committed, with require-stable: a partition with an open transaction is a
    /// transient error of that partition. (librdkafka asks so when `isolation.level` is
    /// `read_committed`; `config.rs` takes nothing else.)
    ///
    /// # Errors
    /// As a whole when the coordinator gives no answer in time; each partition for itself otherwise.
    pub(crate) fn committed(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<PerPartition<Committed>, ClientError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let (client, _call) = self.enter()?;
        let mut list = list_of(partitions)?;
        client
            .committed(&mut list, timeout)
            .map_err(ClientError::of)?;
        let answers = list
            .iter()
            .map(|element| {
                keyed(&element, || Committed {
                    offset: (element.offset >= 0).then_some(element.offset),
                    leader_epoch: element.leader_epoch,
                    metadata: element.metadata.to_vec(),
                })
            })
            .collect();
        Ok(spread(partitions, answers))
    }

    /// The range of offsets that each partition's log has now.
    ///
    /// # Errors
    /// As a whole when there is no answer in time; each partition for itself otherwise.
    pub(crate) fn log_range(
        &self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<PerPartition<LogRange>, ClientError> {
        let deadline = Instant::now() + timeout;
        let starts = self.log_offsets(partitions, OffsetSpec::Earliest, timeout)?;
        let left = deadline.saturating_duration_since(Instant::now());
        let ends = self.log_offsets(partitions, OffsetSpec::Latest, left)?;
        Ok(starts
            .into_iter()
            .zip(ends)
            .map(|((tp, start), (_, end))| {
                (
                    tp,
                    start.and_then(|start| end.map(|end| LogRange { start, end })),
                )
            })
            .collect())
    }

    /// The first offset of each partition whose record is of `timestamp` (milliseconds since 1970) or
    /// later; `None` when there is no such record.
    ///
    /// # Errors
    /// As [`GroupClient::log_range`].
    pub(crate) fn offsets_for_time(
        &self,
        partitions: &[TopicPartition],
        timestamp: i64,
        timeout: Duration,
    ) -> Result<PerPartition<Option<i64>>, ClientError> {
        let offsets = self.log_offsets(partitions, OffsetSpec::Time(timestamp.max(0)), timeout)?;
        Ok(offsets
            .into_iter()
            .map(|(tp, offset)| (tp, offset.map(|offset| (offset >= 0).then_some(offset))))
            .collect())
    }

    fn log_offsets(
        &self,
        partitions: &[TopicPartition],
        spec: OffsetSpec,
        timeout: Duration,
    ) -> Result<PerPartition<i64>, ClientError> {
        let positions = self.log_positions(partitions, spec, timeout)?;
        Ok(positions
            .into_iter()
            .map(|(tp, position)| (tp, position.map(|(offset, _)| offset)))
            .collect())
    }

    /// Offsets of the logs, each with the leader epoch that goes with it.
    pub(super) fn log_positions(
        &self,
        partitions: &[TopicPartition],
        spec: OffsetSpec,
        timeout: Duration,
    ) -> Result<PerPartition<(i64, Option<i32>)>, ClientError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let (client, _call) = self.enter()?;
        let mut list = PartitionList::with_capacity(partitions.len());
        for tp in partitions {
            list.push(&tp.topic, tp.partition, spec.as_offset(), None, &[])
                .map_err(ClientError::of)?;
        }
        let answers = client
            .log_offsets(&list, timeout, |element| {
                let (key, position) = keyed(&element, || (element.offset, element.leader_epoch));
                // An answer that never came can look like one: no error, and the marker for "none".
                // A time that is later than every record's is -1.
                let none = matches!(spec, OffsetSpec::Time(_)) && element.offset == -1;
                let position = position.and_then(|(offset, epoch)| {
                    if offset >= 0 || none {
                        Ok((offset, epoch))
                    } else {
                        Err(Failure::of_code(NO_ANSWER))
                    }
                });
                (key, position)
            })
            .map_err(ClientError::of)?;
        Ok(spread(partitions, answers))
    }

    /// The names of all topics that this client may see, from any broker.
    ///
    /// # Errors
    /// When no broker answers in time.
    pub(crate) fn topics(&self, timeout: Duration) -> Result<Vec<String>, ClientError> {
        let (client, _call) = self.enter()?;
        let topics = client.topics(timeout).map_err(ClientError::of)?;
        Ok(topics.into_iter().map(|(topic, _)| topic).collect())
    }

    /// All partitions of all topics, in order.
    ///
    /// # Errors
    /// When no broker answers in time.
    pub(crate) fn partitions(&self, timeout: Duration) -> Result<Vec<TopicPartition>, ClientError> {
        let (client, _call) = self.enter()?;
        let topics = client.topics(timeout).map_err(ClientError::of)?;
        let of_topic = |(topic, partitions): (String, Vec<i32>)| {
            let topic: Arc<str> = topic.into();
            partitions
                .into_iter()
                .map(move |partition| TopicPartition::new(Arc::clone(&topic), partition))
        };
        let mut all: Vec<_> = topics.into_iter().flat_map(of_topic).collect();
        all.sort_unstable();
        Ok(all)
    }

    /// The id of each of these topics. Older brokers, and the mock, do not answer.
    ///
    /// # Errors
    /// As a whole when there is no answer in time; of a topic that does not exist or may not be seen.
    pub(crate) fn topic_ids(
        &self,
        topics: &[Arc<str>],
        timeout: Duration,
    ) -> Result<Vec<TopicIdentity>, ClientError> {
        let (client, _call) = self.enter()?;
        let names: Vec<&str> = topics.iter().map(|topic| &**topic).collect();
        let ids = client.topic_ids(&names, timeout).map_err(ClientError::of)?;
        let typed = |(topic, id): (String, Result<(i64, i64), Failure>)| {
            let id = id
                .map(|(most, least)| TopicId(most, least))
                .map_err(|failure| ClientError::about(failure, Some(&topic)));
            (topic, id)
        };
        Ok(ids.into_iter().map(typed).collect())
    }

    /// This member; `None` while it is not in the group.
    pub(crate) fn member(&self) -> Option<Member> {
        let (client, _call) = self.enter().ok()?;
        joined(client)
    }

    /// Gives librdkafka the token that [`SourceEvent::TokenRefresh`](super::SourceEvent) asked for.
    ///
    /// # Errors
    /// When the token does not follow the rules of OAUTHBEARER; say so with
    /// [`GroupClient::set_token_failure`].
    pub(crate) fn set_token(&self, token: &OauthToken) -> Result<(), ClientError> {
        let (client, _call) = self.enter()?;
        client
            .set_token(
                &token.value,
                &token.principal,
                token.lifetime_ms,
                &token.extensions,
            )
            .map_err(ClientError::of)
    }

    /// Says that there is no token; librdkafka asks again 10 s later.
    ///
    /// # Errors
    /// When the client is closed.
    pub(crate) fn set_token_failure(&self, reason: &str) -> Result<(), ClientError> {
        let (client, _call) = self.enter()?;
        client
            .set_token_failure(&reason.replace('\0', " "))
            .map_err(ClientError::of)
    }

    /// Records that were received and not yet dropped.
    #[cfg(test)]
    pub(crate) fn live_records(&self) -> usize {
        self.shared.client.live()
    }
}

/// Who this is, if it is in the group. An empty id or a negative generation would commit as a
/// stranger, which the coordinator accepts.
pub(super) fn joined(client: &Client) -> Option<Member> {
    client
        .membership()
        .filter(|(id, generation)| !id.is_empty() && *generation >= 0)
        .map(|(id, generation)| Member { id, generation })
}

/// The code of a partition that an answer does not mention.
const MISSING: i32 = -1;

/// `_TIMED_OUT`.
const NO_ANSWER: i32 = -185;

type Keyed<T> = ((String, i32), Result<T, Failure>);

fn keyed<T>(element: &Element<'_>, read: impl FnOnce() -> T) -> Keyed<T> {
    let value = if element.code == 0 {
        Ok(read())
    } else {
        Err(Failure::of_code(element.code))
    };
    (
        (element.topic.clone().into_owned(), element.partition),
        value,
    )
}

/// Answers in the order of the request; a partition that has none is an error of that partition.
fn spread<T>(partitions: &[TopicPartition], answers: Vec<Keyed<T>>) -> PerPartition<T> {
    let mut answers: HashMap<(String, i32), Result<T, Failure>> = answers.into_iter().collect();
    partitions
        .iter()
        .map(|tp| {
            let answer = answers
                .remove(&(tp.topic.to_string(), tp.partition))
                .unwrap_or_else(|| Err(Failure::of_code(MISSING)))
                .map_err(|failure| ClientError::about(failure, Some(&tp.topic)));
            (tp.clone(), answer)
        })
        .collect()
}

/// A list of offsets with what goes beside them.
pub(super) fn list_with(offsets: &[CommitOffset<'_>]) -> Result<PartitionList, Failure> {
    let mut list = PartitionList::with_capacity(offsets.len());
    for CommitOffset {
        tp,
        offset,
        leader_epoch,
        metadata,
    } in offsets
    {
        let metadata = metadata.as_bytes();
        list.push(&tp.topic, tp.partition, *offset, *leader_epoch, metadata)?;
    }
    Ok(list)
}

pub(super) fn list_of(partitions: &[TopicPartition]) -> Result<PartitionList, ClientError> {
    PartitionList::of(partitions.iter().map(|tp| (&*tp.topic, tp.partition)))
        .map_err(ClientError::of)
}
