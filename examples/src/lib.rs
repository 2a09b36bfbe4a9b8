//! What the examples share: a cluster to run against, and somebody who writes down what happens.

mod cluster;
mod journal;

pub use cluster::Cluster;
pub use journal::{Crash, Journal, Member, SoFar, Total};
