//! `keyway metadata decode`.

use keyway_offsets::DEFAULT_MAX_WINDOW;
use keyway_rider::MetadataError;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::offset;
use crate::codec::{Refusal, True};

/// Say what a committed metadata string means
///
/// Answers {"ok":true,"committed":..,"text_format":"base64|empty","encoding":..,"highest_seen":..,
/// "incomplete":[[first,last],..],"rider":{"state":"none|dropped|present","hex":..}}, or
/// {"ok":false,"error":..,"detail":..} with exit code 2 when the text can't be read. A rider beside a map that can't be
/// read is answered all the same.
///
/// A request of --lines is {"committed":100,"text":"bAAK5gMA"}; a "text" of null counts as "".
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Take a JSON object a line on stdin, answer a line each, exit with 0
    #[arg(long, conflicts_with_all = ["committed", "text"])]
    pub(crate) lines: bool,

    /// The committed offset
    #[arg(
        long,
        value_name = "N",
        required_unless_present = "lines",
        allow_negative_numbers = true
    )]
    committed: Option<i64>,

    /// The metadata string; nothing for the empty one
    text: Option<String>,
}

impl Args {
    pub(crate) fn request(self) -> Result<Request, Refusal> {
        Ok(Request {
            committed: self
                .committed
                .ok_or_else(|| Refusal::bad_input("committed is missing"))?,
            text: Some(self.text.unwrap_or_default()),
        })
    }
}

/// What is to be read.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    committed: i64,
    // Without this a missing field would count as null.
    #[serde(deserialize_with = "Option::deserialize")]
    text: Option<String>,
}

/// What it means.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    ok: True,
    committed: i64,
    text_format: &'static str,
    encoding: &'static str,
    highest_seen: i64,
    /// First and last offset of each hole.
    incomplete: Vec<(i64, i64)>,
    rider: Rider,
}

/// The application's bytes beside the map.
#[derive(Debug, Serialize)]
struct Rider {
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl From<&keyway_rider::Rider> for Rider {
    fn from(rider: &keyway_rider::Rider) -> Self {
        Self {
            state: rider.name(),
            hex: rider.bytes().map(hex::encode),
        }
    }
}

pub(crate) fn decode(request: Request) -> Result<Answer, Refusal> {
    let committed = offset("committed", request.committed)?;
    let text = request.text.unwrap_or_default();
    let metadata = keyway_rider::read(committed, text.as_bytes(), DEFAULT_MAX_WINDOW);
    let rider = metadata.rider;
    let decoded = metadata.map.map_err(|error| unreadable(&error, &rider))?;
    Ok(Answer {
        ok: True,
        committed: request.committed,
        text_format: metadata.format.name(),
        encoding: decoded.encoding.name(),
        highest_seen: decoded.map.highest(),
        incomplete: decoded
            .map
            .holes()
            .iter()
            .map(|hole| (hole.first.get(), hole.last.get()))
            .collect(),
        rider: Rider::from(&rider),
    })
}

/// The text can't be read, but perhaps its rider.
fn unreadable(error: &MetadataError, rider: &keyway_rider::Rider) -> Refusal {
    let refusal = Refusal::new(error.name(), error);
    match rider {
        // Only an envelope that could be opened has something to say.
        keyway_rider::Rider::Dropped | keyway_rider::Rider::Present(_) => {
            refusal.beside("rider", json!(Rider::from(rider)))
        }
        _ => refusal,
    }
}
