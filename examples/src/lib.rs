//! What the examples share: a cluster to run against, and somebody who writes down what happens.

mod cluster;
mod journal;
mod windows;

pub use cluster::{APART, Cluster};
pub use journal::{Crash, Journal, Member, SoFar, Total};
pub use windows::{Seen, Window, Windows};
