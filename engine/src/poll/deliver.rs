//! From a poll's records to the core, which takes as many of each partition as find room.
//!
//! What finds none is given back to the source, as if it had not been delivered, and so is everything of that partition
//! behind it: whatever the core is told above an offset that it was not given, it takes for a hole in the log.

use keyway_core::{Arrival, Epoch, PartitionSlot, Timestamp};
use keyway_offsets::Offset;

use super::PollLoop;
use crate::kafka::NativeRecord;
use crate::record::Message;

impl PollLoop {
    /// Gives records to the core, those of one partition together.
    pub(super) fn deliver(&mut self, records: &mut Vec<NativeRecord>, now: Timestamp) {
        self.state.first_received.get_or_insert(now);
        self.state.given_back.clear();
        let mut arrivals = std::mem::take(&mut self.state.arrivals);
        let mut current = None;
        let mut token = None;
        for record in records.drain(..) {
            let its_token = record.partition_token();
            if token != Some(its_token) {
                self.give_to_core(current, &mut arrivals, now);
                token = Some(its_token);
                let given_back = &self.state.given_back;
                current = self
                    .slots
                    .of_record(&record)
                    .filter(|(slot, _)| !given_back.contains(slot));
            }
            let Some((slot, _)) = current else { continue };
            let Some(offset) = Offset::new(record.offset()) else {
                continue;
            };
            match self.slots.arrival(slot, offset, record, &self.member) {
                Ok(arrival) => arrivals.push(arrival),
                Err(reason) => {
                    self.stop_because(reason, now);
                    self.give_to_core(current.take(), &mut arrivals, now);
                    // It and the rest of the partition are not received, hence read again at the next start.
                    self.give_back(slot, offset);
                }
            }
        }
        self.give_to_core(current, &mut arrivals, now);
        self.state.arrivals = arrivals;
    }

    fn give_to_core(
        &mut self,
        current: Option<(PartitionSlot, Epoch)>,
        arrivals: &mut Vec<Arrival<Message>>,
        now: Timestamp,
    ) {
        if let Some((slot, epoch)) = current {
            if !arrivals.is_empty() {
                if !self.state.denials.is_empty() {
                    self.state.denials.read(self.slots.partition(slot));
                }
                self.core.records(slot, epoch, arrivals, now);
            }
            if let Some(first) = arrivals.first() {
                self.give_back(slot, first.offset);
            }
        }
        arrivals.clear();
    }

    /// From this offset on nothing of the partition was received, unless it was given back from a lower one.
    fn give_back(&mut self, slot: PartitionSlot, offset: Offset) {
        if !self.state.given_back.contains(&slot) {
            self.state.given_back.push(slot);
            self.source
                .give_back(self.slots.partition(slot), offset.get());
        }
    }
}
