#![doc = include_str!("../README.md")]

mod commit_text;
mod complete;
mod envelope;
mod metadata;
mod rider;
mod scrub;
mod state;

pub use commit_text::{
    CommitMap, CommitText, Offer, Rung, guaranteed_bytes, most_bytes, rider_chars,
};
pub use complete::{NotCompleted, WithComplete, with_complete};
pub use envelope::{EnvelopeFault, MAX_RIDER_BYTES};
pub use metadata::{BadMetadata, Metadata, MetadataError, TextFormat, decode_rider, read};
pub use rider::{InvalidRider, Rider, RiderBytes};
pub use scrub::{WithoutRider, without_rider};
pub use state::{RiderState, StateCell, StateFault, StateSnapshot, Update};
