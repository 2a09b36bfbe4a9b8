//! The positions of a topic: how far each lies above the lowest one, in as few bits as do for all, or for most.
//!
//! ```text
//!     one width    value:wide ...                                 each in `wide` bits, as many as the greatest needs
//!     two widths   ( 0 | value:narrow ) or ( 1 | value:wide ) ... where some lie far above the others
//! ```
//!
//! The partitions of a topic grow alike, so that their positions have most of their bits in common; where they don't, a hot
//! key or a young partition should not make all of them long.

use crate::channel::Position;
use crate::cursor::Cursor;
use crate::error::{Part, ShardError};
use crate::shard::bits::{BitReader, BitWriter};

/// Bits of what says which of two widths.
const FLAG_BITS: u32 = 1;

/// Bytes of the narrow width.
const NARROW_BYTES: usize = 1;

/// How the positions of a topic are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widths {
    /// Bits of the greatest; 0 only where there is one position, which then takes none.
    pub(super) wide: u32,
    /// Bits of those that are near the lowest, less than `wide`, where there are two widths.
    pub(super) narrow: Option<u32>,
}

/// The positions of a topic, before they are written.
pub(super) struct Packed {
    /// The lowest.
    pub(super) base: u64,
    pub(super) widths: Widths,
    /// Bytes of it, without base and widths.
    pub(super) len: usize,
}

impl Packed {
    /// The shortest way for these positions; with one width when both are equally long.
    pub(super) fn of(entries: &[(u32, Position)]) -> Self {
        let base = entries.iter().map(value).min().unwrap_or(0);
        // How many need so many bits.
        let mut needing = [0_u64; 64];
        for entry in entries {
            needing[bits_of(value(entry) - base) as usize] += 1;
        }
        let most = (0..).zip(&needing).filter(|&(_, &count)| count > 0).last();
        // Several that are equal take a bit each all the same, so that no more are announced than there are bits.
        let least = u32::from(entries.len() > 1);
        let wide = most.map_or(0, |(bits, _)| bits).max(least);

        let count = entries.len() as u64;
        let one = bytes_of(count * u64::from(wide));
        let mut packed = Self {
            base,
            widths: Widths { wide, narrow: None },
            len: one,
        };
        let mut shortest = one;
        let mut fitting = 0;
        for (narrow, &more) in (0..wide).zip(&needing) {
            fitting += more;
            let bits = u64::from(FLAG_BITS) * count
                + u64::from(narrow) * fitting
                + u64::from(wide) * (count - fitting);
            let len = bytes_of(bits);
            // The narrow width has to be written as well.
            if len + NARROW_BYTES < shortest {
                shortest = len + NARROW_BYTES;
                packed.widths.narrow = Some(narrow);
                packed.len = len;
            }
        }
        packed
    }

    pub(super) fn write(&self, entries: &[(u32, Position)], to: &mut Vec<u8>) {
        let Widths { wide, narrow } = self.widths;
        let mut bits = BitWriter::new(to);
        for value in entries.iter().map(|entry| value(entry) - self.base) {
            let mut width = wide;
            if let Some(narrow) = narrow {
                let is_wide = bits_of(value) > narrow;
                bits.write(is_wide.into(), FLAG_BITS);
                width = if is_wide { wide } else { narrow };
            }
            bits.write(value, width);
        }
        bits.finish();
    }
}

fn value(entry: &(u32, Position)) -> u64 {
    entry.1.get().unsigned_abs()
}

const fn bits_of(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

const fn bytes_of(bits: u64) -> usize {
    bits.div_ceil(8) as usize
}

/// Reads the positions of these partitions, of which there may be more than bytes: each takes a bit at least, so that what
/// is allocated is bounded by what is there.
///
/// # Errors
/// When they end early, a position is above the highest, or widths promise what takes no bits. Another spelling than
/// [`Packed::write`]'s may be read.
pub(super) fn read(
    cursor: &mut Cursor<'_>,
    partitions: impl Iterator<Item = u32>,
    is_single: bool,
    base: u64,
    widths: Widths,
) -> Result<Vec<(u32, Position)>, ShardError> {
    let offset = cursor.at();
    let bad = |part| ShardError::BadNumber { offset, part };
    let Widths { wide, narrow } = widths;
    let is_bitless = wide == 0 && !is_single;
    if is_bitless || narrow.is_some_and(|narrow| narrow >= wide) {
        return Err(bad(Part::Form));
    }
    let mut bits = BitReader::new(cursor.rest);
    let mut entries = Vec::new();
    for partition in partitions {
        let width = match narrow {
            None => Some(wide),
            Some(narrow) => bits
                .read(FLAG_BITS)
                .map(|flag| if flag == 0 { narrow } else { wide }),
        };
        let value = width.and_then(|width| bits.read(width));
        let value = value.ok_or_else(|| cursor.truncated(Part::Positions))?;
        // Both have at most 63 bits.
        let position = i64::try_from(base + value).ok().and_then(Position::new);
        entries.push((partition, position.ok_or_else(|| bad(Part::Positions))?));
    }
    cursor.rest = &cursor.rest[bits.bytes_taken()..];
    Ok(entries)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn entries(positions: &[i64]) -> Vec<(u32, Position)> {
        let positions = positions.iter().map(|&each| Position::new(each).unwrap());
        (0..).zip(positions).collect()
    }

    fn packed(positions: &[i64]) -> (u64, u32, Option<u32>, usize) {
        let Packed { base, widths, len } = Packed::of(&entries(positions));
        (base, widths.wide, widths.narrow, len)
    }

    #[test]
    fn the_widths_are_the_least_that_do() {
        assert_eq!(packed(&[7]), (7, 0, None, 0));
        assert_eq!(packed(&[7, 7, 7]), (7, 1, None, 1));
        assert_eq!(packed(&[1_000, 1_007, 1_001]), (1_000, 3, None, 2));
        assert_eq!(
            packed(&[0, i64::MAX - 1]),
            (0, 63, Some(0), (2_usize + 63).div_ceil(8))
        );
    }

    #[test]
    fn one_far_above_the_others_does_not_make_them_long() {
        let mut positions = vec![5; 39];
        positions[3] = 9;
        positions.push(1 << 40);
        // 40 flags, 39 values of 3 bits, one of 40.
        let bytes = (40_usize + 39 * 3 + 41).div_ceil(8);
        let (base, wide, narrow, len) = packed(&positions);
        assert_eq!((base, wide), (5, 40));
        assert!(len <= bytes && narrow.is_some(), "{len}, {narrow:?}");
    }

    proptest! {
        #[test]
        fn positions_are_read_back(
            positions in vec((0..i64::MAX, 0..63_u32), 1..50),
        ) {
            let positions: Vec<i64> = positions.into_iter().map(|(each, bits)| each >> bits).collect();
            let entries = entries(&positions);
            let packed = Packed::of(&entries);
            let mut bytes = Vec::new();
            packed.write(&entries, &mut bytes);
            prop_assert_eq!(bytes.len(), packed.len);
            bytes.push(0xff);
            let mut cursor = Cursor::new(&bytes);
            let partitions = 0..entries.len() as u32;
            let read = read(&mut cursor, partitions, entries.len() == 1, packed.base, packed.widths);
            prop_assert_eq!(read, Ok(entries));
            prop_assert_eq!(cursor.rest, &[0xff]);
        }
    }
}
