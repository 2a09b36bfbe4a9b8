//! `keyway metadata`: the metadata string as JSON, and back.

mod decode;
mod encode;

use std::process::ExitCode;

use keyway_offsets::Offset;

use crate::codec::{self, Refusal};

/// Both answer with one JSON object on stdout.
///
/// With --lines they take one JSON object a line on stdin and answer one a line, in order.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Decode(decode::Args),
    Encode(encode::Args),
}

pub(crate) fn execute(command: Command) -> ExitCode {
    match command {
        Command::Decode(args) => codec::answer(args.lines, || args.request(), decode::decode),
        Command::Encode(args) => codec::answer(args.lines, || args.request(), encode::encode),
    }
}

/// A number of the request as an offset.
fn offset(name: &str, value: i64) -> Result<Offset, Refusal> {
    Offset::new(value).ok_or_else(|| Refusal::bad_input(format!("{name} is negative: {value}")))
}
