//! Which partitions of a topic have an entry: as runs, or as a bitmap where that is shorter.
//!
//! ```text
//!     runs   = count | ( gap | length - 1 ) * count     gap: partitions passed over since the run before; first from 0
//!     bitmap = first | bytes | byte * bytes             bit i of byte k, the lowest first: partition first + 1 + 8k + i
//! ```

use crate::channel::{MAX_PARTITION, Position};
use crate::cursor::Cursor;
use crate::error::{Part, ShardError};
use crate::varint;

/// Bits of a byte, as partitions are counted.
const BYTE: u32 = u8::BITS;

/// Partitions one behind the other, both included.
pub(super) type Run = (u32, u32);

/// How partitions are written.
pub(super) struct Partitions {
    /// Ascending, one at least, with a gap between two.
    runs: Vec<Run>,
    pub(super) is_bitmap: bool,
    /// Bytes of it.
    pub(super) len: usize,
}

impl Partitions {
    /// The shorter way for the partitions of these entries, which ascend; runs when both are equally long.
    pub(super) fn of(entries: &[(u32, Position)]) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for &(partition, _) in entries {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == partition => *last = partition,
                _ => runs.push((partition, partition)),
            }
        }
        let (as_runs, as_bitmap) = (runs_len(&runs), bitmap_len(&runs));
        Self {
            runs,
            is_bitmap: as_bitmap < as_runs,
            len: as_bitmap.min(as_runs),
        }
    }

    pub(super) fn write(&self, to: &mut Vec<u8>) {
        if self.is_bitmap {
            write_bitmap(&self.runs, to);
        } else {
            varint::write(self.runs.len() as u64, to);
            for number in run_numbers(&self.runs).flatten() {
                varint::write(number, to);
            }
        }
    }
}

/// The gap before each run, and one less than its length.
fn run_numbers(runs: &[Run]) -> impl Iterator<Item = [u64; 2]> {
    runs.iter().scan(0, |next, &(first, last)| {
        let gap = first - *next;
        // The partition behind a run belongs to none.
        *next = last.saturating_add(1);
        Some([gap.into(), (last - first).into()])
    })
}

fn runs_len(runs: &[Run]) -> usize {
    let numbers = run_numbers(runs).flatten();
    varint::len(runs.len() as u64) + numbers.map(varint::len).sum::<usize>()
}

/// The first partition, and bytes for the others; of no runs, nothing.
fn bitmap_extent(runs: &[Run]) -> (u32, usize) {
    match (runs.first(), runs.last()) {
        (Some(&(first, _)), Some(&(_, last))) => (first, (last - first).div_ceil(BYTE) as usize),
        _ => (0, 0),
    }
}

fn bitmap_len(runs: &[Run]) -> usize {
    let (first, bytes) = bitmap_extent(runs);
    varint::len(first.into()) + varint::len(bytes as u64) + bytes
}

/// Only for what is shorter so, so that its bytes are no more than twice its runs.
fn write_bitmap(runs: &[Run], to: &mut Vec<u8>) {
    let (first, bytes) = bitmap_extent(runs);
    varint::write(first.into(), to);
    varint::write(bytes as u64, to);
    let mut bitmap = vec![0_u8; bytes];
    for partition in runs.iter().flat_map(|&(from, to)| from..=to) {
        if let Some(bit) = partition.checked_sub(first + 1) {
            bitmap[(bit / BYTE) as usize] |= 1 << (bit % BYTE);
        }
    }
    to.append(&mut bitmap);
}

/// Reads partitions in the way that `is_bitmap` says. What is allocated is bounded by the bytes that are there, how many
/// partitions there are is not.
///
/// # Errors
/// When they end early, or a partition is above the highest that there can be. Another spelling than
/// [`Partitions::write`]'s may be read.
pub(super) fn read(cursor: &mut Cursor<'_>, is_bitmap: bool) -> Result<Vec<Run>, ShardError> {
    if is_bitmap {
        read_bitmap(cursor)
    } else {
        read_runs(cursor)
    }
}

/// A partition, unless its number is above what can be.
fn partition(number: u64, offset: usize) -> Result<u32, ShardError> {
    match u32::try_from(number) {
        Ok(partition) if partition <= MAX_PARTITION => Ok(partition),
        _ => Err(ShardError::BadNumber {
            offset,
            part: Part::Partition,
        }),
    }
}

fn read_runs(cursor: &mut Cursor<'_>) -> Result<Vec<Run>, ShardError> {
    let offset = cursor.at();
    let count = cursor.varint::<31>(Part::PartitionCount)?;
    if count == 0 {
        return Err(ShardError::BadNumber {
            offset,
            part: Part::PartitionCount,
        });
    }
    let mut runs = Vec::new();
    let mut next = 0;
    for _ in 0..count {
        let offset = cursor.at();
        let first = next + cursor.varint::<31>(Part::Partition)?;
        let last = first + cursor.varint::<31>(Part::Partition)?;
        runs.push((partition(first, offset)?, partition(last, offset)?));
        next = last + 1;
    }
    Ok(runs)
}

fn read_bitmap(cursor: &mut Cursor<'_>) -> Result<Vec<Run>, ShardError> {
    let first = cursor.varint::<31>(Part::Partition)?;
    let bytes = cursor.varint::<31>(Part::PartitionCount)?;
    let offset = cursor.at();
    let bitmap = cursor.take(bytes, Part::Partition)?;
    let first = partition(first, offset)?;
    let mut runs = vec![(first, first)];
    for (at, byte) in (0_u64..).zip(bitmap) {
        for bit in (0..BYTE).filter(|bit| byte & 1 << bit != 0) {
            let number = u64::from(first) + 1 + at * u64::from(BYTE) + u64::from(bit);
            let each = partition(number, offset)?;
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == each => *last = each,
                _ => runs.push((each, each)),
            }
        }
    }
    Ok(runs)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    fn entries(partitions: impl IntoIterator<Item = u32>) -> Vec<(u32, Position)> {
        let entries = partitions.into_iter();
        entries.map(|each| (each, Position::ZERO)).collect()
    }

    fn written(partitions: impl IntoIterator<Item = u32>) -> (bool, Vec<u8>) {
        let partitions = Partitions::of(&entries(partitions));
        let mut bytes = Vec::new();
        partitions.write(&mut bytes);
        assert_eq!(bytes.len(), partitions.len);
        (partitions.is_bitmap, bytes)
    }

    #[test]
    fn the_shorter_form_is_written() {
        assert_eq!(written(0..130), (false, vec![1, 0, 0x81, 0x01]));
        assert_eq!(written(5..9), (false, vec![1, 5, 3]));
        assert_eq!(written([7]), (true, vec![7, 0]));
        assert_eq!(written([0, 2, 4, 6]), (true, vec![0, 1, 0b10_1010]));
        assert_eq!(written([3, 1_000]), (false, vec![2, 3, 0, 0xe4, 0x07, 0]));
        assert_eq!(written([0, MAX_PARTITION]).1.len(), 1 + 2 + 6);
    }

    #[test]
    fn of_two_forms_that_are_equally_long_it_is_the_runs() {
        assert_eq!(written([0, 1]), (false, vec![1, 0, 1]));
    }

    proptest! {
        #[test]
        fn partitions_are_read_back(
            near in btree_set(0..300_u32, 1..60), far in btree_set(0..=MAX_PARTITION, 0..4),
        ) {
            let partitions: Vec<u32> = near.union(&far).copied().collect();
            let (is_bitmap, bytes) = written(partitions.clone());
            let mut cursor = Cursor::new(&bytes);
            let runs = read(&mut cursor, is_bitmap).unwrap();
            prop_assert!(cursor.rest.is_empty());
            let read: Vec<u32> = runs.iter().flat_map(|&(first, last)| first..=last).collect();
            prop_assert_eq!(read, partitions);
        }
    }
}
