#![doc = include_str!("../README.md")]

mod bitmap;
mod codec;
mod error;
mod hole_map;
mod limits;
mod offset;
mod picture;
pub mod text;
mod tracker;

pub use codec::{
    Decoded, Encoded, Encoding, Payload, decode, decode_payload, encode, encode_payload,
    plain_text_len,
};
pub use error::{
    DecodeError, InvalidMap, InvalidRatio, NotCanonical, TextFault, TrailingData, ZstdFault,
};
pub use hole_map::HoleMap;
pub use limits::{DEFAULT_CAP_CHARS, DEFAULT_MAX_WINDOW, Limits, ThresholdRatio};
pub use offset::{Offset, OffsetRange};
pub use picture::picture;
pub use tracker::{Received, Tracker};
