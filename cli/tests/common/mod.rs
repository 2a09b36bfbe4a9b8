//! The real binary, and what it leaves behind.

#![allow(clippy::unwrap_used, dead_code)]

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// After so long a condition is taken for one that never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The command with these arguments, a word each.
pub(crate) fn keyway(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyway"));
    command.args(arguments.split_whitespace());
    command
}

/// Runs it to its end.
pub(crate) fn output(arguments: &str) -> Output {
    keyway(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Exit code and the JSON on stdout.
pub(crate) fn answer(command: &mut Command) -> (i32, Value) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let code = output.status.code().unwrap();
    let json = serde_json::from_slice(&output.stdout);
    (
        code,
        json.unwrap_or_else(|error| panic!("{error}: {output:?}")),
    )
}

/// The answers to lines on stdin.
pub(crate) fn answers(arguments: &str, input: &[u8]) -> Vec<Value> {
    let mut child = keyway(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The answer to one line.
pub(crate) fn one(command: &str, line: &Value) -> Value {
    let mut answers = answers(
        &format!("{command} --lines"),
        format!("{line}\n").as_bytes(),
    );
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

/// A run against the broker inside the process, with an event log.
pub(crate) struct Run {
    child: Child,
    events: PathBuf,
    _folder: TempDir,
}

impl Run {
    pub(crate) fn start(arguments: &str) -> Self {
        Self::with(&[], arguments)
    }

    /// As [`Run::start`], with these words before the arguments, spaces and all.
    pub(crate) fn with(words: &[&str], arguments: &str) -> Self {
        Self::of(&mut keyway(""), words, arguments)
    }

    /// As [`Run::with`], by this command, which has no arguments yet.
    pub(crate) fn of(command: &mut Command, words: &[&str], arguments: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let events = folder.path().join("events.jsonl");
        let child = command
            .args(["run", "--brokers", "mock", "--events"])
            .arg(&events)
            .args(words)
            .args(arguments.split_whitespace())
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            child,
            events,
            _folder: folder,
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// Sends signals until it has ended, at most so many; two of one kind at once may count as one.
    pub(crate) fn signal_until_end(&mut self, most: usize) {
        for name in ["TERM", "INT"].into_iter().cycle().take(most) {
            if self.child.try_wait().unwrap().is_some() {
                return;
            }
            self.signal(name);
            thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        read_events(&self.events)
    }

    /// Waits until the event log shows something.
    pub(crate) fn wait_until(&mut self, what: &str, condition: impl Fn(&[Event]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition(&self.events()) {
            assert!(Instant::now() < deadline, "{what}: never");
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() || condition(&self.events()),
                "{what}: ended before"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end: how it exited, the closing line if there is one, and all events.
    pub(crate) fn end(mut self) -> (ExitStatus, Option<Value>, Vec<Event>) {
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                self.child.kill().unwrap();
                panic!("the run does not end");
            }
            thread::sleep(Duration::from_millis(5));
        }
        let events = self.events();
        let output = self.child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().count() <= 1, "one line: {text}");
        let summary = text
            .lines()
            .next()
            .map(|line| serde_json::from_str(line).unwrap());
        (output.status, summary, events)
    }

    /// As [`Run::end`], for a run that has to succeed.
    pub(crate) fn success(self) -> (Value, Vec<Event>) {
        let (status, summary, events) = self.end();
        assert_eq!(status.code(), Some(0), "{summary:?}");
        (summary.unwrap(), events)
    }
}

/// A line of the event log.
pub(crate) struct Event(pub(crate) Value);

impl Event {
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.0["event"] == kind
    }

    /// Topic, partition and offset.
    pub(crate) fn place(&self) -> (String, i64, i64) {
        let (topic, partition) = self.partition();
        (topic, partition, self.0["offset"].as_i64().unwrap())
    }

    pub(crate) fn partition(&self) -> (String, i64) {
        let topic = self.0["topic"].as_str().unwrap();
        (topic.to_owned(), self.0["partition"].as_i64().unwrap())
    }

    pub(crate) fn key(&self) -> Option<String> {
        self.0["key"].as_str().map(str::to_owned)
    }

    pub(crate) fn attempt(&self) -> i64 {
        self.0["attempt"].as_i64().unwrap()
    }
}

fn read_events(path: &Path) -> Vec<Event> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // A last line without its end was cut by a kill.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| {
            Event(serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        })
        .collect()
}

pub(crate) fn count(events: &[Event], kind: &str) -> usize {
    events.iter().filter(|event| event.is(kind)).count()
}

/// Sends a signal by the shell's own `kill`: a machine need not have the program of that name.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("sh")
        .args(["-c", "kill -s \"$0\" \"$1\"", name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// A run of one key ends before the next one starts, and their offsets ascend.
pub(crate) fn assert_keys_in_order(events: &[Event]) {
    let mut running: HashMap<(String, i64, String), i64> = HashMap::new();
    let mut last: HashMap<(String, i64, String), i64> = HashMap::new();
    for event in events.iter().filter(|event| {
        ["start", "done", "failed"]
            .iter()
            .any(|kind| event.is(kind))
    }) {
        let (topic, partition, offset) = event.place();
        let lane = (topic, partition, event.key().unwrap());
        if event.is("start") {
            assert_eq!(
                running.insert(lane.clone(), offset),
                None,
                "two of {lane:?} at once"
            );
            assert!(
                last.get(&lane).is_none_or(|&last| last <= offset),
                "{lane:?} went back to {offset}"
            );
            last.insert(lane, offset);
        } else {
            assert_eq!(
                running.remove(&lane),
                Some(offset),
                "{lane:?} ended what it had not started"
            );
        }
    }
}
