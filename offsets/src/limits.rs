//! How much of the broker's metadata string a map may take.
//!
//! Two numbers: the cap, over which the broker refuses the whole commit, and the threshold below it, over
//! which records above the highest complete one wait, so that the map shrinks before it is too long.

use crate::error::InvalidRatio;
use crate::text::bytes_within;

/// The broker's `offset.metadata.max.bytes` where nobody changed it. It counts UTF-16 units.
pub const DEFAULT_CAP_CHARS: usize = 4096;

/// The widest span of offsets that is read or written where nothing else is asked for.
pub const DEFAULT_MAX_WINDOW: u64 = 1 << 28;

/// The limits that the text of a commit keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Characters that the broker takes; a longer text is stripped.
    pub cap_chars: usize,
    /// Characters over which the partition waits.
    pub threshold_chars: usize,
    /// Offsets that a map may span; a wider one is stripped.
    pub max_window: u64,
}

impl Limits {
    /// Limits from the broker's cap and the share of it that may be used without waiting, with the
    /// default window.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    pub fn new(cap_chars: usize, ratio: ThresholdRatio) -> Self {
        // The ratio is within 0 and 1, so the product is within 0 and the cap.
        let threshold_chars = (cap_chars as f64 * ratio.get()).floor() as usize;
        Self {
            cap_chars,
            threshold_chars,
            max_window: DEFAULT_MAX_WINDOW,
        }
    }

    /// The same limits under another window.
    #[must_use]
    pub const fn with_max_window(self, offsets: u64) -> Self {
        Self {
            max_window: offsets,
            ..self
        }
    }

    /// Whether a map of this span whose text has `map_chars` characters holds the partition back: over the
    /// threshold, or as wide as a map may be.
    pub const fn hold_back(&self, map_chars: usize, span: u64) -> bool {
        map_chars > self.threshold_chars || (span > 0 && span >= self.max_window)
    }

    /// The widest span of which every map fits under the cap, wherever its holes are: the plain bitmap takes
    /// a bit for each offset. At least 1, since a map with one hole below one complete offset is nobody's choice.
    pub const fn span_that_always_fits(&self) -> u64 {
        let bytes = bytes_within(self.cap_chars);
        // What stands around the bits, by how the length is written.
        let short = bitmap_bits(bytes, 4);
        let long = bitmap_bits(bytes, 6);
        let bits = if long > SHORT_BITMAP_BITS {
            long
        } else if short > SHORT_BITMAP_BITS {
            SHORT_BITMAP_BITS
        } else {
            short
        };
        let bits = if bits < self.max_window {
            bits
        } else {
            self.max_window
        };
        if bits == 0 { 1 } else { bits }
    }

    /// The limits after the broker refused a text and `cap_chars` was learned: the threshold keeps its
    /// share of the cap. A cap that is not lower changes nothing.
    #[must_use]
    pub fn lowered_to(self, cap_chars: usize) -> Self {
        if cap_chars >= self.cap_chars {
            return self;
        }
        let scaled = self.threshold_chars as u128 * cap_chars as u128 / self.cap_chars as u128;
        let threshold_chars = usize::try_from(scaled).unwrap_or(usize::MAX);
        Self {
            cap_chars,
            threshold_chars,
            ..self
        }
    }
}

/// The longest bitmap whose length is written in two bytes.
const SHORT_BITMAP_BITS: u64 = 32_767;

/// The bits that a bitmap form with `around` further bytes has in `bytes` bytes.
const fn bitmap_bits(bytes: usize, around: usize) -> u64 {
    (bytes.saturating_sub(around) as u64).saturating_mul(8)
}

impl Limits {
    /// The limits with a cap that was learned from a text of which the map was only a part: the threshold stays where
    /// it is, as far as it is within the cap.
    #[must_use]
    pub fn capped_at(self, cap_chars: usize) -> Self {
        if cap_chars >= self.cap_chars {
            return self;
        }
        Self {
            cap_chars,
            threshold_chars: self.threshold_chars.min(cap_chars),
            ..self
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new(DEFAULT_CAP_CHARS, ThresholdRatio::default())
    }
}

/// The share of the cap up to which a text does not hold the partition back: from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct ThresholdRatio(f64);

impl ThresholdRatio {
    /// The ratio `value`.
    ///
    /// # Errors
    /// When it is not a number from 0 to 1.
    pub fn new(value: f64) -> Result<Self, InvalidRatio> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(InvalidRatio { value })
        }
    }

    /// The ratio as a number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Default for ThresholdRatio {
    /// Three quarters, as in Java.
    fn default() -> Self {
        Self(0.75)
    }
}
