//! Java's Parallel Consumer as a member of a group: the other implementation, over the same broker.
//!
//! ```no_run
//! use keyway_tests::cluster::Cluster;
//! use keyway_tests::peer::{Peer, Until};
//!
//! # let (group, topic) = ("group", "topic");
//! let peer = Peer::new(Cluster::start(), group, topic).hold(0, 3).hold(0, 7);
//! let report = peer.run(Until::Processed(8)); // of ten records: it leaves holes at 3 and 7 and stops
//! assert_eq!(report.processed.len(), 8);
//! ```
//!
//! The program is `tests/java/interop`, built by Maven when it is first needed.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::{java, wait};

/// A JVM's start, a group's join and a close that waits for a session: the bound for a run of the peer.
const PATIENCE: Duration = Duration::from_secs(120);

/// The exit code of a peer whose engine has failed.
const FAILED: i32 = 3;

/// What is run, before it runs.
#[derive(Debug, Clone)]
pub struct Peer {
    bootstrap: String,
    group: String,
    topic: String,
    concurrency: usize,
    ordering: &'static str,
    commit_mode: &'static str,
    commit_interval: Duration,
    session_timeout: Option<Duration>,
    held: Vec<(i32, i64)>,
}

/// When a peer stops by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After so many processed records and the next acknowledged commit.
    Processed(usize),
    /// When nothing was processed for so long, counted from the first assignment.
    Idle(Duration),
    /// Only when [asked](RunningPeer::stop).
    Asked,
}

/// A record that the peer has processed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processed {
    /// Where it lies.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// `None` is no key.
    pub key: Option<Vec<u8>>,
}

/// What a peer did, once it has stopped.
#[derive(Debug)]
pub struct Report {
    /// In the order of processing.
    pub processed: Vec<Processed>,
    /// Everything it wrote to stdout and stderr.
    pub output: String,
}

impl Peer {
    /// A peer with ordering by key, 16 records at once, and a commit each 100 ms.
    pub fn new(cluster: &Cluster, group: &str, topic: &str) -> Peer {
        Peer {
            bootstrap: cluster.bootstrap().to_owned(),
            group: group.to_owned(),
            topic: topic.to_owned(),
            concurrency: 16,
            ordering: "KEY",
            commit_mode: "PERIODIC_CONSUMER_SYNC",
            commit_interval: Duration::from_millis(100),
            session_timeout: None,
            held: Vec::new(),
        }
    }

    /// This record never completes: its handler waits for the stop and then fails. Takes up one of `concurrency`.
    pub fn hold(mut self, partition: i32, offset: i64) -> Peer {
        self.held.push((partition, offset));
        self
    }

    /// How many records are processed at once.
    pub fn concurrency(mut self, records: usize) -> Peer {
        self.concurrency = records;
        self
    }

    /// `KEY`, `PARTITION` or `UNORDERED`, as Java names them.
    pub fn ordering(mut self, ordering: &'static str) -> Peer {
        self.ordering = ordering;
        self
    }

    /// `PERIODIC_CONSUMER_SYNC` or `PERIODIC_CONSUMER_ASYNCHRONOUS`, as Java names them.
    pub fn commit_mode(mut self, mode: &'static str) -> Peer {
        self.commit_mode = mode;
        self
    }

    /// The time between two commits.
    pub fn commit_interval(mut self, interval: Duration) -> Peer {
        self.commit_interval = interval;
        self
    }

    /// How long the group waits for one that is gone without a word; Kafka's 45 s by default.
    pub fn session_timeout(mut self, timeout: Duration) -> Peer {
        self.session_timeout = Some(timeout);
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it fails, or does not stop by itself; with what it wrote.
    pub fn run(&self, until: Until) -> Report {
        self.start(until).join()
    }

    /// Starts it and returns at once.
    pub fn start(&self, until: Until) -> RunningPeer {
        assert!(
            self.held.len() < self.concurrency,
            "the held records would take up all of the concurrency"
        );
        let directory =
            tempfile::tempdir().expect("the directory for temporary files can be written");
        let lines = directory.path().join("processed");
        let held: Vec<String> = self
            .held
            .iter()
            .map(|(partition, offset)| format!("{partition}:{offset}"))
            .collect();

        let small = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
        let mut command = java::interop("PeerConsumer", &small);
        command.args([
            "--bootstrap",
            &self.bootstrap,
            "--group",
            &self.group,
            "--topic",
            &self.topic,
        ]);
        command.args([
            "--concurrency",
            &self.concurrency.to_string(),
            "--ordering",
            self.ordering,
        ]);
        command.args([
            "--commit-interval-ms",
            &self.commit_interval.as_millis().to_string(),
        ]);
        command.args(["--commit-mode", self.commit_mode]);
        if let Some(timeout) = self.session_timeout {
            command.args(["--session-timeout-ms", &timeout.as_millis().to_string()]);
        }
        command
            .args(["--hold", &held.join(",")])
            .arg("--output")
            .arg(&lines);
        match until {
            Until::Processed(records) => {
                command.args(["--stop-after-processed", &records.to_string()])
            }
            Until::Idle(time) => command.args(["--until-idle-ms", &time.as_millis().to_string()]),
            Until::Asked => &mut command,
        };
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("java ran a moment ago");
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let captured = thread::spawn(move || {
            let mut texts = [String::new(), String::new()];
            thread::scope(|scope| {
                let [out_text, err_text] = &mut texts;
                // What can't be read is missing from a message to a person, no more.
                scope.spawn(|| out.map(|mut out| out.read_to_string(out_text)));
                scope.spawn(|| err.map(|mut err| err.read_to_string(err_text)));
            });
            texts.concat()
        });
        RunningPeer {
            child,
            captured: Some(captured),
            lines,
            _directory: directory,
        }
    }
}

/// A peer at work; killed when dropped.
#[derive(Debug)]
pub struct RunningPeer {
    child: Child,
    captured: Option<JoinHandle<String>>,
    lines: PathBuf,
    _directory: TempDir,
}

impl RunningPeer {
    /// What it has processed so far.
    pub fn processed(&self) -> Vec<Processed> {
        let lines = fs::read_to_string(&self.lines).unwrap_or_default();
        // The last line may be half written.
        let complete = lines.rfind('\n').map_or("", |end| &lines[..end]);
        complete
            .lines()
            .map(|line| parse(line).unwrap_or_else(|| panic!("the peer wrote {line:?}")))
            .collect()
    }

    /// Waits until it has processed so many records.
    pub fn wait_for(&mut self, records: usize) {
        let what = format!("{records} records processed by the Java peer");
        wait::until(&what, PATIENCE, || {
            if self.processed().len() >= records {
                return Some(());
            }
            match self.child.try_wait().expect("it is our child") {
                Some(status) => panic!("the Java peer ended with {status}\n{}", self.output()),
                None => None,
            }
        });
    }

    /// Asks it to stop, which commits what is complete, and waits for its end.
    pub fn stop(mut self) -> Report {
        self.child.stdin.take();
        self.join()
    }

    /// Kills it as a crash would: nothing is committed any more.
    pub fn kill(mut self) -> Report {
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
        Report {
            processed: self.processed(),
            output: self.output(),
        }
    }

    /// Waits until the Java engine has failed by itself.
    ///
    /// # Panics
    /// When it ends in any other way, or not at all.
    pub fn join_failed(self) -> Report {
        let (status, report) = self.ended();
        assert_eq!(status.code(), Some(FAILED), "{}", report.output);
        report
    }

    /// Waits until it has stopped by itself.
    pub fn join(self) -> Report {
        let (status, report) = self.ended();
        assert!(
            status.success(),
            "the Java peer ended with {status}\n{}",
            report.output
        );
        report
    }

    fn ended(mut self) -> (ExitStatus, Report) {
        let ended = wait::try_until(PATIENCE, || self.child.try_wait().expect("it is our child"));
        let Some(status) = ended else {
            let processed = self.processed().len();
            self.child.kill().expect("it is our child");
            panic!(
                "the Java peer did not stop, {processed} processed\n{}",
                self.output()
            );
        };
        let report = Report {
            processed: self.processed(),
            output: self.output(),
        };
        (status, report)
    }

    /// What it wrote; complete once it has ended.
    fn output(&mut self) -> String {
        self.captured
            .take()
            .and_then(|captured| captured.join().ok())
            .unwrap_or_default()
    }
}

impl Drop for RunningPeer {
    fn drop(&mut self) {
        // Fails when it has ended, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(line: &str) -> Option<Processed> {
    let mut words = line.split(' ');
    let partition = words.next()?.parse().ok()?;
    let offset = words.next()?.parse().ok()?;
    let key = match words.next()? {
        "-" => None,
        hex => Some(crate::hex::decode(hex)?),
    };
    Some(Processed {
        partition,
        offset,
        key,
    })
}
