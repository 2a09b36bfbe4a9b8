//! `keyway metadata`: the metadata string as JSON, and back.
//!
//! ```text
//!     options ----.                     .--> answer, exit 0
//!                 +--> request --> codec
//!     JSON line --'                     '--> {"ok":false,..}, exit 2; exit 0 with --lines
//! ```

mod answer;
mod decode;
mod encode;
mod lines;

use std::process::ExitCode;

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
        Command::Decode(args) if args.lines => lines::serve(decode::decode),
        Command::Decode(args) => answer::once(args.request().and_then(decode::decode)),
        Command::Encode(args) if args.lines => lines::serve(encode::encode),
        Command::Encode(args) => answer::once(args.request().and_then(encode::encode)),
    }
}
