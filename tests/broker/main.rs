//! The whole engine against a real Apache Kafka: several engines of this process are the members of a group.
//!
//! One module for each subject. What happened is in the world's log, and the judge reads it ([`keyway_tests::world`]);
//! each test names what it waits for. All share one cluster, but for those that break it or need settings of their own.

mod aborts;
mod causal;
mod commits;
mod dead_letters;
mod ending;
mod foreign;
mod group;
mod harness;
mod holes;
mod identity;
mod limit;
mod logs;
mod members;
mod outputs;
mod riders;
mod rights;
mod start;
mod stranger;
mod topics;
mod transactions;

use std::time::Duration;

/// The bound for one call of a healthy engine.
const SOON: Duration = Duration::from_secs(30);

/// Heads or tails for an offset, the same in every run: half of all offsets, in no pattern that would compress.
fn coin(offset: i64) -> bool {
    let mixed = (offset as u64)
        .wrapping_add(0x9e37_79b9_7f4a_7c15)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 40) & 1 == 1
}
