//! Completing records in a text that is committed already, for the record that no member survives.
//!
//! ```text
//!     committed, text --read--> map, rider
//!                                |     '--------------------.  byte for byte
//!                                +--with_complete--> map' --+--> committed', text'
//! ```

use keyway_offsets::{HoleMap, Limits, Offset, OffsetRange};
use thiserror::Error;

use crate::commit_text::{CommitMap, Offer};
use crate::metadata::{MetadataError, read};
use crate::rider::{Rider, RiderBytes};

/// A commit in which more records are complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithComplete {
    /// The map; its base is the new committed offset.
    pub map: HoleMap,
    /// The text beside it.
    pub text: String,
    /// The rider that stays, a value or the marker.
    pub rider: Rider,
    /// How many offsets were incomplete until now.
    pub newly: u64,
}

/// Why nothing can be completed in a text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotCompleted {
    /// Nobody knows what is complete already.
    #[error("the text can't be read: {0}")]
    Unreadable(#[from] MetadataError),
    /// The broker would not take map and rider together, and neither is given up.
    #[error(
        "the new map needs {chars} characters, which leaves no room for what is there of at most {cap}"
    )]
    TooLong {
        /// Characters of the new map alone.
        chars: usize,
        /// Characters that the broker takes.
        cap: usize,
    },
}

/// The metadata string `text`, committed with the offset `committed`, once the offsets of `range` are complete as
/// well. What was complete stays so, and a rider or its marker stays as it is.
///
/// # Errors
/// When the text can't be read, or the new one would have to give something up.
pub fn with_complete(
    committed: Offset,
    text: &[u8],
    range: OffsetRange,
    limits: &Limits,
) -> Result<WithComplete, NotCompleted> {
    let found = read(committed, text, limits.max_window);
    let before = found.map?.map;
    let map = before.with_complete(range);
    let offer = match &found.rider {
        Rider::Present(rider) => RiderBytes::new(rider.clone()).map_or(Offer::Marker, Offer::Rider),
        Rider::None => Offer::Nothing,
        // An envelope that can't be parsed has failed the map as well.
        Rider::Dropped | Rider::Unreadable => Offer::Marker,
    };
    let commit = CommitMap::new(&map, limits);
    let chars = commit.inner_chars();
    let text = commit.with(&offer).text;
    // What the ladder gave up a reader does not find.
    let again = read(map.base(), text.as_bytes(), limits.max_window);
    if again.rider != found.rider || again.map.map(|decoded| decoded.map) != Ok(map.clone()) {
        let cap = limits.cap_chars;
        return Err(NotCompleted::TooLong { chars, cap });
    }
    Ok(WithComplete {
        newly: incomplete(&before, range),
        map,
        text,
        rider: found.rider,
    })
}

/// How many offsets of `range` are incomplete.
fn incomplete(map: &HoleMap, range: OffsetRange) -> u64 {
    let unknown = range
        .last
        .get()
        .saturating_sub(map.highest().max(range.first.get() - 1))
        .max(0);
    let within = |hole: &OffsetRange| {
        let (first, last) = (hole.first.max(range.first), hole.last.min(range.last));
        OffsetRange::new(first, last).map_or(0, |both| both.len())
    };
    unknown.unsigned_abs() + map.holes().iter().map(within).sum::<u64>()
}
