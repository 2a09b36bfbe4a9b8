//! A hole map as a line of characters, for people.

use std::ops::Range;

use crate::hole_map::HoleMap;

/// The offsets of `range` from left to right in at most `cells` characters:
/// `#` done, `+` some of it done, `.` none of it done, `|` where the base of the map lies.
pub fn picture(map: &HoleMap, range: Range<u64>, cells: u32) -> String {
    let length = range.end.saturating_sub(range.start);
    let cells = u64::from(cells).min(length);
    // 128 bits: an offset times a number of cells.
    let edge = |cell: u64| {
        range.start + (u128::from(cell) * u128::from(length) / u128::from(cells.max(1))) as u64
    };
    let base = map.base().position();
    (0..cells)
        .map(|cell| {
            let (from, to) = (edge(cell), edge(cell + 1));
            match map.complete_within(from, to) {
                _ if (from..to).contains(&base) => '|',
                0 => '.',
                done if done == to - from => '#',
                _ => '+',
            }
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::offset::{Offset, OffsetRange};

    fn map(base: i64, highest: i64, holes: &[(i64, i64)]) -> HoleMap {
        let offset = |at| Offset::new(at).unwrap();
        let range = |&(first, last)| OffsetRange::new(offset(first), offset(last)).unwrap();
        HoleMap::new(offset(base), highest, holes.iter().map(range)).unwrap()
    }

    #[test]
    fn a_cell_for_each_offset_where_there_is_room() {
        let map = map(3, 9, &[(3, 4), (7, 7)]);
        assert_eq!(picture(&map, 0..12, 60), "###|.##.##..");
        assert_eq!(picture(&map, 3..10, 60), "|.##.##");
        assert_eq!(picture(&map, 5..5, 60), "");
    }

    #[test]
    fn a_cell_for_many_offsets() {
        let map = map(10, 99, &[(10, 39), (55, 55)]);
        assert_eq!(picture(&map, 0..100, 10), "#|..#+####");
        assert_eq!(picture(&map, 0..100, 0), "");
    }

    #[test]
    fn the_widest_map_is_as_quick() {
        let map = map(0, i64::MAX, &[(0, 0), (i64::MAX - 1, i64::MAX - 1)]);
        assert_eq!(picture(&map, 0..1 << 63, 4), "|##+");
        let caught_up = HoleMap::caught_up(Offset::new(7).unwrap());
        assert_eq!(picture(&caught_up, 0..u64::MAX, 3), "|..");
    }
}
