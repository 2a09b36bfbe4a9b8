//! `keyway dead-letters replay`: records back to where they came from.
//!
//! The letters are consumed by the engine itself, as a group of their own whose handler sends each record on. So what was
//! acknowledged and committed is not sent again, however often the command is broken off, and letters of one key stay in
//! order.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use keyway::dead_letters::DeadLetter;
use keyway::group::OpenTransactions;
use keyway::{Keyway, Outcome, Record, StartAt};
use keyway_offsets::{DEFAULT_MAX_WINDOW, Offset};
use keyway_rider::{Metadata, read};
use serde::Serialize;

use super::{Letters, each};
use crate::cluster::{Fault, answer, say};
use crate::exit;
use crate::refusal::Refusal;
use crate::run::{Cause, Progress, Watch, listen};

/// Nothing came, ran or waited for so long: the topic has been replayed.
const UNTIL_IDLE: Duration = Duration::from_secs(3);

/// Send the records of a dead-letter topic back to the topics and partitions that they came from; a dry run unless --yes
///
/// Key, value, headers and timestamp are the record's own; its story is left out. The letters stay where they are. What
/// has been replayed is committed for a group, so that the command may be broken off and repeated: it goes on where it
/// was, and sends again at most what was not committed. Another --group begins anew. A record that can't be sent is tried
/// again until it can, or until a signal; its key waits for it.
///
/// Answers {"topic":..,"group":..,"dry_run":..,"letters":N,"others":N,"topics":{"orders":N,..},"replayed":N}: letters
/// that were not replayed before, by the topic to which they go, and what in the topic is no letter.
///
/// Exit code 1 when the topic is not there, or not all of it was replayed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    letters: Letters,

    /// Send them to this topic instead, where their partition follows their key
    #[arg(long, value_name = "TOPIC")]
    to: Option<String>,

    /// Do it. Without this nothing is sent
    #[arg(long)]
    yes: bool,
}

/// The whole answer.
#[derive(Debug, Default, Serialize)]
struct Answer {
    topic: String,
    group: String,
    dry_run: bool,
    letters: u64,
    others: u64,
    topics: BTreeMap<String, u64>,
    replayed: u64,
}

pub(super) fn replay(args: &Args, json: bool) -> Result<ExitCode, Fault> {
    let otherwise = format!("keyway-replay.{}", args.letters.topic);
    let mut whole = look(args, &otherwise)?;
    let is_whole = match args.yes {
        true => send(args, &otherwise, json, &mut whole)?,
        false => true,
    };
    match json {
        true => answer(&whole)?,
        false => say(&whole.to_text())?,
    }
    Ok(match is_whole {
        true => exit::SUCCESS,
        false => exit::negative(),
    })
}

/// What is to be replayed: letters that the group has not committed as complete.
fn look(args: &Args, otherwise: &str) -> Result<Answer, Fault> {
    let group = args
        .letters
        .target
        .open(Some(otherwise), OpenTransactions::WaitFor)?;
    let partitions = args.letters.partitions(&group)?;
    let mut committed = BTreeMap::new();
    for (partition, commit) in group.commits()? {
        if let (true, Ok(commit)) = (partitions.contains(&partition), commit) {
            let Some(base) = Offset::new(commit.offset) else {
                continue;
            };
            let map = match read(base, &commit.metadata, DEFAULT_MAX_WINDOW) {
                Metadata {
                    map: Ok(decoded), ..
                } => decoded.map,
                // As the engine does by default: from the committed offset on.
                Metadata { .. } => keyway_offsets::HoleMap::caught_up(base),
            };
            committed.insert(partition.partition, map);
        }
    }
    let mut whole = Answer {
        topic: args.letters.topic.clone(),
        group: group.id().to_owned(),
        dry_run: !args.yes,
        ..Answer::default()
    };
    each(&group, partitions, |record, opened| {
        let is_complete = Offset::new(record.offset())
            .zip(committed.get(&record.partition()))
            .is_some_and(|(offset, map)| map.is_complete(offset));
        match opened {
            _ if is_complete => {}
            Ok(dead) => {
                whole.letters += 1;
                let to = args.to.clone().unwrap_or(dead.story.topic);
                *whole.topics.entry(to).or_default() += 1;
            }
            Err(_) => whole.others += 1,
        }
        ControlFlow::Continue(())
    })?;
    Ok(whole)
}

/// Says whether all of it was sent.
fn send(args: &Args, otherwise: &str, json: bool, whole: &mut Answer) -> Result<bool, Fault> {
    let signals =
        listen().map_err(|error| Refusal::Failed(format!("signals can't be received: {error}")))?;
    let replayed = Arc::new(AtomicU64::new(0));
    let (sent, to) = (Arc::clone(&replayed), args.to.clone());
    let builder = Keyway::builder(args.letters.target.client(Some(otherwise))?)
        .topics([args.letters.topic.clone()])
        .start_at(StartAt::Earliest)
        .observer(Sent(sent))
        .handler(move |letter: &Record| back(letter, to.as_deref()));
    let engine = crate::run::start(builder)?;
    let watch = Watch {
        engine: &engine,
        signals,
        until_idle: Some(UNTIL_IDLE),
        faults: Vec::new(),
        progress: if json { None } else { Progress::on_terminal() },
        before_exit: Box::new(|| ()),
    };
    let end = watch.until_end();
    whole.replayed = replayed.load(Ordering::Relaxed);
    let report = end
        .result
        .map_err(|reason| Refusal::Failed(reason.to_string()))?;
    Ok(end.cause == Cause::Idle && report.all_committed && report.left_open == 0)
}

fn back(letter: &Record, to: Option<&str>) -> Outcome {
    match DeadLetter::open(letter) {
        Ok(dead) => match to {
            None => dead.output().into(),
            Some(topic) => dead.output_to(topic).into(),
        },
        Err(why) => {
            tracing::warn!(
                partition = letter.partition(),
                offset = letter.offset(),
                %why,
                "passed over: it is no dead letter"
            );
            Outcome::Skip
        }
    }
}

/// Counts what was sent.
struct Sent(Arc<AtomicU64>);

impl keyway::Observer for Sent {
    fn done(&self, _: &Record) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn skipped(&self, _: &Record) {}
}

impl Answer {
    fn to_text(&self) -> String {
        let mut text = String::new();
        for (topic, letters) in &self.topics {
            text.push_str(&format!("{letters} to {topic}\n"));
        }
        if self.others > 0 {
            text.push_str(&format!("{} that are no dead letters\n", self.others));
        }
        match self.dry_run {
            true => text.push_str(&format!(
                "{} to replay as group {}. This is a dry run: --yes sends them\n",
                self.letters, self.group
            )),
            false => text.push_str(&format!(
                "{} replayed as group {}\n",
                self.replayed, self.group
            )),
        }
        text
    }
}
