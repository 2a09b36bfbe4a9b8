//! A state that moves with the offset: the second form of a rider.
//!
//! A rider that is asked for when a commit is made sees the application's state of that moment, which may be
//! ahead of the commit's offset and map. A [`RiderState`] is changed by the core, with each completion, so that
//! rider, offset and map are one snapshot.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use thiserror::Error;

/// One partition's state, changed by what handlers return.
///
/// [`apply`](Self::apply) runs between two records on the engine's own thread: it must be quick, and must not
/// wait. [`encode`](Self::encode) runs beside it, on a copy. A copy is made at most once for each commit.
pub trait RiderState: Clone + Send + Sync + 'static {
    /// What a handler returns with a finished record.
    type Update: Send + Sync + 'static;

    /// Takes over what a record that is complete now brings. Records complete in any order, each once as far as
    /// commits reach.
    fn apply(&mut self, update: &Self::Update);

    /// The state as a rider of at most `max_bytes` bytes; `None` for no rider.
    fn encode(&self, max_bytes: usize) -> Option<Vec<u8>>;
}

/// A [`RiderState::Update`] on its way from a handler to the state of the record's partition.
#[derive(Clone)]
pub struct Update(Option<Arc<dyn Any + Send + Sync>>);

impl Update {
    /// An update for a state whose [`RiderState::Update`] is `U`.
    pub fn new<U: Send + Sync + 'static>(update: U) -> Self {
        Self(Some(Arc::new(update)))
    }

    fn get(&self) -> &(dyn Any + Send + Sync) {
        // Empty only while it is dropped.
        self.0.as_deref().unwrap_or(&())
    }
}

/// What is in it is the application's, and so is what its end does.
impl Drop for Update {
    fn drop(&mut self) {
        drop_quietly(self.0.take());
    }
}

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Update(..)")
    }
}

/// The same update, not an equal one: what is in it is not looked at.
impl PartialEq for Update {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        }
    }
}

impl Eq for Update {}

/// Why a state is lost. From then on its commits carry the marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StateFault {
    /// `apply` panicked.
    #[error("`RiderState::apply` panicked")]
    Panicked,
    /// The handler returned an update of another type than the state takes.
    #[error("the handler returned an update of another type than `RiderState::Update`")]
    WrongType,
    /// It was lost before.
    #[error("the state was lost before")]
    Lost,
}

/// The state of one partition, whatever its type.
pub struct StateCell(Option<Box<dyn Cell>>);

impl StateCell {
    /// A cell that begins with `state`.
    pub fn new<S: RiderState>(state: S) -> Self {
        Self(Some(Box::new(Arc::new(state))))
    }

    /// A cell whose state could not be made.
    pub const fn lost() -> Self {
        Self(None)
    }

    /// Changes the state.
    ///
    /// # Errors
    /// When it could not be changed: the state is lost then, since what it says would be wrong.
    pub fn apply(&mut self, update: &Update) -> Result<(), StateFault> {
        // Taken out, so that a panic leaves nothing half changed behind.
        let mut cell = self.0.take().ok_or(StateFault::Lost)?;
        let applied = catch_unwind(AssertUnwindSafe(|| cell.apply(update.get())));
        match applied {
            Ok(Ok(())) => {
                self.0 = Some(cell);
                Ok(())
            }
            Ok(Err(fault)) => {
                drop_quietly(cell);
                Err(fault)
            }
            Err(panic) => {
                drop_quietly(panic);
                drop_quietly(cell);
                Err(StateFault::Panicked)
            }
        }
    }

    /// A cell with the same state, which goes its own way from here on.
    pub fn fork(&self) -> Self {
        Self(self.0.as_ref().map(|cell| cell.fork()))
    }

    /// The state of this moment; `None` when it is lost.
    pub fn snapshot(&self) -> Option<StateSnapshot> {
        self.0.as_ref().map(|cell| StateSnapshot(cell.snapshot()))
    }
}

/// The state is the application's, and so is what its end does.
impl Drop for StateCell {
    fn drop(&mut self) {
        if let Some(cell) = self.0.take() {
            drop_quietly(cell);
        }
    }
}

/// Drops what is the application's: a panic of that changes nothing here.
fn drop_quietly<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // What was thrown may panic in its turn; nobody is left to tell.
        std::mem::forget(panic);
    }
}

impl fmt::Debug for StateCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "StateCell(..)"
        } else {
            "StateCell(lost)"
        })
    }
}

/// A state as it was when a commit was planned.
#[derive(Clone)]
pub struct StateSnapshot(Arc<dyn Snapshot>);

impl StateSnapshot {
    /// The state as a rider of at most `max_bytes` bytes; what the application says, not checked. A panic of it
    /// comes through.
    pub fn encode(&self, max_bytes: usize) -> Option<Vec<u8>> {
        self.0.encode(max_bytes)
    }
}

impl fmt::Debug for StateSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateSnapshot(..)")
    }
}

/// The same snapshot, not an equal one.
impl PartialEq for StateSnapshot {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for StateSnapshot {}

trait Cell: Send {
    fn apply(&mut self, update: &(dyn Any + Send + Sync)) -> Result<(), StateFault>;
    fn snapshot(&self) -> Arc<dyn Snapshot>;
    fn fork(&self) -> Box<dyn Cell>;
}

trait Snapshot: Send + Sync {
    fn encode(&self, max_bytes: usize) -> Option<Vec<u8>>;
}

impl<S: RiderState> Cell for Arc<S> {
    fn apply(&mut self, update: &(dyn Any + Send + Sync)) -> Result<(), StateFault> {
        let update = update.downcast_ref().ok_or(StateFault::WrongType)?;
        // Copied only while a commit still looks at it.
        Arc::make_mut(self).apply(update);
        Ok(())
    }

    fn snapshot(&self) -> Arc<dyn Snapshot> {
        Arc::<S>::clone(self)
    }

    fn fork(&self) -> Box<dyn Cell> {
        Box::new(Arc::<S>::clone(self))
    }
}

impl<S: RiderState> Snapshot for S {
    fn encode(&self, max_bytes: usize) -> Option<Vec<u8>> {
        RiderState::encode(self, max_bytes)
    }
}
