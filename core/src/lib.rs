//! The state machine of Keyway: it decides which record runs when and what a commit says, and does nothing
//! else. No I/O, no clock, no randomness, no thread; the engine around it supplies these, and so does the
//! simulator that tests it.
//!
//! ```text
//!                 events                                 commands
//!   assigned, records, completed, ...  --> Core<P> -->  Dispatch, Commit, Pause, ...
//!                                            |
//!        partition: Tracker, commit state, map pressure      (keyway-offsets)
//!                   the state that rides beside the map      (keyway-rider)
//!        lanes:     records that run one after another
//!        routes:    workers and who has room
//! ```
//!
//! Beside it stand the few structures that the engine's threads share: [`WorkQueue`] between the poll thread
//! and a worker, and [`Leases`], which tell a worker whether a partition is still this member's.

mod back_pressure;
mod circuit;
mod command;
mod commit;
mod completion;
mod config;
mod core;
mod dead_letter;
mod dispatch;
mod gate;
mod hand_over;
mod ids;
mod lanes;
mod lease;
mod map_pressure;
mod mutant;
mod ordering;
mod output;
mod pace;
mod partition;
mod retry;
mod rider;
mod route;
mod running;
mod service;
mod stage;
mod status;
mod sync;
mod work;
mod writes;

pub use circuit::{CircuitPolicy, CircuitState};
pub use command::{
    Arrival, Command, CommitAnswer, CommitFinished, CommitPlan, CommitReason, PartitionAnswer,
    PartitionPlan, Restored, StopCause,
};
pub use commit::CommitMark;
pub use config::{BatchConfig, BufferConfig, CommitConfig, CoreConfig, RouteConfig, Shape};
pub use core::Core;
pub use dead_letter::{DeadLetter, LETTER_RETRY};
pub use gate::{Admission, Gate, OpenGate};
pub use hand_over::{Item, WorkQueue};
pub use ids::{Epoch, LaneId, LaneIndex, PartitionSlot, PlanId, RouteId, Timestamp, WorkerIndex};
pub use lease::{Leases, MAX_SLOTS};
#[cfg(feature = "mutants")]
pub use mutant::mutate;
#[doc(hidden)]
pub use mutant::{Mutant, mutated};
pub use ordering::{LaneNames, Ordering};
pub use output::{Sending, Sent};
pub use pace::{Pace, Turn, Whose};
pub use retry::{Exhausted, RetryPolicy};
pub use rider::{Missing, PlannedRider, RiderSource};
pub use running::{Running, RunningCall};
pub use stage::{Carried, Staged, Transaction};
pub use status::{Counters, PartitionStatus, RouteStatus, Status};
pub use work::{Finished, Report, SLOW_ATTEMPT, Task, TaskRef, Verdict, Work};
