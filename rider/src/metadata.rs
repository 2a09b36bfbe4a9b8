//! Reading the whole of what stands beside a committed offset. This is the one reader: the engine's restore, the
//! command and [`decode_rider`] go through it.

use keyway_offsets::{
    DEFAULT_MAX_WINDOW, DecodeError, Decoded, Encoding, HoleMap, Offset, decode_payload, text,
};
use thiserror::Error;

use crate::envelope::{self, EnvelopeFault};
use crate::rider::Rider;

/// What to do with committed metadata that can't be used: text of another program, a damaged map or envelope, a
/// map that does not fit the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadMetadata {
    /// Start at the committed offset as if it had no metadata: what was complete above it runs again. Counted,
    /// and logged once for each partition. A rider beside a damaged map is read all the same.
    #[default]
    Ignore,
    /// Stop with a typed error.
    Fail,
}

/// How bytes became characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TextFormat {
    /// The empty string.
    Empty,
    /// Base64, or meant as such.
    Base64,
}

impl TextFormat {
    /// The name in the command's answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Base64 => "base64",
        }
    }
}

/// Why a metadata string can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The map, or the text around it, is not one.
    #[error(transparent)]
    Map(#[from] DecodeError),
    /// The rider's envelope can't be parsed.
    #[error("bad rider envelope: {0}")]
    Envelope(#[from] EnvelopeFault),
}

impl MetadataError {
    /// The name of the cause in the command's answers.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Map(error) => error.name(),
            Self::Envelope(EnvelopeFault::Nested) => "nested_envelope",
            Self::Envelope(_) => "bad_envelope",
        }
    }
}

/// What stands beside a committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The hole map; a map that is corrupt does not cost the rider beside it.
    pub map: Result<Decoded, MetadataError>,
    /// The rider.
    pub rider: Rider,
    /// How the text was written.
    pub format: TextFormat,
}

/// Reads the metadata string that was committed together with the offset `committed`.
///
/// `text` is taken as bytes, since what another program wrote need not be UTF-8. `max_window` bounds the span of
/// the map; nothing is allocated by a length that the text announces.
pub fn read(committed: Offset, text: &[u8], max_window: u64) -> Metadata {
    if text.is_empty() {
        return Metadata {
            map: Ok(Decoded {
                map: HoleMap::caught_up(committed),
                encoding: Encoding::None,
            }),
            rider: Rider::None,
            format: TextFormat::Empty,
        };
    }
    let (map, rider) = match text::read(text) {
        Err(fault) => (Err(DecodeError::BadText(fault).into()), Rider::None),
        Ok(payload) => read_payload(committed, &payload, max_window),
    };
    Metadata {
        map,
        rider,
        format: TextFormat::Base64,
    }
}

pub(crate) fn read_payload(
    committed: Offset,
    payload: &[u8],
    max_window: u64,
) -> (Result<Decoded, MetadataError>, Rider) {
    let map = |inner| decode_payload(committed, inner, max_window).map_err(MetadataError::from);
    if !envelope::is_envelope(payload) {
        return (map(payload), Rider::None);
    }
    match envelope::open(payload) {
        Err(fault) => (Err(fault.into()), Rider::Unreadable),
        Ok(([], inner)) => (map(inner), Rider::Dropped),
        Ok((rider, inner)) => (map(inner), Rider::Present(rider.to_vec())),
    }
}

/// The rider of a commit.
///
/// # Errors
/// Under [`BadMetadata::Fail`], when any part of the text can't be read. Under [`BadMetadata::Ignore`] never: an
/// envelope around a damaged map still yields its rider, and one that can't be parsed is [`Rider::Unreadable`].
pub fn decode_rider(
    committed: Offset,
    text: &[u8],
    policy: BadMetadata,
) -> Result<Rider, MetadataError> {
    let metadata = read(committed, text, DEFAULT_MAX_WINDOW);
    match (metadata.map, policy) {
        (Err(error), BadMetadata::Fail) => Err(error),
        _ => Ok(metadata.rider),
    }
}
