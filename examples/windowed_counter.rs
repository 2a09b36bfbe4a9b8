//! Counts by windows of event time that survive `kill -9`, with every record counted once.
//!
//! ```sh
//! cargo run --release --example windowed_counter                              # with a broker inside the process
//! cargo run --release --example windowed_counter -- --brokers localhost:9092  # on a real cluster
//! ```
//!
//! A member of a group counts records by windows of ten seconds, many records at a time. The windows that are still open
//! live in the *rider* of each commit: the state that the core changes with each completion, so that it says exactly what
//! the commit's offset and hole map say. In the middle the member is killed. Another one starts with the windows that
//! the last commit carried, and no record counts twice or not at all: what ran again was not in them.
//!
//! A member is this program once more, in a process of its own. Windows are given out when a commit that holds them as
//! final is acknowledged; after a crash some come again, with the same count.
//!
//! Exits with 1 if the windows do not add up to the records.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use keyway::offsets::{DEFAULT_MAX_WINDOW, Offset};
use keyway::rider::read;
use keyway::{
    Assigned, ClientConfig, Keyway, Observer, Outcome, Record, Rider, StartAt, TopicPartition,
};
use keyway_examples::{Cluster, Seen, Windows};
use tokio::time::sleep;

const RECORDS: u64 = 20_000;
const KEYS: u64 = 200;
const PARTITIONS: i32 = 4;
const CONCURRENCY: u32 = 100;

/// Windows that the first member gives out before it is killed.
const WINDOWS_BEFORE_KILL: usize = 12;

/// A member has nothing more to do after so long without a record.
const IDLE: Duration = Duration::from_secs(2);

/// The first argument of a member.
const MEMBER: &str = "--member";

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Runtime::new()?;
    match arguments.as_slice() {
        [first, properties @ ..] if first == MEMBER => {
            runtime.block_on(count(properties))?;
            Ok(ExitCode::SUCCESS)
        }
        _ => runtime.block_on(kill_and_add_up()),
    }
}

// ---- a member ----

/// Counts until there is nothing more to count.
async fn count(properties: &[String]) -> Result<(), Box<dyn Error>> {
    let [topic, properties @ ..] = properties else {
        return Err("a member is started by this program itself".into());
    };
    let mut client = ClientConfig::new();
    for property in properties {
        let (name, value) = property.split_once('=').ok_or("a property has a value")?;
        client.set(name, value);
    }
    let given_out = GivenOut::default();
    let so_far = given_out.clone();
    let engine = Keyway::builder(client)
        .topics([topic])
        .start_at(StartAt::Earliest)
        .concurrency(CONCURRENCY)
        .commit_interval(Duration::from_millis(50))
        .rider_state(|assigned: &Assigned| {
            Windows::restore(&assigned.rider).expect("this group's riders are windows")
        })
        .async_handler(move |record: Record| {
            let given_out = so_far.below(record.partition());
            async move {
                let slow = record.offset() % 40 == 0;
                sleep(Duration::from_millis(if slow { 100 } else { 5 })).await;
                Outcome::done_with(Seen {
                    time: record.timestamp().unwrap_or_default(),
                    offset: record.offset(),
                    given_out,
                })
            }
        })
        .observer(given_out)
        .build()?
        .start()?;
    while engine.status().idle_for.is_none_or(|idle| idle < IDLE) && engine.ended().is_none() {
        sleep(Duration::from_millis(50)).await;
    }
    engine.drain(Duration::from_secs(10));
    engine.finished().await?;
    Ok(())
}

/// Gives out windows as commits make them final.
#[derive(Clone, Default)]
struct GivenOut(Arc<Mutex<HashMap<i32, i64>>>);

impl GivenOut {
    /// All windows of the partition below this one were given out.
    fn below(&self, partition: i32) -> i64 {
        let below = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        below.get(&partition).copied().unwrap_or(i64::MIN)
    }
}

impl Observer for GivenOut {
    fn committed(&self, partition: &TopicPartition, offset: i64, metadata: &str) {
        let Some(windows) = windows_of(offset, metadata) else {
            println!("lost {}", partition.partition);
            return;
        };
        let before = self.below(partition.partition);
        for window in windows
            .closed(offset)
            .filter(|window| window.number >= before)
        {
            println!(
                "window {} {} {}",
                partition.partition, window.number, window.count
            );
            let mut below = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            below.insert(partition.partition, window.number + 1);
        }
        // What is open, for the one who adds up in the end.
        let open = windows
            .iter()
            .filter(|window| window.number >= self.below(partition.partition));
        let open: u64 = open.map(|window| u64::from(window.count)).sum();
        println!("open {} {offset} {open}", partition.partition);
        let _ = std::io::stdout().flush();
    }
}

/// The windows in a commit's text.
fn windows_of(offset: i64, metadata: &str) -> Option<Windows> {
    let rider: Rider = read(
        Offset::new(offset)?,
        metadata.as_bytes(),
        DEFAULT_MAX_WINDOW,
    )
    .rider;
    Windows::restore(&rider).ok()
}

// ---- the one who kills it ----

async fn kill_and_add_up() -> Result<ExitCode, Box<dyn Error>> {
    let cluster = Cluster::from_arguments("windowed-counter", PARTITIONS).await?;
    cluster.produce(RECORDS, KEYS)?;
    println!("{RECORDS} records in {PARTITIONS} partitions, on {cluster}.");
    let mut sums = Sums::default();

    let mut first = start(&cluster)?;
    sums.read(&mut first, |sums| sums.windows.len() >= WINDOWS_BEFORE_KILL)?;
    first.kill()?;
    // What it had said before it died.
    sums.read(&mut first, |_| false)?;
    first.wait()?;
    println!("First member: killed after {} windows.", sums.windows.len());

    println!(
        "Waiting up to {:.0?} until the broker misses it ...",
        cluster.patience()
    );
    let mut second = start(&cluster)?;
    sums.read(&mut second, |_| false)?;
    let status = second.wait()?;
    cluster.clean_up().await?;
    if !status.success() {
        return Err(format!("the second member ended with {status}").into());
    }

    let counted = sums.counted();
    println!(
        "Second member: went on to {} windows; {} came again, with the same count.",
        sums.windows.len(),
        sums.again
    );
    println!("Records counted: {counted} of {RECORDS}.");
    for fault in &sums.faults {
        println!("{fault}");
    }
    Ok(if counted == RECORDS && sums.faults.is_empty() {
        println!("Every record counted once.");
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn start(cluster: &Cluster) -> Result<Child, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([MEMBER, cluster.topic()]);
    command.arg(format!("group.id={}", cluster.group()));
    for (name, value) in cluster.client().config_map() {
        command.arg(format!("{name}={value}"));
    }
    Ok(command.stdout(Stdio::piped()).spawn()?)
}

/// What members gave out.
#[derive(Default)]
struct Sums {
    /// Counts by partition and window.
    windows: BTreeMap<(i32, i64), u64>,
    /// Records in windows that were open at the latest commit, by partition.
    open: BTreeMap<i32, u64>,
    /// Windows that were given out twice.
    again: u64,
    faults: Vec<String>,
}

impl Sums {
    /// Reads what a member says until `enough`, or its end.
    fn read(
        &mut self,
        member: &mut Child,
        enough: impl Fn(&Self) -> bool,
    ) -> Result<(), Box<dyn Error>> {
        let stdout = member.stdout.as_mut().ok_or("a member's stdout is piped")?;
        // Nothing is read ahead: the next call goes on where this one ends.
        let mut lines = BufReader::with_capacity(1, stdout);
        let mut line = String::new();
        while !enough(self) {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                return Ok(());
            }
            // A line that was cut by the kill says nothing.
            if line.ends_with('\n') {
                self.take(&line);
            }
        }
        Ok(())
    }

    fn take(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let kind = words.next();
        let numbers: Vec<i64> = words.filter_map(|word| word.parse().ok()).collect();
        match (kind, numbers.as_slice()) {
            (Some("window"), &[partition, number, count]) => {
                let (place, count) = ((partition as i32, number), count as u64);
                if let Some(before) = self.windows.insert(place, count) {
                    self.again += 1;
                    if before != count {
                        self.faults
                            .push(format!("{place:?}: {before}, then {count}"));
                    }
                }
            }
            (Some("open"), &[partition, _, open]) => {
                self.open.insert(partition as i32, open as u64);
            }
            _ => self.faults.push(line.trim().to_owned()),
        }
    }

    fn counted(&self) -> u64 {
        self.windows.values().sum::<u64>() + self.open.values().sum::<u64>()
    }
}
