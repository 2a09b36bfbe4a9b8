//! The messages of one transaction, each lane's records in their order, until every one of them is reported.

use std::sync::Arc;
use std::time::{Duration, Instant};

use keyway_core::{Carried, Staged};

use super::batches::Batches;
use super::{ASK_AGAIN, Beside, Refusal, Transactor, TransactorState, take_tokens};
use crate::context::Member;
use crate::dead_letters::DeadLetters;
use crate::kafka::{ClientError, NotWritten, ProducerEvent};
use crate::record::{Message, Record};
use crate::workers::guarded;
use crate::writer::{Producers, note_failure, produce_letter, produce_outputs};

/// While messages are given to librdkafka its reports are taken after each so many.
const LOOK_FOR_REPORTS: u64 = 1_000;

/// The messages of one transaction.
pub(super) struct Writing {
    /// The number of its first record.
    pub(super) first: u64,
    /// Without a report.
    open: usize,
    /// By the record's number.
    pub(super) refused: Vec<(u64, NotWritten)>,
    /// Why the transaction can't be committed, though no record is to blame.
    pub(super) broken: Option<ClientError>,
}

impl Transactor {
    /// Writes what these partitions' records carry, each lane's records in their order, and waits for every report.
    pub(super) fn write(
        &mut self,
        indexes: &[usize],
        staged: &mut [Vec<Staged<Message>>],
        beside: &Beside,
    ) -> Writing {
        let stamp = beside.stamp.as_deref();
        self.look_for_missing();
        let mut writing = Writing {
            first: self.state.last_number + 1,
            open: 0,
            refused: Vec::new(),
            broken: None,
        };
        let deadline = Instant::now() + self.transaction_timeout * 2;
        let Transactor {
            producers,
            member,
            state,
            ..
        } = self;
        let TransactorState {
            last_number,
            batches,
            ..
        } = state;
        batches.reported();
        let mut number = *last_number;
        'parts: for index in indexes {
            for staged in &mut staged[*index] {
                number += 1;
                let letters = beside.letters[*index].as_ref();
                let waits = each_message(staged, letters, |topic, bytes| {
                    batches.is_full_for(topic, bytes)
                });
                if waits {
                    writing.until_reported(producers, batches, deadline);
                    if writing.broken.is_some() {
                        break 'parts;
                    }
                }
                each_message(staged, letters, |topic, bytes| {
                    batches.add(topic, number, bytes);
                    false
                });
                let producer = match producers.current() {
                    Ok(producer) => producer,
                    Err(error) => {
                        writing.broken.get_or_insert(error);
                        break 'parts;
                    }
                };
                let (taken, failure) = match &staged.carried {
                    Carried::Nothing => continue,
                    Carried::Outputs(message) => message.read_outputs(|outputs| {
                        produce_outputs(producer, number, outputs, message, stamp)
                    }),
                    // The core asks for no letter where its route has no topic.
                    Carried::Letter { .. } => match (letter_of(staged, member), letters) {
                        (Some(record), Some(to)) => {
                            let written = produce_letter(
                                producer,
                                number,
                                &record,
                                to,
                                &beside.origin,
                                stamp,
                                member,
                            );
                            (usize::from(written.is_ok()), written.err())
                        }
                        _ => continue,
                    },
                };
                writing.open += taken;
                if let Some(failure) = failure {
                    writing.note(number, failure);
                }
                if number % LOOK_FOR_REPORTS == 0 {
                    writing.take(producers, batches, Duration::ZERO);
                }
                if writing.broken.is_some() {
                    break 'parts;
                }
            }
        }
        *last_number = number;
        writing.until_reported(producers, batches, deadline);
        writing
    }

    /// Marks the records whose messages were refused, and notes what their dead letters will tell.
    pub(super) fn mark_refused(
        &self,
        indexes: &[usize],
        staged: &mut [Vec<Staged<Message>>],
        first: u64,
        mut failures: Vec<(u64, NotWritten)>,
        refusals: &mut Vec<Refusal>,
    ) {
        failures.sort_by_key(|(number, _)| *number);
        failures.dedup_by_key(|(number, _)| *number);
        let mut failures = failures.into_iter().peekable();
        let mut number = first;
        for index in indexes {
            for staged in &mut staged[*index] {
                let failed = failures.next_if(|(failed, _)| *failed == number);
                number += 1;
                let Some((_, failure)) = failed else { continue };
                staged.refused = true;
                let is_letter = matches!(staged.carried, Carried::Letter { .. });
                let carried = std::mem::replace(&mut staged.carried, Carried::Nothing);
                staged.carried = match carried {
                    Carried::Outputs(message) => Carried::Outputs(note_failure(
                        &staged.at,
                        message,
                        &format!("an output could not be sent to {failure}"),
                        &self.member,
                        self.composer.observer.as_deref(),
                    )),
                    other => other,
                };
                refusals.push(Refusal {
                    at: staged.at,
                    is_letter,
                    failure,
                });
            }
        }
    }

    /// Tells the observer of dead letters: before they can be seen, and again where they have to be written again.
    pub(super) fn tell_letters(&self, staged: &mut [Staged<Message>]) {
        let Some(observer) = self.composer.observer.as_deref() else {
            return;
        };
        for record in staged
            .iter_mut()
            .filter_map(|staged| letter_of(staged, &self.member))
        {
            guarded(|| observer.dead(&record));
        }
    }
}

impl Writing {
    /// Waits until everything is reported. librdkafka gives every message a report before the deadline.
    fn until_reported(&mut self, producers: &Producers, batches: &mut Batches, deadline: Instant) {
        while self.open > 0 {
            self.take(producers, batches, ASK_AGAIN);
            if Instant::now() >= deadline {
                self.broken.get_or_insert(ClientError::no_answer());
                return;
            }
        }
        batches.reported();
    }

    fn take(&mut self, producers: &Producers, batches: &mut Batches, timeout: Duration) {
        let events = producers.poll(timeout);
        take_tokens(producers, &events);
        for event in events {
            if let ProducerEvent::Delivered { number, result } = event {
                // What an earlier transaction has left was taken with its abort, or is of no interest.
                if number < self.first {
                    continue;
                }
                self.open = self.open.saturating_sub(1);
                let Err(failure) = result else { continue };
                let is_of_others =
                    failure.error.is_of_the_batch() && batches.is_shared(&failure.topic);
                match is_of_others {
                    false => self.note(number, failure),
                    true if self.broken.is_none() => {
                        batches.halve(&failure.topic);
                        self.broken = Some(failure.error);
                    }
                    true => {}
                }
            }
        }
    }

    fn note(&mut self, number: u64, failure: NotWritten) {
        match failure.error.is_of_the_message() {
            true => self.refused.push((number, failure)),
            false => {
                self.broken.get_or_insert(failure.error);
            }
        }
    }
}

/// Whether one of the messages that a record carries is so, by topic and size.
fn each_message(
    staged: &Staged<Message>,
    letters: Option<&DeadLetters>,
    mut is_so: impl FnMut(&str, usize) -> bool,
) -> bool {
    match (&staged.carried, letters) {
        (Carried::Outputs(message), _) => message.read_outputs(|outputs| {
            let mut outputs = outputs.iter();
            outputs.any(|output| is_so(output.topic(), output.size()))
        }),
        (Carried::Letter { .. }, Some(to)) => is_so(to.topic(), staged.at.bytes as usize),
        _ => false,
    }
}

/// The record of which a dead letter is staged.
pub(crate) fn letter_of(staged: &mut Staged<Message>, member: &Arc<Member>) -> Option<Record> {
    let carried = std::mem::replace(&mut staged.carried, Carried::Nothing);
    let (record, carried) = match carried {
        Carried::Letter { payload, tries } => {
            let shared = payload.into_shared();
            let payload = Message::Shared(Arc::clone(&shared));
            let record = Message::Shared(shared);
            let record = Record::new(record, &staged.at, 0, Arc::clone(member));
            (Some(record), Carried::Letter { payload, tries })
        }
        other => (None, other),
    };
    staged.carried = carried;
    record
}
