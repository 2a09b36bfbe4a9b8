//! `keyway group scrub`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use keyway::TopicPartition;
use keyway::group::{Commit, Group, GroupError, OpenTransactions, Rewrite};
use keyway_offsets::{DEFAULT_MAX_WINDOW, Decoded, Offset};
use keyway_rider::{Rider, without_rider};
use serde::Serialize;

use super::{Fault, Named, RiderAnswer, Target, answer, chars, say};
use crate::cluster::table::{Row, counted, table};
use crate::exit;

/// Rewrite what a stopped group has committed, without riders or without any metadata; a dry run unless --yes
///
/// Before a group goes on with a program that knows no riders, such as Java's Parallel Consumer. Hole maps are kept
/// byte for byte, so that the next member runs exactly the holes. Offsets and leader epochs stay as they are.
///
/// A live group is refused: stop all members first. Answers {"group":..,"dry_run":..,"partitions":[..],"changed":N}.
///
/// Exit code 1 when the group is live, nothing is committed, an envelope can't be parsed (only --all removes such a
/// text), or something could not be written.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,

    /// Only what is committed in this topic, may be repeated [default: all topics]
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,

    /// Remove all metadata, hole maps as well: whatever is complete above the committed offsets runs again
    #[arg(long)]
    all: bool,

    /// Write it. Without this nothing is changed
    #[arg(long)]
    yes: bool,
}

/// What is done to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    None,
    DropRider,
    Clear,
    /// Its envelope can't be parsed, so that nobody knows where its map begins.
    Unreadable,
}

/// What is to become of one text.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    action: Action,
    text: String,
    rider: Rider,
    /// Records that are complete above the committed offset and run again; `None` when nobody knows.
    repeated: Option<u64>,
    /// What is wrong with the text, or with the map in it.
    error: Option<Named>,
}

/// The whole answer.
#[derive(Debug, Serialize)]
struct Answer {
    group: String,
    dry_run: bool,
    partitions: Vec<Partition>,
    /// Partitions that were rewritten, and read back.
    changed: usize,
}

#[derive(Debug, Serialize)]
struct Partition {
    topic: String,
    partition: i32,
    committed: Option<i64>,
    action: Action,
    chars_before: usize,
    chars_after: usize,
    rider: RiderAnswer,
    /// Records that run again because their map is taken away.
    repeated: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Named>,
}

pub(super) fn scrub(args: &Args, json: bool) -> Result<ExitCode, Fault> {
    let group = args.target.open(None, OpenTransactions::WaitFor)?;
    let commits = chosen(&group, &args.topics)?;
    if let Some(place) = missing(&commits, args) {
        let group = group.id();
        return Err(Fault::NotThere {
            name: "nothing_committed",
            fault: format!("group {group} has committed nothing{place}"),
        });
    }
    group.ensure_stopped()?;

    let plans: Vec<Plan> = commits
        .iter()
        .map(|(_, commit)| plan(commit, args.all))
        .collect();
    let mut whole = Answer::new(group.id(), !args.yes, &commits, &plans);
    let mut failed = plans.iter().any(|plan| plan.action == Action::Unreadable);
    if args.yes {
        failed |= !write(&group, commits, plans, &mut whole)?;
    }
    if json {
        answer(&whole)?;
    } else {
        say(&whole.to_text())?;
    }
    Ok(if failed {
        exit::negative()
    } else {
        exit::SUCCESS
    })
}

/// The commits in the chosen topics. One that can't be read ends it here.
fn chosen(group: &Group, topics: &[String]) -> Result<Vec<(TopicPartition, Commit)>, GroupError> {
    group
        .commits()?
        .into_iter()
        .filter(|(at, _)| topics.is_empty() || topics.iter().any(|topic| **topic == *at.topic))
        .map(|(partition, commit)| match commit {
            Ok(commit) => Ok((partition, commit)),
            Err(error) => Err(GroupError::Unreadable { partition, error }),
        })
        .collect()
}

/// Where nothing is committed though something was asked for.
fn missing(commits: &[(TopicPartition, Commit)], args: &Args) -> Option<String> {
    if args.topics.is_empty() {
        return commits.is_empty().then(String::new);
    }
    let found: BTreeSet<&str> = commits.iter().map(|(at, _)| &*at.topic).collect();
    args.topics
        .iter()
        .find(|topic| !found.contains(topic.as_str()))
        .map(|topic| format!(" in topic {topic}"))
}

fn plan(commit: &Commit, all: bool) -> Plan {
    let text = &commit.metadata;
    let Some(committed) = Offset::new(commit.offset) else {
        return unreadable(commit, Named::new("bad_offset", commit.offset));
    };
    let found = keyway_rider::read(committed, text, DEFAULT_MAX_WINDOW);
    let error = found
        .map
        .as_ref()
        .err()
        .map(|error| Named::new(error.name(), error));
    let stays = |action, error| Plan {
        action,
        text: String::from_utf8_lossy(text).into_owned(),
        rider: found.rider.clone(),
        repeated: Some(0),
        error,
    };
    if text.is_empty() {
        return stays(Action::None, None);
    }
    if all {
        return Plan {
            action: Action::Clear,
            text: String::new(),
            repeated: found.map.as_ref().ok().map(complete_above),
            rider: found.rider,
            error,
        };
    }
    match without_rider(committed, text, DEFAULT_MAX_WINDOW) {
        Ok(None) => stays(Action::None, error),
        Err(_) => stays(Action::Unreadable, error),
        Ok(Some(scrubbed)) => Plan {
            action: Action::DropRider,
            text: scrubbed.text,
            rider: scrubbed.rider,
            repeated: Some(0),
            error,
        },
    }
}

fn unreadable(commit: &Commit, error: Named) -> Plan {
    Plan {
        action: Action::Unreadable,
        text: String::from_utf8_lossy(&commit.metadata).into_owned(),
        rider: Rider::Unreadable,
        repeated: Some(0),
        error: Some(error),
    }
}

/// Complete offsets above the committed one.
fn complete_above(decoded: &Decoded) -> u64 {
    decoded.map.span() - decoded.map.hole_count()
}

/// Writes what is to change, and notes what became of it. Answers whether all of it was written.
fn write(
    group: &Group,
    commits: Vec<(TopicPartition, Commit)>,
    plans: Vec<Plan>,
    whole: &mut Answer,
) -> Result<bool, GroupError> {
    let (places, changes): (Vec<usize>, Vec<Rewrite>) = commits
        .into_iter()
        .zip(plans)
        .enumerate()
        .filter(|(_, (_, plan))| matches!(plan.action, Action::DropRider | Action::Clear))
        .map(|(place, ((partition, seen), plan))| {
            (place, Rewrite::text(partition, seen, plan.text))
        })
        .unzip();
    let mut all = true;
    for (place, result) in places.into_iter().zip(group.rewrite(&changes)?) {
        match result {
            Ok(()) => whole.changed += 1,
            Err(error) => {
                all = false;
                whole.partitions[place].error = Some(Named::new("not_rewritten", error));
            }
        }
    }
    Ok(all)
}

impl Answer {
    fn new(
        group: &str,
        dry_run: bool,
        commits: &[(TopicPartition, Commit)],
        plans: &[Plan],
    ) -> Self {
        let partition = |((at, commit), plan): (&(TopicPartition, Commit), &Plan)| Partition {
            topic: at.topic.to_string(),
            partition: at.partition,
            committed: Some(commit.offset),
            action: plan.action,
            chars_before: chars(&commit.metadata),
            chars_after: chars(plan.text.as_bytes()),
            rider: RiderAnswer::from(&plan.rider),
            repeated: plan.repeated,
            error: plan.error.clone(),
        };
        Self {
            group: group.to_owned(),
            dry_run,
            partitions: commits.iter().zip(plans).map(partition).collect(),
            changed: 0,
        }
    }

    fn to_text(&self) -> String {
        const HEADS: &[&str] = &["TOPIC", "PARTITION", "COMMITTED", "ACTION", "CHARS", "LOST"];
        let rows: Vec<Row> = self.partitions.iter().map(Partition::row).collect();
        let planned = self
            .partitions
            .iter()
            .filter(|partition| matches!(partition.action, Action::DropRider | Action::Clear))
            .count();
        let end = if self.dry_run {
            format!(
                "A dry run: nothing was changed. With --yes {} would be rewritten.\n",
                counted(planned, "partition")
            )
        } else {
            format!(
                "{} of {planned} rewritten and read back.\n",
                counted(self.changed, "partition")
            )
        };
        format!("group {}\n\n{}\n{end}", self.group, table(HEADS, &rows))
    }
}

impl Partition {
    fn row(&self) -> Row {
        let action = match self.action {
            Action::None => "none",
            Action::DropRider => "drop the rider",
            Action::Clear => "clear",
            Action::Unreadable => "unreadable, left alone: --all clears it",
        };
        let cells = vec![
            self.topic.clone(),
            self.partition.to_string(),
            self.committed
                .map_or_else(|| "?".to_owned(), |committed| committed.to_string()),
            action.to_owned(),
            format!("{} -> {}", self.chars_before, self.chars_after),
            self.lost(),
        ];
        let error = self
            .error
            .as_ref()
            .map(|error| format!("{}: {}", error.name, error.detail));
        Row {
            cells,
            below: error.into_iter().collect(),
        }
    }

    /// What goes with the old text.
    fn lost(&self) -> String {
        if matches!(self.action, Action::None | Action::Unreadable) {
            return "nothing".to_owned();
        }
        let mut lost = Vec::new();
        match self.rider.bytes {
            0 if self.rider.state == Rider::Dropped.name() => {
                lost.push("the marker of a lost rider".to_owned());
            }
            0 => {}
            bytes => lost.push(format!("a rider of {}", counted(bytes, "byte"))),
        }
        match self.repeated {
            Some(0) => {}
            Some(repeated) => lost.push(format!("the map: {repeated} complete records run again")),
            None => lost.push("a text that can't be read".to_owned()),
        }
        if lost.is_empty() {
            "nothing".to_owned()
        } else {
            lost.join(", ")
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use keyway_offsets::{HoleMap, Limits, OffsetRange, encode, text};
    use keyway_rider::{CommitMap, Offer, RiderBytes};
    use serde_json::{json, to_value};

    use super::*;

    fn map() -> HoleMap {
        let base = Offset::new(10).unwrap();
        HoleMap::new(base, 19, [OffsetRange::single(base)]).unwrap()
    }

    fn commit(metadata: impl Into<Vec<u8>>) -> Commit {
        Commit {
            offset: 10,
            leader_epoch: None,
            metadata: metadata.into(),
        }
    }

    fn with_rider(map: &HoleMap) -> Commit {
        let rider = Offer::Rider(RiderBytes::new(b"hello".to_vec()).unwrap());
        commit(CommitMap::new(map, &Limits::default()).with(&rider).text)
    }

    fn planned(commit: &Commit, all: bool) -> (Action, String) {
        let plan = plan(commit, all);
        (plan.action, plan.text)
    }

    #[test]
    fn a_rider_goes_and_the_map_stays() {
        let commit = with_rider(&map());
        assert_eq!(
            planned(&commit, false),
            (Action::DropRider, encode(&map()).text)
        );
        let cleared = plan(&commit, true);
        assert_eq!((cleared.action, &*cleared.text), (Action::Clear, ""));
        assert_eq!(cleared.repeated, Some(9));
    }

    #[test]
    fn a_text_without_an_envelope_is_left_alone_unless_all_goes() {
        for text in [encode(&map()).text, "not base64!".to_owned()] {
            let commit = commit(text.clone());
            assert_eq!(planned(&commit, false), (Action::None, text));
            assert_eq!(planned(&commit, true), (Action::Clear, String::new()));
        }
        for all in [false, true] {
            assert_eq!(planned(&commit(""), all), (Action::None, String::new()));
        }
    }

    #[test]
    fn an_envelope_that_cannot_be_parsed_is_left_alone_unless_all_goes() {
        for bytes in [&b"X\x00\x05abc"[..], b"X\x00\x00X\x00\x00"] {
            let text = text::write(bytes);
            let commit = commit(text.clone());
            assert_eq!(planned(&commit, false), (Action::Unreadable, text));
            let cleared = plan(&commit, true);
            assert_eq!((cleared.action, cleared.repeated), (Action::Clear, None));
        }
    }

    #[test]
    fn a_corrupt_map_inside_an_envelope_is_kept_and_named() {
        let commit = commit(text::write(b"X\x00\x01an\xff\xff"));
        let plan = plan(&commit, false);
        assert_eq!(plan.action, Action::DropRider);
        assert_eq!(plan.text, text::write(b"n\xff\xff"));
        assert_eq!(plan.error.unwrap().name, "bad_run");
    }

    #[test]
    fn the_answer_says_what_was_and_what_will_be() {
        let commits = [(TopicPartition::new("t", 3), with_rider(&map()))];
        let plans = [plan(&commits[0].1, false)];
        let answer = Answer::new("g", true, &commits, &plans);
        assert_eq!(
            to_value(&answer).unwrap(),
            json!({"group": "g", "dry_run": true, "changed": 0, "partitions": [{
                "topic": "t", "partition": 3, "committed": 10, "action": "drop_rider",
                "chars_before": commits[0].1.metadata.len(), "chars_after": plans[0].text.len(),
                "rider": {"state": "present", "bytes": 5, "hex": "68656c6c6f"}, "repeated": 0,
            }]})
        );
        let text = answer.to_text();
        assert!(text.contains("a rider of 5 bytes") && text.contains("With --yes 1 partition"));
    }
}
