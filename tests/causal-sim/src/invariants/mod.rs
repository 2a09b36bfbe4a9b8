//! What always has to hold. None of it looks at headers or texts to learn what is true: that is the oracle's.

pub(crate) mod cut;
pub(crate) mod liveness;
pub(crate) mod lost;
pub(crate) mod memory;
pub(crate) mod order;
pub(crate) mod stamp;
pub(crate) mod torn;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: &'static str,
    /// What was found.
    pub detail: String,
}

/// Nothing, or what is broken.
pub(crate) type Check = Result<(), Violation>;

/// Breaks the invariant unless it holds.
pub(crate) fn ensure(
    holds: bool,
    invariant: &'static str,
    detail: impl FnOnce() -> String,
) -> Check {
    match holds {
        true => Ok(()),
        false => Err(Violation {
            invariant,
            detail: detail(),
        }),
    }
}
