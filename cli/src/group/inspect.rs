//! `keyway group inspect`.

use std::collections::HashMap;
use std::process::ExitCode;

use keyway::causality::{Position, Shard};
use keyway::group::{Commit, Group, GroupError, GroupState, Liveness, OpenTransactions};
use keyway::{ClientError, Rider, TopicPartition};
use keyway_offsets::{DEFAULT_CAP_CHARS, DEFAULT_MAX_WINDOW, HoleMap, Offset, picture};
use serde::Serialize;

use super::{Fault, Named, RiderAnswer, Target, answer, chars, say};
use crate::cluster::table::{Row, table};
use crate::exit;

/// Ranges of an answer: a map of 4,096 characters can have tens of thousands.
const MOST_RANGES: usize = 1_000;

/// Characters of a picture.
const CELLS: u32 = 60;

/// Show what a group has committed: offsets, lag, holes, riders, and whether it is live
///
/// Answers {"group":..,"state":..,"members":..,"live":..,"partitions":[..]}; "live" is null when that can't be told.
/// A text that can't be read is answered with its error, and what could be read of it.
///
/// Exit code 1 when nothing is committed, or a text can't be read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,

    /// The broker's limit for the text beside an offset, offset.metadata.max.bytes
    #[arg(long, value_name = "CHARS", default_value_t = DEFAULT_CAP_CHARS)]
    limit: usize,
}

/// The whole answer.
#[derive(Debug, Serialize)]
struct Answer {
    group: String,
    state: String,
    members: Option<usize>,
    live: Option<bool>,
    partitions: Vec<Partition>,
}

/// What is committed for a partition.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Partition {
    topic: String,
    partition: i32,
    committed: Option<i64>,
    leader_epoch: Option<i32>,
    log_end: Option<i64>,
    lag: Option<i64>,
    /// Incomplete offsets below the highest complete one.
    holes: Option<u64>,
    incomplete: Option<Vec<(i64, i64)>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    incomplete_truncated: bool,
    highest_seen: Option<i64>,
    encoding: Option<&'static str>,
    text_format: Option<&'static str>,
    chars: usize,
    limit: usize,
    rider: Option<RiderAnswer>,
    /// What the rider says, where it is a shard of causal delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    causal_shard: Option<ShardAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Named>,
    #[serde(skip)]
    picture: Option<String>,
}

/// A shard of causal delivery: what the group has learned of topics that it does not consume.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ShardAnswer {
    topic_id: String,
    /// Where the group began in this partition.
    baseline: i64,
    highest_complete: Option<i64>,
    /// Something that belongs here was lost.
    lossy: bool,
    /// In the shape of `keyway causes decode`.
    topics: Vec<ShardTopic>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct ShardTopic {
    id: String,
    partitions: Vec<(u32, i64)>,
}

pub(super) fn inspect(args: &Args, json: bool) -> Result<ExitCode, Fault> {
    let group = args.target.open(None, OpenTransactions::LookPast)?;
    let commits = group.commits()?;
    let state = group.state();
    if let Err(error) = &state {
        tracing::warn!("{error}");
    }
    let ends = log_ends(&group, &commits);
    let partitions: Vec<Partition> = commits
        .into_iter()
        .map(|(at, commit)| {
            let end = ends.get(&at).copied();
            Partition::of(&at, commit, end, args.limit)
        })
        .collect();
    let found = !partitions.is_empty();
    let readable = partitions.iter().all(|partition| partition.error.is_none());
    let whole = Answer::new(group.id(), state, partitions);
    if json {
        answer(&whole)?;
    } else {
        say(&whole.to_text())?;
    }
    if !found {
        eprintln!("keyway: group {} has committed nothing", whole.group);
    }
    Ok(if found && readable {
        exit::SUCCESS
    } else {
        exit::negative()
    })
}

/// The ends that can be had: a partition whose leader is away has none.
fn log_ends(
    group: &Group,
    commits: &[(TopicPartition, Result<Commit, ClientError>)],
) -> HashMap<TopicPartition, i64> {
    let partitions: Vec<_> = commits.iter().map(|(at, _)| at.clone()).collect();
    match group.log_ends(&partitions) {
        Ok(ends) => ends
            .into_iter()
            .filter_map(|(at, end)| Some((at, end.ok()?.offset)))
            .collect(),
        Err(error) => {
            tracing::warn!("{error}");
            HashMap::new()
        }
    }
}

impl Partition {
    fn of(
        at: &TopicPartition,
        commit: Result<Commit, ClientError>,
        log_end: Option<i64>,
        limit: usize,
    ) -> Self {
        let mut partition = Self {
            topic: at.topic.to_string(),
            partition: at.partition,
            committed: None,
            leader_epoch: None,
            log_end,
            lag: None,
            holes: None,
            incomplete: None,
            incomplete_truncated: false,
            highest_seen: None,
            encoding: None,
            text_format: None,
            chars: 0,
            limit,
            rider: None,
            causal_shard: None,
            error: None,
            picture: None,
        };
        match commit {
            Ok(commit) => partition.read(&commit),
            Err(error) => partition.error = Some(Named::new("commit_unreadable", error)),
        }
        partition
    }

    fn read(&mut self, commit: &Commit) {
        self.committed = Some(commit.offset);
        self.leader_epoch = commit.leader_epoch;
        self.lag = self.log_end.map(|end| (end - commit.offset).max(0));
        self.chars = chars(&commit.metadata);
        let Some(committed) = Offset::new(commit.offset) else {
            return;
        };
        let metadata = keyway_rider::read(committed, &commit.metadata, DEFAULT_MAX_WINDOW);
        self.text_format = Some(metadata.format.name());
        self.rider = Some(RiderAnswer::from(&metadata.rider));
        self.causal_shard = ShardAnswer::of(&metadata.rider);
        match metadata.map {
            Err(error) => self.error = Some(Named::new(error.name(), error)),
            Ok(decoded) => {
                self.encoding = Some(decoded.encoding.name());
                self.show(&decoded.map);
            }
        }
    }

    fn show(&mut self, map: &HoleMap) {
        let ranges = map.holes();
        self.holes = Some(holes(map));
        self.incomplete_truncated = ranges.len() > MOST_RANGES;
        self.incomplete = Some(
            ranges
                .iter()
                .take(MOST_RANGES)
                .map(|range| (range.first.get(), range.last.get()))
                .collect(),
        );
        self.highest_seen = Some(map.highest());
        if map.is_caught_up() {
            return;
        }
        let from = map.base().get().unsigned_abs();
        self.picture = Some(picture(map, from..from + map.span(), CELLS));
        // The commit was read before the end of the log, which only grows.
        if let Some(end) = self.log_end.filter(|&end| map.highest() >= end) {
            self.error = Some(Named::new(
                "past_log_end",
                format!(
                    "the map speaks of offsets up to {}, and the log ends at {end}: it belongs to another life of the topic",
                    map.highest()
                ),
            ));
        }
    }

    fn row(&self) -> Row {
        let shown = |value: Option<i64>| value.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let rider = match &self.rider {
            Some(rider) if self.causal_shard.is_some() => {
                format!("causal shard, {} bytes", rider.bytes)
            }
            Some(rider) if rider.bytes > 0 => format!("{}, {} bytes", rider.state, rider.bytes),
            Some(rider) => rider.state.to_owned(),
            None => "?".to_owned(),
        };
        let cells = vec![
            self.topic.clone(),
            self.partition.to_string(),
            shown(self.committed),
            shown(self.log_end),
            shown(self.lag),
            self.holes
                .map_or_else(|| "?".to_owned(), |holes| holes.to_string()),
            self.encoding.unwrap_or("?").to_owned(),
            format!("{} of {}", self.chars, self.limit),
            rider,
        ];
        let picture = self
            .picture
            .as_ref()
            .zip(self.highest_seen)
            .map(|(picture, highest)| format!("{picture}  {} to {highest}", shown(self.committed)));
        let error = self
            .error
            .as_ref()
            .map(|error| format!("{}: {}", error.name, error.detail));
        Row {
            cells,
            below: picture
                .into_iter()
                .chain(self.causal_shard.as_ref().map(ShardAnswer::to_text))
                .chain(error)
                .collect(),
        }
    }
}

impl ShardAnswer {
    fn of(rider: &Rider) -> Option<Self> {
        let Rider::Present(bytes) = rider else {
            return None;
        };
        let shard = Shard::decode(bytes).ok()?;
        let topics = shard.learned.topics();
        Some(Self {
            topic_id: shard.topic.to_string(),
            baseline: shard.baseline.get(),
            highest_complete: shard.highest_complete.map(Position::get),
            lossy: shard.is_lossy,
            topics: topics
                .map(|(id, entries)| ShardTopic {
                    id: id.to_string(),
                    partitions: entries
                        .iter()
                        .map(|(partition, position)| (*partition, position.get()))
                        .collect(),
                })
                .collect(),
        })
    }

    fn to_text(&self) -> String {
        let channels: usize = self.topics.iter().map(|topic| topic.partitions.len()).sum();
        let lossy = match self.lossy {
            true => "; something was lost, and nothing is sent until that is accepted",
            false => "",
        };
        format!(
            "causal: topic {}, begun at {}, {channels} channel(s) of {} other topic(s) learned{lossy}",
            self.topic_id,
            self.baseline,
            self.topics.len()
        )
    }
}

/// Incomplete offsets below the highest complete one. A map may end with a hole, which is no more than what is not
/// known yet.
fn holes(map: &HoleMap) -> u64 {
    let above = match map.holes().last() {
        Some(last) if last.last.get() == map.highest() => last.len(),
        _ => 0,
    };
    map.hole_count() - above
}

impl Answer {
    fn new(group: &str, state: Result<GroupState, GroupError>, partitions: Vec<Partition>) -> Self {
        let (state, members, live) = match state {
            Err(_) => ("unknown".to_owned(), None, None),
            Ok(state) => {
                let live = match state.liveness() {
                    Liveness::Live => Some(true),
                    Liveness::Stopped => Some(false),
                    Liveness::Absent if partitions.is_empty() => Some(false),
                    _ => None,
                };
                (state.name, Some(state.members), live)
            }
        };
        Self {
            group: group.to_owned(),
            state,
            members,
            live,
            partitions,
        }
    }

    fn to_text(&self) -> String {
        const HEADS: &[&str] = &[
            "TOPIC",
            "PARTITION",
            "COMMITTED",
            "LOG END",
            "LAG",
            "HOLES",
            "ENCODING",
            "CHARS",
            "RIDER",
        ];
        let live = match (self.live, self.members) {
            (Some(true), Some(members)) => format!("live, {members} member(s)"),
            (Some(false), _) => "not live".to_owned(),
            _ => "whether it is live can't be told".to_owned(),
        };
        let mut text = format!("group {}: {live} ({})\n", self.group, self.state);
        if self.partitions.is_empty() {
            return text;
        }
        let rows: Vec<Row> = self.partitions.iter().map(Partition::row).collect();
        text.push('\n');
        text.push_str(&table(HEADS, &rows));
        if self
            .partitions
            .iter()
            .any(|partition| partition.picture.is_some())
        {
            text.push_str(
                "\n# done   + some of it done   . not done   | the committed offset: all below is done\n",
            );
        }
        text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use keyway_offsets::{Limits, OffsetRange};
    use keyway_rider::{CommitMap, Offer, RiderBytes};
    use serde_json::{Value, json, to_value};

    use super::*;

    fn offset(at: i64) -> Offset {
        Offset::new(at).unwrap()
    }

    fn map(holes: &[(i64, i64)], highest: i64) -> HoleMap {
        let range = |&(first, last)| OffsetRange::new(offset(first), offset(last)).unwrap();
        HoleMap::new(offset(holes[0].0), highest, holes.iter().map(range)).unwrap()
    }

    fn text(map: &HoleMap, offer: &Offer) -> Vec<u8> {
        let text = CommitMap::new(map, &Limits::default()).with(offer).text;
        text.into_bytes()
    }

    fn partition(committed: i64, metadata: &[u8], log_end: Option<i64>) -> Partition {
        let commit = Commit {
            offset: committed,
            leader_epoch: Some(3),
            metadata: metadata.to_vec(),
        };
        Partition::of(&TopicPartition::new("t", 5), Ok(commit), log_end, 4_096)
    }

    #[test]
    fn a_commit_with_holes_and_a_rider() {
        let rider = Offer::Rider(RiderBytes::new(b"hello".to_vec()).unwrap());
        let text = text(&map(&[(100, 100), (103, 104)], 109), &rider);
        let found = to_value(partition(100, &text, Some(150))).unwrap();
        assert_eq!(
            found,
            json!({
                "topic": "t", "partition": 5, "committed": 100, "leader_epoch": 3, "log_end": 150, "lag": 50,
                "holes": 3, "incomplete": [[100, 100], [103, 104]], "highest_seen": 109, "encoding": "BitSet",
                "text_format": "base64", "chars": text.len(), "limit": 4096,
                "rider": {"state": "present", "bytes": 5, "hex": "68656c6c6f"},
            })
        );
        let row = partition(100, &text, Some(150)).row();
        assert_eq!(row.below, ["|##..#####  100 to 109"]);
    }

    #[test]
    fn a_hole_at_the_end_of_a_map_is_not_counted() {
        let metadata = text(&map(&[(10, 10), (15, 19)], 19), &Offer::Nothing);
        let found = partition(10, &metadata, Some(30));
        assert_eq!((found.holes, found.highest_seen), (Some(1), Some(19)));
    }

    #[test]
    fn a_text_that_is_no_map_is_named() {
        for (metadata, name) in [
            (&b"not base64!"[..], "bad_text"),
            (b"AQAAAAA=", "kafka_streams"),
            (b"WAAF", "bad_envelope"),
            (b"WAAAWAAA", "nested_envelope"),
        ] {
            let found = partition(7, metadata, Some(9));
            assert_eq!(found.error.as_ref().unwrap().name, name);
            assert_eq!((found.committed, found.lag), (Some(7), Some(2)));
            let found = to_value(found).unwrap();
            assert_eq!(
                (&found["holes"], &found["encoding"]),
                (&Value::Null, &Value::Null)
            );
        }
    }

    #[test]
    fn a_map_that_does_not_fit_the_log_is_named() {
        let metadata = text(&map(&[(10, 10)], 19), &Offer::Nothing);
        assert_eq!(partition(10, &metadata, Some(20)).error, None);
        assert_eq!(partition(10, &metadata, None).error, None);
        let found = partition(10, &metadata, Some(19));
        assert_eq!(found.error.unwrap().name, "past_log_end");
        assert_eq!(found.holes, Some(1), "and shown all the same");
    }

    #[test]
    fn of_very_many_holes_the_first_thousand_are_answered() {
        let holes: Vec<_> = (0..1_500).map(|n| (n * 2, n * 2)).collect();
        let found = partition(0, &text(&map(&holes, 3_000), &Offer::Nothing), None);
        assert_eq!(found.incomplete.unwrap().len(), MOST_RANGES);
        assert!(found.incomplete_truncated);
        assert_eq!(found.holes, Some(1_500));
    }

    #[test]
    fn an_unknown_state_is_neither_live_nor_not() {
        let gone = Err(GroupError::Unclear {
            group: "g".to_owned(),
            state: "x".to_owned(),
        });
        let answer = to_value(Answer::new("g", gone, Vec::new())).unwrap();
        assert_eq!(
            (&answer["state"], &answer["live"]),
            (&json!("unknown"), &Value::Null)
        );
    }
}
