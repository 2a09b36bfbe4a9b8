//! The poll thread's share in the life of an assignment.
//!
//! ```text
//!   librdkafka: Assign ---> event ---> engine restores ---> assign(starts)   positions set, fetching
//!               Revoke ---> event ---> engine commits  ---> unassign(..)     given back
//!               (nothing is delivered between event and answer, and the next event waits for it)
//! ```
//! Every event wants exactly one answer, an empty one included.

use super::TopicPartition;
use super::errors::ClientError;
use super::group::{Shared, list_of};
use super::native::{PartitionList, Protocol};
use super::positions::Positions;
use super::source::Start;

/// What librdkafka waits for.
#[derive(Debug, Default)]
pub(super) struct Rebalance {
    outstanding: Option<Outstanding>,
}

#[derive(Debug)]
struct Outstanding {
    protocol: Protocol,
    /// `None` for an assignment, the partitions for a revocation.
    revoked: Option<Vec<TopicPartition>>,
}

impl Rebalance {
    /// An assignment was announced.
    pub(super) fn assign_announced(&mut self, protocol: Protocol) {
        self.outstanding = Some(Outstanding {
            protocol,
            revoked: None,
        });
    }

    /// A revocation, or a loss, was announced.
    pub(super) fn revoke_announced(&mut self, protocol: Protocol, partitions: Vec<TopicPartition>) {
        self.outstanding = Some(Outstanding {
            protocol,
            revoked: Some(partitions),
        });
    }

    /// Whether librdkafka waits for an answer.
    pub(super) fn is_outstanding(&self) -> bool {
        self.outstanding.is_some()
    }

    /// Starts partitions at offsets.
    pub(super) fn assign(
        &mut self,
        shared: &Shared,
        starts: &[Start],
    ) -> Result<Protocol, ClientError> {
        let list = starts_list(starts)?;
        let client = &shared.client;
        let _lock = shared.lock();
        let protocol = self.protocol(shared);
        let outcome = match protocol {
            Protocol::Cooperative => client.assign_more(&list),
            Protocol::Eager | Protocol::None => client.assign_all(Some(&list)),
        };
        self.outstanding = None;
        outcome.map(|()| protocol).map_err(ClientError::of)
    }

    /// Gives partitions back.
    pub(super) fn unassign(
        &mut self,
        shared: &Shared,
        partitions: &[TopicPartition],
    ) -> Result<Protocol, ClientError> {
        let list = list_of(partitions)?;
        let client = &shared.client;
        let _lock = shared.lock();
        let protocol = self.protocol(shared);
        let outcome = match protocol {
            Protocol::Cooperative => client.assign_less(&list),
            Protocol::Eager | Protocol::None => client.assign_all(None),
        };
        self.outstanding = None;
        outcome.map(|()| protocol).map_err(ClientError::of)
    }

    /// Starts partitions again that librdkafka has stopped, by taking them away and giving them back;
    /// an eager protocol can do that for all of them only.
    pub(super) fn restart(
        &self,
        shared: &Shared,
        starts: &[Start],
        positions: &Positions,
    ) -> Result<(), ClientError> {
        if starts.is_empty() {
            return Ok(());
        }
        let client = &shared.client;
        let _lock = shared.lock();
        let outcome = match client.protocol() {
            Protocol::Cooperative => {
                let list = starts_list(starts)?;
                client
                    .assign_less(&list)
                    .and_then(|()| client.assign_more(&list))
            }
            Protocol::Eager | Protocol::None => {
                let moved =
                    |start: &Start| starts.iter().find(|moved| moved.tp == start.tp).cloned();
                let all: Vec<Start> = positions
                    .all()
                    .into_iter()
                    .map(|start| moved(&start).unwrap_or(start))
                    .collect();
                client.assign_all(Some(&starts_list(&all)?))
            }
        };
        outcome.map_err(ClientError::of)
    }

    /// Answers whatever is outstanding with nothing, for leaving. With `closing`, librdkafka takes
    /// any answer as giving all back.
    pub(super) fn answer_with_nothing(&mut self, shared: &Shared, closing: bool) {
        let Some(Outstanding { protocol, revoked }) = self.outstanding.take() else {
            return;
        };
        let client = &shared.client;
        let _lock = shared.lock();
        let outcome = match (protocol, revoked) {
            (Protocol::Cooperative, Some(revoked)) if !closing => {
                list_of(&revoked).map(|list| client.assign_less(&list))
            }
            (Protocol::Cooperative, None) if !closing => {
                Ok(client.assign_more(&PartitionList::with_capacity(0)))
            }
            _ => Ok(client.assign_all(None)),
        };
        if let Err(error) = outcome.and_then(|outcome| outcome.map_err(ClientError::of)) {
            tracing::debug!(%error, "the answer to a rebalance while leaving was refused");
        }
    }

    /// The protocol of the event that is answered; without one, what holds at this moment.
    fn protocol(&self, shared: &Shared) -> Protocol {
        self.outstanding.as_ref().map_or_else(
            || shared.client.protocol(),
            |outstanding| outstanding.protocol,
        )
    }
}

pub(super) fn starts_list(starts: &[Start]) -> Result<PartitionList, ClientError> {
    let mut list = PartitionList::with_capacity(starts.len());
    for Start {
        tp,
        offset,
        leader_epoch,
    } in starts
    {
        list.push(&tp.topic, tp.partition, *offset, *leader_epoch, &[])
            .map_err(ClientError::of)?;
    }
    Ok(list)
}
