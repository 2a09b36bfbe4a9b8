//! What the examples share: a cluster to run against, somebody who writes down what happens, a server to post to.

mod cluster;
mod journal;
mod receiver;
mod windows;

pub use cluster::{APART, Cluster};
pub use journal::{Crash, Journal, Member, SoFar, Total};
pub use receiver::{Answer, Delivery, Receiver};
pub use windows::{Seen, Window, Windows};
