//! engine
mod kafka;
mod context;
mod handler;
mod observer;
mod outcome;
mod record;
mod workers;
pub use observer::Observer;
pub use outcome::{BatchOutcome, Outcome, Reason};
pub use record::{Header, Record, UnreadableHeaders};
pub use context::{Fence, RecordId};
