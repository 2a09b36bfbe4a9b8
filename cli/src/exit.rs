//! The exit codes, each a number that scripts rely on.

use std::process::ExitCode;

/// It went as asked.
pub(crate) const SUCCESS: ExitCode = ExitCode::SUCCESS;

/// It went, and the answer is no.
pub(crate) fn negative() -> ExitCode {
    ExitCode::from(1)
}

/// It was asked for in a way that can't be answered.
pub(crate) fn bad_input() -> ExitCode {
    ExitCode::from(2)
}
