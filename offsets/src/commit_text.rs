//! The text of one commit: the map if it fits, nothing if it doesn't, and whether the partition waits.

use crate::codec::{Encoding, encode};
use crate::hole_map::HoleMap;
use crate::limits::Limits;

/// What a commit could carry within its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rung {
    /// The hole map.
    Map,
    /// Nothing: there was nothing to say, or no room to say it.
    None,
}

impl Rung {
    /// The name in the command's answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::None => "none",
        }
    }
}

impl std::fmt::Display for Rung {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
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
    /// Characters of the map's text, also when it was stripped.
    pub inner_chars: usize,
    /// Whether records above the highest complete one have to wait, so that the map shrinks.
    pub blocked: bool,
}

/// The text that commits `map` within `limits`.
///
/// The partition waits when the map's text is over the threshold or its span has reached the window.
/// Over the cap or the window the map is stripped: the broker would refuse the one, a reader the other.
pub fn commit_text(map: &HoleMap, limits: &Limits) -> CommitText {
    let encoded = encode(map);
    let inner_chars = encoded.text.len();
    let blocked = inner_chars > limits.threshold_chars
        || (map.span() >= limits.max_window && !map.is_caught_up());
    // A map wider than 2^31 may have no form at all; then the encoder has already said nothing.
    let carried = !encoded.text.is_empty()
        && inner_chars <= limits.cap_chars
        && map.span() <= limits.max_window;
    let (text, rung) = if carried {
        (encoded.text, Rung::Map)
    } else {
        (String::new(), Rung::None)
    };
    CommitText {
        text,
        encoding: encoded.encoding,
        rung,
        inner_chars,
        blocked,
    }
}
