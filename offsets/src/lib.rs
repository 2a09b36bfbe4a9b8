#![doc = include_str!("../README.md")]

mod bitmap;
mod codec;
mod commit_text;
mod error;
mod hole_map;
mod limits;
mod offset;
mod text;
mod tracker;

pub use codec::{Decoded, Encoded, Encoding, decode, encode, plain_text_len};
pub use commit_text::{CommitText, Rung, commit_text};
pub use error::{
    DecodeError, InvalidMap, InvalidRatio, NotCanonical, TextFault, TrailingData, ZstdFault,
};
pub use hole_map::HoleMap;
pub use limits::{DEFAULT_CAP_CHARS, DEFAULT_MAX_WINDOW, Limits, ThresholdRatio};
pub use offset::{Offset, OffsetRange};
pub use tracker::{Received, Tracker};
