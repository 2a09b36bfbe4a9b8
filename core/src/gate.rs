//! The gate between arrival and lane: the place where a later layer holds a record back until what it depends on is
//! complete, and what that layer is told of the member's life. [`OpenGate`] lets everything through and compiles away.
//!
//! ```text
//!   assigned, records --> admit, learn        started, completed, settled <-- the core, as records go their way
//!                           |                        |
//!                    Ready or Held              next_freed --> the held record's lane goes on
//!                                               rider -------> what rides beside the partition's map
//! ```

use keyway_offsets::Offset;

use crate::command::Restored;
use crate::ids::PartitionSlot;

/// What a gate says of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may run as soon as its lane lets it.
    Ready,
    /// It waits, and its lane with it, until [`Gate::next_freed`] or [`Core::release`](crate::Core::release) lets it
    /// through.
    Held,
}

/// Decides of each record that arrives whether it may run.
///
/// All but [`Gate::admit`] is what it may want to know, in the order in which it happens, and what it may say about
/// commits; by default nothing.
pub trait Gate<P> {
    /// Asked once for each record that is to run, in the order of arrival. Nobody else has the payload yet.
    fn admit(&mut self, slot: PartitionSlot, offset: Offset, payload: &mut P) -> Admission;

    /// A record arrived that is complete already, by the map of an earlier commit, and does not run.
    #[inline]
    fn learn(&mut self, slot: PartitionSlot, offset: Offset, payload: &P) {
        let _ = (slot, offset, payload);
    }

    /// An assignment begins, from what the group has committed; everything below `base` is complete.
    #[inline]
    fn begun(&mut self, slot: PartitionSlot, base: Offset, restored: &Restored) {
        let _ = (slot, base, restored);
    }

    /// The assignment is over; what of it was held is forgotten.
    #[inline]
    fn ended(&mut self, slot: PartitionSlot) {
        let _ = slot;
    }

    /// The record is on its way to a handler.
    #[inline]
    fn started(&mut self, slot: PartitionSlot, offset: Offset) {
        let _ = (slot, offset);
    }

    /// The record is complete, or done and on a stage.
    #[inline]
    fn completed(&mut self, slot: PartitionSlot, offset: Offset) {
        let _ = (slot, offset);
    }

    /// Everything below `base` is complete, or done and on a stage. It may go back where outputs on a stage are refused.
    #[inline]
    fn settled(&mut self, slot: PartitionSlot, base: Offset) {
        let _ = (slot, base);
    }

    /// The broker has acknowledged a commit of `base`.
    #[inline]
    fn committed(&mut self, slot: PartitionSlot, base: Offset) {
        let _ = (slot, base);
    }

    /// The next held record that may run after all.
    #[inline]
    fn next_freed(&mut self) -> Option<(PartitionSlot, Offset)> {
        None
    }

    /// Whether a completion may be committed only together with all that completed before it, in whatever partition:
    /// then a plan covers everything or is not made, and a commit that the broker stored in part is made whole at once.
    #[inline]
    fn keeps_cut(&self) -> bool {
        false
    }

    /// What a commit of this moment writes beside the partition's map, where the gate has something to write.
    #[inline]
    fn rider(&mut self, slot: PartitionSlot) -> Option<Vec<u8>> {
        let _ = slot;
        None
    }

    /// Whether what it would write fits: a rider has `room` bytes where there is no map beside it. Where it does not
    /// nothing is committed any more, and the gate says why to whoever owns it.
    #[inline]
    fn riders_fit(&mut self, room: usize) -> bool {
        let _ = room;
        true
    }

    /// Characters that what it writes beside the partition's map takes of the whole text.
    #[inline]
    fn rider_chars(&self, slot: PartitionSlot) -> usize {
        let _ = slot;
        0
    }

    /// Whether what it writes beside the partition's map has changed since the broker last acknowledged it.
    #[inline]
    fn owes_rider(&self, slot: PartitionSlot) -> bool {
        let _ = slot;
        false
    }

    /// Whether what it writes beside the map of any partition has changed since this was last asked.
    #[inline]
    fn take_news(&mut self) -> bool {
        false
    }

    /// What became of the rider that the plan under way carries.
    #[inline]
    fn rider_answered(&mut self, slot: PartitionSlot, is_stored: bool) {
        let _ = (slot, is_stored);
    }
}

/// Lets everything through.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenGate;

impl<P> Gate<P> for OpenGate {
    #[inline]
    fn admit(&mut self, _: PartitionSlot, _: Offset, _: &mut P) -> Admission {
        Admission::Ready
    }
}
