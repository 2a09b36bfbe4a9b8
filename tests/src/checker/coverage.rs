//! What a commit says is complete.

use keyway_offsets::{DEFAULT_MAX_WINDOW, HoleMap, Offset};

/// The map of a commit, or why its text is none.
pub(super) fn of(offset: Offset, metadata: &[u8]) -> Result<HoleMap, String> {
    let metadata = keyway_rider::read(offset, metadata, DEFAULT_MAX_WINDOW);
    metadata
        .map
        .map(|decoded| decoded.map)
        .map_err(|error| format!("committed text that is no map: {error}"))
}
