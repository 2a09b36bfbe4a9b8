//! `keyway causes`: the header `parsley.causes` as JSON, and back.

mod decode;
mod encode;

use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::codec;

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
        Command::Decode(args) => codec::answer(args.lines, || Ok(args.request()), decode::decode),
        Command::Encode(args) => codec::answer(args.lines, || args.request(), encode::encode),
    }
}

/// The causes on the channels of one topic.
#[derive(Debug, Serialize, Deserialize)]
struct Topic {
    /// Its id, as 32 digits.
    id: String,
    /// Each partition with the position in it.
    partitions: Vec<(u32, i64)>,
}
