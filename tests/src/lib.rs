#![doc = include_str!("../README.md")]

mod blocking;
pub mod checker;
pub mod cluster;
pub mod command;
pub mod doom;
pub mod event_log;
pub mod figures;
mod hex;
pub mod java;
#[cfg(test)]
mod known_pain;
pub mod member_process;
pub mod peer;
pub mod random;
pub mod telemetry;
pub mod wait;
pub mod world;
