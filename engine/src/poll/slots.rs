//! Which slot of the core stands for which partition, and how its records find their lane.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use keyway_causal::{Channel, TopicId};
use keyway_core::{
    Arrival, CircuitState, Core, Epoch, LaneId, LaneNames, MAX_SLOTS, PartitionSlot, RouteId,
    StopCause, TaskRef, Timestamp,
};
use keyway_offsets::Offset;
use keyway_rider::StateFault;

use crate::budget::RECORD_OVERHEAD;
use crate::causal::EngineGate;
use crate::circuit::CircuitStatus;
use crate::context::Member;
use crate::dead_letters::DeadLetters;
use crate::kafka::{NativeRecord, PartitionToken, TopicPartition};
use crate::observer::Observer;
use crate::record::{Message, Record};
use crate::riders;
use crate::route::LaneRule;
use crate::stop::StopReason;
use crate::workers::guarded;

#[derive(Debug)]
struct Entry {
    partition: TopicPartition,
    route: RouteId,
    /// Assignment under which its records count; none while it is not assigned or being restored.
    epoch: Option<Epoch>,
}

/// The partitions that this member has ever been assigned.
pub(crate) struct Slots {
    entries: Vec<Entry>,
    by_partition: HashMap<TopicPartition, PartitionSlot>,
    /// A token may be used again for another partition once its messages are gone, so the table is emptied
    /// at each rebalance.
    by_token: HashMap<PartitionToken, PartitionSlot>,
    lane_rules: Vec<LaneRule>,
    /// Where the dead letters of each route go, for those that have any.
    letters: Vec<Option<DeadLetters>>,
    names: LaneNames,
    by_topic: HashMap<String, RouteId>,
    default_route: Option<RouteId>,
}

impl Slots {
    pub(crate) fn new(
        lane_rules: Vec<LaneRule>,
        letters: Vec<Option<DeadLetters>>,
        by_topic: HashMap<String, RouteId>,
        default_route: Option<RouteId>,
        seed: u64,
    ) -> Self {
        Self {
            entries: Vec::new(),
            by_partition: HashMap::new(),
            by_token: HashMap::new(),
            lane_rules,
            letters,
            names: LaneNames::new(seed),
            by_topic,
            default_route,
        }
    }

    /// The slot of an assigned partition, made when it has none yet.
    pub(crate) fn slot_of(
        &mut self,
        core: &mut Core<Message, EngineGate>,
        partition: &TopicPartition,
    ) -> Result<PartitionSlot, StopReason> {
        if let Some(slot) = self.by_partition.get(partition) {
            return Ok(*slot);
        }
        // A topic that only a pattern of the default route can have matched, or the default itself. Where
        // there is no default every subscribed topic has a route of its own.
        let route = self
            .by_topic
            .get(&*partition.topic)
            .copied()
            .or(self.default_route)
            .unwrap_or(RouteId(0));
        let slot = core
            .add_partition(route)
            .ok_or(StopReason::TooManyPartitions { limit: MAX_SLOTS })?;
        self.entries.push(Entry {
            partition: partition.clone(),
            route,
            epoch: None,
        });
        self.by_partition.insert(partition.clone(), slot);
        Ok(slot)
    }

    pub(crate) fn partition(&self, slot: PartitionSlot) -> &TopicPartition {
        &self.entries[slot.index()].partition
    }

    /// The topic that has a route of its own; `None` for the default route.
    pub(crate) fn topic_of_route(&self, route: RouteId) -> Option<&str> {
        let of_route = |(topic, its)| (its == &route).then_some(String::as_str(topic));
        self.by_topic.iter().find_map(of_route)
    }

    pub(crate) fn find(&self, partition: &TopicPartition) -> Option<PartitionSlot> {
        self.by_partition.get(partition).copied()
    }

    /// The channels of all slots whose topic is among these.
    pub(crate) fn channels(
        &self,
        topics: &[(Arc<str>, TopicId, u32)],
    ) -> Vec<(PartitionSlot, Channel)> {
        let channel = |(index, entry): (usize, &Entry)| {
            let TopicPartition { topic, partition } = &entry.partition;
            let (_, id, _) = topics.iter().find(|(name, ..)| name == topic)?;
            let partition = u32::try_from(*partition).ok()?;
            Some((PartitionSlot(index as u32), Channel::new(*id, partition)?))
        };
        self.entries
            .iter()
            .enumerate()
            .filter_map(channel)
            .collect()
    }

    pub(crate) fn epoch(&self, slot: PartitionSlot) -> Option<Epoch> {
        self.entries[slot.index()].epoch
    }

    /// From now on records of the partition count under this assignment, or under none.
    pub(crate) fn set_epoch(&mut self, slot: PartitionSlot, epoch: Option<Epoch>) {
        self.entries[slot.index()].epoch = epoch;
        self.by_token.clear();
    }

    /// Whether the partition is assigned and restored.
    pub(crate) fn is_assigned(&self, partition: &TopicPartition) -> bool {
        self.find(partition)
            .is_some_and(|slot| self.epoch(slot).is_some())
    }

    /// The slots whose partitions are assigned and restored.
    pub(crate) fn assigned(&self) -> impl Iterator<Item = (PartitionSlot, &TopicPartition)> {
        self.entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.epoch.is_some())
            .map(|(index, entry)| (PartitionSlot(index as u32), &entry.partition))
    }

    /// Slot and assignment of a record; `None` when its partition is not this member's at the moment.
    pub(crate) fn of_record(&mut self, record: &NativeRecord) -> Option<(PartitionSlot, Epoch)> {
        let token = record.partition_token();
        let slot = match self.by_token.get(&token) {
            Some(slot) => *slot,
            None => {
                let partition = TopicPartition::new(record.topic_name(), record.partition());
                let slot = self.find(&partition)?;
                self.by_token.insert(token, slot);
                slot
            }
        };
        Some((slot, self.entries[slot.index()].epoch?))
    }

    /// Where the dead letters of a partition's records go.
    pub(crate) fn dead_letters(&self, slot: PartitionSlot) -> Option<DeadLetters> {
        let route = self.entries[slot.index()].route;
        self.letters[route.index()].clone()
    }

    /// The core's cause for a stop, in the user's words.
    pub(crate) fn stop_reason(&self, cause: StopCause) -> Option<StopReason> {
        match cause {
            StopCause::Handler {
                slot,
                offset,
                reason,
            } => Some(StopReason::Handler {
                partition: self.partition(slot).clone(),
                offset: offset.get(),
                reason,
            }),
            StopCause::Exhausted {
                slot,
                offset,
                attempts,
            } => Some(StopReason::Exhausted {
                partition: self.partition(slot).clone(),
                offset: offset.get(),
                attempts,
            }),
            StopCause::CutTorn { slot } => Some(StopReason::CutTorn {
                partition: self.partition(slot).clone(),
            }),
            _ => {
                tracing::error!(?cause, "a cause that this engine does not know");
                None
            }
        }
    }

    /// Tells log and observer that a record is passed over, since its last attempt has failed.
    pub(crate) fn passed_over(
        &self,
        at: &TaskRef,
        payload: Message,
        observer: Option<&dyn Observer>,
        member: &Arc<Member>,
    ) {
        tracing::warn!(
            partition = %self.partition(at.slot),
            offset = %at.offset,
            attempts = at.attempt,
            "passed over: its last attempt has failed"
        );
        if let Some(observer) = observer {
            let record = Record::new(payload, at, 0, Arc::clone(member));
            guarded(|| observer.skipped(&record));
        }
    }

    /// Tells the log that a record stays as it is, since its last attempt has failed.
    pub(crate) fn on_hold(&self, at: &TaskRef, without_topic: bool) {
        let why = match without_topic {
            true => "it was to be a dead letter, and its route has no topic for them",
            false => "its last attempt has failed",
        };
        tracing::error!(
            partition = %self.partition(at.slot),
            offset = %at.offset,
            attempts = at.attempt,
            why,
            "on hold: it stays incomplete, and its key waits, until the partition is assigned anew"
        );
    }

    /// Tells the log that a circuit holds its route, or no longer does.
    pub(crate) fn circuit_turned(&self, route: RouteId, state: CircuitState, now: Timestamp) {
        let topic = self.topic_of_route(route);
        match CircuitStatus::of(state, now) {
            CircuitStatus::Open { another } => tracing::warn!(
                topic,
                open_for = ?another,
                "the circuit is open: attempts have failed, and none are made for a while"
            ),
            CircuitStatus::Closed => {
                tracing::info!(topic, "the circuit is closed: attempts succeed again");
            }
            CircuitStatus::HalfOpen => tracing::debug!(topic, "the circuit lets a probe through"),
        }
    }

    /// Tells that a partition's commits carry no state any more.
    pub(crate) fn state_lost(&self, slot: PartitionSlot, offset: Offset, fault: StateFault) {
        let partition = self.partition(slot);
        match fault {
            StateFault::Panicked => riders::failed("state_panicked"),
            StateFault::WrongType => riders::failed("wrong_update"),
            // There is no state, or its maker panicked, which was told.
            _ => {
                tracing::error!(
                    %partition,
                    %offset,
                    "a handler returned an update, and the partition has no state: updates need \
                     `Builder::rider_state`, and a state that could be made"
                );
                return;
            }
        }
        tracing::error!(
            %partition,
            %offset,
            %fault,
            "an update that a handler returned was not taken: until the partition is assigned anew its commits say \
             that the rider was dropped"
        );
    }

    /// A record as the core takes it.
    pub(crate) fn arrival(
        &self,
        slot: PartitionSlot,
        offset: Offset,
        record: NativeRecord,
        member: &Arc<Member>,
    ) -> Result<Arrival<Message>, StopReason> {
        let bytes = u32::try_from(record.payload_bytes() + RECORD_OVERHEAD).unwrap_or(u32::MAX);
        let leader_epoch = record.leader_epoch();
        let (lane, payload) = self.lane(slot, offset, record, member)?;
        Ok(Arrival {
            offset,
            lane,
            bytes,
            leader_epoch,
            payload,
        })
    }

    /// The lane of a record, which is given back.
    fn lane(
        &self,
        slot: PartitionSlot,
        offset: Offset,
        record: NativeRecord,
        member: &Arc<Member>,
    ) -> Result<(LaneId, Message), StopReason> {
        let route = self.entries[slot.index()].route;
        match &self.lane_rules[route.index()] {
            LaneRule::Ordering(ordering) => {
                let lane = self.names.lane(*ordering, slot, offset, record.key());
                Ok((lane, Message::from(record)))
            }
            LaneRule::Chosen(choose) => {
                let record = lend(record, slot, offset, member);
                // The closure is only asked; nothing of the engine can be left half done by it.
                let chosen = catch_unwind(AssertUnwindSafe(|| choose(&record)));
                let (message, _) = record.into_parts();
                let value = chosen.map_err(|panic| StopReason::LaneFunction {
                    partition: self.partition(slot).clone(),
                    offset: offset.get(),
                    panic: panic_text(&*panic),
                })?;
                Ok((self.names.keyed(slot, &value.to_le_bytes()), message))
            }
        }
    }
}

/// A record for a look before it has a lane.
fn lend(record: NativeRecord, slot: PartitionSlot, offset: Offset, member: &Arc<Member>) -> Record {
    let at = TaskRef {
        offset,
        epoch: Epoch::NONE,
        slot,
        lane: keyway_core::LaneIndex(0),
        bytes: 0,
        attempt: 1,
    };
    Record::new(Message::from(record), &at, 0, Arc::clone(member))
}

/// The text of a panic, as far as there is one.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without text".to_owned())
}
