//! `keyway causes decode`.

use keyway_causal::{CausesView, HEADER, find_causes};
use serde::{Deserialize, Deserializer, Serialize};

use super::Topic;
use crate::codec::{Pair, Refusal, True, named};

/// Say which causes a header names
///
/// Answers {"ok":true,"present":true,"topics":[{"id":"<32 hex>","partitions":[[0,17],[3,99]]}]}: each position stands for all
/// records of its partition at or below it. Of headers without parsley.causes, "present" is false. A header that can't be
/// read is never taken for absent: {"ok":false,"error":..,"detail":..} with exit code 2.
///
/// A request of --lines is {"hex":"0100"}, with null for a null value, or {"headers":[["name","<hex>"|null],..]}.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Take a JSON object a line on stdin, answer a line each, exit with 0
    #[arg(long, conflicts_with = "hex")]
    pub(crate) lines: bool,

    /// The header's value
    #[arg(required_unless_present = "lines")]
    hex: Option<String>,
}

impl Args {
    pub(crate) fn request(self) -> Request {
        Request {
            hex: Some(self.hex),
            headers: None,
        }
    }
}

/// What is to be read: a value or headers.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    /// `Some(None)` for a null value.
    #[serde(default, deserialize_with = "present")]
    hex: Option<Option<String>>,
    headers: Option<Vec<Pair>>,
}

/// A field that is there, though it may be null.
fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(field).map(Some)
}

/// What it says.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    ok: True,
    /// Whether there is such a header at all.
    present: bool,
    topics: Vec<Topic>,
}

pub(crate) fn decode(request: Request) -> Result<Answer, Refusal> {
    let headers = match (request.hex, request.headers) {
        (Some(hex), None) => vec![(HEADER.to_owned(), hex)],
        (None, Some(headers)) => headers,
        _ => return Err(Refusal::bad_input("the request has either hex or headers")),
    };
    let headers = named(headers)?;
    let headers = headers.iter().map(|(name, value)| (name, value.as_deref()));
    let causes = find_causes(headers).map_err(|fault| Refusal::new(fault.name(), fault))?;
    Ok(Answer {
        ok: True,
        present: causes.is_some(),
        topics: causes.as_ref().map(topics).unwrap_or_default(),
    })
}

fn topics(causes: &CausesView<'_>) -> Vec<Topic> {
    let topics = causes.topics().map(|group| {
        let entries = group.entries();
        Topic {
            id: group.topic().to_string(),
            partitions: entries
                .map(|(partition, position)| (partition, position.get()))
                .collect(),
        }
    });
    topics.collect()
}
