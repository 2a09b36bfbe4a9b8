//! The text of one commit: as much of rider and map as the broker takes.
//!
//! The one idea: how long every rung would be follows from two numbers, the bytes of the map and of the rider, so
//! the rung is chosen first and the text is built once.
//!
//! ```text
//!     HoleMap --> CommitMap --(max_bytes)--> the application
//!                     |                            |
//!                     +<-------- Offer ------------'
//!                     '--> CommitText
//! ```
//!
//! The rider never costs the map: what gives way first is the rider, then the marker that says so. Only where the
//! map does not fit by itself does a rider ride alone.

use std::fmt;

use keyway_offsets::{Encoding, HoleMap, Limits, Payload, encode_payload, text};

use crate::envelope::{self, HEADER_BYTES, MAX_RIDER_BYTES};
use crate::rider::RiderBytes;

/// What a commit could carry within its limits, the fullest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rung {
    /// The rider and the map.
    RiderAndMap,
    /// The map, and the marker that a rider was dropped.
    MarkerAndMap,
    /// The map.
    Map,
    /// The rider: there was no map to write, or no room for it.
    RiderOnly,
    /// The marker that a rider was dropped.
    MarkerOnly,
    /// Nothing: there was nothing to say, or no room to say it.
    None,
}

impl Rung {
    /// The name in the command's answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RiderAndMap => "rider_and_map",
            Self::MarkerAndMap => "marker_and_map",
            Self::Map => "map",
            Self::RiderOnly => "rider_only",
            Self::MarkerOnly => "marker_only",
            Self::None => "none",
        }
    }

    /// Whether the text carries the map.
    pub const fn has_map(self) -> bool {
        matches!(self, Self::RiderAndMap | Self::MarkerAndMap | Self::Map)
    }

    /// Whether the text carries the rider.
    pub const fn has_rider(self) -> bool {
        matches!(self, Self::RiderAndMap | Self::RiderOnly)
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is to go beside the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// No envelope.
    Nothing,
    /// The marker: there is a rider, and it can't be had.
    Marker,
    /// A rider.
    Rider(RiderBytes),
}

/// The metadata string of one partition's commit, and what it means for the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitText {
    /// What goes into the commit.
    pub text: String,
    /// The form of the map, also when it was stripped.
    pub encoding: Encoding,
    /// How much of what there was to say `text` carries.
    pub rung: Rung,
    /// Characters of the map's own text, also when it was stripped.
    pub inner_chars: usize,
    /// Whether the map was left out though there was one.
    pub stripped: bool,
    /// Whether records above the highest complete one have to wait, so that the map shrinks.
    pub blocked: bool,
}

/// The bytes that a rider may have while the map is at or under the threshold: it is never shed for want of room.
pub const fn guaranteed_bytes(limits: &Limits) -> usize {
    let spare = text::bytes_within(limits.cap_chars)
        .saturating_sub(text::bytes_within(limits.threshold_chars))
        .saturating_sub(HEADER_BYTES);
    if spare < MAX_RIDER_BYTES {
        spare
    } else {
        MAX_RIDER_BYTES
    }
}

/// The characters that a rider of so many bytes takes of a text, at most.
pub const fn rider_chars(bytes: usize) -> usize {
    text::chars_of(HEADER_BYTES.saturating_add(bytes))
}

/// The bytes that a rider may have where there is no map beside it.
pub const fn most_bytes(limits: &Limits) -> usize {
    let bytes = text::bytes_within(limits.cap_chars).saturating_sub(HEADER_BYTES);
    if bytes < MAX_RIDER_BYTES {
        bytes
    } else {
        MAX_RIDER_BYTES
    }
}

/// A map that is encoded, before it is known what rides beside it.
#[derive(Clone, Debug)]
pub struct CommitMap {
    payload: Payload,
    limits: Limits,
    /// Whether there is a map at all.
    is_some: bool,
    /// Whether it can be written.
    fits: bool,
    span: u64,
}

impl CommitMap {
    /// Encodes `map`.
    pub fn new(map: &HoleMap, limits: &Limits) -> Self {
        let payload = encode_payload(map);
        // A map wider than 2^31 may have no form at all; then the encoder has already said nothing.
        let fits = !payload.bytes.is_empty()
            && text::chars_of(payload.bytes.len()) <= limits.cap_chars
            && map.span() <= limits.max_window;
        Self {
            payload,
            limits: *limits,
            is_some: !map.is_caught_up(),
            fits,
            span: map.span(),
        }
    }

    /// Characters of the map's own text.
    pub fn inner_chars(&self) -> usize {
        text::chars_of(self.payload.bytes.len())
    }

    /// The map's bytes for each offset that it spans; `None` where there is no map.
    pub fn density(&self) -> Option<f64> {
        self.is_some
            .then(|| self.payload.bytes.len() as f64 / self.span as f64)
    }

    /// Whether there is a map that does not fit by itself, so that a text has to go without it.
    pub fn is_stripped(&self) -> bool {
        self.is_some && !self.fits
    }

    /// The bytes that a rider may have beside this map, or without it where it does not fit.
    pub fn max_rider_bytes(&self) -> usize {
        text::bytes_within(self.limits.cap_chars)
            .saturating_sub(HEADER_BYTES + self.inner().len())
            .min(MAX_RIDER_BYTES)
    }

    /// The same, without the map where there is no room for a rider of so many bytes beside it: for a rider that is worth
    /// more than the map, as a causal shard is.
    pub fn giving_way_to(self, rider: usize) -> Self {
        let has_room =
            text::chars_of(HEADER_BYTES + rider + self.inner().len()) <= self.limits.cap_chars;
        Self {
            fits: self.fits && has_room,
            ..self
        }
    }

    /// The text with as much of `offer` as there is room for.
    ///
    /// The partition waits when the map's text is over the threshold or its span has reached the window, whatever
    /// rides beside it. Over the cap or the window the map is stripped: the broker would refuse the one, a reader
    /// the other.
    pub fn with(self, offer: &Offer) -> CommitText {
        let rung = self.rung(offer);
        let inner = if rung.has_map() { self.inner() } else { &[] };
        let text = match (rung, offer) {
            (Rung::None, _) => String::new(),
            (Rung::Map, _) => text::write(inner),
            (Rung::RiderAndMap | Rung::RiderOnly, Offer::Rider(rider)) => {
                text::write(&envelope::write(rider.as_slice(), inner))
            }
            _ => text::write(&envelope::write(&[], inner)),
        };
        let inner_chars = self.inner_chars();
        CommitText {
            text,
            encoding: self.payload.encoding,
            rung,
            inner_chars,
            stripped: self.is_some && !rung.has_map(),
            // A map too wide for every form has no text, and is over any threshold.
            blocked: self.limits.hold_back(inner_chars, self.span)
                || (self.is_some && self.payload.bytes.is_empty()),
        }
    }

    /// What of the map is written.
    fn inner(&self) -> &[u8] {
        if self.fits { &self.payload.bytes } else { &[] }
    }

    fn rung(&self, offer: &Offer) -> Rung {
        let rider = match offer {
            Offer::Rider(rider) => Some(rider.as_slice().len()),
            Offer::Nothing | Offer::Marker => None,
        };
        let has_room = |envelope: usize| {
            text::chars_of(envelope + self.inner().len()) <= self.limits.cap_chars
        };
        let rider = rider.is_some_and(|rider| has_room(HEADER_BYTES + rider));
        let marker = *offer != Offer::Nothing && has_room(HEADER_BYTES);
        match (self.fits, rider, marker) {
            (true, true, _) => Rung::RiderAndMap,
            (true, false, true) => Rung::MarkerAndMap,
            (true, false, false) => Rung::Map,
            (false, true, _) => Rung::RiderOnly,
            (false, false, true) => Rung::MarkerOnly,
            (false, false, false) => Rung::None,
        }
    }
}
