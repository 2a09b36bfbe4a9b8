//! What must hold in every run, one file each. They look at the world from outside: at what workers were given,
//! what the broker stored, what the reference in `assignment` and the truth in `history` say.

pub(crate) mod base;
pub(crate) mod buffers;
pub(crate) mod clean;
pub(crate) mod deadlines;
pub(crate) mod exactly_once;
pub(crate) mod fits;
pub(crate) mod hand_over;
pub(crate) mod late;
pub(crate) mod liveness;
pub(crate) mod loss;
pub(crate) mod order;
pub(crate) mod plans;
pub(crate) mod replay;
pub(crate) mod snapshot;
pub(crate) mod window;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: &'static str,
    /// Where and how.
    pub detail: String,
}

/// Whether an invariant held.
pub(crate) type Check = Result<(), Violation>;

/// Fails as `invariant` unless `holds`.
pub(crate) fn ensure(
    holds: bool,
    invariant: &'static str,
    detail: impl FnOnce() -> String,
) -> Check {
    if holds {
        Ok(())
    } else {
        Err(Violation {
            invariant,
            detail: detail(),
        })
    }
}
