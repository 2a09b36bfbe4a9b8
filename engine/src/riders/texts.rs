//! The texts of one plan: every map encoded, every rider asked for once, each text built once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use keyway_core::{
    CommitPlan, CommitReason, Epoch, Missing, PartitionPlan, PartitionSlot, PlannedRider,
};
use keyway_offsets::Limits;
use keyway_rider::{CommitMap, CommitText, Offer, Rider, RiderBytes, Rung, guaranteed_bytes};
use rayon::prelude::*;

use super::guard::{Guard, NoAnswer};
use super::{RiderContext, RiderReason, RiderSettings, Riders, failed};
use crate::kafka::TopicPartition;
use crate::metrics;

/// One partition of a plan, ready to be sent.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) text: CommitText,
    /// What a reader of it finds.
    pub(crate) rider: Rider,
    /// Why it goes without a rider, where one belongs.
    dropped: Option<&'static str>,
    /// The map's bytes for each offset that it spans; `None` where there is no map.
    density: Option<f64>,
    /// Nothing but the rider could have changed, and it has not, or could not be had.
    pub(crate) is_unchanged: bool,
}

impl Made {
    /// The broker has it.
    pub(crate) fn note_stored(&self, limits: &Limits) {
        if let Some(reason) = self.dropped {
            ::metrics::counter!(metrics::RIDER_DROPPED, "reason" => reason).increment(1);
        }
        if let Some(bytes) = self.rider.bytes() {
            ::metrics::histogram!(metrics::RIDER_BYTES).record(bytes.len() as f64);
        }
        if let Some(density) = self.density {
            let headroom = self.text.text.len() as f64 / limits.cap_chars as f64;
            ::metrics::histogram!(metrics::METADATA_DENSITY).record(density);
            ::metrics::histogram!(metrics::METADATA_HEADROOM).record(headroom);
        }
    }
}

/// Makes the texts of plans.
pub(crate) struct Texts {
    settings: RiderSettings,
    guard: Guard,
    /// When a warning was last written.
    warned_at: Option<Instant>,
}

/// From so many partitions on, maps are encoded on several cores.
const PARALLEL_FROM: usize = 32;

/// Between two warnings about riders.
const WARN_EVERY: Duration = Duration::from_secs(30);

impl Texts {
    pub(crate) fn new(settings: RiderSettings, guard: Guard) -> Self {
        Self {
            settings,
            guard,
            warned_at: None,
        }
    }

    /// The text of each partition of `plan`. `stored` is what the broker has of a partition's rider.
    pub(crate) fn make(
        &mut self,
        plan: &CommitPlan,
        names: &[TopicPartition],
        stored: impl Fn(PartitionSlot, Epoch) -> Option<Rider>,
    ) -> Vec<Made> {
        let limits = &plan.limits;
        let encode = |part: &PartitionPlan| CommitMap::new(&part.map, limits);
        let maps: Vec<CommitMap> = if plan.partitions.len() >= PARALLEL_FROM {
            plan.partitions.par_iter().map(encode).collect()
        } else {
            plan.partitions.iter().map(encode).collect()
        };
        let deadline = Instant::now() + self.settings.timeout;
        let parts = plan.partitions.iter().zip(names).zip(maps);
        parts
            .map(|((part, name), map)| {
                let map = match &part.rider {
                    PlannedRider::Gate(shard) => map.giving_way_to(shard.len()),
                    _ => map,
                };
                let offer = self.offer(plan, part, name, &map, deadline);
                let (offer, dropped) = match offer {
                    Ok(offer) => (offer, None),
                    Err(reason) => (Offer::Marker, Some(reason)),
                };
                let density = map.density();
                let text = map.with(&offer);
                let rider = carried(&text, &offer);
                // What the broker has is still true, and worth more than a marker.
                let is_unchanged = part.rider_only
                    && (dropped.is_some()
                        || stored(part.slot, part.epoch).as_ref() == Some(&rider));
                Made {
                    text,
                    rider,
                    dropped,
                    density,
                    is_unchanged,
                }
            })
            .collect()
    }

    /// What is to ride beside one map, or why nothing can.
    fn offer(
        &mut self,
        plan: &CommitPlan,
        part: &PartitionPlan,
        name: &TopicPartition,
        map: &CommitMap,
        deadline: Instant,
    ) -> Result<Offer, &'static str> {
        let max_bytes = map.max_rider_bytes();
        let guaranteed_bytes = guaranteed_bytes(&plan.limits);
        let answer = match (&part.rider, &self.settings.riders) {
            (PlannedRider::Nothing, _) => return Ok(Offer::Nothing),
            (PlannedRider::Gate(shard), _) => {
                let shard = RiderBytes::new(shard.clone()).map_err(|_| "oversized")?;
                return Ok(Offer::Rider(shard));
            }
            (PlannedRider::Marker(Missing::NoSupplier), _) => return Err("no_supplier"),
            (PlannedRider::Ask, Riders::Supplier { supplier, .. }) => {
                let supplier = Arc::clone(supplier);
                let context = RiderContext {
                    partition: name.clone(),
                    offset: part.map.base().get(),
                    max_bytes,
                    guaranteed_bytes,
                    reason: match plan.reason {
                        CommitReason::Periodic if part.rider_only => RiderReason::Refresh,
                        reason => reason.into(),
                    },
                };
                self.guard.call(deadline, move || supplier(&context))
            }
            // The state has what is complete above the base; without the map that runs again, and would count twice.
            (PlannedRider::State(_), _) if map.is_stripped() => return Err("map_stripped"),
            (PlannedRider::State(state), _) => {
                let state = state.clone();
                self.guard.call(deadline, move || state.encode(max_bytes))
            }
            // Told when it was lost.
            (PlannedRider::Marker(Missing::StateLost) | PlannedRider::Ask, _) => {
                return Err("state_lost");
            }
        };
        let bytes = match answer {
            Ok(None) => return Ok(Offer::Nothing),
            Ok(Some(bytes)) => bytes,
            Err(NoAnswer::Panicked(panic)) => return Err(self.fail(name, "panicked", &panic)),
            Err(NoAnswer::TimedOut) => {
                let fault = "it took longer than `supplier_timeout`";
                return Err(self.fail(name, "timed_out", fault));
            }
            Err(NoAnswer::Busy) => {
                return Err(self.fail(name, "busy", "an earlier call has not returned"));
            }
            Err(NoAnswer::NotAsked) => return Err("not_asked"),
        };
        let len = bytes.len();
        match RiderBytes::new(bytes) {
            Ok(rider) if len <= max_bytes => Ok(Offer::Rider(rider)),
            // It kept to what is promised; the map has left no room for it.
            Ok(_) if len <= guaranteed_bytes => Err("no_room"),
            Ok(_) => {
                let fault = format!("{len} bytes where {max_bytes} were offered");
                Err(self.fail(name, "oversized", &fault))
            }
            Err(fault) => {
                let reason = if len == 0 { "empty" } else { "oversized" };
                Err(self.fail(name, reason, &fault.to_string()))
            }
        }
    }

    /// The application could not give a rider.
    fn fail(&mut self, name: &TopicPartition, reason: &'static str, fault: &str) -> &'static str {
        failed(reason);
        let now = Instant::now();
        if self
            .warned_at
            .is_none_or(|at| now.duration_since(at) >= WARN_EVERY)
        {
            self.warned_at = Some(now);
            tracing::warn!(
                partition = %name,
                reason,
                fault,
                "a partition's rider could not be had; a commit that goes without it says that it was dropped. \
                 Further ones are counted, and not told of for 30 s"
            );
        }
        reason
    }
}

/// What a reader of `text` finds of a rider.
fn carried(text: &CommitText, offer: &Offer) -> Rider {
    match (text.rung, offer) {
        (Rung::RiderAndMap | Rung::RiderOnly, Offer::Rider(rider)) => {
            Rider::Present(rider.as_slice().to_vec())
        }
        (Rung::MarkerAndMap | Rung::MarkerOnly, _) => Rider::Dropped,
        _ => Rider::None,
    }
}
