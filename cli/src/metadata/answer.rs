//! One answer: an object with `ok`, and for a refusal the fault's name and the fault in words.

use std::io::{self, Write};
use std::process::ExitCode;

use keyway_offsets::Offset;
use keyway_rider::MetadataError;
use serde::{Serialize, Serializer};

use crate::exit;

/// The name of a fault in the request itself.
const BAD_INPUT: &str = "bad_input";

/// Why there is no answer.
#[derive(Debug, Serialize)]
pub(crate) struct Refusal {
    ok: False,
    error: &'static str,
    detail: String,
    /// What could be read all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    rider: Option<Rider>,
}

/// The application's bytes beside the map.
#[derive(Debug, Serialize)]
pub(crate) struct Rider {
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

impl Refusal {
    /// The request is not one.
    pub(crate) fn bad_input(detail: impl ToString) -> Self {
        Self {
            ok: False,
            error: BAD_INPUT,
            detail: detail.to_string(),
            rider: None,
        }
    }

    /// The text can't be read, but perhaps its rider.
    pub(crate) fn unreadable(error: &MetadataError, rider: &keyway_rider::Rider) -> Self {
        Self {
            ok: False,
            error: error.name(),
            detail: error.to_string(),
            // Only an envelope that could be opened has something to say.
            rider: match rider {
                keyway_rider::Rider::Dropped | keyway_rider::Rider::Present(_) => {
                    Some(rider.into())
                }
                _ => None,
            },
        }
    }
}

/// `true`, as the type of an answer's `ok`.
#[derive(Debug)]
pub(crate) struct True;

/// `false`, as the type of a refusal's `ok`.
#[derive(Debug)]
struct False;

impl Serialize for True {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl Serialize for False {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(false)
    }
}

/// A number of the request as an offset.
pub(crate) fn offset(name: &str, value: i64) -> Result<Offset, Refusal> {
    Offset::new(value).ok_or_else(|| Refusal::bad_input(format!("{name} is negative: {value}")))
}

/// Writes the answer, or the refusal in its place, as one line.
pub(crate) fn write(
    out: &mut impl Write,
    answer: &Result<impl Serialize, Refusal>,
) -> io::Result<()> {
    match answer {
        Ok(answer) => serde_json::to_writer(&mut *out, answer)?,
        Err(refusal) => serde_json::to_writer(&mut *out, refusal)?,
    }
    out.write_all(b"\n")
}

/// The one answer of a command without `--lines`.
pub(crate) fn once(answer: Result<impl Serialize, Refusal>) -> ExitCode {
    match write(&mut io::stdout().lock(), &answer) {
        Ok(()) if answer.is_ok() => exit::SUCCESS,
        Ok(()) => exit::bad_input(),
        Err(error) => unwritten(&error),
    }
}

/// Nobody hears the answers any more.
pub(crate) fn unwritten(error: &io::Error) -> ExitCode {
    if error.kind() != io::ErrorKind::BrokenPipe {
        eprintln!("keyway: stdout can't be written: {error}");
    }
    exit::negative()
}
