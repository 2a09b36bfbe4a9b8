//! A key that fails for ever among good ones, while records keep coming.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keyway_tests::cluster::Cluster;
use keyway_tests::member_process::MemberProcess;
use keyway_tests::random;
use keyway_tests::wait;

use crate::backlog::Writer;
use crate::{MIB, PATIENCE, member};

const PARTITIONS: u64 = 4;

/// One record in so many is the poisoned key's.
const POISONED: u64 = 100;

/// In another partition one in so many is, with so many bytes, up to so many records: in seconds there is more of it
/// than memory may hold. Packed it is next to nothing.
const LARGE: (u64, usize, u64) = (25, 256 << 10, 1_000);

/// Records a second.
const RATE: u64 = 2_000;

const BUDGET: u64 = 64;

/// Beside the budget: code, threads, librdkafka's own tables, what the allocator keeps.
const BASELINE: u64 = 100;

/// Appends at a rate until it is told to end.
struct Traffic {
    ended: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: thread::JoinHandle<()>,
}

impl Traffic {
    fn start(cluster: &'static Cluster, topic: &str) -> Self {
        let (ended, written) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let topic = topic.to_owned();
        let thread = {
            let (ended, written) = (Arc::clone(&ended), Arc::clone(&written));
            thread::spawn(move || {
                let (writer, began) = (Writer::new(cluster), Instant::now());
                for n in 0.. {
                    let due = began + Duration::from_micros(n * 1_000_000 / RATE);
                    // In steps of some milliseconds: the rate is kept, whoever else needs the processor.
                    if n % 50 == 0 {
                        thread::sleep(due.saturating_duration_since(Instant::now()));
                    }
                    if ended.load(Ordering::Relaxed) {
                        break;
                    }
                    let (every, bytes, most) = LARGE;
                    if n % POISONED == 0 {
                        writer.append(&topic, 0, "poison");
                    } else if n % every == 1 && n < every * most {
                        writer.append_value(&topic, 1, "poison", &vec![b'p'; bytes]);
                    } else {
                        let key = format!("key-{}", n % 1_000);
                        writer.append(&topic, (n % PARTITIONS) as i32, &key);
                    }
                    written.fetch_add(1, Ordering::Relaxed);
                }
                writer.flush();
            })
        };
        Self {
            ended,
            written,
            thread,
        }
    }

    fn end(self) -> u64 {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().expect("it produces to the end");
        self.written.load(Ordering::Relaxed)
    }
}

fn number(member: &mut MemberProcess, name: &str) -> u64 {
    member.status()[name].as_u64().expect("a number")
}

/// Known pain 16; `KEYWAY_COSTS_SECONDS=3600` makes an hour of it. Without the pauses and the look whether the buffers
/// are full it fails with 281 MiB, and takes 28 with them.
#[test]
fn memory_under_a_poisoned_key_is_bounded_and_good_keys_go_on() {
    let time = Duration::from_secs(random::number("KEYWAY_COSTS_SECONDS").unwrap_or(15));
    let cluster = Cluster::start();
    let topic = cluster.unique("poison");
    cluster.create_topic(&topic, PARTITIONS as i32, &[]);
    let more = [format!("budget={BUDGET}"), "poison=poison".to_owned()];
    let mut member = member(cluster, &topic, &more);
    member.until("its partitions", PATIENCE, |status| {
        status["partitions"] == PARTITIONS
    });
    let traffic = Traffic::start(cluster, &topic);
    member.until("a failure of the poisoned key", PATIENCE, |status| {
        status["failed"].as_u64() > Some(0)
    });

    let began = Instant::now();
    let (mut most_chars, mut looks) = (0, 0);
    while began.elapsed() < time {
        // Good keys go on: a second's records, whatever lies before them.
        let goal = number(&mut member, "completed") + RATE / 4;
        member.until("good keys to go on", PATIENCE, |status| {
            status["completed"].as_u64() >= Some(goal)
        });
        let status = member.status();
        let (chars, limit) = (status["map_chars"].as_u64(), status["map_limit"].as_u64());
        assert!(chars <= limit, "{status}");
        most_chars = most_chars.max(chars.unwrap_or_default());
        looks += 1;
        wait::try_until(Duration::from_millis(250), || None::<()>);
    }
    let poisoned = number(&mut member, "failed");
    let (most, lasted) = (member.most_resident(), began.elapsed());
    let written = traffic.end();
    member.tell("heal");
    let ends = cluster.end_offsets(&topic);
    let all = format!("all of {written} records, their logs end at {ends:?}, and its commit");
    // A member that loses its session on the way, on a machine with much else to do, completes some of them twice.
    member.until(&all, PATIENCE, |status| {
        let logs = status["logs"].as_array().into_iter().flatten();
        let done: u64 = logs.filter_map(|log| log["base"].as_u64()).sum();
        done == written && status["uncommitted"] == 0
    });
    member.stop();
    println!(
        "{lasted:.0?} with a poisoned key: {written} records, {poisoned} failed attempts, at most {} MiB resident under \
         a budget of {BUDGET} MiB, a map of at most {most_chars} characters",
        most / MIB
    );
    assert!(
        looks > 1 && poisoned > 1 && most_chars > 0,
        "what it is about has occurred"
    );
    assert!(most <= (BUDGET + BASELINE) * MIB, "{} MiB", most / MIB);
}
