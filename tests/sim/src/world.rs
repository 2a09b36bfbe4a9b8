//! One run: the world, and the scheduler that draws each next step from all that are enabled.

use keyway_core::Timestamp;

use crate::broker::Broker;
use crate::coverage::{Coverage, Event};
use crate::history::History;
use crate::invariants::{Check, Violation, buffers, clean, late, liveness};
use crate::member::{Entry, Member, Mode};
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::steps::{self, Step};

/// A commit without an answer that may still land.
#[derive(Debug)]
pub(crate) struct LateCommit {
    pub(crate) generation: u64,
    pub(crate) entries: Vec<Entry>,
}

/// Everything there is.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) rng: Rng,
    pub(crate) now: Timestamp,
    pub(crate) broker: Broker,
    pub(crate) members: Vec<Member>,
    pub(crate) history: History,
    pub(crate) late: Vec<LateCommit>,
    /// The latest store of a partition was a late one, or stripped: less is committed than was once.
    pub(crate) regressed: Vec<bool>,
    pub(crate) last_owner: Vec<Option<usize>>,
    pub(crate) coverage: Coverage,
    /// Faults have stopped: what is left has to come to its end.
    pub(crate) calm: bool,
    pub(crate) produced: usize,
    pub(crate) steps: usize,
    pub(crate) ids: u64,
    trace: bool,
}

/// Status is compared each so many steps, since it walks everything.
const STATUS_EVERY: usize = 8;

impl World {
    pub(crate) fn new(seed: u64, trace: bool) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::draw(&mut rng);
        let mut world = Self {
            rng,
            now: Timestamp::from_nanos(1),
            broker: Broker::new(scenario.partitions, scenario.first_offset),
            members: Vec::new(),
            history: History::new(scenario.partitions, scenario.first_offset),
            late: Vec::new(),
            regressed: vec![false; scenario.partitions],
            last_owner: vec![None; scenario.partitions],
            coverage: Coverage::default(),
            calm: false,
            produced: 0,
            steps: 0,
            ids: 0,
            trace,
            scenario,
        };
        world.say(|world| format!("{:#?}", world.scenario));
        for _ in 0..world.scenario.members {
            world.members.push(Member::down(&world.scenario));
        }
        world
    }

    pub(crate) fn say(&self, line: impl FnOnce(&Self) -> String) {
        if self.trace {
            println!("{}", line(self));
        }
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Faults and work at random, then work alone until all is done.
    pub(crate) fn run(&mut self, steps: usize) -> Check {
        let mut enabled = Vec::new();
        for _ in 0..steps {
            self.step(&mut enabled)?;
        }
        self.calm_down()?;
        for _ in 0..liveness::budget(self.produced) {
            if !self.step(&mut enabled)? {
                return self.at_rest();
            }
        }
        Err(Violation {
            invariant: "liveness",
            detail: format!("work goes on after {} steps without faults", self.steps),
        })
    }

    fn step(&mut self, enabled: &mut Vec<(Step, u32)>) -> Result<bool, Violation> {
        enabled.clear();
        steps::enabled(self, enabled);
        let total: u32 = enabled.iter().map(|(_, weight)| weight).sum();
        if total == 0 {
            return Ok(false);
        }
        let mut drawn = self.rng.below(total as usize) as u32;
        let step = enabled
            .iter()
            .find(|(_, weight)| match drawn.checked_sub(*weight) {
                Some(rest) => {
                    drawn = rest;
                    false
                }
                None => true,
            })
            .map(|(step, _)| *step);
        let Some(step) = step else { return Ok(false) };
        self.steps += 1;
        self.say(|world| format!("{:>6} {:>12} {step:?}", world.steps, world.now.as_nanos()));
        steps::take(self, step)?;
        self.judge()?;
        Ok(true)
    }

    fn judge(&mut self) -> Check {
        steps::transactions::look_for_letters(self);
        for member in self.members.iter().filter(|member| member.is_up()) {
            buffers::total(member, &self.scenario)?;
            if self.steps % STATUS_EVERY != 0 {
                continue;
            }
            let status = member.core.status();
            if status.full {
                self.coverage.note(Event::BuffersFull);
            }
            if status.paced {
                self.coverage.note(Event::PacedMember);
            }
            for partition in &status.partitions {
                let slot = &member.slots[partition.slot.index()];
                let Some(assignment) = &slot.assignment else {
                    continue;
                };
                late::untouched(assignment, partition)?;
                buffers::of_partition(assignment, slot.paused, partition, &self.scenario)?;
                if !member.kicked {
                    let committed = steps::commit::committed_map(self, partition.slot)?;
                    clean::is_stored(assignment, partition, committed.as_ref())?;
                }
                if partition.lanes_paced > 0 {
                    self.coverage.note(Event::PacedLane);
                }
                if partition.paced {
                    self.coverage.note(Event::PacedPartition);
                }
                if partition.stale_lanes > 0 {
                    self.coverage.note(Event::StaleLane);
                }
                if partition.blocked_by_map {
                    self.coverage.note(Event::MapBlocked);
                }
            }
        }
        Ok(())
    }

    /// Ends the faults: whoever is limited or stopping restarts, whoever is thrown out notices.
    fn calm_down(&mut self) -> Check {
        self.say(|_| "------ calm".to_owned());
        self.calm = true;
        for index in 0..self.members.len() {
            let limited = self.members[index].starts_left.is_some();
            if limited && self.members[index].mode != Mode::Down {
                steps::group::begin_stop(self, index);
            }
        }
        Ok(())
    }

    fn at_rest(&self) -> Check {
        liveness::all_done(&self.broker, &self.history.pasts)
            .and_then(|()| {
                let mut up = self.members.iter().filter(|member| member.is_up());
                up.try_for_each(liveness::empty)
            })
            .inspect_err(|_| {
                for member in &self.members {
                    self.say(|_| format!("{:#?}", member.core.status()));
                }
            })
    }

    /// Notes what the cores counted; to be called when a run is over or a member goes.
    pub(crate) fn gather_counters(&mut self, index: usize) {
        let counters = self.members[index].core.counters();
        for (count, event) in [
            (counters.maps_stripped, Event::MapStripped),
            (counters.caps_learned, Event::CapLearned),
            (counters.skipped_complete, Event::SkippedComplete),
            (counters.late_results, Event::LateResult),
        ] {
            if count > 0 {
                self.coverage.note(event);
            }
        }
    }
}
