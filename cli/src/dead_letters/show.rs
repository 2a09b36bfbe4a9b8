//! `keyway dead-letters show`: one letter, whole.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

use keyway::TopicPartition;
use keyway::dead_letters::DeadLetter;
use keyway::group::OpenTransactions;
use serde::Serialize;

use super::{LetterAnswer, Letters, READER, readable};
use crate::cluster::{Fault, answer, say};
use crate::exit;

/// Show one dead letter: the record as it was, its headers in order, and its story
///
/// Answers what list says of it, and "value":"<hex>"|null, "headers":[["name","<hex>"|null],..]: the record's own, in
/// order, duplicates included. A header's name that is no text is in hex, behind 0x.
///
/// Exit code 1 when there is no such record, or it is no dead letter.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    letters: Letters,

    /// The letter's partition
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(i32).range(0..))]
    partition: i32,

    /// The letter's offset
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    offset: i64,
}

#[derive(Debug, Serialize)]
struct Answer {
    #[serde(flatten)]
    letter: LetterAnswer,
    value: Option<String>,
    headers: Vec<(String, Option<String>)>,
    #[serde(skip)]
    text: String,
}

pub(super) fn show(args: &Args, json: bool) -> Result<ExitCode, Fault> {
    let group = args
        .letters
        .target
        .open(Some(READER), OpenTransactions::LookPast)?;
    let partition = TopicPartition::new(&*args.letters.topic, args.partition);
    if !args.letters.partitions(&group)?.contains(&partition) {
        return Err(not_there(format!("there is no partition {partition}")));
    }
    let mut found = None;
    group.read(&[(partition.clone(), args.offset)], |record| {
        if record.offset() == args.offset {
            let opened = DeadLetter::open(record);
            found = Some(opened.map(|dead| Answer::of(LetterAnswer::of(record, &dead), &dead)));
        }
        ControlFlow::Break(())
    })?;
    let place = format!("{partition} at offset {}", args.offset);
    let whole = match found {
        Some(Ok(whole)) => whole,
        Some(Err(why)) => {
            return Err(Fault::NotThere {
                name: "no_dead_letter",
                fault: format!("{place} is no dead letter: {why}"),
            });
        }
        None => return Err(not_there(format!("there is no record in {place}"))),
    };
    match json {
        true => answer(&whole)?,
        false => say(&whole.text)?,
    }
    Ok(exit::SUCCESS)
}

fn not_there(fault: String) -> Fault {
    Fault::NotThere {
        name: "no_such_record",
        fault,
    }
}

impl Answer {
    fn of(letter: LetterAnswer, dead: &DeadLetter<'_>) -> Self {
        let headers = dead.headers.iter().map(|header| {
            let name = match header.name() {
                Some(name) => name.to_owned(),
                None => format!("0x{}", hex::encode(header.name_bytes())),
            };
            (name, header.value().map(hex::encode))
        });
        Self {
            value: dead.value.map(hex::encode),
            headers: headers.collect(),
            text: to_text(&letter, dead),
            letter,
        }
    }
}

fn to_text(letter: &LetterAnswer, dead: &DeadLetter<'_>) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // A string takes whatever is written to it.
        let _ = writeln!(text, "{name:<14}{value}");
    };
    let story = &dead.story;
    line(
        "record",
        format!("{}/{}/{}", story.topic, story.partition, story.offset),
    );
    let number = |number: Option<i64>| number.map(|number| number.to_string());
    for (name, value) in [
        ("timestamp", number(story.timestamp)),
        ("attempts", number(story.attempts.map(i64::from))),
        ("first failure", number(story.first_failure)),
        ("last failure", number(story.last_failure)),
        ("error", story.error.clone()),
        ("group", story.group.clone()),
        ("member", story.member.clone()),
        ("headers lost", letter.headers_unreadable.clone()),
    ] {
        if let Some(value) = value {
            line(name, value);
        }
    }
    line("key", readable(dead.key));
    for header in &dead.headers {
        let name = readable(Some(header.name_bytes()));
        line("header", format!("{name} = {}", readable(header.value())));
    }
    line("value", readable(dead.value));
    text
}
