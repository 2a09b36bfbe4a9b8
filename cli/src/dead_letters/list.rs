//! `keyway dead-letters list`: one line for each letter.

use std::ops::ControlFlow;
use std::process::ExitCode;

use keyway::group::OpenTransactions;
use serde::Serialize;

use super::{LetterAnswer, Letters, Other, READER, each, readable};
use crate::cluster::table::{Row, counted, table};
use crate::cluster::{Fault, answer, say};
use crate::{exit, units};

/// List the letters of a dead-letter topic: which record each was, what went wrong, and when
///
/// Answers {"topic":..,"letters":[{"partition":..,"offset":..,"record":{"topic":..,"partition":..,"offset":..},
/// "timestamp":..,"attempts":..,"first_failure":..,"last_failure":..,"error":..,"group":..,"member":..,
/// "key":"<hex>"|null,"value_bytes":..},..],"others":[{"partition":..,"offset":..,"reason":..}],"more":false}. Times are
/// milliseconds since 1970. What is no letter is among the others.
///
/// Exit code 1 when the topic is not there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    letters: Letters,

    /// At most so many letters; "more" tells when there are others behind them
    #[arg(long, value_name = "N", default_value = "1000", value_parser = units::count)]
    limit: usize,
}

/// The whole answer.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    topic: &'a str,
    letters: Vec<LetterAnswer>,
    others: Vec<Other>,
    more: bool,
}

pub(super) fn list(args: &Args, json: bool) -> Result<ExitCode, Fault> {
    let group = args
        .letters
        .target
        .open(Some(READER), OpenTransactions::LookPast)?;
    let partitions = args.letters.partitions(&group)?;
    let mut whole = Answer {
        topic: &args.letters.topic,
        letters: Vec::new(),
        others: Vec::new(),
        more: false,
    };
    each(&group, partitions, |record, opened| {
        if whole.letters.len() + whole.others.len() == args.limit {
            whole.more = true;
            return ControlFlow::Break(());
        }
        match opened {
            Ok(dead) => whole.letters.push(LetterAnswer::of(record, &dead)),
            Err(reason) => whole.others.push(Other::of(record, reason)),
        }
        ControlFlow::Continue(())
    })?;
    // Partitions come as their brokers answer.
    whole
        .letters
        .sort_by_key(|letter| (letter.partition, letter.offset));
    whole
        .others
        .sort_by_key(|other| (other.partition, other.offset));
    match json {
        true => answer(&whole)?,
        false => say(&whole.to_text())?,
    }
    Ok(exit::SUCCESS)
}

impl Answer<'_> {
    fn to_text(&self) -> String {
        let row = |letter: &LetterAnswer| Row {
            cells: vec![
                format!("{}/{}", letter.partition, letter.offset),
                format!(
                    "{}/{}/{}",
                    letter.record.topic, letter.record.partition, letter.record.offset
                ),
                readable(
                    letter
                        .key
                        .as_deref()
                        .and_then(|key| hex::decode(key).ok())
                        .as_deref(),
                ),
                letter
                    .attempts
                    .map_or_else(String::new, |made| made.to_string()),
                letter.error.clone().unwrap_or_default().replace('\n', " "),
            ],
            below: Vec::new(),
        };
        let rows: Vec<Row> = self.letters.iter().map(row).collect();
        let mut text = table(&["LETTER", "RECORD", "KEY", "ATTEMPTS", "ERROR"], &rows);
        for other in &self.others {
            text.push_str(&format!(
                "{}/{} is no dead letter: {}\n",
                other.partition, other.offset, other.reason
            ));
        }
        text.push_str(&counted(self.letters.len(), "letter"));
        text.push_str(match self.more {
            true => ", and more: see --limit\n",
            false => "\n",
        });
        text
    }
}
