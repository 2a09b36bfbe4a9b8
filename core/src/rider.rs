//! What rides beside a partition's map: whose it is, and what a plan says about it.
//!
//! The core knows three cases. Nobody asked for riders: then a partition whose last owner had one gets the marker,
//! so that the next reader learns of the loss. A supplier is asked by whoever carries a plan out. A state belongs
//! to the core: it changes with completions, and a plan carries it as it was at the plan's snapshot.

use std::time::Duration;

use keyway_rider::{Rider, StateCell, StateFault, StateSnapshot, Update};

use crate::command::CommitReason;
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
}

impl PartitionRider {
    pub(crate) fn restored(rider: &Rider) -> Self {
        Self {
            was_there: *rider != Rider::None,
            ..Self::default()
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
}

impl<P, G: Gate<P>> Core<P, G> {
    /// The state that moves with the partition's completions, from its restored rider. To be called right after
    /// [`Core::assigned`], before any record.
    pub fn attach_state(&mut self, slot: PartitionSlot, state: StateCell) {
        self.partitions[slot.index()].rider.state = Some(state);
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
        let Some(interval) = self.refresh_interval() else {
            return;
        };
        if now >= self.refresh_deadline() {
            self.refresh_at = now.after(interval);
            self.commit_now(CommitReason::Refresh, None, now);
        }
    }
}
