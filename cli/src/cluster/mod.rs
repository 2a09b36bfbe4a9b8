//! What the commands have in common that look into a cluster: which one, an answer for people or in JSON, and why there
//! is none.

pub(crate) mod table;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use keyway::ClientConfig;
use keyway::group::{Group, GroupError, OpenTransactions};
use serde::Serialize;

use crate::exit;
use crate::properties::{self, BROKERS, GROUP, Properties};
use crate::refusal::Refusal;
use crate::units;

/// Which group of which cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
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
    /// The group; where none is named, one of this name.
    pub(crate) fn open(
        &self,
        otherwise: Option<&str>,
        transactions: OpenTransactions,
    ) -> Result<Group, Fault> {
        let client = self.client(otherwise)?;
        Ok(Group::open(&client, self.timeout, transactions)?)
    }

    /// The properties of a client of the group.
    pub(crate) fn client(&self, otherwise: Option<&str>) -> Result<ClientConfig, Fault> {
        let mut client = ClientConfig::new();
        if let Some(name) = otherwise {
            client.set(GROUP, name);
        }
        self.properties.set(&mut client)?;
        for (property, option) in [(BROKERS, &self.brokers), (GROUP, &self.group)] {
            if let Some(value) = option {
                client.set(property, value);
            }
        }
        properties::check_named(&client)?;
        Ok(client)
    }
}

/// Why there is no answer.
pub(crate) enum Fault {
    Options(Refusal),
    Group(GroupError),
    /// There is no such thing in the cluster: a group that has not got that far, a topic, a record.
    NotThere {
        name: &'static str,
        fault: String,
    },
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

/// Says on stderr, and in JSON, why there is no answer; or the exit code of the answer that there was.
pub(crate) fn conclude(done: Result<ExitCode, Fault>, json: bool) -> ExitCode {
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
        Err(Fault::NotThere { name, fault }) => refused(name, Refusal::Failed(fault), json),
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
pub(crate) struct Named {
    pub(crate) name: &'static str,
    pub(crate) detail: String,
}

impl Named {
    pub(crate) fn new(name: &'static str, detail: impl ToString) -> Self {
        Self {
            name,
            detail: detail.to_string(),
        }
    }
}

/// Prints an answer as one JSON object.
pub(crate) fn answer(answer: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    io::stdout().lock().write_all(&line)
}

/// Prints a text for people.
pub(crate) fn say(text: &str) -> io::Result<()> {
    io::stdout().lock().write_all(text.as_bytes())
}
