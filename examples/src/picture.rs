//! A hole map as a line of text.

use keyway::offsets::{HoleMap, Offset};

/// Cells of a picture.
const CELLS: u64 = 60;

/// The offsets from 0 to `end` from left to right, and in words what the map holds.
pub fn picture(map: &HoleMap, end: u64) -> String {
    let base = map.base().get().unsigned_abs();
    let mut line = String::new();
    for cell in 0..CELLS {
        let (from, to) = (cell * end / CELLS, (cell + 1) * end / CELLS);
        let done = (from..to)
            .filter(|&offset| is_complete(map, offset))
            .count() as u64;
        line.push(match done {
            _ if (from..to).contains(&base) => '|',
            0 => '.',
            done if done == to - from => '#',
            _ => '+',
        });
    }
    let above = map.span() - map.hole_count();
    format!("{line}  {base} done below, {above} above")
}

fn is_complete(map: &HoleMap, offset: u64) -> bool {
    i64::try_from(offset)
        .ok()
        .and_then(Offset::new)
        .is_some_and(|offset| map.is_complete(offset))
}
