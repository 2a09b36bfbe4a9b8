//! Transactions at the pace of a test: the broker takes all of one, or refuses what the test says.

use std::sync::Arc;
use std::time::Duration;

use keyway_core::{Carried, CommitAnswer, CommitFinished, PartitionAnswer, Staged, Transaction};

use super::{Life, Log};
use crate::commits::letter_of;
use crate::dead_letters::Letter;
use crate::observer::Observer;
use crate::output::Output;
use crate::record::Message;
use crate::testing::letters::TestLetter;
use crate::testing::outputs::TestOutput;
use crate::writer::note_failure;

impl Life {
    pub(super) fn transact(&mut self, log: &mut Log, transaction: Transaction<Message>) {
        let Transaction { plan, mut staged } = transaction;
        let refuses = |staged: &Staged<Message>| match staged.carried {
            Carried::Nothing => false,
            Carried::Outputs(_) => log.refuses_outputs,
            Carried::Letter { .. } => log.refuses_letters,
        };
        let refused = staged.iter_mut().flatten();
        let refused: Vec<_> = refused.filter(|staged| refuses(staged)).collect();
        let finished = if refused.is_empty() {
            let stamp = self.stamp().flatten();
            for staged in staged.iter_mut().flatten() {
                self.write(log, staged, stamp.as_deref());
            }
            self.store(log, &plan)
        } else {
            refused.into_iter().for_each(|staged| self.refuse(staged));
            let parts = plan.partitions.iter();
            let answers = parts.map(|part| PartitionAnswer {
                slot: part.slot,
                epoch: part.epoch,
                answer: CommitAnswer::Repeat,
                chars: 0,
                inner_chars: 0,
                stripped: false,
                takes: None,
            });
            CommitFinished {
                plan: plan.id,
                partitions: answers.collect(),
                took: Duration::ZERO,
            }
        };
        let now = self.now();
        let completed = self.core.counters().completed;
        self.core.transaction_finished(&finished, staged, now);
        if self.core.counters().completed > completed {
            self.last_completed = now;
        }
    }

    fn write(&self, log: &mut Log, staged: &mut Staged<Message>, stamp: Option<&[u8]>) {
        if let Carried::Outputs(message) = &staged.carried {
            message.read_outputs(|outputs| {
                let written = |output: &Output| TestOutput::of(output, message, stamp);
                log.outputs.extend(outputs.iter().map(written));
            });
        }
        let to = self.slots.dead_letters(staged.at.slot);
        if let (Some(record), Some(to)) = (letter_of(staged, &self.member), to) {
            let wall = self.member.clock().wall_millis();
            let letter = Letter::of(&record, to.form(), &self.origin, wall);
            log.letters.push(TestLetter::of(to.topic(), &letter, stamp));
            self.scribe.dead(&record);
        }
    }

    fn refuse(&self, staged: &mut Staged<Message>) {
        staged.refused = true;
        let carried = std::mem::replace(&mut staged.carried, Carried::Nothing);
        let observer: Arc<dyn Observer> = self.scribe.clone();
        staged.carried = match carried {
            Carried::Outputs(message) => Carried::Outputs(note_failure(
                &staged.at,
                message,
                "the test refuses outputs",
                &self.member,
                Some(&*observer),
            )),
            other => other,
        };
    }
}
