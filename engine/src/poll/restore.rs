//! Where an assigned partition starts, asked and decided before it is assigned.
//!
//! ```text
//!   what the group committed --+
//!                              +--> place --> Restored, or the fault of the metadata
//!   first and last log offset -+
//! ```
//!
//! A question without an answer is asked again, for as long as the assignment lasts: a timeout is never taken
//! for "nothing committed". Only text that can't be decoded, or a map that does not fit the log, falls under
//! the policy for bad metadata.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use keyway_core::{PartitionSlot, Restored};
use keyway_offsets::Offset;
use keyway_rider::{BadMetadata, Metadata, Rider};

use super::inbox::{Inbound, InboxSender};
use crate::kafka::{ClientError, Committed, DeniedWhat, GroupClient, LogRange, TopicPartition};
use crate::metrics;
use crate::settings::{MapsWithoutEpoch, StartAt};
use crate::stop::StopReason;

/// What the decision depends on beside the broker's answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestorePolicy {
    pub(crate) start: StartAt,
    pub(crate) bad_metadata: BadMetadata,
    pub(crate) maps_without_epoch: MapsWithoutEpoch,
    pub(crate) max_window: u64,
}

/// What is asked of the restorer.
#[derive(Debug)]
pub(crate) struct RestoreJob {
    /// Returned with the answers.
    pub(crate) id: u64,
    pub(crate) partitions: Vec<(PartitionSlot, TopicPartition)>,
    /// Their topic was made anew while they were assigned: whatever was committed belongs to its former life.
    pub(crate) new_life: bool,
    /// Set when nobody wants the answer any more.
    pub(crate) cancelled: Arc<AtomicBool>,
}

/// Some of the answers to a job; the rest follows.
#[derive(Debug)]
pub(crate) struct RestoreAnswer {
    pub(crate) id: u64,
    pub(crate) restored: Vec<(PartitionSlot, Result<Found, StopReason>)>,
    /// Why there is none for others, in the latest round of questions.
    pub(crate) failure: Option<ClientError>,
}

/// Where a partition starts, and whether a map beside the committed offset is not used.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) restored: Restored,
    pub(crate) map_discarded: bool,
}

/// How long one question to the brokers may take before it is asked again.
const QUESTION: Duration = Duration::from_secs(10);

/// Between two rounds of questions, doubled up to the second figure.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// After this long the partitions that have their answers go ahead without the others.
const TOGETHER: Duration = Duration::from_secs(5);

/// A committed offset, or a map, beyond the end of the log is believed to be another life of the partition
/// only when it still is so after this long: a new leader may not know its log end yet.
const BEYOND_END: Duration = Duration::from_secs(2);

pub(crate) struct Restorer {
    pub(crate) group: GroupClient,
    pub(crate) policy: RestorePolicy,
    pub(crate) inbox: InboxSender,
}

impl Restorer {
    /// Starts the thread; it ends when the sender is dropped.
    pub(crate) fn start(self) -> std::io::Result<Sender<RestoreJob>> {
        let (sender, jobs) = crossbeam_channel::unbounded();
        std::thread::Builder::new()
            .name("keyway-restore".to_owned())
            .spawn(move || self.run(&jobs))?;
        Ok(sender)
    }

    fn run(self, jobs: &Receiver<RestoreJob>) {
        let mut open: Vec<OpenJob> = Vec::new();
        loop {
            let wait = open.iter().map(|job| job.next_at).min();
            let job = match wait {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => jobs.recv_deadline(at),
            };
            match job {
                Ok(job) => open.push(OpenJob::new(job)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            open.retain(|job| !job.job.cancelled.load(Ordering::Relaxed));
            for job in &mut open {
                if job.next_at <= Instant::now() {
                    self.ask(job);
                }
                let restored = job.take_answers();
                let failure = job.failure.take();
                let is_news = !restored.is_empty() || failure.is_some();
                if is_news
                    && !self.inbox.send(Inbound::Restored(RestoreAnswer {
                        id: job.job.id,
                        restored,
                        failure,
                    }))
                {
                    return;
                }
            }
            open.retain(|job| !job.unanswered.is_empty() || !job.answers.is_empty());
        }
    }

    /// One round of questions.
    fn ask(&self, job: &mut OpenJob) {
        job.next_at = Instant::now() + job.backoff;
        job.backoff = (job.backoff * 2).min(BACKOFF.1);
        let unanswered = std::mem::take(&mut job.unanswered);
        let names: Vec<_> = unanswered.iter().map(|(_, name)| name.clone()).collect();
        let facts = self.facts(&names);
        if let Err(error) = &facts {
            tracing::warn!(%error, partitions = names.len(), "restoring is tried again");
            job.failure = Some(error.clone());
        }
        let mut facts = facts.unwrap_or_default();
        job.missing = 0;
        for (slot, name) in unanswered {
            let fact = facts.remove(&name);
            job.missing += usize::from(matches!(&fact, Some(Err(error)) if is_missing(error)));
            let answer = match fact {
                Some(Ok(facts)) if job.job.new_life => Some(Ok(begin(&name, &facts))),
                Some(Ok(facts)) => self.place(&name, &facts, job.since.elapsed() >= BEYOND_END),
                Some(Err(error)) => {
                    tracing::debug!(partition = %name, %error, "restoring is tried again");
                    job.failure = Some(error);
                    None
                }
                None => None,
            };
            match answer {
                Some(answer) => job.answers.push((slot, answer)),
                None => job.unanswered.push((slot, name)),
            }
        }
        // A question that took its whole time was its own backoff.
        job.next_at = job.next_at.max(Instant::now());
    }

    fn facts(
        &self,
        names: &[TopicPartition],
    ) -> Result<HashMap<TopicPartition, Result<Facts, ClientError>>, ClientError> {
        let committed = self.group.committed(names, QUESTION)?;
        let ranges: HashMap<_, _> = self.group.log_range(names, QUESTION)?.into_iter().collect();
        let mut facts = HashMap::new();
        let mut without_commit = Vec::new();
        for (name, committed) in committed {
            let range = ranges.get(&name).cloned();
            let fact = match (committed, range) {
                (Ok(committed), Some(Ok(range))) => {
                    if committed.offset.is_none_or(|offset| offset > range.end) {
                        without_commit.push(name.clone());
                    }
                    Ok(Facts {
                        committed,
                        range,
                        at_time: None,
                    })
                }
                (Err(error), _) | (_, Some(Err(error))) => Err(error),
                (_, None) => continue,
            };
            facts.insert(name, fact);
        }
        if let StartAt::Timestamp(time) = self.policy.start {
            for (name, offset) in self
                .group
                .offsets_for_time(&without_commit, time, QUESTION)?
            {
                let fact = facts.remove(&name).map(|fact| {
                    fact.and_then(|fact| {
                        Ok(Facts {
                            at_time: offset?,
                            ..fact
                        })
                    })
                });
                if let Some(fact) = fact {
                    facts.insert(name, fact);
                }
            }
        }
        Ok(facts)
    }

    /// The decision, with its log line and its count; `None` to ask again.
    fn place(
        &self,
        partition: &TopicPartition,
        facts: &Facts,
        settled: bool,
    ) -> Option<Result<Found, StopReason>> {
        let (restored, discarded) = place(facts, &self.policy);
        let found = Found {
            restored,
            map_discarded: discarded.is_some(),
        };
        let Some(discarded) = discarded else {
            return Some(Ok(found));
        };
        if discarded.reason == PAST_LOG_END && !settled {
            return None;
        }
        let offset = facts.committed.offset.unwrap_or_default();
        if self.policy.bad_metadata == BadMetadata::Fail {
            return Some(Err(StopReason::BadMetadata {
                partition: partition.clone(),
                offset,
                reason: discarded.reason,
                detail: discarded.detail,
            }));
        }
        ::metrics::counter!(metrics::METADATA_DISCARDED, "reason" => discarded.reason).increment(1);
        tracing::warn!(
            %partition,
            offset,
            reason = discarded.reason,
            detail = discarded.detail,
            "committed metadata is ignored: what was complete above the offset runs again"
        );
        Some(Ok(found))
    }
}

/// Whether a partition's answer has to wait until somebody makes its topic.
fn is_missing(error: &ClientError) -> bool {
    matches!(
        error,
        ClientError::Denied {
            what: DeniedWhat::MissingTopic(_),
            ..
        }
    )
}

struct OpenJob {
    job: RestoreJob,
    since: Instant,
    next_at: Instant,
    backoff: Duration,
    unanswered: Vec<(PartitionSlot, TopicPartition)>,
    /// How many of these are of topics that do not exist at the moment.
    missing: usize,
    answers: Vec<(PartitionSlot, Result<Found, StopReason>)>,
    /// Why the latest round had no answer for some, until it is told.
    failure: Option<ClientError>,
}

impl OpenJob {
    fn new(mut job: RestoreJob) -> Self {
        let now = Instant::now();
        let unanswered = std::mem::take(&mut job.partitions);
        Self {
            job,
            since: now,
            next_at: now,
            backoff: BACKOFF.0,
            unanswered,
            missing: 0,
            answers: Vec::new(),
            failure: None,
        }
    }

    /// The answers, once they are all there, or the others have been waited for long enough or are of topics that do
    /// not exist.
    fn take_answers(&mut self) -> Vec<(PartitionSlot, Result<Found, StopReason>)> {
        if self.unanswered.len() == self.missing || self.since.elapsed() >= TOGETHER {
            std::mem::take(&mut self.answers)
        } else {
            Vec::new()
        }
    }
}

/// What the brokers say of a partition.
#[derive(Clone, Debug)]
struct Facts {
    committed: Committed,
    range: LogRange,
    /// The first offset at the chosen timestamp, where that was asked.
    at_time: Option<i64>,
}

impl Facts {
    /// What stands beside the committed offset.
    fn metadata(&self, committed: Offset, policy: &RestorePolicy) -> Metadata {
        keyway_rider::read(committed, &self.committed.metadata, policy.max_window)
    }
}

/// Metadata that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Discarded {
    reason: &'static str,
    detail: String,
}

const PAST_LOG_END: &str = "past_log_end";

/// Where a partition starts whose topic was made anew while it was read: at its beginning, since all of it is new.
fn begin(partition: &TopicPartition, facts: &Facts) -> Found {
    tracing::warn!(%partition, "the topic was made anew: it is read from its beginning, whatever was committed");
    let has_rider = !facts.committed.metadata.is_empty();
    Found {
        restored: Restored {
            committed: None,
            start: at(facts.range.start),
            map: None,
            leader_epoch: None,
            rider: match has_rider {
                true => Rider::Unreadable,
                false => Rider::None,
            },
        },
        map_discarded: has_rider,
    }
}

/// Where a partition starts, and what of its metadata is not used.
fn place(facts: &Facts, policy: &RestorePolicy) -> (Restored, Option<Discarded>) {
    let LogRange { start, end } = facts.range;
    let Some(committed) = facts.committed.offset.and_then(Offset::new) else {
        return (first_start(facts, policy), None);
    };
    if committed.get() > end {
        let detail = format!(
            "the committed offset {committed} is past the log end {end}: the log is another one"
        );
        let restored = Restored {
            // There was something, and it is of another log.
            rider: match facts.metadata(committed, policy).rider {
                Rider::None => Rider::None,
                _ => Rider::Unreadable,
            },
            ..first_start(facts, policy)
        };
        return (
            restored,
            Some(Discarded {
                reason: PAST_LOG_END,
                detail,
            }),
        );
    }
    let metadata = facts.metadata(committed, policy);
    let rider = metadata.rider.clone();
    let (map, discarded) = match map_of(metadata, facts, policy) {
        Ok(map) => (map, None),
        Err(discarded) => (None, Some(discarded)),
    };
    let is_of_another_log = discarded
        .as_ref()
        .is_some_and(|discarded| discarded.reason == PAST_LOG_END);
    let rider = match rider {
        Rider::None => Rider::None,
        _ if is_of_another_log => Rider::Unreadable,
        rider => rider,
    };
    let from = committed.max(at(start));
    if from > committed {
        tracing::warn!(
            %committed,
            log_start = start,
            "records between the committed offset and the log start were deleted before they were read"
        );
    }
    let leader_epoch = facts.committed.leader_epoch;
    (
        Restored {
            committed: Some(committed),
            start: from,
            map,
            leader_epoch,
            rider,
        },
        discarded,
    )
}

fn map_of(
    metadata: Metadata,
    facts: &Facts,
    policy: &RestorePolicy,
) -> Result<Option<keyway_offsets::HoleMap>, Discarded> {
    let map = metadata
        .map
        .map_err(|error| Discarded {
            reason: error.name(),
            detail: error.to_string(),
        })?
        .map;
    if map.span() == 0 {
        return Ok(None);
    }
    if map.highest() >= facts.range.end {
        let (highest, end) = (map.highest(), facts.range.end);
        return Err(Discarded {
            reason: PAST_LOG_END,
            detail: format!(
                "the map reaches to {highest}, past the log end {end}: the log is another one"
            ),
        });
    }
    if facts.committed.leader_epoch.is_none() {
        if policy.maps_without_epoch == MapsWithoutEpoch::Discard {
            return Err(Discarded {
                reason: "no_leader_epoch",
                detail: "the commit carries no leader epoch, as after a copy from another cluster"
                    .to_owned(),
            });
        }
        WITHOUT_EPOCH.call_once(|| {
            tracing::warn!(
                "a hole map without a leader epoch is used, as Java's engine writes them; if this group was \
                 copied from another cluster set `maps_without_epoch` to `Discard`"
            );
        });
    }
    Ok(Some(map))
}

static WITHOUT_EPOCH: std::sync::Once = std::sync::Once::new();

/// Where a group without a usable commit starts.
fn first_start(facts: &Facts, policy: &RestorePolicy) -> Restored {
    let LogRange { start, end } = facts.range;
    let from = match policy.start {
        StartAt::Earliest => start,
        StartAt::Latest => end,
        StartAt::Timestamp(_) => facts.at_time.unwrap_or(end),
    };
    Restored {
        committed: None,
        start: at(from),
        map: None,
        leader_epoch: None,
        rider: Rider::None,
    }
}

/// An offset that a broker gave as a log position.
fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap_or(Offset::ZERO)
}

#[cfg(test)]
mod tests {
    use keyway_offsets::{HoleMap, OffsetRange, encode};

    use super::*;

    const POLICY: RestorePolicy = RestorePolicy {
        start: StartAt::Earliest,
        bad_metadata: BadMetadata::Ignore,
        maps_without_epoch: MapsWithoutEpoch::Accept,
        max_window: 1 << 28,
    };

    fn facts(offset: Option<i64>, metadata: &[u8], range: (i64, i64)) -> Facts {
        Facts {
            committed: Committed {
                offset,
                leader_epoch: Some(3),
                metadata: metadata.to_vec(),
            },
            range: LogRange {
                start: range.0,
                end: range.1,
            },
            at_time: None,
        }
    }

    /// Base 100, highest 109, hole at 100.
    fn text() -> Vec<u8> {
        let map = HoleMap::new(at(100), 109, [OffsetRange::single(at(100))]).expect("a map");
        encode(&map).text.into_bytes()
    }

    /// Without the count of the missing ones the answers wait for as long as `TOGETHER`.
    #[test]
    fn a_topic_that_does_not_exist_holds_up_no_other() {
        let name = |partition| TopicPartition::new("t", partition);
        let slots = (0..3_u32).map(|slot| (PartitionSlot(slot), name(slot as i32)));
        let mut job = OpenJob::new(RestoreJob {
            id: 1,
            partitions: slots.collect(),
            new_life: false,
            cancelled: Arc::default(),
        });
        let (slot, _) = job.unanswered.remove(0);
        let (restored, _) = place(&facts(None, b"", (0, 9)), &POLICY);
        let found = Found {
            restored,
            map_discarded: false,
        };
        job.answers.push((slot, Ok(found)));
        job.missing = 1;
        assert!(job.take_answers().is_empty(), "one may be answered yet");
        job.missing = 2;
        assert_eq!(job.take_answers().len(), 1);
    }

    #[test]
    fn without_a_commit_the_user_decides() {
        let facts = facts(None, b"", (20, 90));
        let start = |start| {
            place(&facts, &RestorePolicy { start, ..POLICY })
                .0
                .start
                .get()
        };
        assert_eq!(start(StartAt::Earliest), 20);
        assert_eq!(start(StartAt::Latest), 90);
        assert_eq!(start(StartAt::Timestamp(5)), 90);
        let at_time = Facts {
            at_time: Some(41),
            ..facts.clone()
        };
        let policy = RestorePolicy {
            start: StartAt::Timestamp(5),
            ..POLICY
        };
        assert_eq!(place(&at_time, &policy).0.start.get(), 41);
    }

    #[test]
    fn latest_does_not_jump_over_a_committed_offset_below_the_log_start() {
        let policy = RestorePolicy {
            start: StartAt::Latest,
            ..POLICY
        };
        let (restored, discarded) = place(&facts(Some(10), b"", (50, 200)), &policy);
        assert_eq!((restored.start.get(), discarded), (50, None));
    }

    #[test]
    fn a_map_that_fits_is_used() {
        let (restored, discarded) = place(&facts(Some(100), &text(), (0, 110)), &POLICY);
        assert_eq!(discarded, None);
        assert_eq!(restored.map.expect("a map").highest_complete(), 109);
    }

    /// Without the look at the log end it fails: the map is used.
    #[test]
    fn a_map_that_reaches_the_log_end_is_of_another_life() {
        let (restored, discarded) = place(&facts(Some(100), &text(), (0, 109)), &POLICY);
        assert_eq!(discarded.expect("discarded").reason, PAST_LOG_END);
        assert_eq!((restored.start.get(), restored.map.is_none()), (100, true));
    }

    /// The same behind a rider.
    fn text_with_rider() -> Vec<u8> {
        let map = HoleMap::new(at(100), 109, [OffsetRange::single(at(100))]).expect("a map");
        let rider = keyway_rider::RiderBytes::new(b"hi".to_vec()).expect("a rider");
        let map = keyway_rider::CommitMap::new(&map, &keyway_offsets::Limits::default());
        map.with(&keyway_rider::Offer::Rider(rider))
            .text
            .into_bytes()
    }

    #[test]
    fn a_rider_is_handed_over_unless_it_is_of_another_log() {
        let rider = |committed, range| {
            place(&facts(Some(committed), &text_with_rider(), range), &POLICY)
                .0
                .rider
        };
        assert_eq!(rider(100, (0, 110)), Rider::Present(b"hi".to_vec()));
        assert_eq!(
            rider(100, (0, 109)),
            Rider::Unreadable,
            "its map reaches past the end"
        );
        assert_eq!(rider(100, (0, 99)), Rider::Unreadable, "its offset does");
        let mut mirrored = facts(Some(100), &text_with_rider(), (0, 200));
        mirrored.committed.leader_epoch = None;
        let policy = RestorePolicy {
            maps_without_epoch: MapsWithoutEpoch::Discard,
            ..POLICY
        };
        let (restored, discarded) = place(&mirrored, &policy);
        assert_eq!(restored.rider, Rider::Present(b"hi".to_vec()));
        assert!(discarded.is_some() && restored.map.is_none());
    }

    /// Without the look at the log end it fails: it is where to go on.
    #[test]
    fn a_committed_offset_past_the_log_end_is_as_none() {
        let (restored, discarded) = place(&facts(Some(100), b"", (0, 99)), &POLICY);
        assert_eq!(discarded.expect("discarded").reason, PAST_LOG_END);
        assert_eq!((restored.committed, restored.start.get()), (None, 0));
    }

    #[test]
    fn text_of_another_program_is_named() {
        for (metadata, reason) in [(&b"\xff\xfe"[..], "bad_text"), (b"AQ==", "kafka_streams")] {
            let (restored, discarded) = place(&facts(Some(100), metadata, (0, 200)), &POLICY);
            assert_eq!(discarded.expect("discarded").reason, reason);
            assert_eq!(restored.start.get(), 100);
        }
    }

    /// Without the policy it fails: the map is used.
    #[test]
    fn a_mirrored_group_discards_maps_without_an_epoch() {
        let mut facts = facts(Some(100), &text(), (0, 200));
        facts.committed.leader_epoch = None;
        assert!(place(&facts, &POLICY).0.map.is_some());
        let policy = RestorePolicy {
            maps_without_epoch: MapsWithoutEpoch::Discard,
            ..POLICY
        };
        let (restored, discarded) = place(&facts, &policy);
        assert_eq!(discarded.expect("discarded").reason, "no_leader_epoch");
        assert!(restored.map.is_none());
    }
}
