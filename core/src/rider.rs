//! What rides beside a partition's map: whose it is, and what a plan says about it.
//!
//! The core knows three cases. Nobody asked for riders: then a partition whose last owner had one gets the marker,
//! so that the next reader learns of the loss. A supplier is asked by whoever carries a plan out. A state belongs
//! to the core: it changes with completions, and a plan carries it as it was at the plan's snapshot.

use std::time::Duration;

use keyway_offsets::Offset;
use keyway_rider::{Rider, StateCell, StateFault, StateSnapshot, Update};

use crate::command::{CommitAnswer, CommitReason};
use crate::core::Core;
use crate::gate::Gate;
use crate::ids::{PartitionSlot, Timestamp};
use crate::mutant::{Mutant, mutated};
use crate::partition::{Partition, Phase};
use crate::stage::Staged;

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
    /// What the gate has to write. It goes before the map where there is no room for both.
    Gate(Vec<u8>),
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
    /// The state that the transaction under way carries.
    staged: Option<StateCell>,
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
            RiderSource::State => {
                let state = self.staged.as_ref().or(self.state.as_ref());
                state.and_then(StateCell::snapshot).map_or(
                    PlannedRider::Marker(Missing::StateLost),
                    PlannedRider::State,
                )
            }
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
        self.tell(applied)
    }

    /// What is said of it once in an assignment.
    fn tell(&mut self, applied: Result<(), StateFault>) -> Result<(), StateFault> {
        if applied.is_err() && std::mem::replace(&mut self.told, true) {
            return Ok(());
        }
        applied
    }

    /// The state that a transaction carries: with what its records bring, and nobody else's.
    ///
    /// # Errors
    /// At the first update that could not be applied: by which record, and why. Said once.
    pub(crate) fn begin_transaction<P>(
        &mut self,
        covered: &[Staged<P>],
    ) -> Result<(), (Offset, StateFault)> {
        let updates = covered
            .iter()
            .filter_map(|staged| Some((staged, staged.update()?)));
        let mut updates = updates.peekable();
        if updates.peek().is_none() || mutated(Mutant::UpdateForgotten) {
            return Ok(());
        }
        let mut state = self
            .state
            .as_ref()
            .map_or(StateCell::lost(), StateCell::fork);
        let applied = updates.try_for_each(|(staged, update)| {
            let applied = state.apply(update);
            applied.map_err(|fault| (staged.at.offset, fault))
        });
        self.staged = Some(state);
        applied.or_else(|(offset, fault)| self.tell(Err(fault)).map_err(|fault| (offset, fault)))
    }

    /// What the transaction carried is the state from now on, or nothing of it is.
    pub(crate) fn end_transaction(&mut self, is_stored: bool) {
        if let Some(state) = self.staged.take().filter(|_| is_stored) {
            self.state = Some(state);
        }
    }
}

impl<P> Partition<P> {
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
