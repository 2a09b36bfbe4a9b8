//! Runs: their lengths, incomplete and complete in turn.
//!
//! ```text
//!     base 100, highest 109, holes 100, 103, 104
//!
//!       o     x x    o o    x x x x x
//!     00 01  00 02  00 02  00 05            two bytes a run (`n`) or four (`e`)
//! ```
//!
//! Holes and what lies between them are the runs, so nothing here walks offsets.

use super::MapBuilder;
use super::encoding::Width;
use crate::error::{DecodeError, NotCanonical};
use crate::hole_map::HoleMap;

/// Calls `each` with every run of a map that is not caught up: the first is its first hole.
///
/// A loop and not an iterator, since this is what encoding a map with many holes does most.
pub(super) fn for_each_run(map: &HoleMap, mut each: impl FnMut(u64)) {
    let Some((first, rest)) = map.holes().split_first() else {
        return;
    };
    each(first.len());
    let mut complete_from = first.last.position() + 1;
    for hole in rest {
        each(hole.first.position() - complete_from);
        each(hole.len());
        complete_from = hole.last.position() + 1;
    }
    // Nothing follows a hole that ends the span.
    if complete_from < map.end() {
        each(map.end() - complete_from);
    }
}

pub(super) fn write(map: &HoleMap, width: Width, len: usize) -> Vec<u8> {
    let mut body = Vec::with_capacity(len);
    match width {
        Width::Short => for_each_run(map, |run| {
            body.extend_from_slice(&(run as u16).to_be_bytes());
        }),
        Width::Int => for_each_run(map, |run| {
            body.extend_from_slice(&(run as u32).to_be_bytes());
        }),
    }
    debug_assert_eq!(body.len(), len);
    body
}

pub(super) fn read(
    form: &'static str,
    body: &[u8],
    width: Width,
    map: &mut MapBuilder,
) -> Result<(), DecodeError> {
    let whole = body
        .len()
        .next_multiple_of(width.bytes())
        .max(width.bytes());
    if body.len() != whole {
        return Err(DecodeError::Truncated {
            form,
            needed: whole as u64,
            actual: body.len(),
        });
    }
    if body.iter().all(|&byte| byte == 0) && body.len() == width.bytes() {
        return Ok(());
    }
    let mut rest = body;
    let mut index = 0;
    while let Some((length, tail)) = width.split(rest) {
        let Ok(offsets) = u64::try_from(length) else {
            return Err(DecodeError::BadRun {
                form,
                index,
                length,
            });
        };
        // An empty first run would say that the base is complete, which only the map of no offsets may.
        if offsets == 0 {
            let fault = if index == 0 {
                NotCanonical::BaseComplete
            } else {
                NotCanonical::ZeroRun { index }
            };
            return Err(DecodeError::NotCanonical(fault));
        }
        let first = map.span;
        map.extend(offsets)?;
        if index % 2 == 0 {
            map.hole(first, map.span);
        }
        rest = tail;
        index += 1;
    }
    Ok(())
}
