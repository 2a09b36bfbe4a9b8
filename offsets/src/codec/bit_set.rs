//! Bits: one for each offset, least significant first, 1 = complete.
//!
//! ```text
//!     base 100, highest 109, holes 100, 103, 104
//!
//!     00 0a | e6 03 | 00        the number of offsets (two bytes for `l`, four for `o`), bits, pad
//!             || ||
//!             || 00000011       109, 108
//!             11100110          107 .. 100
//! ```
//!
//! Both directions work on words and edges: a word of sixty-four equal bits costs one comparison.

use super::MapBuilder;
use super::encoding::Width;
use crate::error::{DecodeError, TrailingData};
use crate::hole_map::HoleMap;

/// Java writes one byte more than the bits need, always 00.
const PAD_BYTES: usize = 1;

pub(super) fn write(map: &HoleMap, width: Width, len: usize) -> Vec<u8> {
    let mut body = Vec::with_capacity(len);
    width.push(&mut body, map.span());
    let bits_at = body.len();
    body.resize(len - PAD_BYTES, 0xFF);
    let bits = &mut body[bits_at..];
    let base = map.base().position();
    for hole in map.holes() {
        clear(
            bits,
            hole.first.position() - base,
            hole.last.position() - base + 1,
        );
    }
    let past_end = bits.len() as u64 * 8;
    clear(bits, map.span(), past_end);
    body.resize(len, 0);
    body
}

/// Clears the bits `first..end`.
fn clear(bits: &mut [u8], first: u64, end: u64) {
    if first >= end {
        return;
    }
    let last = end - 1;
    // The map fits a body in memory, so its indices fit `usize`.
    let (first_byte, last_byte) = ((first / 8) as usize, (last / 8) as usize);
    let below_first = !(0xFF << (first % 8));
    let above_last = !(0xFF >> (7 - last % 8));
    if first_byte == last_byte {
        bits[first_byte] &= below_first | above_last;
    } else {
        bits[first_byte] &= below_first;
        bits[first_byte + 1..last_byte].fill(0);
        bits[last_byte] &= above_last;
    }
}

pub(super) fn read(
    form: &'static str,
    body: &[u8],
    width: Width,
    map: &mut MapBuilder,
) -> Result<(), DecodeError> {
    let truncated = |needed| DecodeError::Truncated {
        form,
        needed,
        actual: body.len(),
    };
    let Some((length, rest)) = width.split(body) else {
        return Err(truncated(width.bytes() as u64));
    };
    let Ok(offsets) = u64::try_from(length) else {
        return Err(DecodeError::BadLength { form, length });
    };
    map.extend(offsets)?;
    let needed = offsets.div_ceil(8) + PAD_BYTES as u64;
    let Some(surplus) = (rest.len() as u64).checked_sub(needed) else {
        return Err(truncated(width.bytes() as u64 + needed));
    };
    let trailing = |data| DecodeError::Trailing { form, data };
    if surplus > 0 {
        return Err(trailing(TrailingData::Bytes { count: surplus }));
    }
    let (bits, pad) = rest.split_at(rest.len() - PAD_BYTES);
    if pad != [0] {
        return Err(trailing(TrailingData::Pad { byte: pad[0] }));
    }
    if let Some(&byte) = bits.last() {
        let used = (offsets - 1) % 8 + 1;
        if u16::from(byte) >> used != 0 {
            return Err(trailing(TrailingData::Bits { byte }));
        }
    }
    read_edges(bits, offsets, map);
    Ok(())
}

/// Turns bits into holes: every bit that differs from the one before it opens or closes one.
fn read_edges(bits: &[u8], offsets: u64, map: &mut MapBuilder) {
    let mut before = 1;
    let mut open = None;
    for (index, chunk) in bits.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let word = u64::from_le_bytes(word);
        let mut edges = word ^ (word << 1 | before);
        before = word >> 63;
        while edges != 0 {
            let at = index as u64 * 64 + u64::from(edges.trailing_zeros());
            edges &= edges - 1;
            match open.take() {
                // What follows the last offset in its word is 0 and may look like a hole.
                None if at >= offsets => break,
                None => open = Some(at),
                Some(first) => map.hole(first, at),
            }
        }
    }
    if let Some(first) = open {
        map.hole(first, offsets);
    }
}
