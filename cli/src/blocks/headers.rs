//! `keyway headers`.

use std::process::ExitCode;

use keyway_records::{decode_headers, encode_headers};
use serde::{Deserialize, Serialize};

use super::{Block, BlockArgs, Made, borrowed, pair, pairs};
use crate::codec::{self, Pair, Refusal, True, named};

/// Both answer with one JSON object on stdout.
///
/// With --lines they take one JSON object a line on stdin and answer one a line, in order.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Decode(DecodeArgs),
    Encode(EncodeArgs),
}

pub(crate) fn execute(command: Command) -> ExitCode {
    match command {
        Command::Decode(DecodeArgs { block }) => {
            codec::answer(block.lines, || Block::named(block.hex), decode)
        }
        Command::Encode(args) => codec::answer(args.lines, || Ok(args.request()), encode),
    }
}

/// Say which headers a header block holds
///
/// Answers {"ok":true,"headers":[["name","<hex>"],..]}, or {"ok":false,"error":..,"detail":..} with exit code 2 when
/// it is no header block.
///
/// A request of --lines is {"hex":"000100016100000000"}.
#[derive(Debug, clap::Args)]
pub(crate) struct DecodeArgs {
    #[command(flatten)]
    block: BlockArgs,
}

#[derive(Debug, Serialize)]
struct Decoded {
    ok: True,
    headers: Vec<Pair>,
}

fn decode(block: Block) -> Result<Decoded, Refusal> {
    let block = block.bytes()?;
    let headers = decode_headers(&block)?;
    Ok(Decoded {
        ok: True,
        headers: pairs(&headers),
    })
}

/// Make the header block of a list of headers
///
/// Answers {"ok":true,"hex":..}, or {"ok":false,"error":..,"detail":..} with exit code 2. The block can't say null: such
/// a value is written as empty.
///
/// A request of --lines is {"headers":[["name","<hex>"],..]}.
#[derive(Debug, clap::Args)]
pub(crate) struct EncodeArgs {
    /// Take a JSON object a line on stdin, answer a line each, exit with 0
    #[arg(long, conflicts_with = "headers")]
    lines: bool,

    /// A header; repeat it for more, in their order
    #[arg(long = "header", value_name = "NAME=HEX", value_parser = pair)]
    headers: Vec<Pair>,
}

impl EncodeArgs {
    fn request(self) -> EncodeRequest {
        EncodeRequest {
            headers: self.headers,
        }
    }
}

#[derive(Debug, Deserialize)]
struct EncodeRequest {
    headers: Vec<Pair>,
}

fn encode(request: EncodeRequest) -> Result<Made, Refusal> {
    let headers = named(request.headers)?;
    let block = encode_headers(&borrowed(&headers))?;
    Ok(block.into())
}
