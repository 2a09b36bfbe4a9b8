//! The judge of exactly once: what a reader of committed data finds in the output topic, beside what was produced into
//! the input topic and what the group has committed.
//!
//! Every output names the record that it was made from ([`Source`]), so one pass over the topic says which record has
//! none, which has more than one, whether those of a key follow its records, and whether an output became visible
//! without the commit that covers its record.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;

use keyway_offsets::{HoleMap, Offset};

use super::coverage;
use crate::cluster::{Committed, Received};

/// A record of the input topic, where it lies.
pub type Input = (i32, i64);

/// The value of an output: the record that it was made from, and by whom. Its text is `partition offset member`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Of the input topic.
    pub input: Input,
    /// Whoever handled it.
    pub member: String,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (partition, offset) = self.input;
        write!(f, "{partition} {offset} {}", self.member)
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = || {
            let mut words = text.splitn(3, ' ');
            let input = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let member = words.next()?.to_owned();
            Some(Source { input, member })
        };
        parsed().ok_or_else(|| format!("{text:?} names no record"))
    }
}

/// How far the run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Members are at work: what is not there may come yet. The commits were read after the outputs.
    Between,
    /// All members have ended in good order.
    End,
}

/// A broken promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// An input without an output.
    Missing,
    /// An input with one more output.
    Repeated,
    /// An output behind that of a later input of its key.
    Disordered,
    /// An output in another partition than the others of its key.
    Scattered,
    /// An output of no input, or under the key of another one.
    Foreign,
    /// An output whose input no commit covers.
    Uncommitted,
}

/// One broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub fault: Fault,
    /// Of which record; of an output that names none, where itself lies.
    pub at: Input,
    /// What was seen, for a person.
    pub detail: String,
}

/// Everything that a run broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict(pub Vec<Violation>);

impl Verdict {
    /// How often this promise was broken.
    pub fn count(&self, fault: Fault) -> usize {
        let same = self.0.iter().filter(|violation| violation.fault == fault);
        same.count()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// So many of each kind are enough to look for the reason.
        const SHOWN: usize = 10;
        let faults: BTreeSet<Fault> = self.0.iter().map(|violation| violation.fault).collect();
        for fault in faults {
            writeln!(f, "{fault:?}: {}", self.count(fault))?;
            let same = self.0.iter().filter(|violation| violation.fault == fault);
            for Violation { at, detail, .. } in same.take(SHOWN) {
                writeln!(f, "  {}@{}: {detail}", at.0, at.1)?;
            }
        }
        Ok(())
    }
}

/// What a run without a fault was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Outputs, one for each input that has one.
    pub outputs: usize,
    /// Members whose outputs are among them.
    pub members: usize,
}

/// Judges the outputs, each partition's in the order of their offsets, against the inputs and their keys.
pub fn judge(
    inputs: &BTreeMap<Input, Vec<u8>>,
    outputs: &[Received],
    committed: &[Committed],
    moment: Moment,
) -> Result<Tally, Verdict> {
    let mut seen = Seen::default();
    for output in outputs {
        seen.output(inputs, output);
    }
    seen.uncommitted(committed);
    if moment == Moment::End {
        seen.missing(inputs, committed);
    }
    if seen.violations.is_empty() {
        return Ok(Tally {
            outputs: seen.first.len(),
            members: seen.members.len(),
        });
    }
    Err(Verdict(seen.violations))
}

/// What the outputs say.
#[derive(Default)]
struct Seen<'o> {
    /// The first output of each input, in words.
    first: BTreeMap<Input, String>,
    /// Of each key: the partition of its outputs, and the latest input that has one.
    keys: HashMap<&'o [u8], (i32, Input)>,
    members: BTreeSet<String>,
    violations: Vec<Violation>,
}

impl<'o> Seen<'o> {
    fn report(&mut self, fault: Fault, at: Input, detail: String) {
        self.violations.push(Violation { fault, at, detail });
    }

    fn output(&mut self, inputs: &BTreeMap<Input, Vec<u8>>, output: &'o Received) {
        let text = String::from_utf8_lossy(output.value.as_deref().unwrap_or_default());
        let place = (output.partition, output.offset);
        let Source { input, member } = match text.parse() {
            Ok(source) => source,
            Err(why) => return self.report(Fault::Foreign, place, why),
        };
        let key = output.key.as_deref().unwrap_or_default();
        let here = format!("output {}@{} by {member}", place.0, place.1);
        if inputs.get(&input).map(Vec::as_slice) != Some(key) {
            let key = String::from_utf8_lossy(key);
            return self.report(
                Fault::Foreign,
                input,
                format!("{here}, of key {key}: no such input"),
            );
        }
        self.members.insert(member);
        match self.first.entry(input) {
            Entry::Vacant(vacant) => drop(vacant.insert(here.clone())),
            Entry::Occupied(first) => {
                let detail = format!("{here}, and {}", first.get());
                return self.report(Fault::Repeated, input, detail);
            }
        }
        let (partition, latest) = *self.keys.entry(key).or_insert((place.0, input));
        if partition != place.0 {
            let detail = format!("{here}, the ones before in {partition}");
            self.report(Fault::Scattered, input, detail);
        } else if latest > input {
            let detail = format!("{here}, behind that of {}@{}", latest.0, latest.1);
            self.report(Fault::Disordered, input, detail);
        } else {
            self.keys.insert(key, (partition, input));
        }
    }

    /// Outputs and offsets of one transaction are visible together.
    fn uncommitted(&mut self, committed: &[Committed]) {
        let covered = Covered::by(committed);
        let uncovered = self.first.iter().filter(|(input, _)| !covered.has(**input));
        let found = uncovered.map(|(&at, here)| Violation {
            fault: Fault::Uncommitted,
            at,
            detail: format!("{here}, and no commit covers it"),
        });
        self.violations.extend(found);
    }

    fn missing(&mut self, inputs: &BTreeMap<Input, Vec<u8>>, committed: &[Committed]) {
        let covered = Covered::by(committed);
        let without = inputs
            .keys()
            .filter(|input| !self.first.contains_key(input));
        let found = without.map(|&at| Violation {
            fault: Fault::Missing,
            at,
            detail: match covered.has(at) {
                true => "a commit covers it".to_owned(),
                false => "no commit covers it either".to_owned(),
            },
        });
        self.violations.extend(found);
    }
}

/// What the group's commits cover; a text that is no map covers nothing.
struct Covered(BTreeMap<i32, HoleMap>);

impl Covered {
    fn by(committed: &[Committed]) -> Self {
        let maps = committed.iter().filter_map(|committed| {
            let offset = Offset::new(committed.offset)?;
            let map = coverage::of(offset, &committed.metadata).ok()?;
            Some((committed.partition, map))
        });
        Self(maps.collect())
    }

    fn has(&self, (partition, offset): Input) -> bool {
        let map = self.0.get(&partition);
        map.zip(Offset::new(offset))
            .is_some_and(|(map, offset)| map.is_complete(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::world::text_of;

    /// One input for each letter, which is its key; all are committed.
    struct Run {
        inputs: BTreeMap<Input, Vec<u8>>,
        outputs: Vec<Received>,
        committed: Committed,
    }

    impl Run {
        fn over(keys: &str) -> Run {
            let keys = (0..).zip(keys.chars());
            let inputs: BTreeMap<_, _> = keys
                .map(|(offset, key)| ((0, offset), vec![key as u8]))
                .collect();
            let offset = inputs.len() as i64;
            Run {
                inputs,
                outputs: Vec::new(),
                committed: Committed {
                    partition: 0,
                    offset,
                    metadata: Vec::new(),
                    leader_epoch: None,
                },
            }
        }

        /// The outputs of these inputs, in this order, in one partition.
        fn outputs(self, of: &[i64]) -> Run {
            let write = |run: Run, &of: &i64| run.output(0, of);
            of.iter().fold(self, write)
        }

        fn output(self, partition: i32, of: i64) -> Run {
            let key = self.inputs[&(0, of)].clone();
            let value = format!("0 {of} member-1");
            self.raw(partition, &key, &value)
        }

        fn raw(mut self, partition: i32, key: &[u8], value: &str) -> Run {
            self.outputs.push(Received {
                partition,
                offset: self.outputs.len() as i64,
                key: Some(key.to_vec()),
                value: Some(value.as_bytes().to_vec()),
                headers: Vec::new(),
                timestamp: None,
            });
            self
        }

        fn committed(mut self, offset: i64, highest: i64, holes: &[i64]) -> Run {
            self.committed.offset = offset;
            self.committed.metadata = text_of(offset, highest, holes).into_bytes();
            self
        }

        fn judged(&self, moment: Moment) -> Result<Tally, Verdict> {
            let committed = std::slice::from_ref(&self.committed);
            judge(&self.inputs, &self.outputs, committed, moment)
        }

        #[track_caller]
        fn clean(&self) {
            let members = 1;
            let outputs = self.outputs.len();
            assert_eq!(self.judged(Moment::End), Ok(Tally { outputs, members }));
        }

        /// It breaks these promises and no other, each of one record.
        #[track_caller]
        fn breaks(&self, faults: &[(Fault, i64)]) {
            let verdict = self.judged(Moment::End).expect_err("a broken promise");
            let found: Vec<_> = verdict.0.iter().map(|v| (v.fault, v.at.1)).collect();
            assert_eq!(found, faults, "{verdict}");
        }
    }

    #[test]
    fn one_output_of_each_input_in_the_order_of_its_key_is_clean() {
        Run::over("abab").outputs(&[1, 0, 2, 3]).clean();
        Run::over("ab").output(1, 1).output(0, 0).clean();
    }

    #[test]
    fn an_input_without_an_output_is_found() {
        Run::over("aba")
            .outputs(&[0, 1])
            .breaks(&[(Fault::Missing, 2)]);
        Run::over("aba")
            .outputs(&[0, 1])
            .committed(2, 1, &[])
            .breaks(&[(Fault::Missing, 2)]);
    }

    #[test]
    fn a_second_output_is_found_wherever_it_lies() {
        Run::over("aa")
            .outputs(&[0, 0, 1])
            .breaks(&[(Fault::Repeated, 0)]);
        Run::over("aa")
            .outputs(&[0, 1, 0])
            .breaks(&[(Fault::Repeated, 0)]);
        Run::over("aa")
            .outputs(&[0, 1])
            .output(1, 1)
            .breaks(&[(Fault::Repeated, 1)]);
    }

    #[test]
    fn an_output_behind_a_later_one_of_its_key_is_found() {
        Run::over("aaa")
            .outputs(&[0, 2, 1])
            .breaks(&[(Fault::Disordered, 1)]);
    }

    #[test]
    fn outputs_of_one_key_in_two_partitions_have_no_order_and_are_found() {
        Run::over("aa")
            .output(0, 0)
            .output(1, 1)
            .breaks(&[(Fault::Scattered, 1)]);
    }

    #[test]
    fn an_output_of_nothing_that_was_produced_is_found() {
        let run = || Run::over("a").outputs(&[0]);
        run()
            .raw(0, b"a", "0 7 member-1")
            .breaks(&[(Fault::Foreign, 7)]);
        run()
            .raw(0, b"a", "something")
            .breaks(&[(Fault::Foreign, 1)]);
        Run::over("ab")
            .outputs(&[0])
            .raw(0, b"a", "0 1 member-1")
            .breaks(&[(Fault::Foreign, 1), (Fault::Missing, 1)]);
    }

    #[test]
    fn an_output_that_no_commit_covers_is_found() {
        let run = || Run::over("abc").outputs(&[0, 1, 2]);
        run()
            .committed(2, 1, &[])
            .breaks(&[(Fault::Uncommitted, 2)]);
        run()
            .committed(0, 2, &[0, 1])
            .breaks(&[(Fault::Uncommitted, 0), (Fault::Uncommitted, 1)]);
    }

    #[test]
    fn between_it_is_not_asked_for_what_may_come_yet_and_for_all_the_rest() {
        let run = Run::over("abc").outputs(&[0]).committed(2, 1, &[]);
        let judged = run.judged(Moment::Between);
        assert_eq!(judged.map(|tally| tally.outputs), Ok(1));
        let run = run.outputs(&[2, 0]);
        let verdict = run
            .judged(Moment::Between)
            .expect_err("a repeat without a commit");
        assert_eq!(verdict.count(Fault::Repeated), 1);
        assert_eq!(verdict.count(Fault::Uncommitted), 1);
    }
}
