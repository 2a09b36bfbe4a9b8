//! Taking the rider out of a text that is committed already, for a group that goes on with a program which knows no
//! riders.
//!
//! ```text
//!     Base64( 58 | length | rider | inner )  -->  Base64( inner )       inner byte for byte, also where it is no map
//! ```
//!
//! The map is not encoded anew: what another version wrote stays what it is.

use keyway_offsets::{Decoded, Offset, text};

use crate::envelope::{self, EnvelopeFault};
use crate::metadata::{MetadataError, read_payload};
use crate::rider::Rider;

/// A text whose envelope was taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithoutRider {
    /// The map's own text; empty where the envelope held none.
    pub text: String,
    /// What was taken away: a value, or the marker.
    pub rider: Rider,
    /// What a reader makes of the new text. A map that can't be read is kept as well.
    pub map: Result<Decoded, MetadataError>,
}

/// The metadata string `text`, committed with the offset `committed`, without its rider. `None`: it has no envelope,
/// and there is nothing to take away; what else stands there is not judged.
///
/// # Errors
/// When the envelope can't be parsed: then nobody knows where its map begins.
pub fn without_rider(
    committed: Offset,
    text: &[u8],
    max_window: u64,
) -> Result<Option<WithoutRider>, EnvelopeFault> {
    let Ok(payload) = text::read(text) else {
        return Ok(None);
    };
    if !envelope::is_envelope(&payload) {
        return Ok(None);
    }
    let (_, inner) = envelope::open(&payload)?;
    let (map, rider) = read_payload(committed, &payload, max_window);
    Ok(Some(WithoutRider {
        text: text::write(inner),
        rider,
        map,
    }))
}
