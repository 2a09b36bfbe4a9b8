//! Bytes: one for each offset, 1 = complete, anything else incomplete as in Java.
//!
//! Java can write this form when told to by its tests; it never wins, so it is only read.

use super::MapBuilder;
use crate::error::DecodeError;

const COMPLETE: u8 = 1;

pub(super) fn read(body: &[u8], map: &mut MapBuilder) -> Result<(), DecodeError> {
    map.extend(body.len() as u64)?;
    let mut at = 0;
    for run in body.chunk_by(|a, b| (*a == COMPLETE) == (*b == COMPLETE)) {
        let end = at + run.len() as u64;
        if run[0] != COMPLETE {
            map.hole(at, end);
        }
        at = end;
    }
    Ok(())
}
