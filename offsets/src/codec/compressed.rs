//! Which compressed form is the shortest, without compressing what can't be.
//!
//! Java compresses all four forms. Here up to three are, each after a look at what the ones before gave,
//! because compressing is what encoding costs. Each rule below was tried against compressing everything,
//! over windows of 300 to 1,000,000 offsets with random, bursty, periodic and nearly periodic holes of
//! every density (`tests/choice.rs` keeps trying); none of them ever chose a longer text.

use super::encoding::{Form, Width};
use super::{Shape, write_body, zstd};
use crate::hole_map::HoleMap;

/// Below this a rule may not hold, and costs more to judge than compressing does.
const JUDGED_BODY_BYTES: usize = 4096;

/// Bits that are this many times as long as short runs never become the shorter frame: almost all of
/// their bytes are FF, and each of these costs something that runs don't have.
const SPARSE_FACTOR: usize = 2;

/// The compressed form of `map` that has fewer than `plain_len` bytes and the fewest of all; the first
/// in [`Form::ALL`] among equals.
pub(super) fn shortest(map: &HoleMap, shape: &Shape, plain_len: usize) -> Option<(Form, Vec<u8>)> {
    if plain_len <= zstd::SHORTEST_FRAME_BYTES {
        return None;
    }
    let bodies = Bodies { map, shape };
    let bits = bodies.bits();
    let int_runs = bodies.int_runs(bits.as_ref());
    let short_runs = bodies.short_runs(bits.as_ref(), int_runs.as_ref());
    let int_is_wide = bits
        .as_ref()
        .is_some_and(|bits| bits.form == Form::BitSet(Width::Int));
    let (short_bits, int_bits) = if int_is_wide {
        (None, bits)
    } else {
        (bits, None)
    };
    [short_runs, short_bits, int_runs, int_bits]
        .into_iter()
        .flatten()
        .filter(|frame| frame.bytes.len() < plain_len)
        .min_by_key(|frame| frame.bytes.len())
        .map(|frame| (frame.form, frame.bytes))
}

/// A compressed body.
struct Frame {
    form: Form,
    bytes: Vec<u8>,
}

struct Bodies<'a> {
    map: &'a HoleMap,
    shape: &'a Shape,
}

impl Bodies<'_> {
    fn compress(&self, form: Form) -> Option<Frame> {
        let len = self
            .shape
            .body_len(form)
            .filter(|&len| len <= zstd::MAX_BODY_BYTES)?;
        let bytes = zstd::compress(&write_body(self.map, form, len))?;
        Some(Frame { form, bytes })
    }

    /// The bits in the narrowest form. The wider one is the same with two more bytes in front.
    fn bits(&self) -> Option<Frame> {
        let sparse = self.bits_len() >= self.short_runs_len().saturating_mul(SPARSE_FACTOR);
        if sparse {
            return None;
        }
        self.compress(Form::BitSet(Width::Short))
            .or_else(|| self.compress(Form::BitSet(Width::Int)))
    }

    /// Four bytes a run: often shorter than two bytes a run once compressed, since the zeros between
    /// them are what zstd needs to see a match.
    fn int_runs(&self, bits: Option<&Frame>) -> Option<Frame> {
        if self.runs_lose_to(bits) {
            return None;
        }
        self.compress(Form::RunLength(Width::Int))
    }

    fn short_runs(&self, bits: Option<&Frame>, int_runs: Option<&Frame>) -> Option<Frame> {
        let form = Form::RunLength(Width::Short);
        let len = self.shape.body_len(form)?;
        if self.runs_lose_to(bits) {
            return None;
        }
        if let Some(int_runs) = int_runs.filter(|_| len >= JUDGED_BODY_BYTES) {
            // Where the wide runs came out near the entropy of the short ones' bytes, there is nothing
            // that repeats; then all that is left for the short ones is that entropy.
            let entropy = entropy_bytes(&write_body(self.map, form, len));
            let reached = int_runs.bytes.len() as f64;
            if reached <= entropy && reached >= 0.8 * entropy {
                return None;
            }
        }
        self.compress(form)
    }

    /// Whether runs are more than twice as long as bits, and zstd could not even halve the bits. Runs
    /// this short repeat, if they do, within sixteen bytes of bits, which it would have seen.
    fn runs_lose_to(&self, bits: Option<&Frame>) -> bool {
        const FOUR_REPEATS_BYTES: usize = 64;
        let bits_len = self.bits_len();
        bits_len >= FOUR_REPEATS_BYTES
            && self.short_runs_len() > bits_len.saturating_mul(2)
            && bits.is_some_and(|frame| frame.bytes.len() > bits_len / 2)
    }

    fn bits_len(&self) -> usize {
        usize::try_from(self.shape.offsets.div_ceil(8)).unwrap_or(usize::MAX)
    }

    /// What two bytes a run take, also where a run does not fit them.
    fn short_runs_len(&self) -> usize {
        usize::try_from(self.shape.runs.saturating_mul(2)).unwrap_or(usize::MAX)
    }
}

/// The bytes that `body`, a whole number of two-byte runs, takes by the frequencies of its bytes alone.
fn entropy_bytes(body: &[u8]) -> f64 {
    // High and low bytes apart: counting equal neighbours in one table would wait for each other.
    let mut halves = [[0_u32; 256]; 2];
    for pair in body.chunks_exact(2) {
        halves[0][usize::from(pair[0])] += 1;
        halves[1][usize::from(pair[1])] += 1;
    }
    let len = body.len() as f64;
    let bits = |count: u32| f64::from(count) * (len / f64::from(count)).log2();
    let counts = halves[0]
        .iter()
        .zip(&halves[1])
        .map(|(high, low)| high + low);
    counts.filter(|&count| count > 0).map(bits).sum::<f64>() / 8.0
}
