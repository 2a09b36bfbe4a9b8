//! What every codec of the command shares: a request as options or as a JSON line, one JSON object as its answer.
//!
//! ```text
//!     options ----.                     .--> answer, exit 0
//!                 +--> request --> codec
//!     JSON line --'                     '--> {"ok":false,..}, exit 2; exit 0 with --lines
//! ```

mod answer;
mod lines;

use std::process::ExitCode;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use answer::{Refusal, True};

/// Answers the lines of stdin, or the one request that the options make.
pub(crate) fn answer<Q: DeserializeOwned, A: Serialize>(
    lines: bool,
    request: impl FnOnce() -> Result<Q, Refusal>,
    codec: impl Fn(Q) -> Result<A, Refusal>,
) -> ExitCode {
    if lines {
        lines::serve(codec)
    } else {
        answer::once(request().and_then(codec))
    }
}

/// Answers many times without being asked: a line for each, a refusal as the last one.
pub(crate) fn all<A: Serialize>(answers: impl Iterator<Item = Result<A, Refusal>>) -> ExitCode {
    answer::all(answers)
}

/// Reads hexadecimal digits of the request.
pub(crate) fn bytes(name: &str, digits: &str) -> Result<Vec<u8>, Refusal> {
    hex::decode(digits).map_err(|fault| Refusal::bad_input(format!("{name}: {fault}")))
}

/// A header of a request or an answer: its name, and the digits of its value or null.
pub(crate) type Pair = (String, Option<String>);

/// A header whose digits were read.
pub(crate) type Named = (String, Option<Vec<u8>>);

/// Reads the digits of headers' values.
pub(crate) fn named(pairs: Vec<Pair>) -> Result<Vec<Named>, Refusal> {
    let read = |(name, digits): Pair| {
        let value = digits.map(|digits| bytes("headers", &digits)).transpose()?;
        Ok((name, value))
    };
    pairs.into_iter().map(read).collect()
}
