//! A gate that holds the records that are marked so, until the scheduler lets them through.

use keyway_core::{Admission, Gate, PartitionSlot};
use keyway_offsets::Offset;

use crate::record::Payload;

/// Holds marked records.
#[derive(Debug)]
pub(crate) struct MarkGate;

impl Gate<Payload> for MarkGate {
    fn admit(&mut self, _: PartitionSlot, _: Offset, payload: &mut Payload) -> Admission {
        if payload.held {
            Admission::Held
        } else {
            Admission::Ready
        }
    }
}
