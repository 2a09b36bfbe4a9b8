//! `keyway group`: a consumer group of a real cluster, seen by somebody who is not its member.
//!
//! ```text
//!     options --> Group --.                  .--> table, on a terminal
//!                         +--> a row for each
//!     commits, log ends --'     partition    '--> one JSON object, with --json or when piped
//! ```

mod complete;
mod inspect;
mod scrub;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use keyway_rider::Rider;
use serde::Serialize;

use crate::cluster::{Fault, Named, Target, answer, conclude, say};

/// All ask the cluster without joining the group.
///
/// On a terminal they answer with a table, with --json or into a pipe with one JSON object. Exit code 1 for a negative
/// finding, or when the cluster does not answer.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Inspect(inspect::Args),
    Scrub(scrub::Args),
    Complete(complete::Args),
}

pub(crate) fn execute(command: &Command, json: bool) -> ExitCode {
    let json = json || !io::stdout().is_terminal();
    let done = match command {
        Command::Inspect(args) => inspect::inspect(args, json),
        Command::Scrub(args) => scrub::scrub(args, json),
        Command::Complete(args) => complete::complete(args, json),
    };
    conclude(done, json)
}

/// What one line of an answer says of a rider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct RiderAnswer {
    state: &'static str,
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl From<&Rider> for RiderAnswer {
    fn from(rider: &Rider) -> Self {
        Self {
            state: rider.name(),
            bytes: rider.bytes().map_or(0, <[u8]>::len),
            hex: rider.bytes().map(hex::encode),
        }
    }
}

/// Characters of a commit's text as the broker counts them: UTF-16 units, as Java does.
fn chars(text: &[u8]) -> usize {
    String::from_utf8_lossy(text).encode_utf16().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_as_the_broker_does() {
        assert_eq!(chars(b"bAAK5gMA"), 8);
        assert_eq!(chars("\u{4e00}\u{1f600}".as_bytes()), 3);
        assert_eq!(chars(b"\xff"), 1);
    }
}
