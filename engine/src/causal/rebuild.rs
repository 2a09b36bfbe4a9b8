//! What a group had learned, gathered again from what it has read.
//!
//! Where a commit carries no shard, what it would have said came from headers of records that the group has processed. As
//! long as all of them are still there they can be read once more: every partition, from the beginning of its log to what
//! is committed. Where something is missing nobody can tell what it said, and only a person may accept that.

use std::sync::Arc;
use std::time::Duration;

use keyway_causal::{CarriesCauses, Causes, Channel, Position};

use super::{CausalSettings, Facts};
use crate::kafka::{ClientError, GroupClient, LogRange, NativeRecord, TopicPartition};
use crate::record::Message;

/// How long one question may take, and how long nothing may come.
const ANSWER: Duration = Duration::from_secs(10);

/// Between two words about how far it is, in records.
const TELL_EVERY: u64 = 100_000;

/// Reads everything again that the group has read. `tell` is told of the records so far, and says whether to go on.
///
/// `Ok(None)` when nothing is lost, or it can't be gathered again; the log says why.
///
/// # Errors
/// When the cluster does not answer.
pub(super) fn rebuild(
    settings: &CausalSettings,
    group: &GroupClient,
    facts: &Facts,
    mut tell: impl FnMut(u64) -> bool,
) -> Result<Option<Causes>, ClientError> {
    if facts.partitions.iter().all(|part| part.is_whole()) {
        return Ok(None);
    }
    let Some(wanted) = what_was_read(group, facts)? else {
        return Ok(None);
    };
    tracing::info!(
        partitions = wanted.len(),
        "what the group had learned is gathered again from what it has read"
    );
    let (mut causes, mut records) = (Causes::default(), 0);
    // Of a transaction that was aborted nothing was ever read.
    let reader = settings.beside(true)?;
    let mut reading = reader.read(&wanted)?;
    loop {
        let batch = reading.next(ANSWER)?;
        if batch.is_empty() {
            break;
        }
        for record in batch {
            records += 1;
            if let Err(fault) = take_in(&mut causes, facts, record) {
                tracing::error!(fault, "what the group had learned can't be gathered again");
                return Ok(None);
            }
            if records % TELL_EVERY == 0 && !tell(records) {
                return Ok(None);
            }
        }
    }
    tracing::info!(
        records,
        channels = causes.len(),
        "what the group had learned is known again"
    );
    Ok(Some(causes))
}

/// The offsets that the group has read; `None` where some of them are gone, or of topics that it does not read any more.
fn what_was_read(
    group: &GroupClient,
    facts: &Facts,
) -> Result<Option<Vec<(TopicPartition, LogRange)>>, ClientError> {
    let mut names = Vec::with_capacity(facts.partitions.len());
    for part in &facts.partitions {
        if facts.topic(&part.topic).is_none() {
            tracing::error!(
                topic = part.topic,
                "what the group had learned can't be gathered again: it has read a topic that it does not read any more"
            );
            return Ok(None);
        }
        let number = i32::try_from(part.partition).unwrap_or(i32::MAX);
        names.push(TopicPartition::new(part.topic.as_str(), number));
    }
    let mut wanted = Vec::with_capacity(names.len());
    for (name, range) in group.log_range(&names, ANSWER)? {
        let start = range?.start;
        let its = names.iter().position(|its| *its == name);
        let Some(part) = its.map(|index| &facts.partitions[index]) else {
            continue;
        };
        if start > 0 {
            tracing::error!(
                partition = %name,
                start,
                "what the group had learned can't be gathered again: its log does not begin at 0 any more"
            );
            return Ok(None);
        }
        let end = part.committed.get();
        wanted.push((name, LogRange { start, end }));
    }
    Ok(Some(wanted))
}

fn take_in(causes: &mut Causes, facts: &Facts, record: NativeRecord) -> Result<(), String> {
    let topic = facts.topic(record.topic_name());
    let (partition, offset) = (record.partition(), record.offset());
    let channel = u32::try_from(partition)
        .ok()
        .and_then(|partition| Channel::new(topic?, partition));
    if let (Some(channel), Some(position)) = (channel, Position::new(offset)) {
        causes.merge(channel, position);
    }
    let message = Message::from(record);
    match message.causes() {
        Ok(Some(header)) => {
            causes.merge_header(&header);
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(fault) => {
            let topic: Arc<str> = message.topic_name().into();
            Err(format!("{topic}-{partition}@{offset}: {fault}"))
        }
    }
}
