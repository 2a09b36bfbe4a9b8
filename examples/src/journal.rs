//! Writes down what the members of a group do, and sees whether it is what Keyway promises.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use keyway::offsets::{DEFAULT_MAX_WINDOW, HoleMap, Offset};
use keyway::rider::read;
use keyway::{Observer, Record, TopicPartition};

/// After so long something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a condition is looked at.
const GLANCE: Duration = Duration::from_millis(2);

/// The journal of two members, one after the other.
#[derive(Clone, Default)]
pub struct Journal(Arc<Mutex<Pages>>);

/// The part of a member that writes into the journal.
pub struct Member {
    journal: Journal,
    life: Life,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Life {
    #[default]
    First,
    Second,
}

/// Partition and offset.
type Place = (i32, i64);

#[derive(Default)]
struct Pages {
    life: Life,
    begun: Option<Instant>,
    /// Places where the first member started a record, and those where it finished one.
    first_started: HashSet<Place>,
    first_done: HashSet<Place>,
    second_started: HashSet<Place>,
    done: HashSet<Place>,
    /// Keys inside handlers.
    running: HashSet<Vec<u8>>,
    most_running: usize,
    /// By key, how many of its records are done.
    progress: HashMap<Vec<u8>, u64>,
    committed: BTreeMap<i32, HoleMap>,
    /// What was committed when the first member crashed.
    at_crash: BTreeMap<i32, HoleMap>,
    faults: Vec<String>,
}

/// How far it has come.
pub struct SoFar {
    /// Distinct records done.
    pub done: u64,
    /// Whether the second member has started a record.
    pub taken_over: bool,
}

/// The first member at its end.
pub struct Crash {
    /// Records that it had done.
    pub done: u64,
    /// Those of them at or above the committed offset of their partition.
    pub done_above_offsets: u64,
    /// Records inside handlers.
    pub running: u64,
    /// Most records inside handlers at once.
    pub most_running: usize,
    /// From its first record on.
    pub time: Duration,
    /// What it had committed, by partition.
    pub committed: BTreeMap<i32, HoleMap>,
}

/// Both members together.
pub struct Total {
    /// Records that both members started.
    pub ran_twice: u64,
}

impl Journal {
    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who writes for the first member.
    pub fn first_member(&self) -> Member {
        Member {
            journal: self.clone(),
            life: Life::First,
        }
    }

    /// Who writes for the second member.
    pub fn second_member(&self) -> Member {
        Member {
            journal: self.clone(),
            life: Life::Second,
        }
    }

    /// Waits for something.
    ///
    /// # Errors
    /// When it does not come, or a promise was broken meanwhile.
    pub async fn wait_until(
        &self,
        what: &str,
        condition: impl Fn(&SoFar) -> bool,
    ) -> Result<(), Box<dyn Error>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let so_far = self.pages().so_far()?;
            if condition(&so_far) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let done = so_far.done;
                return Err(
                    format!("{what}: not within {PATIENCE:?}; {done} records are done").into(),
                );
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// From here on nothing of the first member counts, as if its process were gone.
    pub fn crash(&self) -> Crash {
        let mut pages = self.pages();
        pages.life = Life::Second;
        pages.at_crash = pages.committed.clone();
        let running = pages.running.len() as u64;
        pages.running.clear();
        let above = |&&(partition, offset): &&Place| {
            let map = pages.at_crash.get(&partition);
            map.is_none_or(|map| offset >= map.base().get())
        };
        Crash {
            done: pages.first_done.len() as u64,
            done_above_offsets: pages.first_done.iter().filter(above).count() as u64,
            running,
            most_running: pages.most_running,
            time: pages.begun.map_or(Duration::ZERO, |begun| begun.elapsed()),
            committed: pages.at_crash.clone(),
        }
    }

    /// What came out.
    ///
    /// # Errors
    /// When a promise was broken.
    pub fn verdict(&self) -> Result<Total, Box<dyn Error>> {
        let pages = self.pages();
        pages.so_far()?;
        for (partition, map) in &pages.committed {
            let end = pages
                .done
                .iter()
                .filter(|place| place.0 == *partition)
                .count() as u64;
            if !map.is_caught_up() || map.base().get().unsigned_abs() != end {
                return Err(
                    format!("partition {partition}: the last commit is not at its end").into(),
                );
            }
        }
        Ok(Total {
            ran_twice: pages
                .first_started
                .intersection(&pages.second_started)
                .count() as u64,
        })
    }
}

impl Pages {
    fn so_far(&self) -> Result<SoFar, Box<dyn Error>> {
        match self.faults.first() {
            Some(fault) => Err(format!("a promise was broken: {fault}").into()),
            None => Ok(SoFar {
                done: self.done.len() as u64,
                taken_over: !self.second_started.is_empty(),
            }),
        }
    }

    fn started(&mut self, record: &Record) {
        let place = (record.partition(), record.offset());
        let (key, number) = key_and_number(record);
        self.begun.get_or_insert_with(Instant::now);
        if self.progress.get(&key).copied().unwrap_or(0) < number {
            self.faults.push(format!(
                "{} started before the one before it was done",
                record.id()
            ));
        }
        if !self.running.insert(key) {
            self.faults.push(format!(
                "{} started while another of its key ran",
                record.id()
            ));
        }
        self.most_running = self.most_running.max(self.running.len());
        match self.life {
            Life::First => self.first_started.insert(place),
            Life::Second => self.second_started.insert(place),
        };
        let known = self.at_crash.get(&place.0);
        if known
            .zip(Offset::new(place.1))
            .is_some_and(|(map, offset)| map.is_complete(offset))
        {
            self.faults.push(format!(
                "{} ran again though its end was committed",
                record.id()
            ));
        }
    }

    fn done(&mut self, record: &Record) {
        let place = (record.partition(), record.offset());
        let (key, number) = key_and_number(record);
        self.running.remove(&key);
        let progress = self.progress.entry(key).or_default();
        *progress = (*progress).max(number + 1);
        self.done.insert(place);
        if self.life == Life::First {
            self.first_done.insert(place);
        }
    }

    fn committed(&mut self, partition: i32, offset: i64, metadata: &str) {
        let map = Offset::new(offset)
            .ok_or_else(|| "not an offset".to_owned())
            .and_then(|offset| {
                read(offset, metadata.as_bytes(), DEFAULT_MAX_WINDOW)
                    .map
                    .map_err(|error| error.to_string())
            });
        match map {
            Ok(decoded) => drop(self.committed.insert(partition, decoded.map)),
            Err(error) => self
                .faults
                .push(format!("a commit of partition {partition}: {error}")),
        }
    }
}

/// A record's key, and its number among those of the key.
fn key_and_number(record: &Record) -> (Vec<u8>, u64) {
    let number = record
        .value()
        .and_then(|value| std::str::from_utf8(value).ok())
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    (record.key().unwrap_or_default().to_vec(), number)
}

impl Member {
    /// Writes, unless the member has crashed.
    fn write(&self, note: impl FnOnce(&mut Pages)) {
        let mut pages = self.journal.pages();
        if pages.life == self.life {
            note(&mut pages);
        }
    }
}

impl Observer for Member {
    fn started(&self, record: &Record) {
        self.write(|pages| pages.started(record));
    }

    fn done(&self, record: &Record) {
        self.write(|pages| pages.done(record));
    }

    fn committed(&self, partition: &TopicPartition, offset: i64, metadata: &str) {
        self.write(|pages| pages.committed(partition.partition, offset, metadata));
    }
}
