//! Points of a record's way and of a partition's at which a member of the fault suite kills its own process.

use std::fmt;
use std::str::FromStr;

/// A point that is exact: nobody outside has seen yet what comes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The line `start` is written, and the handler has not been called.
    BeforeHandler,
    /// The line `done` is written, and the engine has not been told.
    AfterHandler,
    /// A commit is made, and has not been sent.
    BeforeCommit,
    /// The broker has answered a commit, and the engine has not been told.
    AfterCommit,
    /// The member was told of a revoke, and has not given the partition back.
    Revoked,
    /// What the group has committed is restored, and the partition is not assigned to the client yet.
    Assigned,
}

impl Point {
    /// All of them.
    pub const ALL: [Point; 6] = [
        Point::BeforeHandler,
        Point::AfterHandler,
        Point::BeforeCommit,
        Point::AfterCommit,
        Point::Revoked,
        Point::Assigned,
    ];

    fn name(self) -> &'static str {
        match self {
            Point::BeforeHandler => "before-handler",
            Point::AfterHandler => "after-handler",
            Point::BeforeCommit => "before-commit",
            Point::AfterCommit => "after-commit",
            Point::Revoked => "revoked",
            Point::Assigned => "assigned",
        }
    }
}

/// The n-th time that a process comes to a point is its end: `after-commit:3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doom {
    /// Where.
    pub at: Point,
    /// Counts from 1.
    pub time: u64,
}

impl fmt::Display for Doom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.at.name(), self.time)
    }
}

impl FromStr for Doom {
    type Err = String;

    fn from_str(text: &str) -> Result<Doom, String> {
        let (name, time) = text.split_once(':').ok_or("no time")?;
        let at = Point::ALL.into_iter().find(|point| point.name() == name);
        Ok(Doom {
            at: at.ok_or_else(|| format!("no point is called {name}"))?,
            time: time.parse().map_err(|_| format!("{time} is no time"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Doom, Point};

    #[test]
    fn what_is_written_is_read() {
        for at in Point::ALL {
            let doom = Doom { at, time: 3 };
            assert_eq!(doom.to_string().parse(), Ok(doom));
        }
        assert!("somewhere:1".parse::<Doom>().is_err());
    }
}
