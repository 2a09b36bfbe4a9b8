//! The event logs that `keyway run --events FILE` writes: one JSON object a line, as docs of the command describe.
//!
//! Each process writes to a file of its own, or several append to one. In a file the order of the lines is the order of
//! happening. Between files the wall clock decides, without ever changing the order within one ([`EventLog::merge`]).
//!
//! A killed process can't say that its handlers ended. So the harness notes it, in the killed process's file, once it
//! has seen the process gone ([`note_killed`]): the one kind of line that Keyway does not write itself.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use keyway_offsets::Offset;
use serde::Deserialize;

use crate::hex;

/// What a line says happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A handler is about to run; written before it does.
    Start,
    /// A handler finished its record; written before the engine is told.
    Done,
    /// An attempt failed.
    Failed,
    /// Another attempt was scheduled.
    Retry,
    /// The record went to the dead letters, and counts as finished.
    Dead,
    /// The broker acknowledged a commit.
    Committed,
    /// The partition came to this member.
    Assigned,
    /// The partition was taken from this member in good order.
    Revoked,
    /// The partition was lost without a word.
    Lost,
    /// The record waits, as the map has no room for it.
    Held,
    /// The record waits no longer.
    Released,
    /// The harness saw the process end; the handlers of its members ended with it.
    Killed,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Wall clock, nanoseconds since 1970.
    pub ns: u64,
    /// What happened.
    pub kind: Kind,
    /// Whose line it is; empty in a [`Kind::Killed`] that ends every member of its file.
    pub member: String,
    /// The record's topic.
    pub topic: String,
    /// The record's partition.
    pub partition: i32,
    /// The record's offset, or the committed one. Always there where the kind is about a record or a commit.
    pub offset: Option<Offset>,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// Counts from 1.
    pub attempt: u32,
    /// The text that was committed.
    pub metadata: String,
}

/// Events in the order of happening.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventLog {
    /// First to last.
    pub events: Vec<Event>,
}

/// A line that is not what the command's documentation promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Counts from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for BadLine {}

/// A line as it stands in the file. Fields that are not named here may be added by newer versions.
#[derive(Deserialize)]
struct Line {
    ns: u64,
    event: Kind,
    #[serde(default)]
    member: String,
    #[serde(default)]
    topic: String,
    #[serde(default)]
    partition: i32,
    offset: Option<i64>,
    key: Option<String>,
    #[serde(default)]
    attempt: u32,
    metadata: Option<String>,
}

impl EventLog {
    /// Reads one file's text. A last line without its end is left out: its writer was killed in the middle of it.
    ///
    /// # Errors
    /// At the first line that is not an event.
    pub fn parse(text: &str) -> Result<EventLog, BadLine> {
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = complete
            .lines()
            .zip(1..)
            .filter(|(line, _)| !line.is_empty());
        let events: Result<Vec<Event>, BadLine> = lines
            .map(|(text, line)| event(text).map_err(|reason| BadLine { line, reason }))
            .collect();
        Ok(EventLog {
            events: scope_kills(events?),
        })
    }

    /// Reads a file; one that was never made is a log in which nothing happened.
    ///
    /// # Panics
    /// When the file can't be read or holds something else.
    pub fn read(path: &Path) -> EventLog {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => panic!("{} can't be read: {error}", path.display()),
        };
        EventLog::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The logs of several processes as one. The wall clock decides between files; within a file a line never comes
    /// before the one above it, whatever its clock says.
    pub fn merge(logs: impl IntoIterator<Item = EventLog>) -> EventLog {
        let mut timed: Vec<(u64, Event)> = Vec::new();
        for log in logs {
            let mut latest = 0;
            timed.extend(log.events.into_iter().map(|event| {
                latest = event.ns.max(latest);
                (latest, event)
            }));
        }
        // The sort is stable, and within a file the times do not fall.
        timed.sort_by_key(|&(ns, _)| ns);
        EventLog {
            events: timed.into_iter().map(|(_, event)| event).collect(),
        }
    }

    /// How many events of this kind there are: what a scenario is about must have occurred.
    pub fn count(&self, kind: Kind) -> usize {
        self.events
            .iter()
            .filter(|event| event.kind == kind)
            .count()
    }
}

/// Notes in a killed process's log that it is gone: to be called once its end was waited for, and before the next
/// process appends to the same file. Ends all members that have written to the file so far.
///
/// # Panics
/// When the file can't be written.
pub fn note_killed(path: &Path) {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // A line that the kill cut in two ends here, too; its half would spoil this one.
    drop_half_line(path);
    let line = format!(
        "{{\"ns\":{},\"event\":\"killed\"}}\n",
        since_epoch.as_nanos()
    );
    let file = OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{} can't be written: {error}", path.display()));
}

fn drop_half_line(path: &Path) {
    let Ok(text) = fs::read(path) else { return };
    let complete = text
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |end| end + 1);
    if complete < text.len() {
        let cut = u64::try_from(complete).expect("a file's length");
        let file = OpenOptions::new().write(true).open(path);
        file.and_then(|file| file.set_len(cut))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

fn event(text: &str) -> Result<Event, String> {
    let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let about_a_position = matches!(
        line.event,
        Kind::Start | Kind::Done | Kind::Failed | Kind::Dead | Kind::Committed
    );
    let offset = line.offset.and_then(Offset::new);
    if about_a_position && offset.is_none() {
        return Err(format!("{:?} without an offset", line.event));
    }
    let key = match line.key {
        Some(key) => {
            Some(hex::decode(&key).ok_or_else(|| format!("the key {key:?} is not hexadecimal"))?)
        }
        None => None,
    };
    Ok(Event {
        ns: line.ns,
        kind: line.event,
        member: line.member,
        topic: line.topic,
        partition: line.partition,
        offset,
        key,
        attempt: line.attempt,
        metadata: line.metadata.unwrap_or_default(),
    })
}

/// A kill without a member ends the members of its own file only: it becomes one kill for each of them.
fn scope_kills(events: Vec<Event>) -> Vec<Event> {
    let mut alive: Vec<String> = Vec::new();
    let mut scoped = Vec::with_capacity(events.len());
    for event in events {
        if event.kind == Kind::Killed && event.member.is_empty() {
            scoped.extend(alive.drain(..).map(|member| Event {
                member,
                ..event.clone()
            }));
            continue;
        }
        if event.kind != Kind::Killed
            && alive.last() != Some(&event.member)
            && !alive.contains(&event.member)
        {
            alive.push(event.member.clone());
        }
        scoped.push(event);
    }
    scoped
}

#[cfg(test)]
mod tests {
    use super::{EventLog, Kind, note_killed};

    const START: &str = r#"{"ns":5,"event":"start","member":"a","topic":"t","partition":1,"offset":9,"key":"6b","attempt":2,"new_field":{}}"#;

    #[test]
    fn a_line_is_read_with_unknown_fields_left_aside() {
        let log = EventLog::parse(&format!("{START}\n")).expect("it is a line of the contract");
        let event = &log.events[0];
        assert_eq!(
            (event.ns, event.kind, event.member.as_str(), event.attempt),
            (5, Kind::Start, "a", 2)
        );
        assert_eq!(
            (event.topic.as_str(), event.partition, event.key.as_deref()),
            ("t", 1, Some(&b"k"[..]))
        );
        assert_eq!(event.offset.map(i64::from), Some(9));
    }

    #[test]
    fn a_line_cut_by_a_kill_is_left_out() {
        let log = EventLog::parse(&format!("{START}\n{}", &START[..20]))
            .expect("the half line does not count");
        assert_eq!(log.events.len(), 1);
    }

    #[test]
    fn anything_else_is_an_error_that_names_the_line() {
        for bad in [
            "{",
            "{\"ns\":1,\"event\":\"dance\"}",
            "{\"ns\":1,\"event\":\"done\"}",
            &START.replace("6b", "6"),
        ] {
            let error =
                EventLog::parse(&format!("{START}\n{bad}\n")).expect_err("it is not an event");
            assert_eq!(error.line, 2, "{error}");
        }
    }

    #[test]
    fn merging_follows_the_clock_and_never_turns_a_files_own_order() {
        let log = |times: &[u64], member: &str| {
            let line = |ns: &u64| {
                format!("{{\"ns\":{ns},\"event\":\"assigned\",\"member\":\"{member}\"}}\n")
            };
            EventLog::parse(&times.iter().map(line).collect::<String>())
                .expect("lines of the contract")
        };
        let merged = EventLog::merge([log(&[1, 5, 3], "a"), log(&[2, 4, 6], "b")]);
        let order: String = merged
            .events
            .iter()
            .map(|event| format!("{}{} ", event.member, event.ns))
            .collect();
        assert_eq!(order, "a1 b2 b4 a5 a3 b6 ");
    }

    #[test]
    fn a_kill_ends_the_members_of_its_file_that_were_alive() {
        let directory =
            tempfile::tempdir().expect("the directory for temporary files can be written");
        let path = directory.path().join("events");
        std::fs::write(
            &path,
            format!(
                "{START}\n{}\n{}",
                START.replace("\"a\"", "\"b\""),
                &START[..30]
            ),
        )
        .expect("as above");
        note_killed(&path);
        let first = EventLog::read(&path);
        let killed = |log: &EventLog| -> Vec<String> {
            let kills = log.events.iter().filter(|event| event.kind == Kind::Killed);
            kills.map(|event| event.member.clone()).collect()
        };
        assert_eq!(killed(&first), ["a", "b"]);
        note_killed(&path);
        assert_eq!(
            killed(&EventLog::read(&path)),
            ["a", "b"],
            "they can't die twice"
        );
    }
}
