//! The forms a hole map is written in, which of them is written, and what is read.
//!
//! The one idea: how long each plain form would be follows from three numbers (offsets, runs, longest
//! run), so a form is only built once it has won, or to be compressed where that can win.
//!
//! ```text
//!     HoleMap --> Shape --> the shortest plain form ----.
//!                   '-----> compressed candidates ------+--> magic | body --> Base64
//!
//!     Base64 --> magic | body --> (inflate) --> body --> MapBuilder --> HoleMap
//! ```

mod bit_set;
mod byte_array;
mod compressed;
mod encoding;
mod run_length;
mod zstd;

pub use encoding::Encoding;

use crate::error::{DecodeError, NotCanonical};
use crate::hole_map::HoleMap;
use crate::offset::{Offset, OffsetRange};
use crate::text;
use encoding::Form;

/// A map as bytes, before the outer text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The magic byte and the body; empty when there is nothing to say.
    pub bytes: Vec<u8>,
    /// The form that was chosen.
    pub encoding: Encoding,
}

/// A map as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The metadata string; empty when there is nothing to say.
    pub text: String,
    /// The form that was chosen.
    pub encoding: Encoding,
}

/// A map that was read, and the form it was in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The map, its base the committed offset.
    pub map: HoleMap,
    /// The form it was in.
    pub encoding: Encoding,
}

/// What the length of every plain form follows from.
#[derive(Clone, Copy, Debug)]
struct Shape {
    offsets: u64,
    runs: u64,
    longest_run: u64,
}

impl Shape {
    /// The shape of a map that is not caught up.
    fn of(map: &HoleMap) -> Self {
        let mut shape = Self {
            offsets: map.span(),
            runs: 0,
            longest_run: 0,
        };
        run_length::for_each_run(map, |run| {
            shape.runs += 1;
            shape.longest_run = shape.longest_run.max(run);
        });
        shape
    }

    /// The shortest plain form and the length of its body; the first in [`Form::ALL`] among equals.
    /// `None` when the map is too wide for every form.
    fn shortest(&self) -> Option<(Form, usize)> {
        Form::ALL
            .into_iter()
            .filter_map(|form| Some((form, self.body_len(form)?)))
            .min_by_key(|&(_, len)| len)
    }

    /// The bytes of a plain form's body, or `None` when the map does not fit the form's integers.
    fn body_len(&self, form: Form) -> Option<usize> {
        let len = match form {
            Form::RunLength(width) => {
                (self.longest_run <= width.max()).then(|| self.runs * width.bytes() as u64)
            }
            Form::BitSet(width) => (self.offsets <= width.max())
                .then(|| width.bytes() as u64 + self.offsets.div_ceil(8) + 1),
        }?;
        usize::try_from(len).ok()
    }
}

/// The shortest text of `map`, always the same for the same map.
///
/// A caught-up map is the empty string. So is a map too wide for every form, which takes a span of 2^31
/// offsets; [`plain_text_len`] tells the two apart.
pub fn encode(map: &HoleMap) -> Encoded {
    let payload = encode_payload(map);
    Encoded {
        text: text::write(&payload.bytes),
        encoding: payload.encoding,
    }
}

/// What [`encode`] puts into the text.
pub fn encode_payload(map: &HoleMap) -> Payload {
    let nothing = Payload {
        bytes: Vec::new(),
        encoding: Encoding::None,
    };
    if map.is_caught_up() {
        return nothing;
    }
    let shape = Shape::of(map);
    let Some((form, len)) = shape.shortest() else {
        return nothing;
    };
    let (encoding, body) = match compressed::shortest(map, &shape, len) {
        Some((form, frame)) => (form.compressed(), frame),
        None => (form.plain(), write_body(map, form, len)),
    };
    let mut bytes = Vec::with_capacity(1 + body.len());
    bytes.extend(encoding.magic());
    bytes.extend_from_slice(&body);
    Payload { bytes, encoding }
}

/// The characters of the shortest uncompressed text of `map`: what [`encode`] never exceeds, without
/// encoding. The cost follows the holes.
///
/// `usize::MAX` for a map too wide for every form.
pub fn plain_text_len(map: &HoleMap) -> usize {
    if map.is_caught_up() {
        return 0;
    }
    Shape::of(map)
        .shortest()
        .map_or(usize::MAX, |(_, len)| text::chars_of(1 + len))
}

fn write_body(map: &HoleMap, form: Form, len: usize) -> Vec<u8> {
    match form {
        Form::RunLength(width) => run_length::write(map, width, len),
        Form::BitSet(width) => bit_set::write(map, width, len),
    }
}

/// Reads the text of a hole map that was committed together with the offset `committed`. A rider around it is an
/// unknown magic byte here: `keyway-rider` reads the whole of what a commit carries.
///
/// `text` is taken as bytes, since what another program wrote need not be UTF-8. `max_window` bounds the
/// span of the map; nothing is allocated by a length that the text announces.
///
/// # Errors
/// When the text is not the map of a known form, in every detail.
pub fn decode(committed: Offset, text: &[u8], max_window: u64) -> Result<Decoded, DecodeError> {
    let bytes = text::read(text).map_err(DecodeError::BadText)?;
    decode_payload(committed, &bytes, max_window)
}

/// Reads what [`encode_payload`] makes; [`decode`] without the outer text.
///
/// # Errors
/// As [`decode`].
pub fn decode_payload(
    committed: Offset,
    payload: &[u8],
    max_window: u64,
) -> Result<Decoded, DecodeError> {
    let Some((&magic, body)) = payload.split_first() else {
        return Ok(Decoded {
            map: HoleMap::caught_up(committed),
            encoding: Encoding::None,
        });
    };
    let encoding = Encoding::from_magic(magic)?;
    let mut map = MapBuilder::new(committed, max_window);
    if encoding.is_compressed() {
        let inflated = zstd::decompress(body, encoding.longest_body(map.limit))?;
        read_body(encoding, &inflated, &mut map)?;
    } else {
        read_body(encoding, body, &mut map)?;
    }
    Ok(Decoded {
        map: map.finish()?,
        encoding,
    })
}

fn read_body(encoding: Encoding, body: &[u8], map: &mut MapBuilder) -> Result<(), DecodeError> {
    match encoding.form() {
        Some(Form::RunLength(width)) => run_length::read(encoding.name(), body, width, map),
        Some(Form::BitSet(width)) => bit_set::read(encoding.name(), body, width, map),
        None => byte_array::read(body, map),
    }
}

/// Collects the holes of a map that is being read, within its window.
#[derive(Debug)]
struct MapBuilder {
    base: Offset,
    /// Offsets that the map may span: the window, and what there is up to [`Offset::MAX`].
    limit: u64,
    span: u64,
    holes: Vec<OffsetRange>,
}

impl MapBuilder {
    fn new(base: Offset, max_window: u64) -> Self {
        let above = Offset::MAX.position() - base.position() + 1;
        Self {
            base,
            limit: max_window.min(above),
            span: 0,
            holes: Vec::new(),
        }
    }

    /// Adds `offsets` offsets to the span.
    fn extend(&mut self, offsets: u64) -> Result<(), DecodeError> {
        let span = self.span.saturating_add(offsets);
        if span > self.limit {
            return Err(DecodeError::TooLarge {
                span,
                limit: self.limit,
            });
        }
        self.span = span;
        Ok(())
    }

    /// Adds the hole of the indices `first..end`, which lie within the span and after every other hole.
    fn hole(&mut self, first: u64, end: u64) {
        debug_assert!(first < end && end <= self.span);
        let base = self.base.position();
        self.holes.push(OffsetRange {
            first: Offset::from_position(base + first),
            last: Offset::from_position(base + end - 1),
        });
    }

    fn finish(self) -> Result<HoleMap, DecodeError> {
        let begins_complete = self.holes.first().is_none_or(|hole| hole.first > self.base);
        if self.span > 0 && begins_complete {
            return Err(DecodeError::NotCanonical(NotCanonical::BaseComplete));
        }
        Ok(HoleMap::from_sorted(
            self.base,
            self.base.position() + self.span,
            self.holes,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortest(offsets: u64, runs: u64, longest_run: u64) -> Option<(Encoding, usize)> {
        let shape = Shape {
            offsets,
            runs,
            longest_run,
        };
        shape.shortest().map(|(form, len)| (form.plain(), len))
    }

    #[test]
    fn equal_plain_forms_go_by_the_fixed_order() {
        // Short runs, then short bits: 2 x 4 and 2 + 5 + 1.
        assert_eq!(shortest(40, 4, 10), Some((Encoding::RunLength, 8)));
        assert_eq!(shortest(32, 4, 10), Some((Encoding::BitSet, 7)));
        // A run that is too long leaves the wide forms: 4 x 2000 and 4 + 7995 + 1.
        assert_eq!(
            shortest(63_960, 2000, 32_768),
            Some((Encoding::RunLengthV2, 8000))
        );
        assert_eq!(
            shortest(63_952, 2000, 32_768),
            Some((Encoding::BitSetV2, 7999))
        );
        // Short runs and wide bits: 2 x 4050 and 4 + 8095 + 1.
        assert_eq!(
            shortest(64_760, 4050, 32_767),
            Some((Encoding::RunLength, 8100))
        );
    }

    #[test]
    fn every_form_ends_where_its_integers_end() {
        let wide = u64::from(i32::MAX.unsigned_abs());
        assert_eq!(shortest(wide, 1, wide), Some((Encoding::RunLengthV2, 4)));
        assert_eq!(
            shortest(wide + 1, 2, wide),
            Some((Encoding::RunLengthV2, 8))
        );
        assert_eq!(shortest(wide + 1, 1, wide + 1), None);
        assert_eq!(shortest(u64::MAX >> 1, 2, u64::MAX >> 2), None);
    }
}
