//! `keyway causes encode`.

use keyway_causal::{Causes, Channel, MAX_PARTITION, Position, TopicId};
use serde::{Deserialize, Serialize};

use super::Topic;
use crate::codec::{Refusal, True};

/// Make the header that names causes
///
/// Answers {"ok":true,"hex":..}, or {"ok":false,"error":..,"detail":..} with exit code 2. Topics and partitions may come in any
/// order, each partition of a topic once. The name of the header is parsley.causes.
///
/// A request of --lines is {"topics":[{"id":"<32 hex>","partitions":[[0,17],[3,99]]}]}.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Take a JSON object a line on stdin, answer a line each, exit with 0
    #[arg(long, conflicts_with = "causes")]
    pub(crate) lines: bool,

    /// A topic's id, a partition and the position in it; repeat it for more
    #[arg(long = "cause", value_name = "ID:PARTITION:POSITION")]
    causes: Vec<String>,
}

impl Args {
    pub(crate) fn request(self) -> Result<Request, Refusal> {
        let topics = self.causes.iter().map(|text| {
            cause(text).ok_or_else(|| {
                Refusal::bad_input(format!("cause: not ID:PARTITION:POSITION: {text:?}"))
            })
        });
        Ok(Request {
            topics: topics.collect::<Result<_, _>>()?,
        })
    }
}

/// Reads `ID:PARTITION:POSITION`.
fn cause(text: &str) -> Option<Topic> {
    let (id, place) = text.split_once(':')?;
    let (partition, position) = place.split_once(':')?;
    Some(Topic {
        id: id.to_owned(),
        partitions: vec![(partition.parse().ok()?, position.parse().ok()?)],
    })
}

/// What is to be named.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    topics: Vec<Topic>,
}

/// The header's value.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    ok: True,
    hex: String,
}

pub(crate) fn encode(request: Request) -> Result<Answer, Refusal> {
    let mut causes = Causes::new();
    for Topic { id, partitions } in request.topics {
        let topic = id
            .parse()
            .map_err(|fault| Refusal::bad_input(format!("id {id:?}: {fault}")))?;
        if partitions.is_empty() {
            let fault = format!("topic {id} has no partitions: leave it out");
            return Err(Refusal::bad_input(fault));
        }
        for (partition, position) in partitions {
            let channel = channel(topic, partition)?;
            if causes.get(channel).is_some() {
                let fault = format!("partition {partition} of topic {id} comes twice");
                return Err(Refusal::bad_input(fault));
            }
            causes.merge(channel, self::position(position)?);
        }
    }
    Ok(Answer {
        ok: True,
        hex: hex::encode(causes.encode()),
    })
}

fn channel(topic: TopicId, partition: u32) -> Result<Channel, Refusal> {
    Channel::new(topic, partition).ok_or_else(|| {
        Refusal::bad_input(format!("partition {partition} is above {MAX_PARTITION}"))
    })
}

fn position(value: i64) -> Result<Position, Refusal> {
    Position::new(value).ok_or_else(|| {
        Refusal::bad_input(format!(
            "position {value} is not from 0 to {}",
            Position::MAX
        ))
    })
}
