//! `keyway group complete`: for the record that no member survives.

use std::process::ExitCode;

use keyway::TopicPartition;
use keyway::group::{Commit, Group, GroupError, LogEnd, OpenTransactions, Rewrite};
use keyway_offsets::{DEFAULT_CAP_CHARS, Limits, Offset, OffsetRange};
use keyway_rider::{NotCompleted, WithComplete, with_complete};
use serde::Serialize;

use super::{Fault, Named, RiderAnswer, Target, answer, chars, say};
use crate::cluster::table::{Row, counted, table};
use crate::refusal::Refusal;
use crate::{exit, units};

/// Mark records of a stopped group complete, so that no member runs them; a dry run unless --yes
///
/// For a record that kills the process that handles it. Which one that is shows in an event log (keyway run --events
/// FILE) as the last start without a done; keyway group inspect shows what is incomplete. Everything else stays as it
/// is: the hole map, and the rider byte for byte. With the lowest incomplete record the committed offset moves up. A
/// state that rides with the commit does not have the record in it.
///
/// A live group is refused: stop all members first. Answers {"group":..,"dry_run":..,"topic":..,"partition":..,
/// "committed":..,"committed_after":..,"completed":N,"changed":N,..}.
///
/// Exit code 1 when the group is live, nothing is committed there, the text can't be read or has no room for the new
/// map, or it could not be written; 2 for offsets below the committed one or past the end of the log.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,

    /// The topic
    #[arg(long, value_name = "TOPIC")]
    topic: String,

    /// The partition
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(i32).range(0..))]
    partition: i32,

    /// The record's offset, or the first and the last of several
    #[arg(long, value_name = "N[-M]", value_parser = units::offsets)]
    offset: OffsetRange,

    /// The broker's limit for the text beside an offset, offset.metadata.max.bytes
    #[arg(long, value_name = "CHARS", default_value_t = DEFAULT_CAP_CHARS)]
    limit: usize,

    /// Write it. Without this nothing is changed
    #[arg(long)]
    yes: bool,
}

/// The whole answer.
#[derive(Debug, Serialize)]
struct Answer {
    group: String,
    dry_run: bool,
    topic: String,
    partition: i32,
    /// First and last of those that were asked for.
    offsets: (i64, i64),
    committed: i64,
    committed_after: i64,
    /// Offsets that were incomplete until now.
    completed: u64,
    chars_before: usize,
    chars_after: usize,
    rider: RiderAnswer,
    /// Partitions that were rewritten, and read back.
    changed: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Named>,
}

pub(super) fn complete(args: &Args, json: bool) -> Result<ExitCode, Fault> {
    let group = args.target.open(None, OpenTransactions::WaitFor)?;
    let partition = TopicPartition::new(&*args.topic, args.partition);
    let seen = committed(&group, &partition)?;
    group.ensure_stopped()?;
    let end = log_end(&group, &partition)?;
    let made = plan(&seen, end.offset, args)?;

    let mut whole = Answer::new(group.id(), args, &seen, &made);
    if args.yes && made.newly > 0 {
        whole.write(&group, &rewrite(partition, seen, made, end))?;
    }
    if json {
        answer(&whole)?;
    } else {
        say(&whole.to_text())?;
    }
    Ok(match whole.error {
        None => exit::SUCCESS,
        Some(_) => exit::negative(),
    })
}

/// What is committed for the partition.
fn committed(group: &Group, partition: &TopicPartition) -> Result<Commit, Fault> {
    let commits = group.commits()?;
    match commits.into_iter().find(|(at, _)| at == partition) {
        Some((_, Ok(commit))) => Ok(commit),
        Some((partition, Err(error))) => Err(GroupError::Unreadable { partition, error }.into()),
        None => Err(Fault::NotThere {
            name: "nothing_committed",
            fault: format!("group {} has committed nothing for {partition}", group.id()),
        }),
    }
}

fn log_end(group: &Group, partition: &TopicPartition) -> Result<LogEnd, Fault> {
    let about = "the end of the log";
    let ends = group.log_ends(std::slice::from_ref(partition))?;
    let Some((_, end)) = ends.into_iter().next() else {
        return Err(Fault::NotThere {
            name: "nothing_committed",
            fault: format!("{partition} has no log"),
        });
    };
    end.map_err(|error| GroupError::Refused { about, error }.into())
}

/// The new map and text.
fn plan(seen: &Commit, log_end: i64, args: &Args) -> Result<WithComplete, Fault> {
    let OffsetRange { first, last } = args.offset;
    let committed = Offset::new(seen.offset).filter(|&committed| committed <= first);
    let Some(committed) = committed.filter(|_| last.get() < log_end) else {
        return Err(Fault::Incompletable {
            name: "offset_outside",
            fault: Refusal::BadInput(format!(
                "{} is not within the committed offset {} and the end of the log {log_end}: below is complete already, \
                 and past the end there is no record yet",
                args.offset, seen.offset
            )),
        });
    };
    let limits = Limits {
        cap_chars: args.limit,
        ..Limits::default()
    };
    with_complete(committed, &seen.metadata, args.offset, &limits).map_err(|fault| {
        let name = match &fault {
            NotCompleted::Unreadable(error) => error.name(),
            _ => "too_long",
        };
        Fault::Incompletable {
            name,
            fault: Refusal::Failed(fault.to_string()),
        }
    })
}

fn rewrite(partition: TopicPartition, seen: Commit, made: WithComplete, end: LogEnd) -> Rewrite {
    let offset = made.map.base().get();
    let leader_epoch = match offset == seen.offset {
        true => seen.leader_epoch,
        // Where none was committed, none is: what came from elsewhere stays known as such.
        false => seen.leader_epoch.and(end.leader_epoch),
    };
    Rewrite {
        partition,
        seen,
        offset,
        leader_epoch,
        metadata: made.text,
    }
}

impl Answer {
    fn new(group: &str, args: &Args, seen: &Commit, made: &WithComplete) -> Self {
        Self {
            group: group.to_owned(),
            dry_run: !args.yes,
            topic: args.topic.clone(),
            partition: args.partition,
            offsets: (args.offset.first.get(), args.offset.last.get()),
            committed: seen.offset,
            committed_after: made.map.base().get(),
            completed: made.newly,
            chars_before: chars(&seen.metadata),
            chars_after: chars(made.text.as_bytes()),
            rider: RiderAnswer::from(&made.rider),
            changed: 0,
            error: None,
        }
    }

    fn write(&mut self, group: &Group, change: &Rewrite) -> Result<(), GroupError> {
        for result in group.rewrite(std::slice::from_ref(change))? {
            match result {
                Ok(()) => self.changed += 1,
                Err(error) => self.error = Some(Named::new("not_rewritten", error)),
            }
        }
        Ok(())
    }

    fn to_text(&self) -> String {
        const HEADS: &[&str] = &["TOPIC", "PARTITION", "COMMITTED", "COMPLETED", "CHARS"];
        let error = self
            .error
            .as_ref()
            .map(|error| format!("{}: {}", error.name, error.detail));
        let row = Row {
            cells: vec![
                self.topic.clone(),
                self.partition.to_string(),
                format!("{} -> {}", self.committed, self.committed_after),
                counted(self.completed as usize, "record"),
                format!("{} -> {}", self.chars_before, self.chars_after),
            ],
            below: error.into_iter().collect(),
        };
        let end = match (self.completed, self.dry_run, self.changed) {
            (0, ..) => "All of it is complete already: nothing was changed.",
            (_, true, _) => "A dry run: nothing was changed. With --yes it would be.",
            (_, false, 0) => "Nothing was changed.",
            _ => "Rewritten and read back.",
        };
        format!("group {}\n\n{}\n{end}\n", self.group, table(HEADS, &[row]))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use keyway_offsets::HoleMap;
    use keyway_rider::{CommitMap, Offer, RiderBytes};

    use super::*;

    fn offset(at: i64) -> Offset {
        Offset::new(at).unwrap()
    }

    /// Incomplete are 10 and 15; beside the map rides "hello".
    fn seen(leader_epoch: Option<i32>) -> Commit {
        let holes = [10, 15].map(|at| OffsetRange::single(offset(at)));
        let map = HoleMap::new(offset(10), 19, holes).unwrap();
        let rider = Offer::Rider(RiderBytes::new(b"hello".to_vec()).unwrap());
        let text = CommitMap::new(&map, &Limits::default()).with(&rider).text;
        Commit {
            offset: 10,
            leader_epoch,
            metadata: text.into_bytes(),
        }
    }

    fn args(offsets: &str) -> Args {
        use clap::Parser;
        #[derive(Parser)]
        struct Alone {
            #[command(flatten)]
            args: Args,
        }
        let line = format!("x --group g --topic t --partition 3 --offset {offsets}");
        Alone::parse_from(line.split(' ')).args
    }

    fn refused(offsets: &str) -> &'static str {
        match plan(&seen(None), 20, &args(offsets)) {
            Err(Fault::Incompletable { name, .. }) => name,
            _ => panic!("{offsets} was not refused"),
        }
    }

    #[test]
    fn only_what_is_between_commit_and_log_end_can_be_completed() {
        for offsets in ["9", "9-12", "20", "19-20", "500"] {
            assert_eq!(refused(offsets), "offset_outside", "{offsets}");
        }
        for offsets in ["10", "19", "10-19"] {
            assert!(plan(&seen(None), 20, &args(offsets)).is_ok(), "{offsets}");
        }
    }

    #[test]
    fn a_text_that_cannot_be_read_is_named() {
        let seen = Commit {
            metadata: b"not base64!".to_vec(),
            ..seen(None)
        };
        match plan(&seen, 20, &args("12")) {
            Err(Fault::Incompletable { name, .. }) => assert_eq!(name, "bad_text"),
            _ => panic!("it was read"),
        }
    }

    /// An older epoch beside a higher offset makes the next member believe that the log was cut off below it.
    #[test]
    fn an_offset_that_moves_takes_the_epoch_of_the_log_end() {
        let end = LogEnd {
            offset: 20,
            leader_epoch: Some(7),
        };
        for (committed, offsets, expected) in [
            (Some(3), "15", (10, Some(3))),
            (Some(3), "10", (15, Some(7))),
            (None, "10", (15, None)),
        ] {
            let seen = seen(committed);
            let made =
                plan(&seen, end.offset, &args(offsets)).unwrap_or_else(|_| panic!("{offsets}"));
            let change = rewrite(TopicPartition::new("t", 3), seen, made, end);
            assert_eq!((change.offset, change.leader_epoch), expected);
        }
    }

    #[test]
    fn the_answer_says_what_was_and_what_will_be() {
        let (seen, args) = (seen(None), args("10-12"));
        let made = plan(&seen, 20, &args).unwrap_or_else(|_| panic!("it can be completed"));
        let answer = Answer::new("g", &args, &seen, &made);
        assert_eq!(
            serde_json::to_value(&answer).unwrap(),
            serde_json::json!({
                "group": "g", "dry_run": true, "topic": "t", "partition": 3, "offsets": [10, 12], "committed": 10,
                "committed_after": 15, "completed": 1, "chars_before": seen.metadata.len(),
                "chars_after": made.text.len(), "rider": {"state": "present", "bytes": 5, "hex": "68656c6c6f"},
                "changed": 0,
            })
        );
        let text = answer.to_text();
        assert!(
            text.contains("10 -> 15") && text.contains("A dry run"),
            "{text}"
        );
    }
}
