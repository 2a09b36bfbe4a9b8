//! The gate between arrival and lane: the place where a later layer holds a record back until what it
//! depends on is complete. [`OpenGate`] lets everything through and compiles away.

use keyway_offsets::Offset;

use crate::ids::PartitionSlot;

/// What a gate says of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may run as soon as its lane lets it.
    Ready,
    /// It waits, and its lane with it, until [`Core::release`](crate::Core::release).
    Held,
}

/// Decides of each record that arrives whether it may run.
pub trait Gate<P> {
    /// Asked once for each record, in the order of arrival.
    fn admit(&mut self, slot: PartitionSlot, offset: Offset, payload: &P) -> Admission;
}

/// Lets everything through.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenGate;

impl<P> Gate<P> for OpenGate {
    #[inline]
    fn admit(&mut self, _: PartitionSlot, _: Offset, _: &P) -> Admission {
        Admission::Ready
    }
}
