//! What the examples share: a cluster to run against, somebody who writes down what happens, and pictures.

mod cluster;
mod journal;
mod picture;
mod windows;

pub use cluster::{APART, Cluster};
pub use journal::{Crash, Journal, Member, SoFar, Total};
pub use picture::picture;
pub use windows::{Seen, Window, Windows};
