//! The chance of the tests that are drawn: one seed, printed by the run, that replays it.

use std::env;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

/// SplitMix64: every seed is a good one.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn of(seed: u64) -> Random {
        Random(seed)
    }

    /// A number from the range.
    pub fn below(&mut self, range: Range<u64>) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        range.start + (mixed ^ (mixed >> 31)) % (range.end - range.start)
    }

    /// One of several.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        assert!(!from.is_empty(), "nothing to choose from");
        from[self.below(0..from.len() as u64) as usize]
    }
}

/// The number in an environment variable, if it is set.
///
/// # Panics
/// When it is set to something else.
pub fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text}: a number")))
}

/// The seed in an environment variable, or a new one.
pub fn seed(variable: &str) -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    number(variable).unwrap_or_else(|| since_epoch.unwrap_or_default().as_micros() as u64)
}
