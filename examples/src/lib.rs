//! What the examples share: a cluster to run against, somebody who writes down what happens, and pictures.

mod cluster;
mod journal;
mod picture;

pub use cluster::Cluster;
pub use journal::{Crash, Journal, Member, SoFar, Total};
pub use picture::picture;
