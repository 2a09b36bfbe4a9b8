//! `keyway dead-letters`: what lies in a dead-letter topic, and back with it.

mod list;
mod replay;
mod show;

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::process::ExitCode;

use keyway::Record;
use keyway::TopicPartition;
use keyway::dead_letters::{DeadLetter, Story};
use keyway::group::Group;
use serde::Serialize;

use crate::cluster::{Fault, Target, conclude};

/// The group in whose name a topic is looked at. Nothing is committed for it, and nobody joins it.
const READER: &str = "keyway-dead-letters";

/// On a terminal they answer with a table, with --json or into a pipe with one JSON object. Exit code 1 for a negative
/// finding, or when the cluster does not answer.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    List(list::Args),
    Show(show::Args),
    Replay(replay::Args),
}

/// Which dead-letter topic of which cluster.
#[derive(Debug, clap::Args)]
struct Letters {
    #[command(flatten)]
    target: Target,

    /// The dead-letter topic
    #[arg(long, value_name = "TOPIC")]
    topic: String,
}

impl Letters {
    /// All its partitions.
    fn partitions(&self, group: &Group) -> Result<Vec<TopicPartition>, Fault> {
        let partitions = group.partitions_of(&self.topic)?;
        if partitions.is_empty() {
            return Err(Fault::NotThere {
                name: "no_such_topic",
                fault: format!(
                    "topic {} does not exist, or this client has no right to it",
                    self.topic
                ),
            });
        }
        Ok(partitions)
    }
}

pub(crate) fn execute(command: &Command, json: bool) -> ExitCode {
    let json = json || !io::stdout().is_terminal();
    let done = match command {
        Command::List(args) => list::list(args, json),
        Command::Show(args) => show::show(args, json),
        Command::Replay(args) => replay::replay(args, json),
    };
    conclude(done, json)
}

/// Visits everything that the partitions hold, as a letter or with the reason why it is none.
fn each(
    group: &Group,
    partitions: Vec<TopicPartition>,
    mut visit: impl FnMut(&Record, Result<DeadLetter<'_>, String>) -> ControlFlow<()>,
) -> Result<(), Fault> {
    let from: Vec<_> = partitions.into_iter().map(|tp| (tp, 0)).collect();
    group.read(&from, |record| {
        visit(
            record,
            DeadLetter::open(record).map_err(|why| why.to_string()),
        )
    })?;
    Ok(())
}

/// A letter as an answer has it.
#[derive(Debug, Serialize)]
struct LetterAnswer {
    partition: i32,
    offset: i64,
    record: Place,
    timestamp: Option<i64>,
    attempts: Option<u32>,
    first_failure: Option<i64>,
    last_failure: Option<i64>,
    error: Option<String>,
    group: Option<String>,
    member: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers_unreadable: Option<String>,
    /// In hex.
    key: Option<String>,
    value_bytes: Option<usize>,
}

/// Where a record lay before it was given up.
#[derive(Debug, Serialize)]
struct Place {
    topic: String,
    partition: i32,
    offset: i64,
}

impl LetterAnswer {
    fn of(letter: &Record, dead: &DeadLetter<'_>) -> Self {
        let Story {
            topic,
            partition,
            offset,
            timestamp,
            attempts,
            first_failure,
            last_failure,
            error,
            group,
            member,
            headers_unreadable,
            ..
        } = dead.story.clone();
        Self {
            partition: letter.partition(),
            offset: letter.offset(),
            record: Place {
                topic,
                partition,
                offset,
            },
            timestamp,
            attempts,
            first_failure,
            last_failure,
            error,
            group,
            member,
            headers_unreadable,
            key: dead.key.map(hex::encode),
            value_bytes: dead.value.map(<[u8]>::len),
        }
    }
}

/// Something in the topic that is no dead letter.
#[derive(Debug, Serialize)]
struct Other {
    partition: i32,
    offset: i64,
    reason: String,
}

impl Other {
    fn of(record: &Record, reason: String) -> Self {
        Self {
            partition: record.partition(),
            offset: record.offset(),
            reason,
        }
    }
}

/// Bytes for a person: as text where they are text without control characters, else in hex.
fn readable(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else {
        return "null".to_owned();
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => format!("{text:?}"),
        _ => format!("0x{}", hex::encode(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_text_where_they_are_text() {
        assert_eq!(readable(None), "null");
        assert_eq!(readable(Some(b"")), "\"\"");
        assert_eq!(readable(Some("k\u{e9}y".as_bytes())), "\"k\u{e9}y\"");
        assert_eq!(readable(Some(b"\x00\xff")), "0x00ff");
        assert_eq!(readable(Some(b"a\n")), "0x610a");
    }
}
