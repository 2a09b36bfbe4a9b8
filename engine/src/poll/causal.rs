//! Between the causal gate and the cluster: what the group has committed is read at each assignment, and of others'
//! partitions whenever records wait for them.
//!
//! ```text
//!   assigned --> Group question --> topics, shards of the whole group --> gate, then the restores go on
//!   held for another member's partition --> Committed question --> gate --> released
//! ```
//!
//! Until the first answer nothing of an assignment runs: a record that starts before the group's shards are known could
//! be answered with a stamp that names too little.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;
use keyway_causal::{Blocker, CausalGate, Channel, Reading};
use keyway_core::{PartitionSlot, Restored, Timestamp};
use keyway_offsets::Offset;

use super::PollLoop;
use super::look::Identified;
use super::restore::RestoreAnswer;
use crate::causal::{CausalAnswer, CausalStatus, Cause, Facts, HeldHead, Question, Stamp};
use crate::kafka::{ClientError, DeniedWhat, TopicPartition};
use crate::stop::StopReason;
use crate::workers::guarded;

/// Between two questions for what others have committed, while records wait for it: as often as they could change, where
/// commits are made twenty times a second. Doubled while nothing moves, up to the second figure. That what has moved has
/// freed nothing yet is no reason to ask less often: a chain through several members would cost a second for each link.
const ASK_EVERY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Before a question that had no answer is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// They come ten seconds apart: one may be of a broker that has not heard of the topic yet.
const ANSWERS_THAT_IT_IS_GONE: u32 = 2;

/// Between two warnings.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// A committed offset that went down is read again after this: no request of before is under way any more.
const REQUESTS_OVER: Duration = Duration::from_secs(60);

/// What is under way with the cluster.
#[derive(Default)]
pub(super) struct CausalState {
    /// The latest restore for which the group's commits were read.
    read_for: u64,
    /// The latest for which they are to be.
    wanted_for: u64,
    /// When that question is asked again.
    group_at: Option<Timestamp>,
    /// Restores that wait for it.
    withheld: Vec<RestoreAnswer>,
    /// A question for others' commits is open.
    is_asking: bool,
    committed_at: Timestamp,
    pace: Duration,
    /// Others have committed something since the last question.
    has_moved: bool,
    suspected_at: Option<Timestamp>,
    /// How often what stays was restored anew.
    pub(super) demotions: u64,
    /// How often in a row a topic was said not to exist.
    missing: HashMap<String, u32>,
    warned_at: Option<Timestamp>,
    /// Records that were read again so far.
    scanned: Option<u64>,
    /// Since when the held heads were seen.
    since: HashMap<(PartitionSlot, Offset), Timestamp>,
    /// Why the latest question had no answer.
    pub(super) failure: Option<ClientError>,
}

/// The way to whoever asks the cluster, where there is causal delivery.
pub(crate) type Questions = Option<Sender<Question>>;

impl PollLoop {
    /// What the group has committed is to be known before this restore goes on.
    pub(super) fn want_group(&mut self, restore: u64) {
        if self.questions.is_some() {
            self.state.causal.wanted_for = restore;
            self.ask_for_group();
        }
    }

    fn ask_for_group(&mut self) {
        self.state.causal.group_at = None;
        if let Some(questions) = &self.questions {
            // It ends only after this thread.
            let _ = questions.send(Question::Group {
                id: self.state.causal.wanted_for,
                topics: self.named_topics.clone(),
            });
        }
    }

    /// Keeps an answer back for which the group's commits are not known yet.
    pub(super) fn withhold(&mut self, answer: RestoreAnswer) -> Option<RestoreAnswer> {
        if self.questions.is_none() || answer.id <= self.state.causal.read_for {
            return Some(answer);
        }
        self.state.causal.withheld.push(answer);
        None
    }

    pub(super) fn take_causal(&mut self, answer: CausalAnswer, now: Timestamp) {
        match answer {
            CausalAnswer::Group {
                id,
                facts: Ok(facts),
            } => {
                if let Some(error) = self.lacks_topic(&facts) {
                    tracing::warn!(%error, "nothing is assigned before all topics of the group are there");
                    self.state.causal.failure = Some(error);
                    self.state.causal.group_at = Some(now.after(ASK_AGAIN));
                    return;
                }
                self.state.causal.failure = None;
                self.state.causal.scanned = None;
                self.take_facts(&facts);
                self.state.causal.read_for = id;
                let withheld = std::mem::take(&mut self.state.causal.withheld);
                self.heed_causal(now);
                if self.state.stop_reason.is_some() {
                    // What is refused now is refused again at the next start: not even a first position is written down.
                    return;
                }
                for answer in withheld {
                    self.take_restored(answer, now);
                }
            }
            CausalAnswer::Group {
                facts: Err(error), ..
            } => {
                tracing::warn!(%error, "what the group has committed could not be read; it is tried again");
                self.state.causal.failure = Some(error);
                self.state.causal.group_at = Some(now.after(ASK_AGAIN));
            }
            CausalAnswer::Scanned(records) => self.state.causal.scanned = Some(records),
            CausalAnswer::Committed {
                offsets,
                reading,
                failure,
            } => {
                self.state.causal.is_asking = false;
                if let Some(gate) = self.core.gate_mut().as_causal_mut() {
                    let causal = &mut self.state.causal;
                    for (channel, committed) in offsets {
                        causal.has_moved |= gate.foreign_committed(channel, committed, reading);
                    }
                }
                self.state.causal.failure = failure;
                self.core.pass_gate(now);
            }
        }
        self.heed_causal(now);
    }

    /// A topic of the group that does not exist, and never has while this member ran: records that name it could not be told
    /// from those that name what the group does not consume.
    fn lacks_topic(&self, facts: &Facts) -> Option<ClientError> {
        let gate = self.core.gate().as_causal()?;
        let is_known = |topic: &Arc<str>| {
            gate.topic_id(topic).is_some() || facts.topics.iter().any(|(name, ..)| name == topic)
        };
        let missing = self.named_topics.iter().find(|topic| !is_known(topic))?;
        Some(ClientError::missing_topic(missing))
    }

    fn take_facts(&mut self, facts: &Facts) {
        let Some(gate) = self.core.gate_mut().as_causal_mut() else {
            return;
        };
        for (name, id, partitions) in &facts.topics {
            gate.add_topic(name, *id, *partitions);
        }
        gate.read_group(&facts.partitions);
        if let Some(causes) = &facts.rebuilt {
            gate.rebuilt(causes);
        }
        for (slot, channel) in self.slots.channels(&facts.topics) {
            gate.bind(slot, channel);
        }
    }

    /// Asks what is to be asked by now.
    pub(super) fn progress_causal(&mut self, now: Timestamp) {
        if self.state.causal.group_at.is_some_and(|at| now >= at) {
            self.ask_for_group();
        }
        let Some(gate) = self.core.gate().as_causal() else {
            return;
        };
        if self.state.causal.is_asking || now < self.state.causal.committed_at {
            return;
        }
        self.state.causal.committed_at = now.after(ASK_EVERY.0);
        let suspects: Vec<Channel> = gate.suspects().collect();
        let waited_for = gate.foreign_waited_for();
        let moves = std::mem::take(&mut self.state.causal.has_moved);
        let since = match suspects.is_empty() {
            true => None,
            false => Some(self.state.causal.suspected_at.unwrap_or(now)),
        };
        self.state.causal.suspected_at = since;
        if since.is_some_and(|since| now.since(since) >= REQUESTS_OVER) {
            self.state.causal.suspected_at = None;
            return self.ask_for_commits(suspects, Reading::Again, now);
        }
        if waited_for.is_empty() {
            self.state.causal.pace = ASK_EVERY.0;
            return;
        }
        let pace = self.state.causal.pace;
        self.state.causal.pace = match moves {
            true => ASK_EVERY.0,
            false => (pace * 2).clamp(ASK_EVERY.0, ASK_EVERY.1),
        };
        self.ask_for_commits(waited_for, Reading::First, now);
    }

    fn ask_for_commits(&mut self, channels: Vec<Channel>, reading: Reading, now: Timestamp) {
        let Some(gate) = self.core.gate().as_causal() else {
            return;
        };
        let named = channels.into_iter().filter_map(|channel| {
            let topic: Arc<str> = gate.topic_name(channel.topic())?.into();
            let partition = i32::try_from(channel.partition()).ok()?;
            Some((channel, TopicPartition { topic, partition }))
        });
        let channels: Vec<_> = named.collect();
        if channels.is_empty() {
            return;
        }
        self.state.causal.is_asking = true;
        self.state.causal.committed_at = now.after(self.state.causal.pace.max(ASK_EVERY.0));
        if let Some(questions) = &self.questions {
            let _ = questions.send(Question::Committed { channels, reading });
        }
    }

    /// Tells the observer what was held and let through, before what was starts.
    pub(super) fn tell_of_holds(&mut self) {
        let notes = self.core.gate_mut().take_notes();
        let Some(observer) = &self.observer else {
            return;
        };
        for note in notes {
            let partition = self.slots.partition(note.slot);
            let (offset, key) = (note.offset.get(), note.key.as_deref());
            guarded(|| match note.is_released {
                true => observer.released(partition, offset, key),
                false => observer.held(partition, offset, key),
            });
        }
    }

    /// What an operator sees.
    pub(super) fn causal_status(&mut self, now: Timestamp) -> Option<CausalStatus> {
        let gate = self.core.gate().as_causal()?;
        let status = gate.status();
        let since = &mut self.state.causal.since;
        since.retain(|head, _| {
            status
                .heads
                .iter()
                .any(|held| (held.slot, held.offset) == *head)
        });
        let mut heads = Vec::with_capacity(status.heads.len());
        for head in &status.heads {
            let since = *since.entry((head.slot, head.offset)).or_insert(now);
            heads.push(HeldHead {
                partition: self.slots.partition(head.slot).clone(),
                offset: head.offset.get(),
                waits_for: now.since(since),
                blockers: head.blockers.iter().map(|held| cause(gate, held)).collect(),
            });
        }
        let status = CausalStatus {
            held: status.held,
            longest_hold: heads.iter().map(|head| head.waits_for).max(),
            heads,
            held_total: status.counters.held,
            frontier_channels: status.frontier_channels,
            stamp_bytes: status.stamp_bytes,
            causes_budget: gate.config().causes_budget,
            shard_bytes: status.shard_bytes,
            shard_budget: gate.config().shard_budget,
            stamps: status.counters.stamps,
            sends_refused: status.sends_refused.map(|why| why.to_string()),
            demotions: self.state.causal.demotions,
            rebuilding: self.state.causal.scanned,
            failure: self.state.causal.failure.clone(),
        };
        self.warn_of_bounds(&status, now);
        Some(status)
    }

    /// Stops where the gate says so.
    pub(super) fn heed_causal(&mut self, now: Timestamp) {
        let stop = self.core.gate_mut().as_causal_mut();
        if let Some(stop) = stop.and_then(|gate| gate.take_stop()) {
            self.stop_because(StopReason::Causal(stop), now);
        }
    }

    /// The stamp of what is sent now, `Some(None)` without causal delivery. Where nothing may be sent the member stops.
    pub(super) fn stamp(&mut self, now: Timestamp) -> Option<Stamp> {
        let Some(gate) = self.core.gate_mut().as_causal_mut() else {
            return Some(None);
        };
        match gate.stamp() {
            Ok(stamp) => Some(Some(stamp)),
            Err(refused) => {
                self.stop_because(StopReason::SendingRefused(refused), now);
                None
            }
        }
    }

    /// A partition left, and something complete of it was not committed: its effects may be out, or in partitions that
    /// stay. So these begin again from what is committed.
    pub(super) fn demote_rest(&mut self, now: Timestamp) {
        if self.questions.is_none() || self.state.shutdown.is_some() {
            return;
        }
        let stay: Vec<TopicPartition> = self
            .slots
            .assigned()
            .map(|(_, partition)| partition.clone())
            .collect();
        if stay.is_empty() {
            return;
        }
        tracing::warn!(partitions = ?stay, "restored anew, since a partition has left without its last commit");
        self.state.causal.demotions += 1;
        self.restore_anew(&stay, false, now);
    }

    /// A topic that two answers in a row, some time apart, say does not exist is deleted: nothing waits for it any more.
    /// That it may not be seen, or that there is no answer, says nothing.
    pub(super) fn heed_missing(&mut self, answer: &Identified, now: Timestamp) {
        let Some(gate) = self.core.gate_mut().as_causal_mut() else {
            return;
        };
        for (topic, id) in answer.ids.iter().flatten() {
            let missing = matches!(
                id,
                Err(ClientError::Denied {
                    what: DeniedWhat::MissingTopic(_),
                    ..
                })
            );
            if !missing {
                self.state.causal.missing.remove(topic);
                continue;
            }
            let times = self.state.causal.missing.entry(topic.clone()).or_default();
            *times += 1;
            if let (ANSWERS_THAT_IT_IS_GONE, Some(id)) = (*times, gate.topic_id(topic)) {
                tracing::warn!(topic, %id, "the topic is deleted: what waits for it goes on");
                gate.topic_deleted(id);
            }
        }
        self.core.pass_gate(now);
    }

    /// Says so when stamps or shards come near their bounds, at which the member would stop.
    fn warn_of_bounds(&mut self, status: &CausalStatus, now: Timestamp) {
        let near = |bytes: usize, budget: usize| bytes / 4 >= budget / 5;
        let is_near = near(status.stamp_bytes, status.causes_budget)
            || near(status.shard_bytes, status.shard_budget);
        let is_due = |at: Timestamp| now.since(at) >= WARN_EVERY;
        if is_near && self.state.causal.warned_at.is_none_or(is_due) {
            self.state.causal.warned_at = Some(now);
            tracing::warn!(
                channels = status.frontier_channels,
                stamp_bytes = status.stamp_bytes,
                causes_budget = status.causes_budget,
                shard_bytes = status.shard_bytes,
                shard_budget = status.shard_budget,
                "what was seen of other topics comes near its bound, at which the member stops"
            );
        }
    }

    /// Records that were deleted unread may be causes of what is to come.
    pub(super) fn refuse_discarded(
        &mut self,
        partition: &TopicPartition,
        restored: &Restored,
        now: Timestamp,
    ) {
        let Some(committed) = restored.committed.filter(|_| self.questions.is_some()) else {
            return;
        };
        if committed < restored.start {
            let reason = StopReason::PositionsDiscardedUnread {
                partition: partition.clone(),
                committed: committed.get(),
                log_start: restored.start.get(),
            };
            self.stop_because(reason, now);
        }
    }

    /// Whether all of these are committed, as far as that is known at their end.
    pub(super) fn all_clean(&self, slots: &[PartitionSlot]) -> bool {
        slots.iter().all(|slot| self.core.is_clean(*slot))
    }
}

fn cause(gate: &CausalGate, blocker: &Blocker) -> Cause {
    let channel = blocker.channel;
    // A gated channel has a name.
    let topic = gate.topic_name(channel.topic()).unwrap_or_default();
    let partition = i32::try_from(channel.partition()).unwrap_or(i32::MAX);
    Cause {
        partition: TopicPartition::new(topic, partition),
        needed: blocker.needed_below.get() - 1,
        settled: blocker.settled_below.get() - 1,
        whose: blocker.whose.name(),
    }
}
