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
mod table;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use keyway::ClientConfig;
use keyway::group::{Group, GroupError, OpenTransactions};
use keyway_rider::Rider;
use serde::Serialize;

use crate::exit;
use crate::properties::{self, BROKERS, GROUP, Properties};
use crate::refusal::Refusal;
use crate::units;

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

/// Which group of which cluster.
#[derive(Debug, clap::Args)]
struct Target {
    /// Brokers to begin with
    #[arg(long, value_name = "HOST:PORT,..")]
    brokers: Option<String>,

    /// Consumer group
    #[arg(long)]
    group: Option<String>,

    /// The bound of each request to the cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = units::timeout)]
    timeout: Duration,

    #[command(flatten)]
    properties: Properties,
}

impl Target {
    fn open(&self, transactions: OpenTransactions) -> Result<Group, Fault> {
        let mut client = ClientConfig::new();
        self.properties.set(&mut client)?;
        for (property, option) in [(BROKERS, &self.brokers), (GROUP, &self.group)] {
            if let Some(value) = option {
                client.set(property, value);
            }
        }
        properties::check_named(&client)?;
        Ok(Group::open(&client, self.timeout, transactions)?)
    }
}

/// Why there is no answer.
enum Fault {
    Options(Refusal),
    Group(GroupError),
    /// There is no such group, or it has not got that far.
    NothingCommitted(String),
    /// Nothing can be completed in what is committed.
    Incompletable {
        name: &'static str,
        fault: Refusal,
    },
    /// There is an answer, and nobody hears it.
    Unwritten(io::Error),
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Options(refusal)
    }
}

impl From<GroupError> for Fault {
    fn from(error: GroupError) -> Self {
        Self::Group(error)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Unwritten(error)
    }
}

pub(crate) fn execute(command: &Command, json: bool) -> ExitCode {
    let json = json || !io::stdout().is_terminal();
    let done = match command {
        Command::Inspect(args) => inspect::inspect(args, json),
        Command::Scrub(args) => scrub::scrub(args, json),
        Command::Complete(args) => complete::complete(args, json),
    };
    match done {
        Ok(code) => code,
        Err(Fault::Options(refusal)) => refused("bad_input", refusal, json),
        Err(Fault::Group(error)) => {
            let fault = error.to_string();
            let refusal = match error {
                GroupError::Config(_) | GroupError::Client(_) => Refusal::BadInput,
                _ => Refusal::Failed,
            };
            refused(error.name(), refusal(fault), json)
        }
        Err(Fault::NothingCommitted(fault)) => {
            refused("nothing_committed", Refusal::Failed(fault), json)
        }
        Err(Fault::Incompletable { name, fault }) => refused(name, fault, json),
        Err(Fault::Unwritten(error)) => {
            if error.kind() != io::ErrorKind::BrokenPipe {
                eprintln!("keyway: stdout can't be written: {error}");
            }
            exit::negative()
        }
    }
}

fn refused(name: &'static str, refusal: Refusal, json: bool) -> ExitCode {
    #[derive(Serialize)]
    struct Refused {
        error: Named,
    }
    if json {
        let error = Named::new(name, refusal.fault());
        // What matters is on stderr as well.
        let _ = answer(&Refused { error });
    }
    refusal.report()
}

/// An error as an answer has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Named {
    name: &'static str,
    detail: String,
}

impl Named {
    fn new(name: &'static str, detail: impl ToString) -> Self {
        Self {
            name,
            detail: detail.to_string(),
        }
    }
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

/// Prints an answer as one JSON object.
fn answer(answer: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    io::stdout().lock().write_all(&line)
}

/// Prints a text for people.
fn say(text: &str) -> io::Result<()> {
    io::stdout().lock().write_all(text.as_bytes())
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
