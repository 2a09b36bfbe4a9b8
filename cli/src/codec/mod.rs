//! What every codec of the command shares: a request as options or as a JSON line, one JSON object as its answer.
//!
//! ```text
//!     options ----.                     .--> answer, exit 0
//!                 +--> request --> codec
//!     JSON line --'                     '--> {"ok":false,..}, exit 2; exit 0 with --lines
//! ```

mod answer;
mod lines;

pub(crate) use answer::{Refusal, True, once};
pub(crate) use lines::serve;

/// Reads hexadecimal digits of the request.
pub(crate) fn bytes(name: &str, digits: &str) -> Result<Vec<u8>, Refusal> {
    hex::decode(digits).map_err(|fault| Refusal::bad_input(format!("{name}: {fault}")))
}
