//! What the tests stand on that need more than one crate: real clusters, the other implementation, the judge of event
//! logs. The tests themselves are in `tests/tests`; README.md says how to run and add one.

mod blocking;
pub mod checker;
pub mod cluster;
pub mod event_log;
mod hex;
pub mod java;
pub mod peer;
pub mod wait;
