//! Why a command did not get as far as doing what it is for.

use std::process::ExitCode;

use crate::exit;

/// The reason in words, by exit code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The wish can't be met as it stands.
    BadInput(String),
    /// The machine, the file system or the cluster failed.
    Failed(String),
}

impl Refusal {
    /// The reason.
    pub(crate) fn fault(&self) -> &str {
        match self {
            Self::BadInput(fault) | Self::Failed(fault) => fault,
        }
    }

    /// Says it on stderr.
    pub(crate) fn report(self) -> ExitCode {
        eprintln!("keyway: {}", self.fault());
        match self {
            Self::BadInput(_) => exit::bad_input(),
            Self::Failed(_) => exit::negative(),
        }
    }
}
