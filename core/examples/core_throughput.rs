//! What a record costs on the thread that owns the core: arrival, lane, hand-over, completion, tracker, plan.
//!
//! The figure is that of the median batch, so that a machine that does other things as well disturbs it little.
//!
//! `cargo run -p keyway-core --release --example core_throughput`

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyway_core::{
    Arrival, BufferConfig, Command, CommitAnswer, CommitConfig, CommitFinished, Core, CoreConfig,
    Finished, LaneId, LaneNames, Leases, Ordering, PartitionAnswer, PartitionSlot, Report,
    Restored, RouteConfig, RouteId, Running, Shape, Task, TaskRef, Timestamp, Verdict, Work,
    WorkerIndex,
};
use keyway_offsets::{Limits, Offset};

const RECORDS: i64 = 1_000_000;
const KEYS: u64 = 10_000;
const PARTITIONS: u32 = 8;
const BATCH: i64 = 1_000;
const ROUNDS: usize = 7;

/// What the core is fed with and asked for, with vectors that are used again as the engine does.
struct Bench {
    core: Core<u64>,
    epochs: Vec<keyway_core::Epoch>,
    reports: Vec<Report<u64>>,
    spent: Vec<Vec<Finished<u64>>>,
    plans: Vec<CommitFinished>,
}

impl Bench {
    fn new() -> Self {
        let config = CoreConfig {
            routes: vec![RouteConfig {
                shape: Shape::Pinned { workers: 4 },
                batch: None,
                dead_letters: false,
                retry: keyway_core::RetryPolicy::fixed(Duration::from_secs(1)),
                circuit: None,
            }],
            limits: Limits::default(),
            riders: keyway_core::RiderSource::None,
            buffers: BufferConfig::default(),
            commit: CommitConfig::default(),
        };
        let mut core = Core::new(config, Arc::new(Leases::default()));
        let restored = Restored {
            committed: Some(Offset::ZERO),
            start: Offset::ZERO,
            map: None,
            leader_epoch: None,
            rider: keyway_rider::Rider::None,
        };
        let epochs = (0..PARTITIONS)
            .map(|_| {
                let slot = core.add_partition(RouteId(0)).expect("a slot");
                core.assigned(slot, &restored, Timestamp::ZERO)
            })
            .collect();
        Self {
            core,
            epochs,
            reports: Vec::new(),
            spent: Vec::new(),
            plans: Vec::new(),
        }
    }

    /// Takes the commands: every record is done at once, every plan stored.
    fn pump(&mut self) {
        while let Some(command) = self.core.next_command() {
            match command {
                Command::Dispatch {
                    route,
                    worker,
                    work,
                } => self.run(route, worker, work),
                Command::Commit(plan) => {
                    let partitions = plan
                        .partitions
                        .iter()
                        .map(|partition| PartitionAnswer {
                            slot: partition.slot,
                            epoch: partition.epoch,
                            answer: CommitAnswer::Stored,
                            chars: 0,
                            inner_chars: 0,
                            stripped: false,
                            takes: None,
                        })
                        .collect();
                    let took = Duration::from_millis(1);
                    self.plans.push(CommitFinished {
                        plan: plan.id,
                        partitions,
                        took,
                    });
                }
                other => panic!("{other:?} in a run without faults"),
            }
        }
    }

    fn run(&mut self, route: RouteId, worker: Option<WorkerIndex>, work: Work<u64>) {
        let (Work::Records(mut tasks) | Work::Batch(mut tasks)) = work;
        let mut finished = self.spent.pop().unwrap_or_default();
        let done = |Task { at, .. }: Task<u64>| Finished {
            at,
            verdict: Verdict::Done,
        };
        finished.extend(tasks.drain(..).map(done));
        self.core.recycle(tasks);
        let busy = Duration::from_nanos(100) * finished.len() as u32;
        self.reports.push(Report {
            route,
            worker,
            finished,
            busy,
            slow: 0,
            batch_failed: false,
        });
    }

    fn feed(&mut self, slot: PartitionSlot, arrivals: &mut Vec<Arrival<u64>>, now: Timestamp) {
        self.core
            .records(slot, self.epochs[slot.index()], arrivals, now);
        self.pump();
        while let Some(report) = self.reports.pop() {
            let spent = self.core.completed(report, now);
            self.spent.push(spent);
            self.pump();
        }
        while let Some(finished) = self.plans.pop() {
            self.core.commit_finished(&finished, now);
        }
    }
}

/// The lane of each key in each partition; hashing keys is not what is measured first.
fn lanes(names: &LaneNames) -> Vec<Vec<LaneId>> {
    let key = |slot, key: u64| {
        names.lane(
            Ordering::Key,
            PartitionSlot(slot),
            Offset::ZERO,
            Some(&key.to_be_bytes()),
        )
    };
    (0..PARTITIONS)
        .map(|slot| (0..KEYS).map(|name| key(slot, name)).collect())
        .collect()
}

/// The time of each batch; with `hashing` the lane is named from the key's bytes.
fn round(hashing: bool, times: &mut Vec<Duration>) {
    let names = LaneNames::new(7);
    let lanes = lanes(&names);
    let mut bench = Bench::new();
    let mut arrivals = Vec::with_capacity(BATCH as usize);
    let mut state = 1_u64;
    let mut next = vec![0_i64; PARTITIONS as usize];
    for batch in 0..RECORDS / BATCH {
        let slot = PartitionSlot((batch % i64::from(PARTITIONS)) as u32);
        let first = next[slot.index()];
        next[slot.index()] += BATCH;
        let keys: Vec<u64> = (0..BATCH)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) % KEYS
            })
            .collect();
        let now = Timestamp::from_nanos(1 + batch as u64 * 200_000);
        let begun = Instant::now();
        for (offset, key) in (first..).zip(&keys) {
            let offset = Offset::new(offset).expect("not negative");
            let lane = if hashing {
                names.lane(Ordering::Key, slot, offset, Some(&key.to_be_bytes()))
            } else {
                lanes[slot.index()][*key as usize]
            };
            arrivals.push(Arrival {
                offset,
                lane,
                bytes: 100,
                leader_epoch: Some(1),
                payload: *key,
            });
        }
        bench.feed(slot, &mut arrivals, now);
        bench.core.tick(now);
        bench.pump();
        times.push(begun.elapsed());
    }
    assert_eq!(
        bench.core.counters().completed,
        RECORDS as u64,
        "all records are complete"
    );
}

/// Nanoseconds a record of the median batch.
fn median(hashing: bool) -> f64 {
    let mut times = Vec::new();
    (0..ROUNDS).for_each(|_| round(hashing, &mut times));
    times.sort_unstable();
    times[times.len() / 2].as_nanos() as f64 / BATCH as f64
}

/// What a worker pays for each call to let others see its record: nanoseconds of the median batch.
fn shown() -> f64 {
    let running = Running::default();
    let mut at = TaskRef {
        offset: Offset::ZERO,
        epoch: keyway_core::Epoch(1),
        slot: PartitionSlot(0),
        lane: keyway_core::LaneIndex(0),
        bytes: 100,
        attempt: 1,
    };
    let mut times: Vec<_> = (0..1_000)
        .map(|_| {
            let begun = Instant::now();
            for offset in 0..BATCH {
                at.offset = Offset::new(offset).expect("not negative");
                black_box(&running).begin(black_box(Timestamp::from_nanos(1)), black_box(&at));
            }
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2].as_nanos() as f64 / BATCH as f64
}

fn main() {
    println!("{:.1} ns a call of a worker that shows its record", shown());
    println!("{:.1} ns a record in the core", median(false));
    println!(
        "{:.1} ns a record with the hash of an 8-byte key",
        median(true)
    );
}
