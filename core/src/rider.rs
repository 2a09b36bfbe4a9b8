//! What rides beside a partition's map: whose it is, and what a plan says about it.
//!
//! The core knows three cases. Nobody asked for riders: then a partition whose last owner had one gets the marker,
//! so that the next reader learns of the loss. A supplier is asked by whoever carries a plan out. A state belongs
//! to the core: it changes with completions, and a plan carries it as it was at the plan's snapshot.

use std::time::Duration;

use keyway_rider::{Rider, StateCell, StateFault, StateSnapshot, Update};

use crate::command::{CommitAnswer, CommitReason};
use crate::core::Core;
use crate::gate::Gate;
use crate::ids::{PartitionSlot, Timestamp};
use crate::mutant::{Mutant, mutated};
use crate::partition::{Partition, Phase};

/// Where riders come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RiderSource {
    /// There are none.
    #[default]
    None,
    /// Whoever carries a plan out asks for them.
    Supplier {
        /// How often partitions that have nothing to commit are planned all the same, so that a rider that has
        /// changed is written.
        refresh: Option<Duration>,
    },
    /// The states that [`Core::attach_state`] brings.
    State,
}

/// What a plan says about a partition's rider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannedRider {
    /// No envelope.
    Nothing,
    /// The marker, since there is nobody who could make one.
    Marker(Missing),
    /// The supplier is to be asked.
    Ask,
    /// The state at the plan's snapshot.
    State(StateSnapshot),
}

/// Why there is no rider where one belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The owner before had one, and this member has no supplier.
    NoSupplier,
    /// The state was lost: an update could not be applied, or it was never made.
    StateLost,
}

/// The rider of one assignment.
#[derive(Debug, Default)]
pub(crate) struct PartitionRider {
    /// Whether the restored commit had anything of a rider.
    was_there: bool,
    state: Option<StateCell>,
    /// The loss of the state was told.
    told: bool,
    last: LastRider,
}

/// The rider of the commit with which a partition is let go, where a supplier is to be asked: it may have changed
/// since the last commit, though nothing else has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastRider {
    #[default]
    NotYet,
    Owed,
    Asked,
}

impl PartitionRider {
    pub(crate) fn restored(rider: &Rider) -> Self {
        Self {
            was_there: *rider != Rider::None,
            ..Self::default()
        }
    }

    fn owe(&mut self) {
        if self.last == LastRider::NotYet {
            self.last = LastRider::Owed;
        }
    }

    /// A plan with this partition was answered.
    pub(crate) fn note_answer(&mut self, answer: CommitAnswer) {
        let comes_again = matches!(answer, CommitAnswer::Repeat | CommitAnswer::TooLarge);
        if self.last == LastRider::Owed && !comes_again {
            self.last = LastRider::Asked;
        }
    }

    /// What a plan of this moment says.
    pub(crate) fn planned(&self, source: RiderSource) -> PlannedRider {
        match source {
            RiderSource::None if self.was_there => PlannedRider::Marker(Missing::NoSupplier),
            RiderSource::None => PlannedRider::Nothing,
            RiderSource::Supplier { .. } => PlannedRider::Ask,
            RiderSource::State => self.state.as_ref().and_then(StateCell::snapshot).map_or(
                PlannedRider::Marker(Missing::StateLost),
                PlannedRider::State,
            ),
        }
    }

    /// Takes over what a record brings. Says why if the state is lost by it, once.
    pub(crate) fn apply(&mut self, update: &Update) -> Result<(), StateFault> {
        if mutated(Mutant::UpdateForgotten) {
            return Ok(());
        }
        let applied = match &mut self.state {
            Some(state) => state.apply(update),
            None => Err(StateFault::Lost),
        };
        if applied.is_err() && std::mem::replace(&mut self.told, true) {
            return Ok(());
        }
        applied
    }
}

impl Partition {
    /// Whether a refresh looks at this partition: it is here to stay and has nothing else to commit.
    pub(crate) fn wants_refresh(&self) -> bool {
        self.phase == Phase::Assigned && !self.is_dirty()
    }

    /// Whether the commit that lets the partition go is still to be made for its rider's sake.
    pub(crate) fn owes_rider(&self) -> bool {
        self.rider.last == LastRider::Owed
    }
}

impl<P, G: Gate<P>> Core<P, G> {
    /// The state that moves with the partition's completions, from its restored rider. To be called right after
    /// [`Core::assigned`], before any record.
    pub fn attach_state(&mut self, slot: PartitionSlot, state: StateCell) {
        self.partitions[slot.index()].rider.state = Some(state);
    }

    /// The member is about to leave: the supplier is asked once more for each partition, so that the last commit has
    /// the last rider. May be called any number of times.
    pub fn begin_last_commit(&mut self) {
        for index in 0..self.partitions.len() {
            self.owe_last_rider(PartitionSlot(index as u32));
        }
    }

    pub(crate) fn owe_last_rider(&mut self, slot: PartitionSlot) {
        let partition = &mut self.partitions[slot.index()];
        let is_asked = matches!(self.config.riders, RiderSource::Supplier { .. });
        if is_asked && partition.phase != Phase::Vacant {
            partition.rider.owe();
        }
    }

    pub(crate) fn refresh_interval(&self) -> Option<Duration> {
        match self.config.riders {
            RiderSource::Supplier { refresh } => refresh,
            RiderSource::None | RiderSource::State => None,
        }
    }

    /// When idle partitions are to be planned for the sake of their riders.
    pub(crate) fn refresh_deadline(&self) -> Timestamp {
        let waits = self.commit_in_flight().is_some() || self.totals.assigned == 0;
        match self.refresh_interval() {
            Some(_) if !waits => self.refresh_at,
            _ => Timestamp::NEVER,
        }
    }

    pub(crate) fn refresh_if_due(&mut self, now: Timestamp) {
        if now >= self.refresh_deadline() {
            self.commit_now(CommitReason::Refresh, None, now);
        }
    }

    /// Whether a plan that is made now takes idle partitions along: a refresh is due, and no other plan may come in
    /// between for it, under a steady load.
    pub(crate) fn take_refresh(&mut self, now: Timestamp) -> bool {
        let Some(interval) = self.refresh_interval() else {
            return false;
        };
        let is_due = now >= self.refresh_at;
        if is_due {
            self.refresh_at = now.after(interval);
        }
        is_due
    }
}
