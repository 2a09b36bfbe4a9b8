//! Any bytes as a header's value, and as a shard.
//!
//! Whatever is read has to be written back to the byte, and merging it has to change what it is merged into once.

#![no_main]

use keyway_causal::{Causes, CausesView, Shard};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    header(data);
    shard(data);
});

fn header(value: &[u8]) {
    let (view, causes) = (CausesView::parse(value), Causes::decode(value));
    assert_eq!(view.as_ref().err(), causes.as_ref().err());
    let (Ok(view), Ok(causes)) = (view, causes) else { return };
    assert_eq!(causes.encode(), value);
    assert_eq!(causes.encoded_len(), value.len());
    assert!(view.iter().eq(causes.iter()));
    let mut merged = Causes::new();
    assert_eq!(merged.merge_header(&view), !causes.is_empty());
    assert!(!merged.merge_header(&view) && !merged.merge_all(&causes));
    assert_eq!(merged, causes);
}

fn shard(rider: &[u8]) {
    let Ok(shard) = Shard::decode(rider) else { return };
    assert_eq!(shard.encode(), rider);
    assert_eq!(shard.encoded_len(), rider.len());
    assert!(Shard::is_shard(rider));
}
