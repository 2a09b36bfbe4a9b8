//! One run: the world, and the scheduler that draws each next step from all that are enabled.

use std::collections::BTreeSet;

use keyway_causal::CausalConfig;
use keyway_core::Timestamp;
use keyway_sim::rng::Rng;

use crate::bits::Bits;
use crate::broker::{Broker, Entry};
use crate::coverage::{Coverage, Event};
use crate::invariants::{Check, Violation, cut, liveness};
use crate::member::{Member, Sent};
use crate::producer::Producer;
use crate::record::{Header, Record};
use crate::scenario::Scenario;
use crate::steps::{self, Step};

/// Producers outside the group.
const PRODUCERS: usize = 2;

/// Whether all is done is looked at each so many steps, since it walks everything.
const LOOK_EVERY: usize = 16;

/// Everything there is.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) rng: Rng,
    pub(crate) now: Timestamp,
    pub(crate) broker: Broker,
    pub(crate) members: Vec<Member>,
    pub(crate) producers: Vec<Producer>,
    pub(crate) records: Vec<Record>,
    /// Requests without an answer that may still land, and who sent them.
    pub(crate) late: Vec<(usize, Sent)>,
    /// Records that were complete at the broker once.
    pub(crate) ever: Bits,
    /// Those of them whose causes were looked at.
    pub(crate) judged: Bits,
    /// What the shards at the broker stand for, of all that members have seen.
    pub(crate) learned: Bits,
    /// A shard was taken away: what was learned before is not asked for any more.
    pub(crate) has_forgotten: bool,
    /// Partitions of which the broker has less than belongs to the rest, until their owner has sent it again.
    pub(crate) mending: BTreeSet<usize>,
    pub(crate) last_owner: Vec<Option<usize>>,
    /// What the operator has accepted.
    pub(crate) config: CausalConfig,
    pub(crate) coverage: Coverage,
    /// Faults have stopped: what is left has to come to its end.
    pub(crate) calm: bool,
    /// A record whose attempts all fail.
    pub(crate) poison: Option<usize>,
    pub(crate) produced: usize,
    pub(crate) steps: usize,
    trace: bool,
}

impl World {
    pub(crate) fn new(seed: u64, trace: bool) -> Self {
        let mut rng = Rng::new(seed);
        let scenario = Scenario::draw(&mut rng);
        let broker = Broker::new(&scenario);
        let gated = broker.gated;
        let config = CausalConfig {
            accept_lost_frontier: scenario.accepts_loss,
            ..CausalConfig::default()
        };
        let members = (0..scenario.members)
            .map(|_| Member::start(&scenario, gated, config.clone()))
            .collect();
        let mut world = Self {
            rng,
            now: Timestamp::from_nanos(1),
            broker,
            members,
            producers: (0..PRODUCERS).map(|_| Producer::default()).collect(),
            records: Vec::new(),
            late: Vec::new(),
            ever: Bits::default(),
            judged: Bits::default(),
            learned: Bits::default(),
            has_forgotten: false,
            mending: BTreeSet::new(),
            last_owner: vec![None; gated],
            config,
            coverage: Coverage::default(),
            calm: false,
            poison: None,
            produced: 0,
            steps: 0,
            trace,
            scenario,
        };
        world.say(|world| format!("{:#?}", world.scenario));
        steps::log::begin(&mut world);
        world
    }

    pub(crate) fn say(&self, line: impl FnOnce(&Self) -> String) {
        if self.trace {
            println!("{}", line(self));
        }
    }

    /// A record as people write it.
    pub(crate) fn name(&self, record: usize) -> String {
        let at = &self.records[record];
        let chan = &self.broker.chans[at.chan];
        format!("{}-{}@{}", chan.topic, chan.channel.partition(), at.offset)
    }

    /// Appends a record to a log. `ancestors` is what really is before it.
    pub(crate) fn append(&mut self, chan: usize, header: Header, ancestors: Bits) -> usize {
        let number = self.records.len();
        let offset = self.broker.chans[chan].end();
        let lane = self.rng.below(self.scenario.lanes) as u64;
        self.broker.chans[chan].log.push(Entry::Record(number));
        self.records.push(Record {
            chan,
            offset,
            lane,
            header,
            ancestors,
            is_malformed: false,
        });
        self.say(|world| {
            let before: Vec<_> = world.records[number].ancestors.iter().collect();
            let before: Vec<_> = before.iter().map(|at| world.name(*at)).collect();
            format!("       {} after {}", world.name(number), before.join(" "))
        });
        number
    }

    /// Whether the group consumes the record's channel, from its offset on.
    pub(crate) fn is_consumed(&self, record: usize) -> bool {
        let at = &self.records[record];
        at.chan < self.broker.gated && at.offset >= self.broker.begins_at[at.chan]
    }

    /// Whether the record is still there to be read.
    pub(crate) fn is_there(&self, record: usize) -> bool {
        let at = &self.records[record];
        self.broker.chans[at.chan].entry(at.offset) == Some(Entry::Record(record))
    }

    /// Faults and work at random, then work alone until all is done.
    pub(crate) fn run(&mut self, steps: usize) -> Check {
        let mut enabled = Vec::new();
        for _ in 0..steps {
            self.step(&mut enabled)?;
        }
        self.say(|_| "------ calm".to_owned());
        self.calm = true;
        self.poison = liveness::draw_poison(self);
        if self.poison.is_some() {
            self.go_on_until(&mut enabled, liveness::is_all_done_beside_poison)?;
            self.poison = None;
        }
        self.go_on_until(&mut enabled, liveness::is_all_done)
    }

    /// Takes steps without faults until all that can be is done.
    fn go_on_until(&mut self, enabled: &mut Vec<(Step, u32)>, is_over: fn(&Self) -> bool) -> Check {
        for _ in 0..liveness::budget(self.records.len()) {
            if self.steps % LOOK_EVERY == 0 && is_over(self) {
                return Ok(());
            }
            self.step(enabled)?;
        }
        Err(liveness::stuck(self))
    }

    fn step(&mut self, enabled: &mut Vec<(Step, u32)>) -> Check {
        enabled.clear();
        steps::enabled(self, enabled);
        let total: u32 = enabled.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.rng.below(total as usize) as u32;
        let step = enabled
            .iter()
            .find(|(_, weight)| match drawn.checked_sub(*weight) {
                Some(rest) => {
                    drawn = rest;
                    false
                }
                None => true,
            });
        let Some((step, _)) = step.copied() else {
            return Ok(());
        };
        self.steps += 1;
        self.say(|world| format!("{:>6} {:>12} {step:?}", world.steps, world.now.as_nanos()));
        steps::take(self, step)?;
        cut::is_closed(self)
    }

    /// Notes what the gate counted; to be called when a run is over or a member goes.
    pub(crate) fn gather_counters(&mut self, index: usize) {
        let counters = self.members[index].core.gate().counters();
        self.coverage.note_many(Event::Held, counters.held);
        self.coverage.note_many(Event::Freed, counters.freed);
        let skipped = self.members[index].core.counters().skipped_complete;
        self.coverage.note_many(Event::SkippedComplete, skipped);
    }

    pub(crate) fn violation(invariant: &'static str, detail: String) -> Check {
        Err(Violation { invariant, detail })
    }
}
