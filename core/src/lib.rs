//! core
pub mod command;
pub mod config;
pub mod hand_over;
pub mod ids;
pub mod lease;
pub mod ordering;
mod sync;
pub mod work;
