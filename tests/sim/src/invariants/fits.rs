//! A member never lets its own map outgrow the cap: under the limits that it began with, none is stripped.
//!
//! A cap that is learned in the middle, by this member or one before it, is another matter: what runs by then can't
//! be called back.

use keyway_offsets::Limits;

use super::{Check, ensure};

/// In a transaction the map is what keeps outputs from being written again.
pub(crate) fn never_stripped(stripped: bool) -> Check {
    ensure(!stripped, "fits", || {
        "a transaction's map was stripped".to_owned()
    })
}

/// The text of a plan was made under `limits`.
pub(crate) fn not_stripped(stripped: bool, limits: &Limits, first: &Limits) -> Check {
    ensure(!stripped || limits != first, "fits", || {
        format!("a map was stripped under {limits:?}, which were known from the start")
    })
}
